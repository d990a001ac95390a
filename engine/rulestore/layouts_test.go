package rulestore_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/enginetest"
	"dtegate/engine/rulestore"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// Every layout can be read without its module: an issuer is checked before the first start.
func TestReadLayouts_Every(t *testing.T) {
	var bundles []*bundle.Bundle
	all := 0
	for _, name := range plugins.Names {
		parts, m := plugintest.Parts(t, name)
		bundles = append(bundles, &bundle.Bundle{Manifest: m, Parts: parts})
		if m.Kind != "catalogue" {
			all++
		}
	}
	layouts := rulestore.ReadLayouts(bundles)
	if len(layouts) != all || all == 0 {
		t.Fatalf("%d of %d", len(layouts), all)
	}
	if faults := layouts.CheckIssuer(dte.Obj(dte.Member{Name: "codEstable", Value: dte.Str("S001")},
		dte.Member{Name: "codPuntoVenta", Value: dte.Str("P001")})); len(faults) == 0 {
		t.Error("an issuer without data is taken")
	}
}

// An event's bundle that refuses the issuer's own data is not admitted: no event could be made with it. A document's
// bundle is, whatever the event in force refuses.
func TestActivate_EventIssuer(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	mail := "ventas@example.com"
	o := w.ShelfOptions()
	o.Accept = func(l rulestore.Layouts) error {
		for _, f := range l.CheckIssuer(dte.Texts("correo", mail)) {
			if f.Path == "emisor.correo" {
				return f
			}
		}
		return nil
	}
	s := rulestore.New(o)
	if err := s.Load(t.Context(), enginetest.Shipped(t)); err != nil {
		t.Fatal(err)
	}
	strict := func(version, pattern string) *rulestore.Activation {
		stricter := func(parts map[string][]byte, _ *bundle.Manifest) {
			parts["overlay.json"] = bytes.Replace(parts["overlay.json"], []byte(`"add": [`), []byte(
				`"add": [{"path":"emisor.correo","schema":{"pattern":"`+pattern+`"},"reason":"r"},`), 1)
		}
		return enginetest.Push(t, s, bundletest.Edition(t, "contingencia/v4", version, stricter))
	}
	if a := strict("9.0.0", "^ventas@"); a.State != rulestore.Live {
		t.Errorf("%+v", a)
	}
	mail = "facturas@example.com"
	if a := strict("9.0.1", "^ventas@"); a.Refused != "layout" || !strings.Contains(a.Error, "emisor.correo") {
		t.Errorf("%+v", a)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "9.0.0")); a.State != rulestore.Live {
		t.Errorf("%+v", a)
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
	// A golden case that becomes a refusal has no document any more.
	anew, differs, err := rulestore.Remade(catalogues)(t.Context(), r, []byte(`{"why":"w","facts":`+string(
		facts.Append(nil))+`,"document":{"a":1}}`))
	if text := string(anew); err != nil || differs == nil || !strings.Contains(text, `"isRetenIva"`) ||
		strings.Contains(text, `"a"`) {
		t.Errorf("%s %v %v", text, differs, err)
	}
}
