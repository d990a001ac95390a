package engine

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
)

// This file tells everything that is wrong with a request at once. A request that the gateway could not read whole goes
// to Check; one that it could read is refused by compute and draw, which collect likewise.

// Check returns what is wrong with the facts of a request: what the schema refuses, what the origin forbids, and, if
// every amount that the rule reads is known, what the rule refuses. It takes no number and stores nothing.
func (e *Engine) Check(ctx context.Context, req Request) []dte.Fault {
	now := e.now()
	rule, err := e.rules().Pick(req.Document, e.issuer.Ambiente, dte.Date(now))
	if err != nil {
		return nil
	}
	d, err := e.newDraft(req, now)
	if err != nil {
		return refusal.Faults(err)
	}
	var o *origin
	var faults []dte.Fault
	if record.TypeOf(req.Document).Effect != bundle.Nothing {
		if req.Origin == nil || req.Origin.Code == (dte.Code{}) {
			return nil // not known: nothing to compare with
		}
		if o, err = e.findOrigin(ctx, d); err != nil {
			return refusal.Faults(err)
		}
		rule, d.ruleDay = e.rules().Original(rule, e.issuer.Ambiente, o.head.Date), o.head.Date
		if err := e.completeDraft(d, o); err != nil {
			if faults = refusal.Faults(err); record.TypeOf(req.Document).Effect == bundle.TakesBack {
				return append(faults, e.besideLines(rule, d, o)...)
			}
		}
	}
	if !rule.CanAddUp(req.Unread) {
		late := laterThanIssue(d)
		return append(append(faults, late...), e.breaches(rule, d, late)...)
	}
	computed, err := e.amounts(ctx, rule, d, o, faults)
	if err == nil {
		_, err = e.fill(d, computed)
		computed.Free()
	}
	return refusal.Faults(err)
}

// Validation is what a sale would come to: nothing is stored of it, and no number is spent.
type Validation struct {
	Document string // CAT-002
	Total    string // USD, two decimals
	JSON     []byte // the document as it would be signed, with a code and a number that it does not have
	Warnings []string
}

// Validate computes a sale as Issue would do it now. Its errors are those of Issue, *refusal.Error. What a note or a
// return may still take of its origin is as of this moment: another till may take it before the sale.
func (e *Engine) Validate(ctx context.Context, req Request) (*Validation, error) {
	end, err := e.turn(ctx, req)
	if err != nil {
		return nil, err
	}
	defer end()
	d, err := e.makeDraft(req)
	if err != nil {
		return nil, err
	}
	defer d.free()
	period, release := e.contingency.Hold()
	release()
	if period != nil {
		d.putInPeriod(period)
	}
	if req.Origin != nil {
		d.from, d.computed, err = e.computeAgainst(ctx, d.rule, d)
	} else {
		d.computed, err = e.compute(ctx, d.rule, d)
	}
	if err != nil {
		return nil, notStored(err)
	}
	made, err := e.fill(d, d.computed)
	if err != nil {
		return nil, err
	}
	total := dte.Amount(d.computed.Computed.Summary[d.computed.Rule.Total]).Fixed2()
	return &Validation{Document: req.Document, Total: total, JSON: bytes.Clone(made.document),
		Warnings: slices.Concat(req.Warnings, d.computed.Warnings)}, nil
}

// amounts computes a draft and what it takes of its origin o, if it has one. If anything is wrong, the error names all
// of it: the faults known so far, the rule's, the origin's and the layout's.
func (e *Engine) amounts(ctx context.Context, r *rulestore.Rule, d *draft, o *origin,
	faults []dte.Fault) (*rulestore.Evaluation, error) {
	computed, err := e.compute(ctx, r, d)
	if err != nil {
		if found := refusal.Faults(err); len(found) > 0 {
			return nil, refusal.Of(append(faults, found...))
		}
		return nil, err
	}
	if o != nil {
		if err := e.drawn(d, o, computed.Rule, computed); err != nil {
			found := refusal.Faults(err)
			if len(found) == 0 {
				computed.Free()
				return nil, err
			}
			faults = append(faults, found...)
		}
	}
	if len(faults) == 0 {
		return computed, nil
	}
	_, err = e.fill(d, computed)
	computed.Free()
	return nil, refusal.Of(append(faults, refusal.Faults(err)...))
}

// besideLines is what the layout refuses of a return beside its lines, of which some do not exist.
func (e *Engine) besideLines(r *rulestore.Rule, d *draft, o *origin) (faults []dte.Fault) {
	if e.completeReturn(d, o, nil) != nil {
		return nil
	}
	for _, f := range e.breaches(r, d, nil) {
		if strings.HasPrefix(f.Path, "apendice") {
			faults = append(faults, f)
		}
	}
	return faults
}

// breaches is what the layout refuses of a draft, less the paths that known faults name already.
func (e *Engine) breaches(r *rulestore.Rule, d *draft, known []dte.Fault) []dte.Fault {
	_, found, _ := r.Fill(nil, d.facts, nil, d.filling())
	named := make(map[string]bool, len(known))
	for _, f := range known {
		named[f.Path] = true
	}
	faults := found[:0]
	for _, f := range found {
		if !named[f.Path] {
			faults = append(faults, f)
		}
	}
	return faults
}
