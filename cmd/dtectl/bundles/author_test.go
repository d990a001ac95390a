package bundles

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/workshop"
	"dtegate/cmd/dted/config"
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

// TestDateCases: a case of an earlier day moves to the copy's first day, a later one stays.
func TestDateCases(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "cases", "a.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for before, after := range map[string]string{"2026-12-31": "2027-01-01", "2027-01-01": "2027-01-01",
		"2027-02-28": "2027-02-28"} {
		if err := os.WriteFile(path, []byte(`{"fecEmi": "`+before+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		err := dateCases(folder, "2027-01-01")
		if got, _ := os.ReadFile(path); err != nil || string(got) != `{"fecEmi": "`+after+`"}` {
			t.Errorf("%s: %s, %v", before, got, err)
		}
	}
}

// TestSignerOf: the signature names a key as the box's configuration pins it; another name is refused.
func TestSignerOf(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	_, err := workshop.NewKey(b.At("own"))
	b.Must(err)
	text, err := os.ReadFile(b.Options.Config)
	b.Must(err, config.WriteFile(b.Options.Config, bytes.Replace(text, []byte(`"central-it"`), []byte(`"norte"`), 1)))
	for _, c := range []struct{ file, id, want string }{{"rules.key", "", "norte"}, {"rules.key", "norte", "norte"},
		{"rules.key", "sur", ""}, {"own", "", "central-it"}, {"own", "sur", "sur"}} {
		s, err := signerOf(b.At(c.file), c.id, b.Options)
		if (err == nil) != (c.want != "") || s.ID != c.want {
			t.Errorf("%+v: %q, %v", c, s.ID, err)
		}
	}
}
