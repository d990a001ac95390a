package shelf

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/engine/rulebook"
	"dtegate/storage"
)

// recomputation computes stored documents again.
type recomputation struct {
	*state
	*compiler
	*admission
}

// storedDocument is a document of the store with what it was made of.
type storedDocument struct {
	entry storage.Entry
	head  *record.Head
	facts dte.Value
	// document is what the facts were filled to: the normal form, the contingency form of one that has no other, or the
	// last correction.
	document []byte
	// deferred is the contingency form of a document that has both; else nil.
	deferred []byte
}

// readStored reads what a document was made of.
func (s *recomputation) readStored(entry storage.Entry) (*storedDocument, error) {
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, err
	}
	list, err := s.o.Store.Parts(entry.Code)
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", dte.Code(entry.Code), err)
	}
	return assemble(entry, h, list)
}

func assemble(entry storage.Entry, h *record.Head, list []storage.Part) (d *storedDocument, err error) {
	parts := make(map[string][]byte, len(list))
	for _, p := range list {
		parts[p.Name] = p.Data
	}
	d = &storedDocument{entry: entry, head: h}
	if d.facts, err = dte.Parse(parts[h.FactsPart()]); err != nil {
		return nil, fmt.Errorf("reading facts of %s: %w", dte.Code(entry.Code), err)
	}
	normal, deferred := parts[record.FormNormal], parts[record.FormContingency]
	switch {
	case strings.HasPrefix(h.Form, record.FormCorrection):
		normal, deferred = parts[h.Form], nil
	case normal == nil:
		normal, deferred = deferred, nil
	}
	if d.document, err = record.Payload(normal); err == nil && deferred != nil {
		d.deferred, err = record.Payload(deferred)
	}
	return d, err
}

// Findings of a comparison.
const (
	MadeSame    = "identical"
	MadeOther   = "amounts"   // numbers differ
	MadeLayout  = "layout"    // every number is the same, other bytes differ
	MadeRefused = "refused"   // the rule refuses what was sold
	MadeFailed  = "failed"    // the rule failed
	MadeNothing = "no bundle" // the document's bundle is not in the store, or may not compute
)

// Comparison compares a stored document with what a rule computes from its facts.
type Comparison struct {
	Code        string                `json:"code"`
	Control     string                `json:"control"`
	Document    string                `json:"document"`
	Date        string                `json:"date"`
	Rule        record.RuleRef        `json:"rule"` // that computed it
	Result      string                `json:"result"`
	Differences []rulebook.Difference `json:"differences,omitempty"`
	Error       string                `json:"error,omitempty"`
}

// compare makes a stored document again. buffer is scratch, and comes back grown.
func (d *storedDocument) compare(ctx context.Context, r *rulebook.Rule, buffer []byte) (*Comparison, []byte, error) {
	c := &Comparison{Code: dte.Code(d.entry.Code).String(), Control: d.head.ControlNumber, Document: d.head.Document, Date: d.head.Date,
		Rule: d.head.Rule, Result: MadeSame}
	made, faults, err := r.Remake(ctx, buffer[:0], d.facts, schema.FillOptions{})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, buffer, ctx.Err()
	case err != nil:
		c.Result, c.Error = MadeFailed, err.Error()
		return c, buffer, nil
	case len(faults) > 0:
		c.Result, c.Error = MadeRefused, faults[0].Error()
		return c, buffer, nil
	case bytes.Equal(made, d.document):
		return c, made, nil
	}
	was, err := dte.Parse(d.document)
	if err != nil {
		return nil, made, fmt.Errorf("reading document %s: %w", c.Code, err)
	}
	now, err := dte.Parse(made)
	if err != nil {
		return nil, made, fmt.Errorf("reading what was made of %s: %w", c.Code, err)
	}
	c.Result = MadeLayout
	if c.Differences = rulebook.Differences(was, now); len(c.Differences) > 0 {
		c.Result = MadeOther
	}
	return c, made, nil
}
