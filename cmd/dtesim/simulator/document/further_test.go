package document

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// told are amounts that only inform, or whose arithmetic is not published.
var told = words("porcentajeDescuento saldoFavor totalNoOnerosas condicionOperacion porcentComision cantidadDoc")

// TestFurther: the golden documents of the further types are received, and none of them with an amount that is two
// cents off.
func TestFurther(t *testing.T) {
	received := 0
	for _, tipo := range words("04 07 08 09 11 15") {
		files, err := filepath.Glob("../../../../plugins/dte" + tipo + "/v*/cases/*.json")
		if err != nil || len(files) == 0 {
			t.Fatal(tipo, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c struct{ Document json.RawMessage }
			if err := json.Unmarshal(data, &c); err != nil {
				t.Fatal(err)
			}
			if c.Document == nil {
				continue
			}
			received++
			if r := judged(t, tipo, c.Document, "", ""); r != nil {
				t.Errorf("%s: %+v", file, *r)
				continue
			}
			for _, part := range []string{"resumen", "cuerpoDocumento"} {
				root, err := decode(c.Document)
				if err != nil {
					t.Fatal(err)
				}
				for name, v := range root.Object(part) {
					if _, amount := v.(json.Number); !amount || slices.Contains(told, name) || tipo == "07" &&
						name == "totalIva" {
						continue
					}
					if r := judged(t, tipo, c.Document, part, name); r == nil {
						t.Errorf("%s: %s.%s two cents off is received", file, part, name)
					}
				}
			}
		}
	}
	if received < 25 {
		t.Errorf("%d documents", received)
	}
}

// judged judges a document with two cents more in a member, if one is named.
func judged(t *testing.T, tipo string, text []byte, part, member string) *Refusal {
	t.Helper()
	root, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if member != "" {
		n := root.Object(part).number(member)
		root.Object(part)[member] = json.Number(new(big.Rat).Add(n, big.NewRat(2, 100)).FloatString(2))
	}
	version := root.Object("identificacion").Integer("version")
	form := compiled()[generation{tipo, version}]
	if form == nil {
		t.Fatalf("%s version %d is not received", tipo, version)
	}
	if notes := form.check(root); len(notes) > 0 {
		return unschemed(strings.Join(notes, "; "))
	}
	d := &Document{Submission: Submission{Tipo: tipo, Version: version}, Root: root, Previous: form.previous,
		law:    todays(),
		Issuer: Issuer{NIT: "06141804941035", NRC: "2390516"}}
	return form.judge(d)
}
