package certify_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dtegate/cmd/dtectl/certify"
)

// TestSample: the same seed makes the same sales, another seed makes others, and together they use every way to sell.
func TestSample(t *testing.T) {
	text := func(seed uint64, kind string, n int) string {
		sale, err := certify.Sample(seed, kind, n, "2026-11-23", nil)
		b, wrong := json.Marshal(sale)
		if err := errors.Join(err, wrong); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	all := ""
	seed, other := certify.Seed("06141804941035", "2026-11-23"), certify.Seed("06140202801028", "2026-11-23")
	for _, kind := range []string{"01", "03", "07", "14"} {
		same := 0
		for n := range 60 {
			one := text(seed, kind, n)
			if one != text(seed, kind, n) {
				t.Errorf("%s %d differs", kind, n)
			}
			if one == text(other, kind, n) {
				same++
			}
			all += one
		}
		if same > 6 {
			t.Errorf("%d of 60 of %s are another issuer's", same, kind)
		}
	}
	for _, way := range []string{"isRetenIva", "isPerciIva", `"applyrent":true`, `"applyrent":false`, "EXENTO",
		"NO_SUJETO", "montoDescu", "descuentoGlobal", "noGravado",
		`"condicionOperacion":1`, `"condicionOperacion":2`, `"condicionOperacion":3`, `"plazo":"01"`, `"plazo":"02"`,
		`"C4"`, `"tipoGeneracion":1`, `"tipoItem":2`, `"uniMedida":34`, "nombreComercial", "referencia",
		"observaciones"} {
		if !strings.Contains(all, way) {
			t.Errorf("no sale has %s", way)
		}
	}
	own := []map[string]any{{"nombre": "Un cliente de verdad"}}
	sale, err := certify.Sample(seed, "03", 1, "2026-11-23", own)
	if b, _ := json.Marshal(sale); err != nil || !strings.Contains(string(b), "Un cliente de verdad") {
		t.Errorf("%v %s", err, b)
	}
	for _, kind := range []string{"04", "08", "09", "11", "15"} { // MH wants no tests of these types
		if one := text(seed, kind, 0); one == "null" {
			t.Errorf("%s: %s", kind, one)
		}
	}
}
