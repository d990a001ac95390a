package tilltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

// TestRelated: a sale of goods that left under remission notes names the notes, and each of its lines one of them (MF2
// pp.37-38). In an outage, too, the counter refuses a wrong name: MH would refuse the document that the customer holds.
func TestRelated(t *testing.T) {
	const a, b, c = "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F", "80EFD719-7411-451A-A53E-AD4F09C8DF56",
		"80EFD719-7411-451A-A53E-AD4F09C8DF57"
	till := Open(t, "00", time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC))
	named := func(kind, day string, codes ...string) string {
		var list []string
		for _, code := range codes {
			list = append(list, fmt.Sprintf(`{"tipoDocumento":"%s","tipoGeneracion":2,"numeroDocumento":"%s",`+
				`"fechaEmision":"%s"}`, kind, code, day))
		}
		return `"documentoRelacionado":[` + strings.Join(list, ",") + `],`
	}
	const today = "2026-11-23"
	const taxpayer = `{"tipoDocumento":"36","numDocumento":"06140202801028","nit":"06140202801028","nrc":"7654321",` +
		`"nombre":"Comercial El Roble","codActividad":"62010","descActividad":"Programación informática","direccion":` +
		`{"departamento":"05","municipio":"28","distrito":"11","complemento":"Avenida Las Magnolias 2"}}`
	sales := []struct{ name, related, first, second, want string }{
		{"none", "", "", "", ""},
		{"two notes", named("04", today, a, b), a, b, ""},
		{"liquidation", named("09", today, a), a, a, ""},
		{"invoice", named("01", today, a), a, a, "documentoRelacionado[0].tipoDocumento documentoRelacionado"},
		{"tomorrow's", named("04", "2026-11-24", a), a, a, "documentoRelacionado[0].fechaEmision"},
		{"twice", named("04", today, a, a), a, a, "documentoRelacionado[1].numeroDocumento"},
		{"another", named("04", today, a, b), a, c, "items[1].numeroDocumento"},
		{"lower case", named("04", today, a), a, strings.ToLower(a), "items[1].numeroDocumento"},
		{"no name", named("04", today, a), a, "", "items[1].numeroDocumento"},
		{"name of nothing", "", "", a, "items[1].numeroDocumento"},
	}
	line := func(code string) string {
		if code != "" {
			code = `"numeroDocumento":"` + code + `",`
		}
		return `{` + code + `"descripcion":"Arroz","cantidad":2,"precioUnitario":5}`
	}
	for _, outage := range []bool{false, true} {
		if err := till.Sim.Chaos(simulator.Chaos{Outage: outage}); err != nil {
			t.Fatal(err)
		}
		for _, sale := range sales {
			for path, receptor := range map[string]string{"dte01": `{"nombre":"Ana Morales"}`, "dte03": taxpayer} {
				r := till.Post(path, []byte(`{"receptor":`+receptor+`,`+sale.related+`"items":[`+line(sale.first)+`,`+
					line(sale.second)+`],"condicionOperacion":1}`))
				var wrong []string
				for _, f := range r.Faults {
					wrong = append(wrong, f.Path)
				}
				if strings.Join(wrong, " ") != sale.want || sale.want == "" && (r.Status != 201 || r.Estado == "REJECTED") {
					t.Errorf("%s, %s, outage %v: %v", sale.name, path, outage, r)
				}
			}
		}
	}
}
