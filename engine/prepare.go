package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
	"dtegate/storage"
)

// unnumbered stands for the number that a document will have. All are of one length.
const unnumbered = 1

// fill makes the document of a draft. A breach of the schema is a *refusal.Error.
func (s *sales) fill(d *draft, ev *rulebook.Evaluation) (*prepared, error) {
	const line, rest = 512, 2048 // bytes, a little more than most have
	document, faults := ev.Rule.Filler.Fill(make([]byte, 0, rest+line*ev.Computed.N), d.facts, &ev.Computed, schema.FillOptions{Catalogues: d.form == record.FormContingency})
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

// prepared is a document that is not stored yet: first complete but for its number, then signed.
type prepared struct {
	document []byte // which jws signs
	facts    []byte // that it was made of
	head     *record.Head
	jws      []byte
}

// noteBytes notes on the record of a new document, nil for none, what it took.
func (p *prepared) noteBytes(r *record.View) *record.View {
	if r != nil {
		r.Stored = p.head.Bytes
	}
	return r
}

// sign stamps the number on what fill made, signs it, and returns it as it is to be stored.
func (s *sales) sign(ctx context.Context, p *prepared, d *draft, slot storage.Slot) (to storage.Draft, err error) {
	ev := d.computed
	control, err := p.stamp(d, slot.Number)
	if err != nil {
		return to, refusal.Internal(err)
	}
	if p.jws, err = s.signer.Right(d.code, d.form).Sign(ctx, p.document); err != nil {
		return to, refusal.Unavailable(err, "El documento no pudo firmarse")
	}
	req, r := d.request, ev.Rule
	h := &record.Head{
		Document: req.Document, Version: r.Filler.Version(), ControlNumber: control,
		Ambiente: s.issuer.Ambiente, Date: dte.Date(d.now), Total: dte.Amount(ev.Computed.Summary[r.Total]).Fixed2(),
		Form: d.form, Serie: req.Caller.Point.PointOfSale,
		EmisorID: s.issuer.ID, BranchID: req.Caller.Point.BranchID, PointID: req.Caller.Point.ID, TokenID: req.Caller.TokenID,
		CreatedAt: d.now.UTC().Truncate(time.Millisecond), Bytes: int64(len(p.facts) + len(p.jws)), Rule: r.Ref, Warnings: append(req.Warnings[:len(req.Warnings):len(req.Warnings)], ev.Warnings...), Mail: outbox.Recipient(d.facts),
	}
	p.head = h
	to = storage.Draft{
		Code:  storage.Code(d.code),
		State: record.Signed,
		Parts: []storage.Part{{Name: record.PartFacts, Data: p.facts}, {Name: d.form, Data: p.jws}},
		Due:   &storage.Due{Queue: record.QueueSettle, At: d.now.Add(settleAfter)},
	}
	if d.form == record.FormContingency {
		h.Why = d.reason
		h.Until, h.Cause, h.Motive = h.CreatedAt, d.cause, d.motive
		if d.period != nil {
			h.Period = d.period.Code()
		}
		to.State, to.Due = record.Deferred, &storage.Due{Queue: record.QueueReport, At: d.now}
	}
	if d.from != nil {
		h.Origin = req.Origin.Code.String()
		draws, err := json.Marshal(d.draws)
		if err != nil {
			return to, refusal.Internal(err)
		}
		to.Parts = append(to.Parts, storage.Part{Name: record.PartDraws, Data: draws})
		if to.Counters, err = s.counters(d, d.from); err != nil {
			return to, err
		}
	}
	to.Head, err = h.Encode()
	return to, err
}
