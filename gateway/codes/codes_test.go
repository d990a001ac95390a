package codes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dtegate/gateway/codes"
)

// TestAll_EveryCode: what the sources can answer is in the list, with its status and its place, and the list has nothing
// that the sources cannot answer.
func TestAll_EveryCode(t *testing.T) {
	known := make(map[string]codes.Code)
	for _, c := range codes.All() {
		known[c.Name] = c
	}
	met := make(map[string]bool)
	for _, f := range scan(t) {
		at := fmt.Sprintf("%s:%d", f.file, f.line)
		if f.code == "" || f.code == "…" {
			continue
		}
		c, listed := known[f.code]
		met[f.code] = true
		switch {
		case !listed:
			t.Errorf("%s: %s is not in the list", at, f.code)
		case f.status != 0 && !slices.Contains(c.Status, f.status):
			t.Errorf("%s: %s is answered with %d, and the list says %v", at, f.code, f.status, c.Status)
		case f.fault && !c.Fault && c.Name != "RETENTION_BELOW_THRESHOLD":
			t.Errorf("%s: %s is an element of errors, and the list does not say so", at, f.code)
		case !f.fault && len(c.Status) == 0:
			t.Errorf("%s: %s is the type of an answer, and has no status", at, f.code)
		}
	}
	for name := range known {
		if !met[name] {
			t.Errorf("%s is in the list, and no source answers it", name)
		}
	}
}

// TestAll_OneMeaning: no code stands twice, no meaning has two codes of one place, and each is told whole in both languages.
func TestAll_OneMeaning(t *testing.T) {
	names, meanings := make(map[string]bool), make(map[string]string)
	for _, c := range codes.All() {
		if names[c.Name] {
			t.Errorf("%s stands twice", c.Name)
		}
		names[c.Name] = true
		if !faultCode.MatchString(c.Name) {
			t.Errorf("%s is not the form of a code", c.Name)
		}
		for _, text := range []codes.Text{c.Meaning, c.Action} {
			if text.ES == "" || text.EN == "" || strings.HasSuffix(text.ES, ".") || strings.HasSuffix(text.EN, ".") || strings.ContainsAny(text.ES+text.EN, "|\n") {
				t.Errorf("%s: %+v: one sentence in each language, without full stop", c.Name, text)
			}
		}
		if other := meanings[c.Meaning.EN]; other != "" {
			t.Errorf("%s and %s mean the same", c.Name, other)
		}
		meanings[c.Meaning.EN] = c.Name
	}
}
