package engine

import (
	"bytes"
	"context"
	"slices"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
)

// This file reports all the faults of a request at once. Check gets the requests that the gateway cannot read
// completely. For others, Engine.compute and Engine.drawn collect all faults.

// Check returns the faults of a request's facts against the schema and the origin. If every amount that the rule reads
// is known, Check adds the rule's faults. Check spends no number and stores nothing.
func (e *Engine) Check(ctx context.Context, req Request) []dte.Fault {
	d, err := e.makeDraft(req)
	if err != nil {
		return refusal.Faults(err)
	}
	if record.TypeOf(req.Document).Effect != bundle.Nothing && (req.Origin == nil || req.Origin.Code == (dte.Code{})) {
		return nil // the origin is unknown: nothing to compare with
	}
	faults, err := e.complete(ctx, d)
	if err != nil {
		return refusal.Faults(err)
	}
	if !d.rule.CanAddUp(req.Unread) {
		misnamed := misnamedDocuments(d)
		return append(append(faults, misnamed...), e.breaches(d.rule, d, misnamed)...)
	}
	computed, err := e.amounts(ctx, d, faults)
	if err == nil {
		_, err = e.fill(d, computed)
		computed.Free()
	}
	return refusal.Faults(err)
}

// Validation is the result that a sale would have. Nothing is stored, and no number is spent.
type Validation struct {
	Document string // CAT-002
	Total    string // USD, two decimals
	JSON     []byte // the document as it would be signed; its code and number are placeholders
	Warnings []string
}

// Validate computes a sale as Issue would do it now. Errors are *refusal.Error, as for Issue. Issue may still refuse
// the sale: Validate does not call Options.Gate, and another till may use what is left of the origin.
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
	if period := e.contingency.Current(); period != nil {
		if err := e.putInPeriod(d, period); err != nil {
			return nil, err
		}
	}
	if err := e.computeAgainst(ctx, d); err != nil {
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

// amounts computes a draft and its draws on its origin, if any. It refuses the draft for the given faults and its own.
func (e *Engine) amounts(ctx context.Context, d *draft, faults []dte.Fault) (*rulestore.Evaluation, error) {
	computed, err := e.compute(ctx, d)
	if err != nil {
		if found := refusal.Faults(err); len(found) > 0 {
			return nil, refusal.Of(append(faults, found...))
		}
		return nil, err
	}
	if d.from != nil {
		if err := e.drawn(d, computed); err != nil {
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

func (e *Engine) breaches(r *rulestore.Rule, d *draft, known []dte.Fault) []dte.Fault {
	_, found, _ := r.Fill(nil, d.facts, nil, d.filling())
	return slices.DeleteFunc(found, func(f dte.Fault) bool {
		return slices.ContainsFunc(known, func(k dte.Fault) bool { return k.Path == f.Path })
	})
}
