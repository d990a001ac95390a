package plugins_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/plugins/plugintest"
)

// rejected says of each document that MH refused what became of its fault when its lines are asked for here: "amount"
// (computed, so that it cannot be wrong), "shape" (filled by the schema), or why no rule can know it.
var rejected = map[string]string{
	"_rejected/01_firma_no_valida.json":                           "the signature was not valid",
	"_rejected/01_schema_tributo20_in_fe.json":                    "shape",
	"_rejected/01_subTotal_item_discount_repeated_as_global.json": "amount",
	"_rejected/03_numeroControl_duplicate.json":                   "the number was used before",
	"_rejected/03_receptor_nit_unknown.json":                      "the taxpayer does not exist",
	"_rejected/03_subTotal_item_discount_repeated_as_global.json": "amount",
	"_rejected/03_tributo20_wrong.json":                           "amount",
	"_rejected/03_tributo20_wrong_base.json":                      "amount",
	"_rejected/03_tributos_missing.json":                          "amount",
	"_rejected/05_schema.json":                                    "not in what was saved: it passes the published schema, and our document is the same",
}

// Every document that MH refused is asked for again by its lines, and comes out right by an independent arithmetic.
func TestRejected(t *testing.T) {
	bundles := load(t)
	documents := examples(t, "_rejected/*.json")
	dir := t.TempDir()
	written := 0
	for _, name := range sorted(documents) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			kind := rejected[name]
			if kind == "" {
				t.Fatal("a rejected document that this test does not know")
			}
			theirs := documents[name]
			r := bundles.of(theirs)
			if r == nil {
				return // no bundle of its generation ships
			}
			ours := issue(t, name, r, ask(theirs))
			a := compare(theirs, ours)
			if own := kind == "amount" || kind == "shape"; own && len(a.beyond)+len(a.other) == 0 {
				t.Error("the document is the one that MH refused")
			}
			t.Logf("%s: %s", kind, strings.Join(append(append(a.cent, a.beyond...), a.other...), "; "))
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), ours.Append(nil), 0o600); err != nil {
				t.Fatal(err)
			}
			written++
		})
	}
	plugintest.Recalc(t, dir, written, false)
}

// The box refuses a till that names tax 20 on an invoice, so MH never sees it: the type does not have that code.
func TestRejected_Tax20OnAnInvoice(t *testing.T) {
	bundles := load(t)
	name := "_rejected/01_schema_tributo20_in_fe.json"
	facts := ask(examples(t, name)[name])
	line := facts.Get("cuerpoDocumento").Index(0).With("tributos", dte.Arr(dte.Str("20")))
	if _, err := bundles.of(facts).issue(facts.With("cuerpoDocumento", dte.Arr(line))); err == nil || !strings.Contains(err.Error(), "tributos") {
		t.Errorf("taken: %v", err)
	}
}
