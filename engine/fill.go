package engine

import (
	"bytes"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
)

// unnumbered stands for the number that a document will have. All are of one length.
const unnumbered = 1

// fill makes the document of a draft. A breach of the schema is a *refusal.Error.
func (e *Engine) fill(d *draft, ev *rulebook.Evaluation) (*prepared, error) {
	const line, rest = 512, 2048 // bytes, a little more than most have
	document, faults := ev.Rule.Filler.Fill(make([]byte, 0, rest+line*ev.Computed.N), d.facts, &ev.Computed, dte.FillOptions{Catalogues: d.form == record.FormContingency})
	if len(faults) > 0 {
		return nil, refusal.Of(faults)
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
