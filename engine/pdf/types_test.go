package pdf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// rounded is an amount in cents, as a ticket has it.
func rounded(t *testing.T, v dte.Value) string {
	t.Helper()
	if v.Kind() != dte.KindNumber {
		return ""
	}
	return (&builder{}).rounded(v, dte.Scale/100)
}

// TestTypes_Shipped prints the documents of all bundles' cases on letter and ticket: each field that the view of their
// type names is there, and each amount of their summary that is not 0.
func TestTypes_Shipped(t *testing.T) {
	p := printer(t)
	files, err := filepath.Glob("../../plugins/*/v*/cases/*.json")
	if err != nil {
		t.Fatal(err)
	}
	types := plugins.Types()
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := dte.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		document := golden.Get("document")
		number := document.Get("identificacion").Get("tipoDte").Text()
		i := slices.IndexFunc(types, func(kind *bundle.Type) bool { return kind.Document == number })
		if !document.Exists() || i < 0 {
			continue
		}
		seen[number] = true
		for _, l := range []Layout{Letter, Ticket80, Ticket58} {
			text := strings.Join(strings.Fields(written(t, render(t, p, Document{JSON: document.Append(nil),
				State: Processed, Seal: seal}, l))), " ")
			for _, f := range types[i].View.Fields {
				v := document
				for name := range strings.SplitSeq(f.Path, ".") {
					v = v.Get(name)
				}
				if v.Text() != "" && !strings.Contains(text, f.Label) {
					t.Errorf("%s, %s: does not say %q", file, l, f.Label)
				}
			}
			for _, line := range document.Get("cuerpoDocumento").Items() {
				for _, c := range types[i].View.Columns {
					v := pick(line, c.Paths...)
					if cell := Printed(v.Text(), 2); c.As == "money" && !isZero(v.Text()) && !strings.Contains(text, cell) &&
						!strings.Contains(text, rounded(t, v)) {
						t.Errorf("%s, %s: does not say %s %s", file, l, c.Head, cell)
					}
					if l == Letter {
						continue // a cell may have several lines
					}
					if c.Catalogue == "CAT-026" && !strings.Contains(text, map[string]string{"1": "Efectivo", "2": "Bien",
						"3": "Servicio"}[v.Text()]) || c.As == "date" && !strings.Contains(strings.ReplaceAll(text, " ", ""),
						v.Text()[8:]+"/"+v.Text()[5:7]+"/"+v.Text()[:4]) {
						t.Errorf("%s, %s: does not say %s %s", file, l, c.Head, v.Text())
					}
				}
			}
			for _, name := range types[i].View.Final {
				if v := document.Get("resumen").Get(name); v.Exists() && !strings.Contains(text, Printed(v.Text(),
					2)) {
					t.Errorf("%s, %s: does not say %s %s", file, l, name, v.Text())
				}
			}
		}
	}
	if len(seen) < 11 {
		t.Errorf("only %d types were printed", len(seen))
	}
}
