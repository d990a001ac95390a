package rulestore

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dtegate/engine/record"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// days are days around two years before 2026-11-25, and around it.
var days = []string{"2024-11-20", "2024-11-24", "2024-11-25", "2024-11-26", "2024-11-27", "2026-11-23", "2026-11-24",
	"2026-11-25", "2026-11-26", "2026-11-27"}

// note and sale are types of documents with and without an original.
const note, sale = "95", "91"

// someShelf draws bundles of a note and of a sale, in two generations, and events of the same names. No two bundles of
// a document have both the same first day and the same version.
func someShelf(rnd *rand.Rand) (list []*shelved) {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	for n := range 1 + rnd.IntN(7) {
		i := &shelved{Admitted: Admitted{Kind: pick("document", "document", "document", "event"),
			Document: pick(note, note, note, sale), Schema: 3 + rnd.IntN(6)/5, From: pick(days[1:]...)}}
		i.Version, i.Digest = fmt.Sprintf("1.0.%d", 7+rnd.IntN(5)), fmt.Sprint(n)
		if len(list) > 0 && rnd.IntN(3) == 0 {
			i.From = list[0].From
		}
		if rnd.IntN(2) == 0 {
			i.Until = max(i.From, pick(days[1:]...))
		}
		if !slices.ContainsFunc(list, func(o *shelved) bool { return o.sameDocument(i) && o.rank(i) == 0 }) {
			list = append(list, i)
		}
	}
	return list
}

// best returns the bundle that less orders last, among the bundles that which accepts; nil: none.
func best(list []*shelved, which func(*shelved) bool, by func(a, b *shelved) int) *shelved {
	var some []*shelved
	for _, i := range list {
		if which(i) {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return slices.MaxFunc(some, by)
}

// rule returns the rule of a bundle.
func rule(b *Book, i *shelved) *Rule { return b.Compiled(i.Digest) }

// namedOn is the definition of namesOn.
func namedOn(list []*shelved, i *shelved, today string, earlier bool) string {
	dayBefore := func(day string) string {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			panic(err)
		}
		return at.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	switch {
	case i.From > today:
		return i.From
	case earlier:
		return dayBefore(i.From)
	}
	last := today
	for _, o := range list {
		if o.Kind == i.Kind && o.Document == i.Document && i.From < o.From && o.From <= today {
			last = min(last, dayBefore(o.From))
		}
	}
	return last
}

// TestInForce_Choices compares the choices among bundles with their definitions, and the book's choices with the
// store's: a book that lacked a bundle, or that took another, would compute with a wrong rate.
func TestInForce_Choices(t *testing.T) {
	if err := record.Learn(&bundle.Type{Document: note, Effect: bundle.Credits}, &bundle.Type{Document: sale,
		Effect: bundle.Nothing}); err != nil {
		t.Fatal(err)
	}
	defer record.Forget(note)
	defer record.Forget(sale)
	const today = "2026-11-25"
	now := time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC)
	byRank := func(a, b *shelved) int {
		return cmp.Or(cmp.Compare(a.From, b.From), bundle.Compare(a.Version, b.Version))
	}
	end := func(i *shelved) string { return cmp.Or(i.Until, "never") }
	for n := range uint64(2_000) {
		rnd := rand.New(rand.NewPCG(n, 0))
		list := someShelf(rnd)
		kin := func(i, o *shelved) bool { return o.Kind == i.Kind && o.Document == i.Document && o.Schema == i.Schema }
		earlier := func(i *shelved) bool {
			return !slices.ContainsFunc(list, func(o *shelved) bool { return kin(i, o) && o.From < i.From }) &&
				slices.ContainsFunc(list, func(o *shelved) bool {
					return kin(i, o) && o.From == i.From && byRank(o, i) > 0 && end(o) > end(i)
				})
		}
		ruling := func(kind, document, day string) *shelved {
			return best(list, func(o *shelved) bool {
				return o.Kind == kind && o.Document == document && o.From <= day
			}, byRank)
		}
		// A bundle of another ambiente plays no part.
		stranger := &rules.Rule{Bundle: &bundle.Bundle{Manifest: bundle.Manifest{Kind: "document", Document: note,
			Schema: 3, Version: "9.0.0", Validity: map[string]bundle.Window{"01": {From: days[0]}}}}}
		book := &Book{rules: []*rules.Rule{stranger}, compiled: make(map[*rules.Rule]*Rule),
			previous: make(map[string]*Rule)}
		for _, i := range list {
			window := map[string]bundle.Window{"00": {From: i.From, Until: i.Until}}
			r := &rules.Rule{Bundle: &bundle.Bundle{Digest: i.Digest, Manifest: bundle.Manifest{Kind: i.Kind,
				Document: i.Document, Schema: i.Schema, Version: i.Version, Validity: window}}}
			book.rules = append(book.rules, r)
			book.compiled[r] = &Rule{Ref: record.RuleRef{Digest: i.Digest}, Document: i.Document, schema: i.Schema,
				validity: window}
		}
		slices.SortStableFunc(book.rules, func(x, y *rules.Rule) int {
			return bundle.Compare(x.Bundle.Manifest.Version, y.Bundle.Manifest.Version)
		})
		standIn := make(map[string]*shelved) // by the digest of a rule that fails
		for _, i := range list {
			before := best(list, func(o *shelved) bool { return kin(i, o) && byRank(o, i) < 0 && !earlier(o) }, byRank)
			if got := lastGoodBefore(list, i); got != before {
				t.Fatalf("shelf %d: the last good bundle before %s: got %+v, want %+v", n, i.Digest, got, before)
			}
			if got := forEarlier(list, i); got != earlier(i) {
				t.Fatalf("shelf %d: %s is for earlier originals: %v", n, i.Digest, got)
			}
			if got, want := namesOn(list, i, today), namedOn(list, i, today, earlier(i)); got != want {
				t.Fatalf("shelf %d: the taxes of %s are named as on %s, not on %s", n, i.Digest, got, want)
			}
			if before != nil {
				book.previous[i.Digest] = rule(book, before)
			}
			if rnd.IntN(3) == 0 {
				rule(book, i).Suspend()
				standIn[i.Digest] = before
			}
			if rule(book, i).HoldsOn("01", i.From) {
				t.Fatalf("shelf %d: %s holds in an ambiente for which it has no dates", n, i.Digest)
			}
		}
		// computes returns the bundle that computes a day's documents when i is in force.
		computes := func(i *shelved, day string) *shelved {
			if p := standIn[i.Digest]; p != nil && p.From <= day && day <= end(p) {
				return p
			}
			return i
		}
		for _, document := range []string{sale, note} {
			for _, day := range days {
				want := ruling("document", document, day)
				got, err := book.Pick(document, "00", day)
				if want == nil && !errors.Is(err, ErrNoRule) || want != nil && (err != nil ||
					got.Ref.Digest != computes(want, day).Digest) {
					t.Fatalf("shelf %d: %s on %s: %+v, %v; want %+v", n, document, day, got, err, want)
				}
			}
			first := best(list, func(o *shelved) bool { return o.Kind == "document" && o.Document == document },
				func(a, b *shelved) int { return cmp.Compare(b.From, a.From) })
			if got := book.Begins(document, "00"); first != nil && got != first.From || first == nil && got != "" {
				t.Fatalf("shelf %d: %s begins on %q, want %+v", n, document, got, first)
			}
		}
		// The originals of notes: each day of the two years, in the generation of today's rule.
		wanted := wantedBundles(list, now)
		for _, i := range list {
			needed := ruling(i.Kind, i.Document, "2026-11-24") == i || ruling(i.Kind, i.Document, today) == i ||
				i.From > today && ruling(i.Kind, i.Document, i.From) == i
			goesOn := i.Kind == "document" && i.Document == note && slices.ContainsFunc(list, func(o *shelved) bool {
				return kin(i, o) && (ruling(o.Kind, o.Document, today) == o || o.From > today)
			})
			for _, on := range days {
				want := cmp.Or(best(list, func(o *shelved) bool { return kin(i, o) && o.From <= on }, byRank),
					best(list, func(o *shelved) bool { return kin(i, o) }, func(a, b *shelved) int {
						return cmp.Or(cmp.Compare(b.From, a.From), cmp.Compare(end(b), end(a)), bundle.Compare(a.Version,
							b.Version))
					}))
				if got := book.Original(rule(book, i), "00", on); i.Kind == "document" &&
					got.Ref.Digest != computes(want, on).Digest {
					t.Fatalf("shelf %d: the original of %s on %s: got %+v, want %+v", n, i.Digest, on, got, want)
				}
				needed = needed || goesOn && want == i && "2024-11-25" <= on && i.From <= on && on <= today
			}
			needed = needed || goesOn && earlier(i) && i.From <= today
			if got := slices.Contains(wanted, i); got != needed {
				t.Fatalf("shelf %d: %+v is wanted: %v", n, i.Admitted, got)
			}
		}
	}
}

// TestDates: whether a pushed bundle will ever be in force, and what an operator should know of the days before.
func TestDates(t *testing.T) {
	s := New(Options{Ambiente: "01", Now: func() time.Time { return time.Date(2026, 11, 25, 18, 0, 0, 0, time.UTC) }})
	shelf := func(version, from, until string) *shelved {
		return &shelved{Admitted: Admitted{RuleRef: record.RuleRef{Name: "cat", Version: version, Digest: version + from},
			Kind: "catalogue", Document: "cat", From: from, Until: until}}
	}
	s.items = []*shelved{shelf("1.0.5", "2026-11-01", ""), shelf("1.0.6", "2026-12-10", ""),
		shelf("2.0.0", "2026-12-20", "")}
	const lower = "; warning: the lower version 1.0.6 takes over on 2026-12-10: if it must not, cancel it, or push a " +
		"higher version for that day"
	for _, c := range []struct{ version, from, until, want string }{
		{"1.0.7", "2026-11-25", "", "in force since 2026-11-25" + lower},
		{"1.0.7", "2026-11-26", "", "takes over on 2026-11-26" + lower},
		{"1.0.7", "2026-12-10", "", "takes over on 2026-12-10"},
		{"1.0.7", "2026-12-11", "", "takes over on 2026-12-11" + lower},
		{"1.0.7", "2026-11-02", "2026-11-25", "in force since 2026-11-02" + lower},
		{"1.0.7", "2026-11-02", "2026-11-24", "validity.01.until: it was over on 2026-11-24"},
		{"1.0.7", "2026-10-31", "", "validity.01.from: it would never be in force: cat 1.0.5 begins on 2026-11-01"},
		{"1.0.4", "2026-12-10", "", "validity.01.from: it would never be in force: cat 1.0.6 begins on 2026-12-10"},
		{"1.0.6", "2026-12-11", "", "version: 1.0.6 was here before: a version names one bundle for ever"},
		{"1.0.7", "", "", "validity.01: the manifest has no dates for this ambiente"},
	} {
		m := bundle.Manifest{Name: "cat", Version: c.version, Kind: "catalogue", Document: "cat"}
		if c.from != "" {
			m.Validity = map[string]bundle.Window{"01": {From: c.from, Until: c.until}}
		}
		i := shelf(c.version, c.from, c.until)
		got, err := s.dates(&rules.Rule{Bundle: &bundle.Bundle{Manifest: m, Digest: i.Digest}}, i, append(s.computable(), i))
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s from %q until %q: %q, want %q", c.version, c.from, c.until, got, c.want)
		}
	}
}
