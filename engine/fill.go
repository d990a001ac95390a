package engine

import (
	"bytes"
	"context"

	"dtegate/engine/dte"
)

// unnumbered stands for the number that a document will have. All are of one length.
const unnumbered = 1

// fill makes the document of a draft. A breach of the schema is an *Error.
func (e *Engine) fill(d *draft, ev *evaluation) (*prepared, error) {
	const line, rest = 512, 2048 // bytes, a little more than most have
	document, faults := ev.rule.filler.Fill(make([]byte, 0, rest+line*ev.computed.N), d.facts, &ev.computed, dte.FillOptions{Catalogues: d.form == formContingency})
	if len(faults) > 0 {
		return nil, refuse(faults)
	}
	return &prepared{document: document, facts: d.facts.Append(make([]byte, 0, len(document)))}, nil
}

// stamp puts the control number n in its place, in the facts and in the document, unless that shows none (18), and
// returns it.
func (p *prepared) stamp(d *draft, n uint64) (string, error) {
	at := d.request.Caller.Point
	control, err := dte.ControlNumber(d.request.Document, at.Establishment, at.PointOfSale, n)
	if err != nil {
		return "", err
	}
	const member = `"numeroControl":"`
	none := []byte(member + d.none + `"`) // no value can say so: in there the quotes are escaped
	for _, text := range [][]byte{p.facts, p.document} {
		if i := bytes.Index(text, none); i >= 0 {
			copy(text[i+len(member):], control)
		}
	}
	return control, nil
}

// Check reports what the schema would refuse of the facts that are there, so that one answer tells all. It spends
// nothing.
func (e *Engine) Check(_ context.Context, req Request) []dte.Fault {
	now := e.now()
	rule, err := e.rules.Load().pick(req.Document, e.issuer.Ambiente, dte.Date(now))
	if err != nil {
		return nil
	}
	d, err := e.draft(req, now)
	if err != nil || kinds[req.Document].against != nothing {
		return nil // what it is issued against is not known: nothing to hold it to
	}
	late := laterThanIssue(d)
	return append(late, e.breaches(rule, d, late)...)
}

// breaches is Check for a draft, less the paths that known faults name already.
func (e *Engine) breaches(r *rule, d *draft, known []dte.Fault) []dte.Fault {
	_, found := r.filler.Fill(nil, d.facts, nil, dte.FillOptions{Catalogues: d.form != formNormal})
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
