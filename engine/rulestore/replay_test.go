package rulestore_test

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/enginetest"
	"dtegate/engine/record"
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

// TestDocuments: a bundle's documents of a period are listed page by page, both days included, by its version or the
// first digits of its digest; those of another bundle are not.
func TestDocuments(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	var codes []string
	for day := range 4 {
		if w.Clock.Set(enginetest.Start.AddDate(0, 0, day)); day == 3 {
			enginetest.Push(t, s, enginetest.Edition(t, "2.1.1"))
		}
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		codes = append(codes, w.Issued(enginetest.Sale("", 1130), record.EstadoProcessed).Code)
	}
	digest := onList(s, "2.1.0").Digest
	for _, c := range []struct {
		m    rulestore.Made
		want []int // of codes; nil: it is refused
	}{
		{rulestore.Made{Rule: "2.1.0"}, []int{0, 1, 2}},
		{rulestore.Made{Rule: "2.1.1"}, []int{3}},
		{rulestore.Made{Rule: digest[:8]}, []int{0, 1, 2}},
		{rulestore.Made{Rule: digest, Name: "dte01"}, []int{0, 1, 2}},
		{rulestore.Made{Rule: "2.1.0", Name: "dte03"}, []int{}},
		{rulestore.Made{Rule: "2.1.0", From: "2026-11-22"}, []int{1, 2}},
		{rulestore.Made{Rule: "2.1.0", To: "2026-11-22"}, []int{0, 1}},
		{rulestore.Made{Rule: "2.1.0", From: "2026-11-22", To: "2026-11-22"}, []int{1}},
		{rulestore.Made{Rule: "2.1.0", From: "2026-11-25"}, []int{}},
		{rulestore.Made{Rule: "2.1.9"}, []int{}},
		{rulestore.Made{Rule: digest[:7]}, nil},
		{rulestore.Made{Rule: "DTE-0001"}, nil},
		{rulestore.Made{Rule: "2.1.0", From: "2026-11-22", To: "2026-11-21"}, nil},
		{rulestore.Made{Rule: "2.1.0", From: "22/11/2026"}, nil},
	} {
		got := []int{}
		for c.m.Limit = 1; ; {
			page, err := s.Documents(t.Context(), c.m)
			if err != nil {
				got = nil
				break
			}
			for _, d := range page.Documents {
				got = append(got, slices.Index(codes, d.Code))
			}
			if c.m.After = page.Next; page.Next == 0 {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%+v: %v, want %v", c.m, got, c.want)
		}
	}
	for limit, refused := range map[int]bool{0: true, 1: false, 5000: false, 5001: true} {
		if _, err := s.Documents(t.Context(), rulestore.Made{Rule: "2.1.0", Limit: limit}); (err != nil) != refused {
			t.Errorf("a page of %d: %v", limit, err)
		}
	}
}
