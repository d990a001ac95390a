package rules

import (
	"errors"
	"testing"

	"dtegate/rules/bundle"
)

func rule(version, document string, windows map[string]bundle.Window) *Rule {
	return &Rule{Bundle: &bundle.Bundle{Manifest: bundle.Manifest{Name: "x", Version: version, Kind: "document",
		Document: document, Validity: windows}}}
}

func window(from, until string) map[string]bundle.Window {
	return map[string]bundle.Window{"00": {From: "2026-01-01"}, "01": {From: from, Until: until}}
}

func TestGeneration_Pick(t *testing.T) {
	old, next, mended := rule("1.0.0", "01", window("2023-01-01", "2026-11-30")), rule("2.0.0", "01",
		window("2026-12-01", "")), rule("2.0.10", "01", window("2026-12-01", ""))
	g := NewGeneration(mended, next, old)
	for day, want := range map[string]*Rule{"2026-11-30": old, "2026-12-01": mended, "2030-01-01": mended} {
		if got, err := g.Pick("document", "01", "01", day); err != nil || got != want {
			t.Errorf("%s: got %v, %v", day, got, err)
		}
	}
	for _, c := range [][3]string{{"01", "01", "2022-12-31"}, {"03", "01", "2026-12-01"}, {"01", "02", "2026-12-01"}} {
		if _, err := g.Pick("document", c[0], c[1], c[2]); !errors.Is(err, ErrNoRule) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if got, err := NewGeneration(old).Pick("document", "01", "01", "2026-12-24"); err != nil || got != old {
		t.Errorf("expired without a successor: %v, %v", got, err)
	}
}
