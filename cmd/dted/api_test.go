package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/plugins/plugintest"
)

const (
	sale01 = `{"receptor":{"nombre":"Ana","tipoDocumento":"13","numDocumento":"012345678","correo":"ana@example.com","nrc":"1","nit":"2"},"items":[{"descripcion":"Café","cantidad":2,"precioUnitario":6.95}],"condicionOperacion":1}`
	sale03 = `{"receptor":{"tipoDocumento":"36","numDocumento":"06140202801028","nit":"06140202801028","nrc":"7654321","nombre":"El Roble","codActividad":"62010","descActividad":"Programación informática","direccion":{"departamento":"05","municipio":"28","distrito":"11","complemento":"Avenida 2"},"correo":"c@example.com"},"items":[{"descripcion":"Papel","cantidad":10,"precioUnitario":42.5}],"condicionOperacion":1,"isRetenIva":true}`
)

// field names of SPEC 2.2, 2.3, 2.4 with their JSON types; "?" adds null.
var (
	recordFields = map[string]string{"id": "number", "tipo": "string", "codigoGeneracion": "string",
		"numeroControl": "string", "estado": "string",
		"ambiente": "string", "total": "string", "dteJson": "object", "dteFirmado": "string",
		"selloRecibido": "string?", "respuestaMh": "object?",
		"dteJsonUrl": "string?", "dtePdfUrl": "string?", "sequenceNumber": "string", "sequenceId": "number",
		"serie": "string", "emisorId": "number",
		"branchId": "number", "pointOfSaleId": "number", "tokenId": "number", "errorTecnico": "string?",
		"createdAt": "string", "analisisHacienda": "object"}
	responseFields = map[string]string{"estado": "string", "version": "number", "versionApp": "number",
		"ambiente": "string", "codigoMsg": "string",
		"clasificaMsg": "string", "descripcionMsg": "string", "observaciones": "array", "selloRecibido": "string?",
		"fhProcesamiento": "string", "codigoGeneracion": "string"}
	analysisFields = map[string]string{"estadoDocumento": "string", "aceptadoPorMH": "boolean",
		"tieneObservaciones": "boolean",
		"observaciones":      "array", "erroresValidacion": "array", "mensaje": "string"}
	emisorFields = map[string]string{"id": "number", "nit": "string", "nrc": "string", "nombre": "string",
		"nombreComercial": "string", "codigoActividad": "string",
		"actividadEconomica": "string", "direccion": "string", "tipoEstablecimiento": "string",
		"departamento": "string", "municipio": "string", "distrito": "string",
		"telefono": "string", "correo": "string", "logoUrl": "string", "colorPrincipal": "string",
		"colorSecundario": "string", "colorFondo": "string",
		"codEstableMH": "string", "codEstable": "string", "codPuntoVentaMH": "string", "codPuntoVenta": "string",
		"ambiente": "string", "clientId": "number", "createdAt": "string"}
)

func fields(t *testing.T, where string, v any, want map[string]string) map[string]any {
	t.Helper()
	m, ok := v.(map[string]any)
	if !ok {
		t.Fatalf("%s is %T", where, v)
	}
	for name, kind := range want {
		x, there := m[name]
		got := map[bool]string{true: "null"}[x == nil]
		switch x.(type) {
		case string:
			got = "string"
		case float64:
			got = "number"
		case bool:
			got = "boolean"
		case []any:
			got = "array"
		case map[string]any:
			got = "object"
		}
		if base, nullable := strings.CutSuffix(kind, "?"); !there || got != base && !(nullable && got == "null") {
			t.Errorf("%s.%s: there %v, is %s, want %s", where, name, there, got, kind)
		}
	}
	return m
}

func object(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return m
}

// TestAPI_Records: every field of SPEC with its type, for an accepted, a rejected and a contingency document of each
// type; an independent implementation verifies the signature, and its payload is dteJson.
func TestAPI_Records(t *testing.T) {
	t.Parallel()
	b := newBranch(t, "dte03/v4")
	b.start()
	defer b.stop()
	number := map[string]int{}
	for _, c := range []struct {
		name, path, body, estado string
		chaos                    simulator.Chaos
	}{
		{"01 accepted", "/dte/dte01", sale01, "PROCESSED", simulator.Chaos{}},
		{"03 accepted", "/dte/dte03", sale03, "PROCESSED", simulator.Chaos{}},
		{"01 rejected", "/dte/dte01", sale01, "REJECTED", simulator.Chaos{Reject: 1}},
		{"03 rejected", "/dte/dte03", sale03, "REJECTED", simulator.Chaos{Reject: 1}},
		{"01 after a rejection", "/dte/dte01", sale01, "PROCESSED", simulator.Chaos{}},
		{"01 in contingency by request", "/dte/dte01", strings.Replace(sale01, `{"receptor"`,
			`{"testContingencia":true,"receptor"`, 1), "CONTINGENCIA", simulator.Chaos{}},
		{"03 with MH gone", "/dte/dte03", sale03, "CONTINGENCIA", simulator.Chaos{Outage: true}},
		{"01 with MH gone", "/dte/dte01", sale01, "CONTINGENCIA", simulator.Chaos{Outage: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.chaos(c.chaos)
			status, body, err := b.post(c.path, 1, c.name, c.body)
			if err != nil || status != http.StatusCreated {
				t.Fatalf("%d %v %s", status, err, body)
			}
			r := fields(t, "data", object(t, body)["data"], recordFields)
			a := fields(t, "analisisHacienda", r["analisisHacienda"], analysisFields)
			number[c.path]++
			kind := strings.TrimPrefix(c.path, "/dte/dte")
			if want := fmt.Sprintf("DTE-%s-M001P001-%015d", kind, number[c.path]); r["numeroControl"] != want ||
				r["estado"] != c.estado || a["estadoDocumento"] != c.estado {
				t.Errorf("%v %v, want %s %s", r["numeroControl"], r["estado"], want, c.estado)
			}
			accepted, contingency := c.estado == "PROCESSED", c.estado == "CONTINGENCIA"
			if (r["selloRecibido"] != nil) != accepted || a["aceptadoPorMH"] != accepted ||
				(r["dteJsonUrl"] == nil) != (c.estado == "REJECTED") ||
				(r["errorTecnico"] != nil) != (c.estado == "REJECTED") || (r["respuestaMh"] == nil) != contingency {
				t.Errorf("nulls of %s: %v", c.estado, r)
			}
			if !contingency {
				fields(t, "respuestaMh", r["respuestaMh"], responseFields)
			}
			if errors := a["erroresValidacion"].([]any); (len(errors) == 1) != (c.estado == "REJECTED") ||
				len(errors) == 1 && errors[0] != a["mensaje"] {
				t.Errorf("erroresValidacion %v, mensaje %v", errors, a["mensaje"])
			}
			b.checkSignature(t, decode(t, body))
			checkPublished(t, kind, decode(t, body).JSON)
			marks := r["dteJson"].(map[string]any)["identificacion"].(map[string]any)
			if contingency != (marks["tipoModelo"] == 2.0 && marks["tipoOperacion"] == 2.0 &&
				marks["tipoContingencia"] != nil) {
				t.Errorf("marks %v in a document %s", marks, c.estado)
			}
		})
	}
	status, body, err := b.get("/dte/information", 2)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %v", status, err)
	}
	data := object(t, body)["data"].(map[string]any)
	if e := fields(t, "emisor", data["emisor"], emisorFields); e["codPuntoVenta"] != "P002" ||
		len(data["permissions"].([]any)) != 7 {
		t.Errorf("information: %s", body)
	}
}

func (b *branch) checkSignature(t *testing.T, r record) {
	t.Helper()
	parts := strings.Split(r.JWS, ".")
	if len(parts) != 3 {
		t.Fatalf("not a compact JWS: %s", r.JWS)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := jwt.SigningMethodRS512.Verify(parts[0]+"."+parts[1], signature, b.key.Public()); err != nil {
		t.Errorf("golang-jwt: %v", err)
	}
	if payload, _ := base64.RawURLEncoding.DecodeString(parts[1]); string(payload) != string(r.JSON) {
		t.Errorf("the payload is not dteJson:\n%s\n%s", payload, r.JSON)
	}
}

// checkPublished checks a document against MH's own schema file, if the oracle folder is beside the checkout.
func checkPublished(t *testing.T, kind string, document []byte) {
	t.Helper()
	name := map[string]string{"01": "v2/fe-f-v2.json", "03": "v4/fe-ccf-v4.json"}[kind]
	file, err := os.ReadFile(filepath.Join(plugintest.Root(t), "..", "shared", "mh", "schemas",
		"2026-08-11_v2.0-current", filepath.FromSlash(name)))
	if err != nil {
		skip.Part(t, skip.MHDocuments)
		return
	}
	f, err := schema.Compile(bytes.TrimPrefix(file, []byte("\xef\xbb\xbf")), nil, schema.Outputs{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := dte.Parse(document)
	if err == nil {
		err = plugintest.Refused(f, v)
	}
	if err != nil {
		t.Errorf("MH's %s refuses dteJson: %v", name, err)
	}
}

// TestAPI_BadInput: each gets a clear 4xx with paths, and spends no number.
func TestAPI_BadInput(t *testing.T) {
	t.Parallel()
	b := newBranch(t, "dte03/v4")
	b.start()
	defer b.stop()
	with := func(body, old, new string) string {
		if !strings.Contains(body, old) {
			t.Fatalf("%s is not in the request", old)
		}
		return strings.Replace(body, old, new, 1)
	}
	item := `{"descripcion":"Café","cantidad":2,"precioUnitario":6.95}`
	for _, c := range []struct {
		name, path, body string
		status           int
		want             []string // in the answer
	}{
		{"truncated", "/dte/dte01", sale01[:80], 400, []string{"VALIDATION_ERROR", "SYNTAX"}},
		{"a fault in the third line", "/dte/dte01", "{\n \"receptor\":{},\n  \"ñá\" 1}", 400, []string{"SYNTAX",
			"línea 3, columna 8"}},
		{"byte order mark", "/dte/dte01", "\ufeff" + sale01, 400, []string{"SYNTAX", "BOM", "línea 1, columna 1"}},
		{"empty", "/dte/dte01", "", 400, []string{"VALIDATION_ERROR"}},
		{"a list", "/dte/dte01", "[]", 400, []string{"TYPE"}},
		{"duplicate key", "/dte/dte01", with(sale01, `"cantidad":2`, `"cantidad":2,"cantidad":3`), 400,
			[]string{"items[0].cantidad", "DUPLICATE"}},
		{"NaN", "/dte/dte01", with(sale01, `6.95`, `NaN`), 400, []string{"SYNTAX"}},
		{"1e999", "/dte/dte01", with(sale01, `6.95`, `1e999`), 400, []string{"items[0].precioUnitario", "RANGE"}},
		{"1e20000000", "/dte/dte01", with(sale01, `6.95`, `1e20000000`), 400, []string{"items[0].precioUnitario",
			"RANGE"}},
		{"nine decimals", "/dte/dte01", with(sale01, `6.95`, `6.123456789`), 400, []string{"items[0].precioUnitario",
			"PRECISION"}},
		{"negative quantity", "/dte/dte01", with(sale01, `"cantidad":2`, `"cantidad":-2`), 400,
			[]string{"items[0].cantidad", "RANGE"}},
		{"zero quantity", "/dte/dte01", with(sale01, `"cantidad":2`, `"cantidad":0`), 400, []string{"items[0].cantidad",
			"RANGE"}},
		{"quantity as text", "/dte/dte01", with(sale01, `"cantidad":2`, `"cantidad":"2"`), 400,
			[]string{"items[0].cantidad", "TYPE"}},
		{"discount above the line", "/dte/dte01", with(sale01, `6.95`, `6.95,"montoDescu":13.91`), 400,
			[]string{"items[0].montoDescu", "DISCOUNT_ABOVE_LINE"}},
		{"unit out of range", "/dte/dte01", with(sale01, `6.95`, `6.95,"uniMedida":100`), 400,
			[]string{"items[0].uniMedida", "RANGE"}},
		{"amount too large", "/dte/dte01", with(sale01, `6.95`, `92000000001`), 400, []string{"items[0].precioUnitario",
			"RANGE"}},
		{"line too large", "/dte/dte01", with(sale01, `6.95`, `90000000000`), 400, []string{"items[0].precioUnitario",
			"AMOUNT_OVERFLOW"}},
		{"bad UTF-8", "/dte/dte01", with(sale01, `Café`, "Caf\xff"), 400, []string{"VALIDATION_ERROR"}},
		{"trailing data", "/dte/dte01", sale01 + "{}", 400, []string{"VALIDATION_ERROR"}},
		{"misspelt flag", "/dte/dte03", with(sale03, `isRetenIva`, `isRetenIVA`), 400, []string{"isRetenIVA", "UNKNOWN",
			"isRetenIva?"}},
		{"no items", "/dte/dte01", with(sale01, item, ""), 400, []string{"items", "COUNT"}},
		{"2001 lines", "/dte/dte01", with(sale01, item, strings.Repeat(item+",", 2000)+item), 400, []string{"items",
			"COUNT", "2000"}},
		{"2 MiB", "/dte/dte01", with(sale01, "Café", strings.Repeat("x", 2<<20)), 413, []string{"1 MiB"}},
		{"credit without payment", "/dte/dte01", with(sale01, `"condicionOperacion":1`, `"condicionOperacion":2`), 400,
			[]string{`"pago"`, "REQUIRED"}},
		{"credit without term", "/dte/dte01", with(sale01, `"condicionOperacion":1`,
			`"condicionOperacion":2,"pago":{"codigo":"05"}`), 400, []string{"pago.plazo", "pago.periodo"}},
		{"both payments", "/dte/dte01", with(sale01, `"condicionOperacion":1`,
			`"condicionOperacion":1,"pago":{"codigo":"01"},"pagos":[{"codigo":"01"}]`), 400, []string{`"pago"`,
			`"pagos"`}},
		{"payments that do not add up", "/dte/dte01", with(sale01, `"condicionOperacion":1`,
			`"condicionOperacion":1,"pagos":[{"codigo":"01","montoPago":1},{"codigo":"02","montoPago":2}]`), 400,
			[]string{"pagos", "PAYMENTS_NOT_TOTAL"}},
		{"condition 4", "/dte/dte01", with(sale01, `"condicionOperacion":1`, `"condicionOperacion":4`), 400,
			[]string{"condicionOperacion", "RANGE"}},
		{"bad DUI", "/dte/dte01", with(sale01, `012345678`, `01234567`), 400, []string{"receptor.numDocumento"}},
		{"everything missing", "/dte/dte01", `{"items":[{},{"descripcion":1}]}`, 400, []string{`"receptor"`,
			"items[0].descripcion", "items[0].cantidad", "items[0].precioUnitario", "items[1].descripcion",
			"condicionOperacion"}},
		{"03 receptor", "/dte/dte03", with(sale03, `"nit":"06140202801028",`, ""), 400,
			[]string{"RECEPTOR_VALIDATION_ERROR", `"requiredFields":["tipoDocumento","numDocumento","nit","nombre"]`,
				"receptor.nit"}},
		{"03 receptor without address, and a bad line", "/dte/dte03", with(with(sale03, `"codActividad":"62010",`, ""),
			`"cantidad":10`, `"cantidad":0`), 400, []string{"receptor.codActividad", "items[0].cantidad"}},
		{"unknown unit in contingency", "/dte/dte01", with(with(sale01, `6.95`, `6.95,"uniMedida":98`), `{"receptor"`,
			`{"testContingencia":true,"receptor"`), 400, []string{"items[0].uniMedida", "CATALOGUE"}},
		{"large sale to nobody", "/dte/dte01", with(with(sale01, `"tipoDocumento":"13","numDocumento":"012345678",`,
			""), `6.95`, `12500`), 400, []string{"receptor.numDocumento", "RECEPTOR_NOT_IDENTIFIED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body, err := b.post(c.path, 1, "", c.body)
			if err != nil {
				t.Fatal(err)
			}
			if m := object(t, body); status != c.status || m["status"] != "error" || m["type"] == "" ||
				m["message"] == "" {
				t.Fatalf("%d %s", status, body)
			}
			for _, want := range c.want {
				if !strings.Contains(string(body), want) {
					t.Errorf("no %s in %s", want, body)
				}
			}
		})
	}
	for _, path := range []string{"/dte/dte01", "/dte/dte03"} {
		status, body, err := b.post(path, 1, "", map[string]string{"/dte/dte01": sale01, "/dte/dte03": sale03}[path])
		if err != nil || status != http.StatusCreated || !strings.HasSuffix(decode(t, body).ControlNumber,
			"-000000000000001") {
			t.Errorf("bad input spent a number: %d %v %s", status, err, body)
		}
	}
}

// TestAPI_Access: which caller may ask for what, and how.
func TestAPI_Access(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	defer b.stop()
	good := testToken + "1"
	ask := func(method, path, body string, header ...string) (int, string, http.Header) {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+b.api+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(answer), resp.Header
	}
	json := []string{"Content-Type", "application/json"}
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
	}{
		{"no token", "GET", "/dte/information", "", nil, 401, "UNAUTHORIZED"},
		{"wrong token", "GET", "/dte/information", "", []string{"x-api-token", "x"}, 401, "UNAUTHORIZED"},
		{"bearer", "GET", "/dte/information", "", []string{"Authorization", "Bearer " + good}, 200, "emisor"},
		{"both, the same", "GET", "/dte/information", "", []string{"Authorization", "Bearer " + good, "x-api-token",
			good}, 200, "emisor"},
		{"both, different", "GET", "/dte/information", "", []string{"Authorization", "Bearer " + good, "x-api-token",
			"x"}, 400, "VALIDATION_ERROR"},
		{"no route", "GET", "/dte/other", "", []string{"x-api-token", good}, 404, "NOT_FOUND"},
		{"path trick", "GET", "/dte/../metrics", "", []string{"x-api-token", good}, 404, "NOT_FOUND"},
		{"wrong method", "GET", "/dte/dte01", "", []string{"x-api-token", good}, 405, "METHOD_NOT_ALLOWED"},
		{"form", "POST", "/dte/dte01", sale01, []string{"x-api-token", good, "Content-Type", "text/plain"}, 415,
			"application/json"},
		{"compressed", "POST", "/dte/dte01", sale01, append([]string{"x-api-token", good, "Content-Encoding", "gzip"},
			json...), 415, "comprimido"},
		{"key too long", "POST", "/dte/dte01", sale01, append([]string{"x-api-token", good, "Idempotency-Key",
			strings.Repeat("k", 256)}, json...), 400, "Idempotency-Key"},
		{"unknown document", "GET", "/dte/documento/FF84E5DB-79C5-42CE-B415-EC510C53EFB5", "", []string{"x-api-token",
			good}, 404, "DOCUMENT_NOT_FOUND"},
		{"not a code", "GET", "/dte/documento/ff84e5db", "", []string{"x-api-token", good}, 400, "codigoGeneracion"},
		{"lower case", "GET", "/dte/documento/ff84e5db-79c5-42ce-b415-ec510c53efb5", "", []string{"x-api-token", good},
			404, "DOCUMENT_NOT_FOUND"},
		{"two tokens", "GET", "/dte/information", "", []string{"x-api-token", good, "x-api-token", good}, 400,
			"dos encabezados x-api-token"},
		{"two bearers", "GET", "/dte/information", "", []string{"Authorization", "Bearer " + good, "Authorization",
			"Bearer " + good}, 400, "dos encabezados Authorization"},
		{"two keys", "POST", "/dte/dte01", sale01, append([]string{"x-api-token", good, "Idempotency-Key", "a",
			"Idempotency-Key", "a"}, json...), 400, "dos encabezados Idempotency-Key"},
		{"unknown parameter of a read", "GET", "/dte/information?all=1", "", []string{"x-api-token", good}, 400,
			"no lleva parámetros"},
		{"unknown parameter of a sale", "POST", "/dte/dte01?testContingencia=true", sale01,
			append([]string{"x-api-token", good}, json...), 400, `"path":"testContingencia","code":"UNKNOWN"`},
		{"misspelt filter", "GET", "/dte/documentos?etsado=REJECTED", "", []string{"x-api-token", good}, 400,
			`"path":"etsado","code":"UNKNOWN"`},
		{"one filter twice", "GET", "/dte/documentos?tipo=01&tipo=03", "", []string{"x-api-token", good}, 400,
			`"path":"tipo","code":"DUPLICATE"`},
		{"cursor of elsewhere", "GET", "/dte/cambios?desde=abc", "", []string{"x-api-token", good}, 400,
			`"path":"desde","code":"RANGE"`},
		{"no cursor", "GET", "/dte/cambios?desde=-", "", []string{"x-api-token", good}, 400,
			`"path":"desde","code":"FORMAT"`},
		{"head", "HEAD", "/dte/information", "", []string{"x-api-token", good}, 200, ""},
		{"head of nothing", "HEAD", "/dte/documento/FF84E5DB-79C5-42CE-B415-EC510C53EFB5", "", []string{"x-api-token",
			good}, 404, ""},
		{"head of what is posted", "HEAD", "/dte/dte01", "", []string{"x-api-token", good}, 405, ""},
		{"upper-case media type", "POST", "/dte/dte01", "{}", []string{"x-api-token", good, "Content-Type",
			"application/JSON ; charset=UTF-8", "Content-Encoding", "identity"}, 400, "REQUIRED"},
		{"identity and gzip", "POST", "/dte/dte01", "{}", append([]string{"x-api-token", good, "Content-Encoding",
			"identity", "Content-Encoding", "gzip"}, json...), 415, "comprimido"},
	} {
		status, answer, header := ask(c.method, c.path, c.body, c.header...)
		if status != c.status || !strings.Contains(answer, c.want) || status == 401 &&
			header.Get("WWW-Authenticate") == "" || status == 405 && header.Get("Allow") == "" {
			t.Errorf("%s: %d %s", c.name, status, answer)
		}
	}
	status, first, _ := ask("POST", "/dte/dte01", sale01, append([]string{"x-api-token", good, "Idempotency-Key", "k"},
		json...)...)
	other, conflict, _ := ask("POST", "/dte/dte01", strings.Replace(sale01, "6.95", "6.96", 1),
		append([]string{"x-api-token", good, "Idempotency-Key", "k"}, json...)...)
	if status != 201 || other != 422 || !strings.Contains(conflict, "IDEMPOTENCY_CONFLICT") ||
		!strings.Contains(conflict, `"codigoGeneracion":"`+decode(t, []byte(first)).Code+`"`) {
		t.Errorf("same key, other body: %d then %d %s", status, other, conflict)
	}
	// A till that formats its retry differently sends the same sale.
	respelt := strings.NewReplacer("6.95", "695.0e-2", `"items"`, "\n\t\"\\u0069tems\" ").Replace(sale01)
	if status, again, _ := ask("POST", "/dte/dte01", respelt, append([]string{"x-api-token", good, "Idempotency-Key",
		"k"}, json...)...); respelt == sale01 || status != 201 || decode(t, []byte(again)).Code != decode(t,
		[]byte(first)).Code {
		t.Errorf("the same sale in other words: %d %s", status, again)
	}
	if status, answer, _ := ask("POST", "/dte/dte01", strings.Replace(sale01, `"condicionOperacion":1`,
		`"condicionOperacion":1,"pago":{"codigo":"03"}`, 1), append([]string{"x-api-token", good},
		json...)...); status != 201 || !strings.Contains(answer, "El código de pago 03 es tarjeta de crédito") {
		t.Errorf("a payment of two meanings: %d %s", status, answer)
	}
	// A key belongs to its point of sale: another till's "k" is another sale.
	if status, body, err := b.post("/dte/dte01", 2, "k", sale01); err != nil || status != 201 ||
		decode(t, body).Code == decode(t, []byte(first)).Code {
		t.Errorf("another till's key: %d %v", status, err)
	}
}

// TestAPI_Permissions: a token with one permission is refused everything that needs another, and spends no number.
func TestAPI_Permissions(t *testing.T) {
	t.Parallel()
	b := newBranch(t, everyRule...)
	b.start()
	original := map[string]string{}
	for path, body := range map[string]string{"/dte/dte01": sale01, "/dte/dte03": sale03} {
		status, answer, err := b.post(path, 1, "", body)
		if err != nil || status != http.StatusCreated {
			t.Fatalf("%s: %d %v %s", path, status, err, answer)
		}
		original[path] = decode(t, answer).Code
	}
	token := b.tokenAct("POST", "/admin/tokens", `{"name":"ccf","point_of_sale":1,"permissions":["CREDITO_FISCAL"]}`,
		http.StatusCreated).Token
	for _, c := range []struct {
		path, example, original string
		status                  int
	}{
		{"/dte/dte01", "dte01", "", 403},
		{"/dte/dte05", "dte05", "/dte/dte03", 403},
		{"/dte/dte06", "dte06", "/dte/dte03", 403},
		{"/dte/dte07", "dte07", "/dte/dte03", 403},
		{"/dte/dte14", "dte14", "", 403},
		{"/dte/retorno", "retorno", "/dte/dte01", 403}, // the permission of what comes back
		{"/dte/invalidacion/" + original["/dte/dte03"], "invalidacion", "", 403},
		{"/dte/correccion/" + original["/dte/dte01"], "dte01", "", 403},
		{"/dte/dte03", "dte03", "", 201},
	} {
		example, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "examples", c.example+".json"))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest(http.MethodPost, "http://"+b.api+c.path,
			strings.NewReader(strings.ReplaceAll(string(example), "ORIGINAL", original[c.original])))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("x-api-token", token)
		status, answer, err := do(client, req)
		if err != nil || status != c.status || status == http.StatusForbidden && !strings.Contains(string(answer),
			`"PERMISSION_DENIED"`) {
			t.Errorf("%s: %d %v %.300s", c.path, status, err, answer)
		}
	}
	if got := b.sim.Received(); got.Documents != 3 {
		t.Errorf("MH received %+v", got)
	}
	b.stop()
	b.fsck(3, 2)
}
