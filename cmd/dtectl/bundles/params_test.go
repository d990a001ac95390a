package bundles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest"
	"dtegate/plugins/plugintest"
)

// Which rules carry the VAT is one command.
func TestRules_Params(t *testing.T) {
	root := plugintest.Root(t)
	said := cmdtest.Capture(t, func() {
		if err := (&paramsCommand{Name: ".", Grep: "IVARATE", Source: root}).Run(); err != nil {
			t.Error(err)
		}
	})
	for _, want := range []string{"dte01/v1", "dte01/v2", "dte03/v4", "dte06/v4", "retorno/v1", "0.13"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in\n%s", want, said)
		}
	}
	if strings.Contains(said, "dte14") || strings.Contains(said, "turismoRate") {
		t.Errorf("what carries no VAT is there:\n%s", said)
	}
	if err := (&paramsCommand{Name: "dte01", Grep: "nichts", Source: root}).Run(); err == nil {
		t.Error("nothing was found, and it did not say so")
	}
}

// A sibling of a generation has its own folder beside it and belongs to the same module.
func TestRules_NewSibling(t *testing.T) {
	source := t.TempDir()
	if err := os.CopyFS(filepath.Join(source, "plugins", "dte01"), os.DirFS(filepath.Join(plugintest.Root(t), "plugins", "dte01"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dte01/v2-2027", "tienda"} {
		if err := (&newCommand{Name: name, From: "dte01/v2", Source: source}).Run(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(source, "plugins", "dte01", "v2-2027", "manifest.json"))
	if err != nil || !strings.Contains(string(text), `"name": "dte01"`) {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := os.Stat(filepath.Join(source, "plugins", "tienda", "v1")); !os.IsNotExist(err) {
		t.Errorf("another generation was copied: %v", err)
	}
	if test, err := os.ReadFile(filepath.Join(source, "plugins", "tienda", "rule_test.go")); err != nil || !strings.Contains(string(test), `"tienda/v2"`) {
		t.Errorf("%v\n%s", err, test)
	}
	for _, bad := range []newCommand{{Name: "dte01/v2-2027", From: "dte01/v2"}, {Name: "other/v3", From: "dte01/v2"}, {Name: "dte01/v9", From: "dte01/v7"}, {Name: "dte01/v9", From: "dte01"}} {
		bad.Source = source
		if err := bad.Run(); err == nil {
			t.Errorf("%+v", bad)
		}
	}
}
