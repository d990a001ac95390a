package tilltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestList_Span: a list spans at most 31 days, the first and the last counted.
func TestList_Span(t *testing.T) {
	b := Open(t, "00", time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC))
	for to, want := range map[string]int{"2026-11-01": http.StatusOK, "2026-11-30": http.StatusOK,
		"2026-12-01": http.StatusOK, "2026-12-02": http.StatusBadRequest, "2026-10-31": http.StatusBadRequest} {
		if got := b.Get("documentos?desde=2026-11-01&hasta=" + to); got.Status != want {
			t.Errorf("to %s: %d %s", to, got.Status, got.Body)
		}
	}
}

// TestSearch: a document is found by its control number, by a number or a part of the name of its receiver, by its
// amount, and by the key of its sale, page by page; an impossible search is a 400.
func TestSearch(t *testing.T) {
	b := Open(t, "00", time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC))
	var all []Answer
	for i, who := range []string{`"nombre":"José Ñáñez  Peña","tipoDocumento":"13","numDocumento":"01234567-8"`,
		`"nombre":"Ana"`, `"nombre":"ANA JOSEFINA"`, `"nombre":"Eva"`} {
		a := b.keyed(fmt.Sprint("caja-1/", i), "dte01", fmt.Sprintf(
			`{"receptor":{%s},"items":[{"descripcion":"Café","cantidad":1,"precioUnitario":%d.5}],"condicionOperacion":1}`, who, 10+i/2))
		if a.Estado != "PROCESSED" {
			t.Fatal(a)
		}
		all = append(all, a)
	}
	b.Set(time.Date(2026, 12, 3, 18, 0, 0, 0, time.UTC))
	for query, want := range map[string][]int{
		"receptor=ñañez":                            {0},
		"receptor=nanez+pena":                       {0},
		"receptor=012345678":                        {0},
		"receptor=01234567-8":                       {0},
		"receptor=jos":                              {0, 2},
		"receptor=12345":                            nil,
		"monto=10.50":                               {0, 1},
		"monto=10.5&receptor=ana":                   {1},
		"numeroControl=" + all[3].Number:            {3},
		"numeroControl=" + all[3].Number[:30] + "9": nil,
		"clave=caja-1/2":                            {2},
		"clave=caja-1/9":                            nil,
		"clave=caja-1/2&estado=REJECTED":            nil,
	} {
		path := "documentos?desde=2026-12-01&limite=1&" + query
		if strings.HasPrefix(query, "clave") { // on whatever day
			path = "documentos?" + query
		}
		var got []string
		for next := ""; ; {
			a := b.Get(path + next)
			var said struct {
				Data struct {
					Documentos []struct{ CodigoGeneracion string }
					Siguiente  string
				}
			}
			if err := json.Unmarshal(a.Body, &said); err != nil || a.Status != http.StatusOK {
				t.Fatalf("%s: %s", query, a.Body)
			}
			for _, d := range said.Data.Documentos {
				got = append(got, d.CodigoGeneracion)
			}
			if said.Data.Siguiente == "" || len(got) > 9 {
				break
			}
			next = "&cursor=" + said.Data.Siguiente
		}
		var codes []string
		for _, i := range want {
			codes = append(codes, all[i].Code)
		}
		if !slices.Equal(got, codes) {
			t.Errorf("%s: %v, want %v", query, got, codes)
		}
	}
	for _, bad := range []string{"receptor=a-b", "numeroControl=7", "monto=diez"} {
		if a := b.Get("documentos?" + bad); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, a)
		}
	}
}
