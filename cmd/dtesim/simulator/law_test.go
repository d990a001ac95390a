package simulator_test

import (
	"bytes"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"

	"dtegate/cmd/dtesim/simulator"
)

// fifteen is a law of 15 % for notes and vouchers from a day on, with a new tax and a new code of payment.
func fifteen(o *simulator.Options) {
	for _, tipo := range []string{"03", "05"} {
		o.Laws = append(o.Laws, simulator.Law{Document: tipo, From: "2026-12-16", VAT: big.NewRat(15, 100)})
	}
	o.Laws = append(o.Laws, simulator.Law{From: "2026-12-16", Codes: map[string][]string{"CAT-015": {"B9"},
		"CAT-017": {"77"}}})
}

// From its day on a law's rate is the only right one, until then it is wrong; a note has the rate of its original.
func TestLaw_Rate(t *testing.T) {
	b := open(t, fifteen)
	// 110.00 taxed: 14.30 at 13 %, 16.50 at 15 %.
	at15 := func(d *tree) *tree {
		return d.set("resumen.tributos.0.valor", n("16.5")).set("resumen.montoTotalOperacion",
			n("126.5")).set("resumen.totalPagar", n("129")).
			set("resumen.ivaRete", n("0")).set("resumen.pagos.0.montoPago", n("129"))
	}
	b.accepted(sample(t, "03", 1))
	if a := b.send(at15(sample(t, "03", 2))); a.Estado != "RECHAZADO" || !strings.Contains(a.DescripcionMsg,
		"tributos.codigo.20") {
		t.Errorf("15 %% a day early: %v", a)
	}
	b.acceptedOn("2026-12-16", at15(sample(t, "03", 3)))
	if a := b.send(sample(t, "03", 4).set("identificacion.fecEmi", "2026-12-16")); a.Estado != "RECHAZADO" ||
		!strings.Contains(a.DescripcionMsg, "tributos.codigo.20") {
		t.Errorf("13 %% on the day: %v", a)
	}
	// Credit notes of 40.00 of both, on the new law's day.
	b.acceptedOn("2026-12-16", noteFor(t, "05", 1, "40", "03", code("03", 1)))
	newer := noteFor(t, "05", 2, "40", "03", code("03", 3)).set("documentoRelacionado.0.fechaEmision",
		"2026-12-16").set("identificacion.fecEmi", "2026-12-16")
	if a := b.send(newer); a.Estado != "RECHAZADO" || !strings.Contains(a.DescripcionMsg, "tributos.codigo.20") {
		t.Errorf("13 %% given back of a sale at 15 %%: %v", a)
	}
	b.accepted(newer.set("resumen.tributos.0.valor", n("6")).set("resumen.montoTotalOperacion",
		n("46")).set("resumen.totalPagar", n("46")))
}

// A new code is accepted from its day on.
func TestLaw_Codes(t *testing.T) {
	b := open(t, fifteen)
	taxed := func(n_ int, day string) *tree {
		d := sample(t, "03", n_).set("identificacion.fecEmi", day)
		return d.set("resumen.pagos.0.codigo", "77")
	}
	b.refused(taxed(1, "2026-12-15"), "007", "[resumen.pagos.codigo] VALOR NO ES PERMITIDO")
	s := b.sim
	if err := s.Enact(simulator.Law{From: "2026-12-15", Codes: map[string][]string{"CAT-017": {"77"}}}); err != nil {
		t.Fatal(err)
	}
	b.accepted(taxed(2, "2026-12-15"))
	for _, bad := range []simulator.Law{{From: "mañana"}, {From: "2026-12-15", VAT: big.NewRat(15, 1)}} {
		if err := s.Enact(bad); err == nil {
			t.Errorf("%+v was enacted", bad)
		}
	}
}

// A new tax in USD a unit is computed here too: only the product of the lines' quantities and its rate is accepted.
func TestLaw_PerUnit(t *testing.T) {
	b := open(t, fifteen, func(o *simulator.Options) {
		o.Laws = append(o.Laws, simulator.Law{Document: "03", From: "2026-12-16",
			PerUnit: map[string]*big.Rat{"B9": big.NewRat(5, 100)}})
	})
	// 110.00 taxed at 15 %, and 12 and 4 units that are levied: 0.80.
	levied := func(n_ int, levy, operation, pay string) *tree {
		d := sample(t, "03", n_).set("identificacion.fecEmi", "2026-12-16").set("resumen.ivaRete",
			n("0")).set("resumen.montoTotalOperacion", n(operation)).
			set("resumen.totalPagar", n(pay)).set("resumen.pagos.0.montoPago", n(pay))
		for _, line := range []string{"0", "1"} {
			d.set("cuerpoDocumento."+line+".tributos", []any{"20", "B9"})
		}
		return d.set("resumen.tributos", []any{map[string]any{"codigo": "20",
			"descripcion": "Impuesto al Valor Agregado 15%", "valor": n("16.5")},
			map[string]any{"codigo": "B9", "descripcion": "Bolsa", "valor": n(levy)}})
	}
	b.acceptedOn("2026-12-16", levied(1, "0.8", "127.3", "129.8"))
	b.accepted(levied(2, "0.81", "127.31", "129.81")) // a cent is MH's tolerance
	for i, c := range [][3]string{{"0.82", "127.32", "129.82"}, {"0.60", "127.1", "129.6"}} {
		if a := b.send(levied(3+i, c[0], c[1], c[2])); a.Estado != "RECHAZADO" || !strings.Contains(a.DescripcionMsg,
			"tributos.codigo.B9") {
			t.Errorf("%s for 0.80: %v", c[0], a)
		}
	}
}

// A type that this package does not know is received with the layout that a law brings, issuer, number and mode
// included, and not before.
func TestLaw_Layout(t *testing.T) {
	b := open(t)
	strange := func(k int) *tree {
		return sample(t, "07", k).set("identificacion.tipoDte", "16").
			set("identificacion.numeroControl", fmt.Sprintf("DTE-16-M001P001-%015d",
				k)).set("identificacion.codigoGeneracion", code("16", k))
	}
	b.refused(strange(1), "096", "DOCUMENTO NO CUMPLE ESQUEMA JSON")
	layout, err := os.ReadFile("../../../plugins/dte07/v2/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	layout = bytes.ReplaceAll(layout, []byte(`"const": "07"`), []byte(`"const": "16"`))
	layout = bytes.ReplaceAll(layout, []byte("DTE-07-"), []byte(`(?!.*[\r\n])DTE-16-`))
	if err := b.sim.Enact(simulator.Law{Document: "16", From: "2026-12-01", Version: 2, Layout: layout}); err != nil {
		t.Fatal(err)
	}
	b.accepted(strange(2))
	b.refused(strange(3).set("resumen.totalIvaRetenido", "x"), "096", "DOCUMENTO NO CUMPLE ESQUEMA JSON")
	b.refused(strange(4).set("emisor.nit", "06141804941036"), "008", "[emisor.nit] NO CORRESPONDE A CONTRIBUYENTE")
	if err := b.sim.Enact(simulator.Law{Document: "16", From: "2026-12-01", Version: 3,
		Layout: []byte(`{"type": 1}`)}); err == nil {
		t.Error("a layout that is no schema is enacted")
	}
}
