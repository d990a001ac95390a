package rulestore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dtegate/engine/record"
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

// TestStore_View: a type is printed as its highest bundle describes it that has begun and was not taken off; otherwise
// as the highest that has begun. The order of the records does not matter.
func TestStore_View(t *testing.T) {
	now := time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC)
	shelf := func(version, from string, schema int, off bool) *shelved {
		i := &shelved{Admitted: Admitted{RuleRef: record.RuleRef{Version: version}, Document: "01", Schema: schema,
			From: from, Described: &Described{View: &bundle.View{}}}}
		if off {
			i.off = &StepBack{}
		}
		return i
	}
	first, last := shelf("1.0.1", "2026-01-01", 2, false), shelf("1.0.3", "2026-01-01", 2, true)
	for want, items := range map[*shelved][]*shelved{
		first: {shelf("1.0.0", "2026-01-01", 2, false), first, shelf("1.0.2", "2026-01-01", 2, true),
			shelf("1.0.4", "2026-12-01", 2, false), shelf("1.0.5", "2026-01-01", 3, false)},
		last: {shelf("1.0.2", "2026-01-01", 2, true), last},
	} {
		for range items {
			items = append(items[1:], items[0])
			s := &Store{items: items}
			s.o.Now = func() time.Time { return now }
			if got := s.View("01", 2); got != want.Described.View {
				t.Errorf("%s first: not %s", items[0].Version, want.Version)
			}
		}
	}
}

// TestStore_Learn: a type is described by the first authentic bundle in use; a bundle that is not authentic describes
// only a type that no other bundle describes. A contradiction among authentic bundles becomes a note.
func TestStore_Learn(t *testing.T) {
	shelf := func(version, document, name string, trouble *Trouble) *shelved {
		return &shelved{trouble: trouble, Admitted: Admitted{RuleRef: record.RuleRef{Name: "x", Version: version},
			Document: document, Described: &Described{Type: &bundle.Type{Name: name, Effect: bundle.Nothing,
				Form: &bundle.Form{}}}}}
	}
	forged := &Trouble{Why: TroubleUnvouched}
	s := &Store{items: []*shelved{shelf("1.0.0", "92", "forged", forged), shelf("1.0.1", "92", "first", nil),
		shelf("1.0.2", "93", "old", forged), {Admitted: Admitted{Document: "94"}}}}
	other := shelf("1.0.3", "92", "", nil)
	other.Described.Type.Effect = bundle.Credits
	s.items = append(s.items, other)
	for _, document := range []string{"92", "93", "94"} {
		defer record.Forget(document)
	}
	s.learn()
	for document, name := range map[string]string{"92": "first", "93": "old", "94": ""} {
		if got := record.TypeOf(document); got.Name != name || got.Document == "" != (name == "") {
			t.Errorf("%s: got %+v, want %q", document, got, name)
		}
	}
	if len(s.notes) != 1 || !strings.HasPrefix(s.notes[0], "the record of x 1.0.3 describes its type differently") {
		t.Errorf("%q", s.notes)
	}
}
