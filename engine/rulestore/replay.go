package rulestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/rules"
	"dtegate/storage"
)

// replayKeeps is how many compiled bundles a replay keeps ready: a period may name hundreds, a few MiB each.
const replayKeeps = 16

// replayer makes stored documents again, each with the bundle that the document names.
type replayer struct {
	s     *Store
	rules map[string]*rules.Rule
	// compiled is indexed by the digests of bundle and catalogues. A document does not record which catalogues named
	// its taxes: a bundle may have to be compiled with each of the catalogues in turn.
	compiled   map[[2]string]*Rule
	catalogues []*rules.Rule // the latest record first
}

// Replay computes one stored document again, with its own bundle. Errors: refusal.NotFound, or the store's.
func (s *Store) Replay(ctx context.Context, code dte.Code) (*Comparison, error) {
	entry, h, err := record.Read(s.o.Store, storage.Code(code))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, refusal.NotFound(code)
	}
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", code, err)
	}
	d, err := s.readStored(entry, h)
	if err != nil {
		return nil, err
	}
	r, err := s.replayer(ctx)
	if err != nil {
		return nil, err
	}
	return r.replay(ctx, d)
}

// ReplayPeriod computes the documents of a period again, each with its own bundle, and calls fn with each comparison.
// An error of fn ends the replay.
func (s *Store) ReplayPeriod(ctx context.Context, p DocumentPeriod, fn func(*Comparison) error) error {
	r, err := s.replayer(ctx)
	if err != nil {
		return err
	}
	return s.eachDocument(ctx, p, "", func(d *storedDocument) error {
		c, err := r.replay(ctx, d)
		if err != nil {
			return err
		}
		return fn(c)
	})
}

func (s *Store) replayer(ctx context.Context) (*replayer, error) {
	r := &replayer{s: s, rules: make(map[string]*rules.Rule), compiled: make(map[[2]string]*Rule)}
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

// replay computes a document with each of the catalogues in turn, the latest first, until it gets the same bytes.
func (r *replayer) replay(ctx context.Context, d *storedDocument) (*Comparison, error) {
	if len(r.catalogues) == 0 {
		return d.unmade(ErrNoCatalogue), nil
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
		c, err := d.compare(ctx, computed)
		if err != nil {
			return nil, err
		}
		if c.Result == MadeSame {
			return c, d.marks(c)
		}
		first = cmp.Or(first, c)
	}
	return first, nil
}

func (d *storedDocument) unmade(why error) *Comparison {
	c := d.comparison(MadeNothing)
	c.Error = why.Error()
	return c
}

func (r *replayer) compile(ctx context.Context, ref record.RuleRef, catalogue *rules.Rule) (*Rule, error) {
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
	r.compiled[key], err = Compile(bundle, catalogues)
	return r.compiled[key], err
}

// marks checks that a document's contingency form, if any, differs from the normal form only in the marks.
func (d *storedDocument) marks(c *Comparison) error {
	if d.deferred == nil {
		return nil
	}
	again, err := record.ReplaceMarks(d.deferred, record.NormalMarks)
	if err == nil && !bytes.Equal(again, d.document) {
		c.Result, c.Error = MadeLayout, "the contingency form differs from the normal one in more than its marks"
	}
	return err
}

// Made selects documents by the bundle that computed them.
type Made struct {
	Rule string // the bundle's version, or at least the first 8 digits of its digest
	// Name is the rule's name, or "" for every name. Rules of different documents may have the same version.
	Name string
	// From and To limit fecEmi (yyyy-mm-dd, inclusive); "" is no limit.
	From, To string
	// After is the Next of the previous page, or 0 for the first page. Limit is 1 to 5000 documents.
	After uint64
	Limit int
}

// MadeDocument is a document and the bundle that computed it.
type MadeDocument struct {
	ID       uint64         `json:"id"`
	Code     string         `json:"codigoGeneracion"`
	Control  string         `json:"numeroControl"`
	Document string         `json:"tipoDte"`
	Date     string         `json:"fecEmi"`
	Estado   string         `json:"estado"` // "": MH has not decided yet
	Total    string         `json:"total"`
	Sello    string         `json:"selloRecibido"`
	BranchID int64          `json:"sucursal"`
	PointID  int64          `json:"puntoVenta"`
	Origin   string         `json:"documentoRelacionado"` // the original of a note or a return
	Rule     record.RuleRef `json:"rule"`
}

// MadePage is a page of documents, in the order of their ids.
type MadePage struct {
	Documents []MadeDocument `json:"documents"`
	// Next is the After of the next page, or 0 on the last page. A page ends after pageLook records, and may be empty
	// although further pages follow.
	Next uint64 `json:"next"`
	// Looked is how many records were read. Of is the id of the store's last record: Of - Next records remain.
	Looked int    `json:"looked"`
	Of     uint64 `json:"of"`
}

// pageLook limits how many records are read for a page. Reading them takes a second.
const pageLook = 100_000

// digestLeast is how many digits of a bundle's digest are needed to name the bundle.
const digestLeast = 8

// Check returns an error that names the fault of a selection, or nil.
func (m *Made) Check() error {
	if err := (DocumentPeriod{cmp.Or(m.From, "0001-01-01"), cmp.Or(m.To, "9999-12-31")}).Check(); err != nil {
		return err
	}
	switch {
	case !strings.Contains(m.Rule, ".") && (len(m.Rule) < digestLeast ||
		strings.Trim(m.Rule, "0123456789abcdef") != ""):
		return fmt.Errorf("rule: %q is neither a version (2.1.0) nor the first %d digits or more of a digest", m.Rule,
			digestLeast)
	case m.Limit < 1 || m.Limit > 5000:
		return fmt.Errorf("limit: %d is not within 1 and 5000", m.Limit)
	}
	return nil
}

func (m *Made) computed(r record.RuleRef) bool {
	if m.Name != "" && r.Name != m.Name {
		return false
	}
	return r.Version == m.Rule || !strings.Contains(m.Rule, ".") && strings.HasPrefix(r.Digest, m.Rule)
}

// Documents returns a page of the documents that a bundle computed. It reads every record, letting the tills go first:
// an index would need a row for every sale, for a list that people need a few times a year.
func (s *Store) Documents(ctx context.Context, m Made) (*MadePage, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	page := &MadePage{Documents: []MadeDocument{}, Of: s.o.Store.LastID()}
	after, named, rest := m.After, []byte(m.Rule), s.GiveWay(6)
	err := s.o.Store.Records(after, func(entry storage.Entry) error {
		if len(page.Documents) == m.Limit || page.Looked == pageLook {
			page.Next = after
			return record.ErrEnough
		}
		after = entry.ID
		page.Looked++
		rest()
		if err := ctx.Err(); err != nil || !record.IsDocument(entry.State) || !bytes.Contains(entry.Head, named) {
			return err
		}
		h, err := record.DecodeHead(entry)
		if err != nil {
			return err
		}
		if m.computed(h.Rule) && h.Date >= m.From && (m.To == "" || h.Date <= m.To) {
			page.Documents = append(page.Documents, MadeDocument{ID: entry.ID, Code: dte.Code(entry.Code).String(),
				Control: h.ControlNumber, Document: h.Document, Date: h.Date, Estado: record.Estado(entry.State),
				Total: h.Total, Sello: h.Seal(entry.State), BranchID: h.BranchID, PointID: h.PointID, Origin: h.Origin,
				Rule: h.Rule})
		}
		return nil
	})
	if err != nil && !errors.Is(err, record.ErrEnough) {
		return nil, fmt.Errorf("listing the documents of %s: %w", m.Rule, err)
	}
	return page, nil
}
