package pdf

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notPeople are members that can hold six to fourteen digits and are not the number of a person or a firm.
var notPeople = []string{"referencia", "numPagoElectronico", "codigo", "numeroDocumento", "codEstable", "codPuntoVenta",
	"valor", "complemento", "descDocumento", "detalleDocumento"}

var (
	hyphened = regexp.MustCompile(`^\+?[0-9]+([- ][0-9]+)+$`)
	isDate   = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
	bare     = regexp.MustCompile(`^[0-9]{6,14}$`)
)

// TestPrinted_People takes the hyphens out of every number of our documents: no layout prints a number of a person or a
// firm without hyphens, whatever member it stands in.
func TestPrinted_People(t *testing.T) {
	p := printer(t)
	met := map[string]int{}
	for _, f := range fixtures {
		d := fixture(t, f.name, f.state)
		var doc any
		if err := json.Unmarshal(d.JSON, &doc); err != nil {
			t.Fatal(err)
		}
		numbers := map[string]string{} // by number: the member
		var walk func(name string, v any) any
		walk = func(name string, v any) any {
			switch v := v.(type) {
			case map[string]any:
				for k, one := range v {
					v[k] = walk(k, one)
				}
			case []any:
				for i := range v {
					v[i] = walk(name, v[i])
				}
			case string:
				if hyphened.MatchString(v) && !isDate.MatchString(v) && len(v) < 20 {
					return walk(name, strings.NewReplacer("-", "", " ", "").Replace(v))
				}
				if bare.MatchString(v) && !slices.Contains(notPeople, name) {
					numbers[v] = name
				}
			}
			return v
		}
		doc = walk("", doc)
		var err error
		if d.JSON, err = json.Marshal(doc); err != nil {
			t.Fatal(err)
		}
		for l := Letter; l <= Ticket58; l++ {
			text := listing(p.pages(t, d, l))
			for n, name := range numbers {
				met[name]++
				if regexp.MustCompile(`(^|[^0-9A-F-])` + n + `($|[^0-9A-F-])`).MatchString(text) {
					t.Errorf("%s, %s: %s %s is printed as a machine writes it", f.name, l, name, n)
				}
			}
		}
	}
	for _, name := range []string{"nit", "nrc", "numDocumento", "telefono", "docuEntrega"} {
		if met[name] == 0 {
			t.Errorf("no document of the fixtures bears a %s: %v", name, slices.Sorted(maps.Keys(met)))
		}
	}
}

// TestPrinted_Consult: MH's public page does not know a document issued in contingency, so no layout sends its receiver
// there now; every other document does.
func TestPrinted_Consult(t *testing.T) {
	p := printer(t)
	for _, f := range fixtures {
		for l := Letter; l <= Ticket58; l++ {
			text := strings.Join(strings.Fields(listing(p.pages(t, fixture(t, f.name, f.state), l))), " ")
			now, later := strings.Contains(text, "Consulte su documento"), strings.Contains(text,
				"Consúltelo cuando tenga sello") && strings.Contains(text, "Cuando Hacienda lo haya recibido")
			if now == (f.state == Contingency) || later != (f.state == Contingency) ||
				strings.Contains(text, "Puede consultarlo") {
				t.Errorf("%s, %s: consult now %v, later %v", f.name, l, now, later)
			}
		}
	}
}
