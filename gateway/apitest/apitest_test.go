package apitest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const small = `{"openapi":"3.1.0","paths":{"/sale/{code}":{"get":{"operationId":"sale","parameters":[{"name":"wait","in":"query","schema":{"type":"integer"}}],
"responses":{"200":{"description":"","headers":{"ETag":{"required":true,"schema":{"type":"string"}}},
"content":{"application/json":{"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"string"},"note":{"type":"string"}}}}}}}}}}}`

// TestCheck: an answer that keeps the contract is no fault, and each way of breaking it is one.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		path, body, kind, tag string
		status                int
		fault                 string // "": none
	}{
		"kept":                   {"/sale/1", `{"total":"1.00"}`, "application/json", "x", 200, ""},
		"an undocumented member": {"/sale/1", `{"total":"1.00","secret":1}`, "application/json", "x", 200, "secret"},
		"a missing member":       {"/sale/1", `{"note":""}`, "application/json", "x", 200, "total"},
		"another type":           {"/sale/1", `{"total":1}`, "application/json", "x", 200, "/total"},
		"a missing header":       {"/sale/1", `{"total":"1.00"}`, "application/json", "", 200, "ETag"},
		"another media type":     {"/sale/1", `{"total":"1.00"}`, "text/html", "x", 200, "text/html"},
		"another status":         {"/sale/1", `{}`, "application/json", "x", 500, "500"},
		"another path":           {"/sales", `{}`, "application/json", "x", 200, "/sales"},
		"a parameter":            {"/sale/1?wait=long", `{"total":"1.00"}`, "application/json", "x", 200, "wait=long"},
		"another parameter":      {"/sale/1?x=1", `{"total":"1.00"}`, "application/json", "x", 200, "parameter x"},
	} {
		t.Run(name, func(t *testing.T) {
			contract, err := Parse([]byte(small))
			if err != nil {
				t.Fatal(err)
			}
			resp := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}, "Etag": {c.tag}}}
			contract.Check(httptest.NewRequest(http.MethodGet, c.path, nil), nil, resp, []byte(c.body))
			faults := contract.Faults()
			if c.fault == "" && len(faults) > 0 || c.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0],
				c.fault)) {
				t.Errorf("%q, want %q", faults, c.fault)
			}
			if seen, want := contract.Unseen(true), name == "another status" ||
				name == "another path"; slices.Equal(seen, []string{"sale 200"}) != want {
				t.Errorf("unseen %v", seen)
			}
		})
	}
}

// TestForeign: English is noticed in the message of an answer and of each of its errors, and Spanish is not.
func TestForeign(t *testing.T) {
	for body, want := range map[string]int{
		`{"message":"No existe esta ruta","errors":[{"code":"X","message":"Lleva de 1 a 255 caracteres; recibió \"the-end\""}]}`: 0,
		`{"message":"There is no document: it was not found","errors":[]}`:                                                       1,
		`{"message":"La solicitud no cumple","errors":[{"code":"X","message":"must be a number"},{"code":"Y","message":""}]}`:    2,
		`{"message":"Error interno: dial tcp: connection refused","errors":[]}`:                                                  1,
		`no JSON`: 0,
	} {
		n := 0
		foreign([]byte(body), func(string, ...any) { n++ })
		if n != want {
			t.Errorf("%s: %d faults, want %d", body, n, want)
		}
	}
}
