package bundles

import (
	"os"
	"path/filepath"
	"testing"

	"dtegate/engine/rulestore"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
)

// Every manifest of this repository declares about ten times the fuel that its module uses for the longest document:
// dtectl rules test NAME --fuel writes it.
func TestRules_Fuel(t *testing.T) {
	for _, name := range plugins.Names {
		_, m := plugintest.Parts(t, name)
		if m.Kind != "document" {
			continue
		}
		r, _ := plugintest.Load(t, name, "compiler")
		peak, err := rulestore.PeakFuel(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m.Fuel < 7*peak || m.Fuel > 15*peak {
			t.Errorf("%s declares %d units of fuel, and a call uses %d: dtectl rules test %s --fuel", name, m.Fuel,
				peak, name)
		}
	}
}

func TestDeclareFuel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifest.json")
	for _, c := range []struct{ before, after string }{
		{"{\n  \"abi\": 1,\n  \"params\": []\n}\n", "{\n  \"abi\": 1,\n  \"fuel\": 13000,\n  \"params\": []\n}\n"},
		{"{\n  \"fuel\": 7,\n  \"params\": []\n}\n", "{\n  \"fuel\": 13000,\n  \"params\": []\n}\n"},
	} {
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := declareFuel(path, 1234); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != c.after {
			t.Errorf("got %q", got)
		}
	}
}
