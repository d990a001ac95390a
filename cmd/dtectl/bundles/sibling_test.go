package bundles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/cmd/dtectl/workshop"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
)

// A sibling of a generation has its own folder beside it and belongs to the same module.
func TestRules_NewSibling(t *testing.T) {
	source := t.TempDir()
	if err := os.CopyFS(filepath.Join(source, "plugins", "dte01"), os.DirFS(filepath.Join(plugintest.Root(t), "plugins",
		"dte01"))); err != nil {
		t.Fatal(err)
	}
	if err := (&newCommand{Name: "dte01/v2-2027", From: "dte01/v2", Source: source}).Run(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(source, "plugins", "dte01", "v2-2027", "manifest.json"))
	if err != nil || !strings.Contains(string(text), `"name": "dte01"`) {
		t.Errorf("%v\n%s", err, text)
	}
	for _, bad := range []newCommand{{Name: "dte01/v2-2027", From: "dte01/v2"}, {Name: "other/v3", From: "dte01/v2"},
		{Name: "dte01/v9", From: "dte01/v7"}, {Name: "dte01/v9", From: "dte01"}, {Name: "tienda", From: "dte01/v2"}} {
		bad.Source = source
		if err := bad.Run(); err == nil {
			t.Errorf("%+v", bad)
		}
	}
}

// Catalogues of a coming day are beside today's catalogues, which do not contain them; a law of that day uses their
// names and codes.
func TestRules_ComingCatalogues(t *testing.T) {
	source := t.TempDir()
	for _, name := range []string{"catalogues", "dte03"} {
		if err := os.CopyFS(filepath.Join(source, "plugins", name), os.DirFS(filepath.Join(plugintest.Root(t),
			"plugins", name))); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]string{"catalogues/2027": "catalogues", "dte03/v4-2027": "dte03/v4"} {
		if err := (&newCommand{Name: name, From: from, On: "2027-01-01", Source: source}).Run(); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(file, old, changed string) {
		t.Helper()
		path := filepath.Join(source, "plugins", file)
		data, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(data), old) {
			t.Fatalf("%s has no %q", file, old)
		}
		if err == nil {
			err = os.WriteFile(path, []byte(strings.ReplaceAll(string(data), old, changed)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit("catalogues/2027/catalogues.json", "Impuesto al Valor Agregado 13%", "Impuesto al Valor Agregado 15%")
	parts, m, err := plugins.Source{Root: source, Build: t.TempDir()}.Parts(t.Context(), "catalogues")
	if err != nil || len(parts) != 1 || m.Validity["01"].From != "2026-01-01" {
		t.Errorf("today's catalogues are %d parts of %+v, %v", len(parts), m.Validity, err)
	}
	data := plugintest.Bundle(t, "dte03/v4")
	b, err := bundle.Inspect(data)
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "dte03.wasm")
	if err := os.WriteFile(module, b.Parts["module.wasm"], 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := workshop.Open(t.Context(), source, module)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	p, err := w.Prove(t.Context(), "dte03/v4-2027")
	// its cases still say 13%
	if err != nil || p.Err() == nil || !strings.Contains(p.Err().Error(), `Agregado 15%", want`) {
		t.Fatalf("the coming names are not those of the coming day: %v %v", err, p.Err())
	}
	for _, part := range b.Cases() {
		path := filepath.Join(source, "plugins", "dte03", "v4-2027", filepath.FromSlash(part))
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "Agregado 13%", "Agregado 15%")), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"dte03/v4-2027", "dte03/v4"} {
		p, err := w.Prove(t.Context(), name)
		if err != nil || p.Err() != nil {
			t.Errorf("%s: %v %v", name, err, p.Err())
		}
	}
}
