package workshop

import (
	"crypto/ed25519"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/plugins/plugintest"
	"dtegate/rules/asmtest"
	"dtegate/rules/bundle"
)

// sum is the source folder of a rule whose module is not a Go program: it adds quantities up.
var sum = map[string]string{
	"manifest.json": `{"name": "suma", "version": "1.0.0", "kind": "document", "document": "suma", "schema": 1, "abi": 1,
  "validity": {"00": {"from": "2026-01-01", "until": ""}},
  "params": [{"name": "rate", "value": "0.13", "source": "Ley de IVA art. 54"}]}`,
	"schema.json": `{"type": "object", "additionalProperties": false, "properties": {
  "cuerpoDocumento": {"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": {
    "cantidad": {"type": "number"}, "descripcion": {"type": ["string", "null"]}, "ventaGravada": {"type": "number"}},
    "required": ["cantidad", "descripcion", "ventaGravada"]}},
  "resumen": {"type": "object", "additionalProperties": false, "properties": {"total": {"type": "number"}}, "required": ["total"]}
}, "required": ["cuerpoDocumento", "resumen"]}`,
	"overlay.json": `{"total": "total"}`,
	"cases/two.json": `{"why": "two lines", "facts": {"cuerpoDocumento": [{"cantidad": 2, "descripcion": "Pan"}, {"cantidad": 0.5, "descripcion": null}]},
  "document": {"cuerpoDocumento": [{"cantidad": 2, "descripcion": "Pan", "ventaGravada": 2},
    {"cantidad": 0.5, "descripcion": null, "ventaGravada": 0.5}], "resumen": {"total": 2.5}}}`,
	"cases/old.json": `{"why": "nothing", "facts": {"cuerpoDocumento": []}, "document": {"cuerpoDocumento": [], "resumen": {"total": 0}}}`,
}

// checkout makes the folder of a rule, with one text changed in one of its files, and the module beside it.
func checkout(t *testing.T, file, old, new string) (root, module string) {
	t.Helper()
	root = t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "plugins", "catalogues"), os.DirFS(filepath.Join(plugintest.Root(t),
		"plugins", "catalogues"))); err != nil {
		t.Fatal(err)
	}
	files := maps.Clone(sum)
	files[file] += "" // a file that is not there
	delete(files, "")
	for name, text := range files {
		if name == file {
			text = strings.Replace(text, old, new, 1)
		}
		path := filepath.Join(root, "plugins", "suma", "v1", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	module = filepath.Join(root, "suma.wasm")
	if err := os.WriteFile(module, asmtest.NewSum().Module().Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return root, module
}

// A bundle that passes its own cases is built; any other is not built, and the error leads to the slip.
func TestBuild(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer := bundle.Signer{ID: "k", Private: private}
	for _, c := range []struct{ file, old, new, want string }{
		{"", "", "", ""},
		{"cases/two.json", `"total": 2.5`, `"total": 2.6`, "the bundle is not built: suma 1.0.0 fails at the step " +
			"interpreter: cases/two.json: resumen.total is 2.5, want 2.6"},
		{"cases/two.json", `"Pan", "ventaGravada"`, `"Pan ", "ventaGravada"`,
			`cases/two.json: cuerpoDocumento[0].descripcion is "Pan", want "Pan "`},
		{"cases/old.json", `{"cuerpoDocumento"`, `{"identificacion": {"fecEmi": "2025-12-31"}, "cuerpoDocumento"`,
			"plugins/suma/v1/cases/old.json: facts.identificacion.fecEmi: 2025-12-31 is outside the validity"},
		{"cases/two.json.orig", "", "x", "cases/two.json.orig is not a part of a bundle"},
		{"cases/two.json", `"document"`, `"faults": [], "documents"`, `it must list the faults for which it is refused`},
		{"manifest.json", `"version": "1.0.0",`, `"version": "1.0.0", "valid_from": "2027-01-01",`,
			"valid_from: there is no such field"},
		{"manifest.json", `"version": "1.0.0",`, `"version": "1.0.0", "fuel": 1000,`, "suma 1.0.0 fails at the step lines: "},
		{"manifest.json", `"rate"`, `"rato"`, "parameter"},
		{"cases/two.json", "two lines", unsaid + "why", "cases/two.json still says"},
		{"../rule.go", "", "// " + unsaid + "what it computes", "rule.go still says"},
		{"../rule.go", "", "// It adds quantities up.", ""},
		{"overlay.json", `"total": "total"`, `"total": "suma"`, `"suma"`},
	} {
		root, module := checkout(t, c.file, c.old, c.new)
		shop, err := Open(t.Context(), root, module)
		if err != nil {
			t.Fatal(err)
		}
		m, data, err := shop.Build(t.Context(), "suma/v1", signer)
		switch {
		case c.want == "" && (err != nil || m.Version != "1.0.0"):
			t.Errorf("good: %v", err)
		case c.want == "":
			if _, err := (bundle.Keys{Pinned: []bundle.Key{{ID: "k",
				Public: private.Public().(ed25519.PublicKey)}}}).Read(data); err != nil {
				t.Error(err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: want %q, got %v", c.new, c.want, err)
		}
		if err := shop.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	root, _ := checkout(t, "", "", "")
	shop, err := Open(t.Context(), root, "")
	if err != nil {
		t.Fatal(err)
	}
	defer shop.Close(t.Context())
	if _, err := shop.Prove(t.Context(), "suma/v1"); err == nil || !strings.Contains(err.Error(),
		"--module FILE.wasm") {
		t.Errorf("without a module: %v", err)
	}
}

// TestNewType_Sale: the rule of a new sale accepts what a till may give for each line, and returns it. The code of a
// payment is no amount.
func TestNewType_Sale(t *testing.T) {
	schema, err := os.ReadFile(filepath.Join(plugintest.Root(t), "plugins", "dte11", "v3", "schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "venta")
	if _, err := NewType(folder, "77", schema); err != nil {
		t.Fatal(err)
	}
	rule, err := os.ReadFile(filepath.Join(folder, "rule.go"))
	if err != nil {
		t.Fatal(err)
	}
	for text, times := range map[string]int{`{Name: "montoDescu", Kind: "amount"}`: 2,
		`{Name: "noGravado", Kind: "amount"}`: 2, "columns, outputs = 4, 3": 1,
		"out.Lines[i*outputs+1] = sdk.Optional(in.Lines[i*columns+3])": 1, "condicionOperacion": 0} {
		if n := strings.Count(string(rule), text); n != times {
			t.Errorf("%q is there %d times:\n%s", text, n, rule)
		}
	}
}

// TestDescribe: a till must send a member that MH requires, unless it may be null.
func TestDescribe(t *testing.T) {
	s, err := dte.Parse([]byte(`{"required": ["a", "b", "c", "e"], "properties": {"a": {"type": "string"},
		"b": {"type": ["string", "null"]}, "c": {"type": "number"}, "d": {"type": "boolean"},
		"e": {"type": "string", "format": "date"}, "f": {"type": "array", "items": {"type": "string"}},
		"g": {"type": "array", "items": {"properties": {"h": {"type": ["integer", "null"]}}, "required": ["h"]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": `{"name": "a", "required": true}`, "b": `{"name": "b"}`,
		"c": `{"name": "c", "required": true, "shape": "number"}`, "d": `{"name": "d", "shape": "flag"}`,
		"e": `{"name": "e", "required": true, "format": "date"}`, "f": `{"name": "f", "shape": "texts"}`,
		"g": `{"name": "g", "shape": "list", "members": [` + "\n   " + `{"name": "h", "shape": "integer"}]}`}
	for _, m := range s.Get("properties").Members() {
		if got := describe(m.Name, "", m.Value, isDue(s, m.Name), 1); got != want[m.Name] {
			t.Errorf("%s, want %s", got, want[m.Name])
		}
	}
}
