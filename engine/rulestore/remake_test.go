package rulestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/rulestore"

	"dtegate/plugins/plugintest"
)

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
