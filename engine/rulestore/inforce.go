package rulestore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/rules"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// floor returns the version that a new bundle must exceed: the highest version of its generation that has begun here or
// will have begun on the bundle's first day; "": none. Otherwise an old version could return unnoticed on a later day.
// A version that begins after the new bundle does not block a correction for today. A version taken off counts only if
// it had begun by then and one of its signers' keys is still pinned: a thief with a stolen key could have signed the
// highest possible version.
func (s *Store) floor(m *bundle.Manifest) (floor string) {
	signed := func(i *shelved) bool {
		return slices.ContainsFunc(s.o.Keys.Pinned, func(k bundle.Key) bool { return slices.Contains(i.Signers, k.ID) })
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range s.items {
		last := max(s.today(), m.Validity[s.o.Ambiente].From)
		if i.off != nil {
			last = dte.Date(i.off.At)
		}
		if i.counts() && i.ofGeneration(m) && i.From <= last && (i.off == nil || signed(i)) && (floor == "" ||
			bundle.Compare(i.Version, floor) > 0) {
			floor = i.Version
		}
	}
	return floor
}

// knowsVersion reports whether the same version was admitted before, with the same bytes or with others.
func (s *Store) knowsVersion(m *bundle.Manifest) bool {
	return s.find(func(i *shelved) bool { return i.counts() && i.ofGeneration(m) && i.Version == m.Version }) != nil
}

func (i *shelved) expired(day string) bool { return i.Until != "" && i.Until < day }

// counts reports whether a record is authentic. No other record counts: a forgery could block every later version.
func (i *shelved) counts() bool {
	return i.trouble == nil || i.trouble.Why == TroubleDamaged && i.word == recordmac.Own
}

// computable lists the stored bundles that may be used, in the order of their records.
func (s *Store) computable() []*shelved {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(s.items), func(i *shelved) bool { return i.off != nil || i.trouble != nil })
}

// inForce returns the bundle that is in force on a day for the kind and document of another bundle (like), or nil.
func inForce(list []*shelved, like *shelved, day string) (best *shelved) {
	for _, i := range list {
		if i.sameDocument(like) && i.From <= day && (best == nil || i.rank(best) > 0) {
			best = i
		}
	}
	return best
}

// wantedBundles returns the bundles in force on the day or later, on the day before (a sale may have read the clock
// just before midnight), and for originals (see ofOriginals).
func wantedBundles(list []*shelved, day time.Time) (wanted []*shelved) {
	for _, i := range list {
		if inForce(list, i, dte.Date(day.AddDate(0, 0, -1))) == i || inForce(list, i, dte.Date(day)) == i ||
			i.From > dte.Date(day) && inForce(list, i, i.From) == i || ofOriginals(list, i, day) {
			wanted = append(wanted, i)
		}
	}
	return wanted
}

// longestReturn is the most years from an original to the issue of a note or return (MF2 p.27).
const longestReturn = 2

// ofOriginals reports whether a bundle computes today's notes or returns for originals of the last two years: its
// generation is used today or later, and the bundle was its best on one of these days or serves only earlier originals.
func ofOriginals(list []*shelved, i *shelved, now time.Time) bool {
	if i.Kind != "document" || record.TypeOf(i.Document).Effect == bundle.Nothing {
		return false
	}
	today := dte.Date(now)
	day := max(i.From, dte.Date(now.AddDate(-longestReturn, 0, 0)))
	goesOn := slices.ContainsFunc(list, func(o *shelved) bool {
		return o.sameGeneration(i) && (inForce(list, o, today) == o || o.From > today)
	})
	return goesOn && day <= today && (forEarlier(list, i) || !slices.ContainsFunc(list, func(o *shelved) bool {
		return o.sameGeneration(i) && o.From <= day && o.rank(i) > 0
	}))
}

// forEarlier reports whether a bundle serves only originals from before its generation: it begins on the generation's
// first day, and a bundle of a higher version begins on that day too and ends later. Such a bundle is never in force.
func forEarlier(list []*shelved, i *shelved) bool {
	replaced := false
	for _, o := range list {
		switch {
		case !o.sameGeneration(i):
		case o.From < i.From:
			return false
		case o.From == i.From && o.rank(i) > 0 && i.Until != "" && (o.Until == "" || o.Until > i.Until):
			replaced = true
		}
	}
	return replaced
}

// namesOn returns the day whose catalogues name the taxes of bundle i: its first day, if that is in the future; the day
// before it, if i serves only earlier originals (see forEarlier); the day before a later bundle replaced i; or today.
func namesOn(list []*shelved, i *shelved, today string) string {
	if i.From > today {
		return i.From
	}
	if begins, err := time.Parse(time.DateOnly, i.From); err == nil && forEarlier(list, i) {
		return begins.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	last := today
	for _, o := range list {
		if o.sameDocument(i) && o.rank(i) > 0 && o.From > i.From && o.From <= last {
			if begins, err := time.Parse(time.DateOnly, o.From); err == nil {
				last = begins.AddDate(0, 0, -1).Format(time.DateOnly)
			}
		}
	}
	return last
}

// lastGoodBefore returns the bundle of the same generation that computes the sales when i fails, or nil.
func lastGoodBefore(list []*shelved, i *shelved) (best *shelved) {
	for _, o := range list {
		if o.sameGeneration(i) && o.From <= i.From && o.rank(i) < 0 && !forEarlier(list, o) && (best == nil ||
			o.rank(best) > 0) {
			best = o
		}
	}
	return best
}

// warm loads in parallel, at a start, the bundles that assemble will load. It leaves errors to assemble.
func (s *Store) warm(ctx context.Context) {
	defer s.o.Host.Starting()()
	on := s.computable()
	wanted := wantedBundles(on, s.o.Now())
	for _, i := range wanted {
		if p := lastGoodBefore(on, i); p != nil && i.Kind == "document" && !slices.Contains(wanted, p) {
			wanted = append(wanted, p)
		}
	}
	cores := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for _, i := range wanted {
		cores <- struct{}{}
		wg.Go(func() {
			defer func() { <-cores }()
			_, _ = s.rule(ctx, i)
		})
	}
	wg.Wait()
}

// assemble makes the book of a day from the bundles in a list (on). An error that one bundle causes is a *BundleError.
func (s *Store) assemble(ctx context.Context, on []*shelved, day time.Time) (*Book, error) {
	var catalogue *rules.Rule
	var live []*rules.Rule
	previous := make(map[string]*rules.Rule)
	for _, i := range wantedBundles(on, day) {
		if o := twin(on, i); o != nil {
			return nil, &BundleError{Digest: i.Digest, Err: fmt.Errorf("another bundle (%.12s) of %s %s came first",
				o.Digest, o.Name, o.Version)}
		}
		r, err := s.rule(ctx, i)
		if err != nil {
			return nil, &BundleError{Digest: i.Digest, Err: err}
		}
		live = append(live, r)
		if i.Kind == "catalogue" && (catalogue == nil || inForce(on, i, dte.Date(day)) == i) {
			if _, err := s.parseCatalogues(r); err != nil {
				return nil, &BundleError{Digest: i.Digest, Err: err}
			}
			catalogue = r
		}
		if p := lastGoodBefore(on, i); p != nil && i.Kind == "document" {
			if previous[i.Digest], err = s.rule(ctx, p); err != nil {
				return nil, &BundleError{Digest: p.Digest, Err: err}
			}
		}
	}
	if catalogue == nil {
		return nil, ErrNoCatalogue
	}
	c, err := s.parseCatalogues(catalogue)
	if err != nil {
		return nil, err
	}
	named, err := s.named(ctx, on, catalogue, dte.Date(day))
	if err != nil {
		return nil, err
	}
	return NewBook(live, previous, c, named, s.book.Load())
}

// named returns, by the bundle's digest, the catalogues of each document or event whose taxes and codes the catalogues
// of the book's day do not name (see namesOn). current is the catalogue bundle of that day.
func (s *Store) named(ctx context.Context, on []*shelved, current *rules.Rule, day string) (map[string]*dte.Catalogues,
	error) {
	named := make(map[string]*dte.Catalogues)
	like := &shelved{Admitted: Admitted{Kind: current.Bundle.Manifest.Kind, Document: current.Bundle.Manifest.Document}}
	for _, i := range on {
		if i.Kind == "catalogue" {
			continue
		}
		other := inForce(on, like, namesOn(on, i, day))
		if other == nil || other.Digest == current.Bundle.Digest {
			continue
		}
		r, err := s.rule(ctx, other)
		if err == nil {
			named[i.Digest], err = s.parseCatalogues(r)
		}
		if err != nil {
			return nil, &BundleError{Digest: other.Digest, Err: err}
		}
	}
	return named, nil
}

// publish makes a book live and forgets the rules that the book does not need; unreferenced modules are closed.
func (s *Store) publish(b *Book) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := record.Learn(b.Types(s.o.Ambiente, s.today())...); err != nil {
		// should not happen: Compile refuses such a rule
		s.o.Logger.Error("the rules in force describe a type differently than before", "error", err)
	}
	s.book.Store(b)
	held := b.Digests()
	maps.DeleteFunc(s.loaded, func(digest string, _ *rules.Rule) bool { return !held[digest] })
	maps.DeleteFunc(s.catalogues, func(digest string, _ *dte.Catalogues) bool { return !held[digest] })
}

func (s *Store) rule(ctx context.Context, i *shelved) (*rules.Rule, error) {
	s.mu.RLock()
	r := s.loaded[i.Digest]
	s.mu.RUnlock()
	if r != nil {
		return r, nil
	}
	r, err := s.load(ctx, i)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded[i.Digest] = r
	return r, nil
}

func (s *Store) load(ctx context.Context, i *shelved) (*rules.Rule, error) {
	b, err := s.openBundle(i)
	if err != nil {
		return nil, err
	}
	r, err := s.o.Host.LoadBundle(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("loading the stored bundle %s %s: %w", i.Name, i.Version, err)
	}
	r.Forget()
	return r, nil
}

// PickPast returns the rule of a document type on a past day. The live book may lack that rule: see wantedBundles.
func (s *Store) PickPast(ctx context.Context, document, day string) (*Rule, error) {
	at, err := time.ParseInLocation(time.DateOnly, day, dte.Zone)
	if err != nil {
		return nil, ErrNoRule
	}
	book, err := s.assemble(ctx, s.computable(), at)
	if err != nil {
		return nil, err
	}
	return book.Pick(document, s.o.Ambiente, day)
}

// DescribedBy returns the document type as the bundle with the given digest describes it, or nil.
func (s *Store) DescribedBy(digest string) *bundle.Type {
	if r := s.book.Load().Compiled(digest); r != nil {
		return r.Type
	}
	if i := s.find(func(i *shelved) bool { return i.Digest == digest }); i != nil && i.Described != nil {
		return i.Described.Type
	}
	return nil
}

// TypeOn returns a document type as the bundle describes it that was in force on a past day. It opens a bundle that the
// book lacks, because records lack the type's form. It returns nil if there is no such bundle that can be opened.
func (s *Store) TypeOn(document, day string) (t *bundle.Type) {
	book := s.book.Load()
	if r, err := book.inForce("document", document, s.o.Ambiente, day); err == nil {
		return book.compiled[r].Type
	}
	if i := inForce(s.computable(), &shelved{Admitted: Admitted{Kind: "document", Document: document}}, day); i != nil {
		if b, err := s.openBundle(i); err == nil {
			t, _ = bundle.ParseType(document, b.Parts) // cannot fail: the bundle was compiled before
		}
	}
	return t
}

// View returns what the printed version of a type shows in a generation of its layout, or nil: the view of the
// generation's latest bundle that has begun, preferably of one that was not taken off; otherwise the type's own view.
func (s *Store) View(document string, generation int64) *bundle.View {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var best *shelved
	for _, i := range s.items {
		if i.Document == document && int64(i.Schema) == generation && i.Described != nil && i.counts() &&
			i.From <= s.today() && (best == nil || best.off != nil && i.off == nil ||
			(best.off == nil) == (i.off == nil) && i.rank(best) > 0) {
			best = i
		}
	}
	if best == nil {
		return record.TypeOf(document).View
	}
	return best.Described.View
}

// reopen loads a stored bundle that a document names. errTroubled: the bundle may not be used.
func (s *Store) reopen(ctx context.Context, ref record.RuleRef) (*rules.Rule, error) {
	i := s.find(func(i *shelved) bool { return i.Digest == ref.Digest })
	if i == nil {
		return nil, fmt.Errorf("reading the bundle %s %s (%.12s): %w", ref.Name, ref.Version, ref.Digest,
			storage.ErrNotFound)
	}
	if i.trouble != nil {
		return nil, fmt.Errorf("%w: %s", errTroubled, i.trouble.Text)
	}
	return s.load(ctx, i)
}

var errTroubled = errors.New("the bundle may not compute")

// CodeOf returns the code of a bundle's record: the first half of the bundle's digest.
func CodeOf(digest string) (code storage.Code, err error) {
	b, err := hex.DecodeString(digest)
	if err != nil || len(b) != 32 {
		return code, fmt.Errorf("%q is not the digest of a bundle", digest)
	}
	return storage.Code(b[:16]), nil
}

func (s *Store) parseCatalogues(r *rules.Rule) (*dte.Catalogues, error) {
	s.mu.RLock()
	c := s.catalogues[r.Bundle.Digest]
	s.mu.RUnlock()
	if c != nil {
		return c, nil
	}
	c, err := dte.ParseCatalogues(r.Bundle.Parts["catalogues.json"])
	if err != nil {
		return nil, fmt.Errorf("reading catalogues %s: %w", r.Bundle.Manifest.Version, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalogues[r.Bundle.Digest] = c
	return c, nil
}
