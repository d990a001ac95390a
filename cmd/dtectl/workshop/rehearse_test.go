package workshop

import (
	"errors"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// A law is tried before its day: a sale of one day has 13 %, a sale of the next day 15 %, and before the first day
// there is no rule.
func TestRehearse(t *testing.T) {
	var bundles []*bundle.Bundle
	for _, data := range [][]byte{plugintest.Bundle(t, "catalogues"), plugintest.Bundle(t, "dte01/v2"),
		plugintest.Bundle(t, "dte03/v4"),
		bundletest.Edition(t, "dte01/v2", "8.0.0", bundletest.In("2027-01-01", ""), bundletest.Param("ivaRate",
			"0.15"))} {
		b, err := bundle.Inspect(data)
		if err != nil {
			t.Fatal(err)
		}
		bundles = append(bundles, b)
	}
	golden, err := dte.Parse(bundles[1].Parts["cases/nobody-in-particular.json"])
	if err != nil {
		t.Fatal(err)
	}
	facts := golden.Get("facts")
	issuer := record.Issuer{Ambiente: "00", Facts: facts.Get("emisor")}
	point := record.Point{ID: 1, Establishment: "M001", PointOfSale: "P001"}
	vat := make(map[string]string)
	for _, day := range []string{"2026-12-31", "2027-01-01"} {
		r, err := Rehearse(t.Context(), bundles, "01", "00", day)
		if err != nil {
			t.Fatal(err)
		}
		made, faults, err := r.Document(t.Context(), issuer, point, facts)
		if err != nil || len(faults) > 0 {
			t.Fatalf("%v %v", faults, err)
		}
		v, err := dte.Parse(made)
		if err != nil || v.Get("identificacion").Get("fecEmi").Text() != day {
			t.Errorf("%s: %s, %v", day, made, err)
		}
		vat[r.Rule.Ref.Version] = v.Get("resumen").Get("totalIva").Text()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(vat) != 2 || vat["8.0.0"] <= vat["2.1.0"] {
		t.Errorf("the VAT by version: %v", vat)
	}
	r, err := Rehearse(t.Context(), bundles, "03", "00", "2027-01-01")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context())
	if _, err := Rehearse(t.Context(), bundles, "14", "00", "2027-01-01"); !errors.Is(err, errNotInForce) {
		t.Errorf("a type without a bundle: %v", err)
	}
	if _, err := Rehearse(t.Context(), bundles, "01", "00", "mañana"); err == nil {
		t.Error("a day that is none")
	}
}
