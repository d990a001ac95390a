package engine

import (
	"bytes"
	"context"

	"dtegate/engine/dte"
)

// unnumbered stands for the number of a document that has none yet. All are of one length.
const unnumbered = 1

// fill makes the document of a draft, whose number stamp puts in. A breach of the schema is an *Error.
func (e *Engine) fill(d *draft, ev *evaluation) ([]byte, error) {
	control, err := d.control(unnumbered)
	if err != nil {
		return nil, internal(err)
	}
	document, faults := ev.rule.filler.Fill(make([]byte, 0, 2<<10+ev.computed.N<<9), d.numbered(control), &ev.computed, dte.FillOptions{Catalogues: d.form == formContingency})
	if len(faults) > 0 {
		return nil, refuse(faults)
	}
	return document, nil
}

// stamp puts the control number n into a document that fill made, unless it shows none (18), and returns it.
func (d *draft) stamp(document []byte, n uint64) (string, error) {
	const member = `"numeroControl":"`
	none, err := d.control(unnumbered)
	if err != nil {
		return "", err
	}
	control, err := d.control(n)
	if err != nil {
		return "", err
	}
	if i := bytes.Index(document, []byte(member+none+`"`)); i >= 0 { // within a value the quotes would be escaped
		copy(document[i+len(member):], control)
	}
	return control, nil
}

func (d *draft) control(n uint64) (string, error) {
	p := d.request.Caller.Point
	return dte.ControlNumber(d.request.Document, p.Establishment, p.PointOfSale, n)
}

// numbered returns the facts with a control number.
func (d *draft) numbered(control string) dte.Value {
	return d.facts.With("identificacion", d.facts.Get("identificacion").With("numeroControl", dte.Str(control)))
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
	return e.breaches(rule, d, nil)
}

// breaches is Check for a draft, less the paths that known faults name already.
func (e *Engine) breaches(r *rule, d *draft, known []dte.Fault) []dte.Fault {
	control, err := d.control(unnumbered)
	if err != nil {
		return nil
	}
	_, found := r.filler.Fill(nil, d.numbered(control), nil, dte.FillOptions{Catalogues: d.form != formNormal})
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
