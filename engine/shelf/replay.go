package shelf

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
	"dtegate/rules"
	"dtegate/storage"
)

// replayKeeps is how many bundles a replay keeps ready. A period may name hundreds, a few MiB each; they come one after the
// other.
const replayKeeps = 16

// replayer makes stored documents again, each with the bundle that it names.
type replayer struct {
	s     *recomputation
	rules map[string]*rules.Rule
	// compiled by digest of the bundle and of the catalogues: names of taxes come of these, and a document does not name them.
	compiled   map[[2]string]*rulebook.Rule
	catalogues []*rules.Rule // the ones in force first, then from the latest on
}

// Replay computes one stored document again, with its own bundle. Errors: the store's ErrNotFound, or any other of the store's.
func (s *recomputation) Replay(ctx context.Context, code dte.Code) (*Comparison, error) {
	entry, err := s.o.Store.Get(storage.Code(code))
	if err == nil && !record.IsDocument(entry.State) {
		err = storage.ErrNotFound
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil, refusal.NotFound(code)
	}
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", code, err)
	}
	d, err := s.readStored(entry)
	if err != nil {
		return nil, err
	}
	r, err := s.replayer(ctx)
	if err != nil {
		return nil, err
	}
	return r.replay(ctx, d)
}

// ReplayPeriod computes the documents of a period again, each with its own bundle, and calls fn with each comparison. An error
// of fn ends it.
func (s *recomputation) ReplayPeriod(ctx context.Context, p DocumentPeriod, fn func(*Comparison) error) error {
	r, err := s.replayer(ctx)
	if err != nil {
		return err
	}
	return s.eachDocument(ctx, p, func(*record.Head) bool { return true }, func(d *storedDocument) error {
		c, err := r.replay(ctx, d)
		if err != nil {
			return err
		}
		return fn(c)
	})
}

func (s *recomputation) replayer(ctx context.Context) (*replayer, error) {
	r := &replayer{s: s, rules: make(map[string]*rules.Rule), compiled: make(map[[2]string]*rulebook.Rule)}
	s.mu.RLock()
	items := s.items
	s.mu.RUnlock()
	for n := len(items) - 1; n >= 0; n-- {
		if items[n].Kind != "catalogue" || items[n].trouble != nil {
			continue
		}
		c, err := r.rule(ctx, items[n].RuleRef)
		if err != nil {
			return nil, err
		}
		r.catalogues = append(r.catalogues, c)
	}
	return r, nil
}

// rule is a stored bundle, ready to run.
func (r *replayer) rule(ctx context.Context, ref record.RuleRef) (*rules.Rule, error) {
	if r.rules[ref.Digest] == nil {
		r.s.mu.RLock()
		live := r.s.loaded[ref.Digest]
		r.s.mu.RUnlock()
		if live == nil {
			var err error
			if live, err = r.s.reopen(ctx, ref); err != nil {
				return nil, err
			}
		}
		r.rules[ref.Digest] = live
	}
	return r.rules[ref.Digest], nil
}

// replay tries the catalogues from the latest on until one gives the same bytes.
func (r *replayer) replay(ctx context.Context, d *storedDocument) (*Comparison, error) {
	if len(r.catalogues) == 0 {
		return d.unmade(rulebook.ErrNoCatalogue), nil
	}
	var first *Comparison
	for _, catalogue := range r.catalogues {
		computed, err := r.compile(ctx, d.head.Rule, catalogue)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, errTroubled) || errors.Is(err, errUnvouched) {
			return d.unmade(err), nil
		}
		if err != nil {
			return nil, err
		}
		c, _, err := d.compare(ctx, computed, nil)
		if err != nil {
			return nil, err
		}
		if c.Result == MadeSame {
			return c, d.marks(c)
		}
		if first == nil {
			first = c
		}
	}
	return first, nil
}

// unmade is the comparison of a document that cannot be made again.
func (d *storedDocument) unmade(why error) *Comparison {
	return &Comparison{Code: dte.Code(d.entry.Code).String(), Control: d.head.ControlNumber, Document: d.head.Document, Date: d.head.Date,
		Rule: d.head.Rule, Result: MadeNothing, Error: why.Error()}
}

func (r *replayer) compile(ctx context.Context, ref record.RuleRef, catalogue *rules.Rule) (*rulebook.Rule, error) {
	key := [2]string{ref.Digest, catalogue.Bundle.Digest}
	if c := r.compiled[key]; c != nil {
		return c, nil
	}
	if len(r.compiled) >= replayKeeps {
		clear(r.compiled)
		clear(r.rules)
	}
	bundle, err := r.rule(ctx, ref)
	if err != nil {
		return nil, err
	}
	catalogues, err := r.s.parseCatalogues(catalogue)
	if err != nil {
		return nil, err
	}
	r.compiled[key], err = rulebook.Compile(bundle, catalogues)
	return r.compiled[key], err
}

// marks holds the contingency form of a document that has both against the normal one: other marks, the same bytes.
func (d *storedDocument) marks(c *Comparison) error {
	if d.deferred == nil {
		return nil
	}
	v, err := dte.Parse(d.deferred)
	if err != nil {
		return fmt.Errorf("reading document %s: %w", c.Code, err)
	}
	var marks []dte.Member
	for _, m := range record.NormalMarks {
		marks = append(marks, dte.Member{Name: m.Name, Value: v.Get("identificacion").Get(m.Name)})
	}
	again, err := record.ReplaceMarks(d.document, marks)
	if err == nil && !bytes.Equal(again, d.deferred) {
		c.Result, c.Error = MadeLayout, "the contingency form differs from the normal one in more than its marks"
	}
	return err
}
