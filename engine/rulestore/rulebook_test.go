package rulestore

import (
	"errors"
	"testing"

	"dtegate/rules"
	"dtegate/rules/bundle"
)

func catalogue(version, document, from, until string) *rules.Rule {
	return &rules.Rule{Bundle: &bundle.Bundle{Manifest: bundle.Manifest{Name: "x", Version: version, Kind: "catalogue",
		Document: document, Validity: map[string]bundle.Window{"00": {From: "2026-01-01"},
			"01": {From: from, Until: until}}}}}
}

// TestBook_InForce: of the bundles of a kind and document the one that began last is in force, or the latest version.
func TestBook_InForce(t *testing.T) {
	book := func(live ...*rules.Rule) *Book {
		b, err := NewBook(live, nil, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	old, next, mended := catalogue("1.0.0", "01", "2023-01-01", "2026-11-30"), catalogue("2.0.0", "01", "2026-12-01",
		""), catalogue("2.0.10", "01", "2026-12-01", "")
	b := book(mended, next, old)
	for day, want := range map[string]*rules.Rule{"2026-11-30": old, "2026-12-01": mended, "2030-01-01": mended} {
		if got, err := b.inForce("catalogue", "01", "01", day); err != nil || got != want {
			t.Errorf("%s: got %v, %v", day, got, err)
		}
	}
	for _, c := range [][3]string{{"01", "01", "2022-12-31"}, {"03", "01", "2026-12-01"}, {"01", "02", "2026-12-01"}} {
		if _, err := b.inForce("catalogue", c[0], c[1], c[2]); !errors.Is(err, ErrNoRule) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if got, err := book(old).inForce("catalogue", "01", "01", "2026-12-24"); err != nil || got != old {
		t.Errorf("expired without a successor: %v, %v", got, err)
	}
}
