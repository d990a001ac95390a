package rulestore_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"dtegate/engine/enginetest"
	"dtegate/engine/recordmac"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// TestShelf_ReplayUnvouched: on a new box the key that signed a document's bundle is no longer pinned. That document
// cannot be made again, and the report says why; the others are. Without any catalogue none is.
func TestShelf_ReplayUnvouched(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer func() { x.Close() }()
	former := bundle.Signer{ID: "former", Private: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	x.Pinned = []bundle.Key{plugintest.Key(), {ID: former.ID, Public: former.Private.Public().(ed25519.PublicKey)}}
	s := x.Shelf(enginetest.Shipped(t))
	enginetest.Push(t, s, bundletest.EditionSigned(t, "dte01/v2", "2.1.6", former))
	doubtful, err := x.Engine.Issue(t.Context(), enginetest.Sale("a", 1130))
	if err != nil || doubtful.Rule.Version != "2.1.6" {
		t.Fatalf("%+v, %v", doubtful, err)
	}
	enginetest.Push(t, s, enginetest.Edition(t, "2.1.7"))
	good, err := x.Engine.Issue(t.Context(), enginetest.Sale("b", 1130))
	if err != nil {
		t.Fatal(err)
	}
	day := rulestore.DocumentPeriod{From: "2026-11-21", To: "2026-11-21"}
	for _, c := range []struct {
		name            string
		pinned          []bundle.Key
		doubtful, other string // results
		why             string
	}{
		{"both keys", x.Pinned, rulestore.MadeSame, rulestore.MadeSame, ""},
		{"one key", x.Pinned[:1], rulestore.MadeNothing, rulestore.MadeSame, "nobody vouches for it"},
		{"no key", []bundle.Key{{ID: "x", Public: ed25519.NewKeyFromSeed(make([]byte,
			32)).Public().(ed25519.PublicKey)}}, rulestore.MadeNothing, rulestore.MadeNothing,
			rulestore.ErrNoCatalogue.Error()},
	} {
		x.Box, x.Pinned = recordmac.New(), c.pinned
		s, _ = x.Restart()
		got := make(map[string]*rulestore.Comparison)
		if err := s.ReplayPeriod(t.Context(), day,
			func(c *rulestore.Comparison) error { got[c.Code] = c; return nil }); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for code, want := range map[string]string{doubtful.Code: c.doubtful, good.Code: c.other} {
			if m := got[code]; m == nil || m.Result != want || want == rulestore.MadeNothing &&
				!strings.Contains(m.Error, c.why) {
				t.Errorf("%s: %+v, want %s", c.name, m, want)
			}
		}
	}
}
