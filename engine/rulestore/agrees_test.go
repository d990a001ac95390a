package rulestore

import (
	"maps"
	"strings"
	"testing"

	"dtegate/engine/record"
	"dtegate/rules/bundle"
)

// TestAgrees: a record agrees with the signed manifest in every value by which a bundle is chosen, in its ambiente.
func TestAgrees(t *testing.T) {
	good := Admitted{RuleRef: record.RuleRef{Name: "dte01", Version: "2.1.0"}, Kind: "document", Document: "01",
		Schema: 2, From: "2026-11-01", Until: "2026-12-31"}
	m := bundle.Manifest{Name: "dte01", Version: "2.1.0", Kind: "document", Document: "01", Schema: 2,
		Validity: map[string]bundle.Window{"00": {From: "2026-11-01", Until: "2026-12-31"},
			"01": {From: "2027-01-01"}}}
	if err := good.agrees(&m, "00/reglas"); err != nil {
		t.Error(err)
	}
	if err := good.agrees(&m, "01/reglas"); err == nil || !strings.Contains(err.Error(), `from "2026-11-01"`) {
		t.Errorf("in the other ambiente: %v", err)
	}
	for name, change := range map[string]func(*Admitted, *bundle.Manifest){
		"name":     func(a *Admitted, _ *bundle.Manifest) { a.Name = "dte03" },
		"version":  func(a *Admitted, _ *bundle.Manifest) { a.Version = "9.0.0" },
		"kind":     func(a *Admitted, _ *bundle.Manifest) { a.Kind = "event" },
		"document": func(a *Admitted, _ *bundle.Manifest) { a.Document = "03" },
		"schema":   func(_ *Admitted, m *bundle.Manifest) { m.Schema = 3 },
		"from":     func(a *Admitted, _ *bundle.Manifest) { a.From = "2026-10-31" },
		"until":    func(a *Admitted, _ *bundle.Manifest) { a.Until = "" },
	} {
		a, other := good, m
		other.Validity = maps.Clone(m.Validity)
		change(&a, &other)
		if err := a.agrees(&other, "00/reglas"); err == nil || !strings.HasPrefix(err.Error(),
			"its record says "+name+" ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
