package engine

import (
	"context"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
)

// This file tells everything that is wrong with a request at once. A request that the gateway could not read whole goes to
// Check; one that it could read is refused by compute and draw, which collect likewise.

// Check returns what is wrong with the facts of a request: what the schema refuses, what the origin forbids, and, if every
// amount that the rule reads is known, what the rule refuses. It takes no number and stores nothing.
func (s *sales) Check(ctx context.Context, req Request) []dte.Fault {
	now := s.now()
	rule, err := s.rules().Pick(req.Document, s.issuer.Ambiente, dte.Date(now))
	if err != nil {
		return nil
	}
	d, err := s.newDraft(req, now)
	if err != nil {
		return refusal.Faults(err)
	}
	var o *origin
	var faults []dte.Fault
	if record.Types[req.Document].Against != record.Nothing {
		if req.Origin == nil || req.Origin.Code == (dte.Code{}) {
			return nil // not known: nothing to compare with
		}
		if o, err = s.findOrigin(ctx, d); err != nil {
			return refusal.Faults(err)
		}
		rule, d.ruleDay = s.rules().Original(rule, s.issuer.Ambiente, o.head.Date), o.head.Date
		if err := s.completeDraft(d, o); err != nil {
			if faults = refusal.Faults(err); record.Types[req.Document].Against == record.TakesBack {
				return append(faults, s.besideLines(rule, d, o)...)
			}
		}
	}
	if !rule.CanAddUp(req.Unread) {
		late := laterThanIssue(d)
		return append(append(faults, late...), s.breaches(rule, d, late)...)
	}
	computed, err := s.amounts(ctx, rule, d, o, faults)
	if err == nil {
		_, err = s.fill(d, computed)
		computed.Free()
	}
	return refusal.Faults(err)
}

// amounts computes a draft and what it takes of its origin o, if it has one. If anything is wrong, the error names all of it:
// the faults known so far, the rule's, the origin's and the layout's.
func (s *sales) amounts(ctx context.Context, r *rulebook.Rule, d *draft, o *origin, faults []dte.Fault) (*rulebook.Evaluation, error) {
	computed, err := s.compute(ctx, r, d)
	if err != nil {
		if found := refusal.Faults(err); len(found) > 0 {
			return nil, refusal.Of(append(faults, found...))
		}
		return nil, err
	}
	if o != nil {
		if err := s.drawn(d, o, computed.Rule, computed); err != nil {
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
	_, err = s.fill(d, computed)
	computed.Free()
	return nil, refusal.Of(append(faults, refusal.Faults(err)...))
}

// besideLines is what the layout refuses of a return beside its lines, of which some do not exist.
func (s *sales) besideLines(r *rulebook.Rule, d *draft, o *origin) (faults []dte.Fault) {
	if s.completeReturn(d, o, nil) != nil {
		return nil
	}
	for _, f := range s.breaches(r, d, nil) {
		if strings.HasPrefix(f.Path, "apendice") {
			faults = append(faults, f)
		}
	}
	return faults
}

// breaches is what the layout refuses of a draft, less the paths that known faults name already.
func (s *sales) breaches(r *rulebook.Rule, d *draft, known []dte.Fault) []dte.Fault {
	_, found := r.Filler.Fill(nil, d.facts, nil, schema.FillOptions{Catalogues: d.form != record.FormNormal})
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
