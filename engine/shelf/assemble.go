package shelf

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/rulebook"
	"dtegate/rules"
	"dtegate/storage"
)

// noRules is the generation of a branch that cannot issue.
var noRules, _ = rules.NewGeneration()

// compiler makes what is in force of what is on the shelf.
type compiler struct{ *state }

// warm loads at a start what assemble will ask for, side by side. What is wrong with one of them is found again, and told, by
// assemble.
func (s *compiler) warm(ctx context.Context) {
	defer s.o.Host.Starting()()
	on := s.computable()
	wanted := s.wantedBundles(on)
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

// assemble makes the book of what is on the shelf. What one bundle is the cause of is a *ruleError.
func (s *compiler) assemble(ctx context.Context, on []*shelved) (*rulebook.Book, error) {
	var catalogue *rules.Rule
	var live []*rules.Rule
	previous := make(map[string]*rules.Rule)
	for _, i := range s.wantedBundles(on) {
		if o := twin(on, i); o != nil {
			return nil, &rulebook.Error{Digest: i.Digest, Err: fmt.Errorf("another bundle (%.12s) of %s %s came first", o.Digest, o.Name, o.Version)}
		}
		r, err := s.rule(ctx, i)
		if err != nil {
			return nil, &rulebook.Error{Digest: i.Digest, Err: err}
		}
		live = append(live, r)
		if i.Kind == "catalogue" && (catalogue == nil || inForce(on, i, s.today()) == i) {
			if _, err := s.parseCatalogues(r); err != nil {
				return nil, &rulebook.Error{Digest: i.Digest, Err: err}
			}
			catalogue = r
		}
		if p := lastGoodBefore(on, i); p != nil && i.Kind == "document" {
			if previous[i.Digest], err = s.rule(ctx, p); err != nil {
				return nil, &rulebook.Error{Digest: p.Digest, Err: err}
			}
		}
	}
	if catalogue == nil {
		return nil, rulebook.ErrNoCatalogue
	}
	c, err := s.parseCatalogues(catalogue)
	if err != nil {
		return nil, err
	}
	g, err := rules.NewGeneration(live...)
	if err != nil {
		return nil, err
	}
	named, err := s.named(ctx, on, catalogue)
	if err != nil {
		return nil, err
	}
	return rulebook.New(g, previous, c, named, s.book.Load())
}

// named are the catalogues of the bundles whose names of taxes are of another day than today, by their digest. current are today's.
func (s *compiler) named(ctx context.Context, on []*shelved, current *rules.Rule) (map[string]*dte.Catalogues, error) {
	named := make(map[string]*dte.Catalogues)
	like := &shelved{Admitted: Admitted{Kind: current.Bundle.Manifest.Kind, Document: current.Bundle.Manifest.Document}}
	for _, i := range on {
		if i.Kind != "document" {
			continue
		}
		other := inForce(on, like, namesOn(on, i, s.today()))
		if other == nil || other.Digest == current.Bundle.Digest {
			continue
		}
		r, err := s.rule(ctx, other)
		if err == nil {
			named[i.Digest], err = s.parseCatalogues(r)
		}
		if err != nil {
			return nil, &rulebook.Error{Digest: other.Digest, Err: err}
		}
	}
	return named, nil
}

// publish makes a book the live one, and lets go of what it does not need: what a request still holds is closed behind it.
func (s *compiler) publish(b *rulebook.Book) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.Store(b)
	held := b.Digests()
	maps.DeleteFunc(s.loaded, func(digest string, _ *rules.Rule) bool { return !held[digest] })
	maps.DeleteFunc(s.catalogues, func(digest string, _ *dte.Catalogues) bool { return !held[digest] })
}

// rule is a bundle of the shelf, ready to run.
func (s *compiler) rule(ctx context.Context, i *shelved) (*rules.Rule, error) {
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

// load opens a bundle of the shelf and loads it.
func (s *compiler) load(ctx context.Context, i *shelved) (*rules.Rule, error) {
	b, _, err := s.openBundle(i)
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

// reopen loads a stored bundle that a document names. Of one that may not compute it says so.
func (s *compiler) reopen(ctx context.Context, ref record.RuleRef) (*rules.Rule, error) {
	i := s.find(func(i *shelved) bool { return i.Digest == ref.Digest })
	if i == nil {
		return nil, fmt.Errorf("reading the bundle %s %s (%.12s): %w", ref.Name, ref.Version, ref.Digest, storage.ErrNotFound)
	}
	if i.trouble != nil {
		return nil, fmt.Errorf("%w: %s", errTroubled, i.trouble.Text)
	}
	return s.load(ctx, i)
}

// errTroubled means that a stored bundle may not compute.
var errTroubled = errors.New("the bundle may not compute")

// CodeOf returns the code of a bundle's record: the first half of the bundle's digest.
func CodeOf(digest string) (code storage.Code, err error) {
	b, err := hex.DecodeString(digest)
	if err != nil || len(b) != 32 {
		return code, fmt.Errorf("%q is no digest of a bundle", digest)
	}
	return storage.Code(b[:16]), nil
}

func (s *compiler) parseCatalogues(r *rules.Rule) (*dte.Catalogues, error) {
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
