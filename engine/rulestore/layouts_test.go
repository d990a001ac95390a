package rulestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/rulestore"

	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
)

// Every document's layout can be read without its module: an issuer is checked before the first start.
func TestReadLayouts_EveryDocument(t *testing.T) {
	var bundles []*bundle.Bundle
	documents := 0
	for _, name := range plugins.Names {
		parts, m := plugintest.Parts(t, name)
		bundles = append(bundles, &bundle.Bundle{Manifest: m, Parts: parts})
		if m.Kind == "document" {
			documents++
		}
	}
	layouts := rulestore.ReadLayouts(bundles)
	if len(layouts) != documents || documents == 0 {
		t.Fatalf("%d of %d", len(layouts), documents)
	}
	if faults := layouts.CheckIssuer(dte.Obj(dte.Member{Name: "codEstable", Value: dte.Str("S001")},
		dte.Member{Name: "codPuntoVenta", Value: dte.Str("P001")})); len(faults) == 0 {
		t.Error("an issuer without data is taken")
	}
}

// A fact of the document that cannot be read is reported under its own name.
func TestRemake_NamesScalar(t *testing.T) {
	r, _ := plugintest.Load(t, "dte01/v2", "interpreter")
	data, err := os.ReadFile(filepath.Join(plugintest.Root(t), "plugins", "catalogues", "catalogues.json"))
	if err != nil {
		t.Fatal(err)
	}
	catalogues, err := dte.ParseCatalogues(data)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := rulestore.Compile(r, catalogues)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := dte.Parse([]byte(`{"isRetenIva":"x","cuerpoDocumento":[{"cantidad":1,"precioUni":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, faults, err := rule.Remake(t.Context(), facts, schema.FillOptions{})
	if err != nil || len(faults) != 1 || faults[0].Path != "isRetenIva" {
		t.Errorf("%+v %v", faults, err)
	}
}
