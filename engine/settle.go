package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// settlement finds out what became of signed documents, and records it.
type settlement struct {
	*core
	sender      *authority.Sender
	contingency *contingency.Contingency
	traffic     traffic // documents on their way to MH
}

// newSettlement returns the settlement of a branch; its contingency is still to be set.
func newSettlement(c *core, o Options) (*settlement, error) {
	gaps, err := o.Store.Gaps()
	if err != nil {
		return nil, err
	}
	lost := make([]authority.Span, len(gaps))
	for i, g := range gaps {
		lost[i] = authority.Span(g)
	}
	s := &settlement{core: c}
	s.sender = authority.NewSender(authority.SenderOptions{Client: c.client, Policy: o.Policy, Lost: lost, Now: c.now,
		Away: func() bool { return s.contingency.Current() != nil }, Suspect: func() { s.contingency.Suspect() }})
	return s, nil
}

// sending is how a signed document is concluded.
type sending struct {
	doubtful bool          // it may have been sent before
	sent     time.Time     // of doubtful: when at the latest
	late     bool          // nobody waits for the answer: it is announced
	wait     time.Duration // how long the till waits; 0: as long as the policy takes
}

const pending = "El documento está firmado y guardado; su transmisión no ha concluido. Repita con la misma Idempotency-Key"

// settleDocument brings a document out of Signed, whoever signed it and whatever was lost since: MH is asked first. A
// document in any other state is returned as it stands.
func (s *settlement) settleDocument(ctx context.Context, code storage.Code, late bool) (storage.Entry, error) {
	release, err := s.Hold(ctx, dte.Code(code))
	if err != nil {
		return storage.Entry{}, refusal.Unavailable(err, pending)
	}
	defer release()
	entry, err := s.store.Get(code)
	if err != nil {
		return entry, refusal.Internal(err)
	}
	if entry.State != record.Signed {
		return entry, nil
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return entry, refusal.Internal(err)
	}
	if until := s.sender.RestoredUntil(h.CreatedAt); !until.IsZero() {
		return s.putOff(ctx, entry, h, until)
	}
	jws, err := s.store.Part(code, record.FormNormal)
	if err != nil {
		return entry, refusal.Internal(err)
	}
	s.metrics.recovered.Inc()
	now, err := s.conclude(ctx, standing{entry: entry, head: h, jws: jws}, sending{doubtful: true, sent: h.CreatedAt.Add(settleAfter), late: late})
	return now.entry, err
}

// errPutOff means that a document is not settled before MH can have decided on what it was sent before a restoration.
var errPutOff = errors.New("the branch was restored a moment ago")

// putOff has the recovery settle a signed document later.
func (s *settlement) putOff(ctx context.Context, entry storage.Entry, h *record.Head, until time.Time) (storage.Entry, error) {
	if entry.Due == nil || entry.Due.At.Before(until) {
		var err error
		if entry, err = s.move(ctx, entry, storage.Change{To: record.Signed, Due: &storage.Due{Queue: record.QueueSettle, At: until}}, h); err != nil {
			return entry, err
		}
	}
	return entry, refusal.Unavailable(errPutOff, pending)
}

// conclude transmits a signed document and records the outcome. The caller holds the document's lock.
func (s *settlement) conclude(ctx context.Context, d standing, how sending) (standing, error) {
	within, cancel := ctx, context.CancelFunc(func() {})
	if how.wait > 0 {
		within, cancel = context.WithTimeout(ctx, how.wait)
	}
	end := s.traffic.begin()
	o := s.sender.Transmit(within, authority.Submission{
		Document: d.head.Document, Version: d.head.Version, Code: dte.Code(d.entry.Code).String(), JWS: string(d.jws), SendID: s.sendID(),
	}, how.doubtful, how.sent)
	end()
	impatient := within.Err() != nil && ctx.Err() == nil
	cancel()
	if o.Kind == authority.Unknown && ctx.Err() != nil {
		// Stopping: the document stays Signed and due, and the next start asks MH.
		return d, refusal.Unavailable(ctx.Err(), pending)
	}
	next := *d.head
	var to storage.State
	switch o.Kind {
	case authority.Rejected:
		to = record.Rejected
	case authority.Accepted:
		if s.sender.InLostTime(authority.ParseTime(o.Response.FhProcesamiento)) {
			entry, err := s.adoptHeld(ctx, d.entry, d.head, o.Response, record.QueryDoubt)
			if err != nil {
				err = refusal.Internal(err)
			}
			return standing{entry: entry}, err
		}
		to = record.Accepted
	default:
		return s.postpone(ctx, d, o, impatient)
	}
	next.Response = o.Response
	entry, err := s.move(ctx, d.entry, storage.Change{To: to, Announce: how.late}, &next)
	return standing{entry, &next, d.jws, d.document}, err
}

// postpone makes the contingency form of a document whose normal form MH has not decided. MH is probed: when it does not
// answer either, the branch is in contingency; else the trouble is this document's. The till that did not want to wait
// does not wait for the probe.
func (s *settlement) postpone(ctx context.Context, d standing, o authority.Outcome, impatient bool) (standing, error) {
	changed := *d.head
	h := &changed
	if impatient {
		s.contingency.Suspect()
	} else if err := s.contingency.Check(ctx, h.CreatedAt); err != nil {
		return d, refusal.Internal(err)
	}
	period, release := s.contingency.Hold()
	defer release()
	h.Cause = 1
	if period != nil {
		h.Cause, h.Motive, h.Period = period.Cause, period.MotiveOnDocument(), period.Code()
	}
	form, err := s.contingencyForm(ctx, d.entry.Code, d.jws, record.ContingencyMarks(h.Cause, h.Motive))
	if err != nil {
		return d, refusal.Internal(err)
	}
	h.Form, h.Doubtful, h.Why = record.FormContingency, o.Sent, o.Reason()
	h.Until = s.now().UTC()
	if o.Sent {
		h.Sent = h.Until
	}
	defer s.contingency.Wake()
	entry, err := s.move(ctx, d.entry, storage.Change{To: record.Deferred, Parts: []storage.Part{form}, Due: &storage.Due{Queue: record.QueueReport, At: s.now()}}, h)
	return standing{entry: entry, head: h, jws: form.Data}, err
}

// contingencyForm signs the contingency form of a normal document: same code, same number, other marks.
func (s *settlement) contingencyForm(ctx context.Context, code storage.Code, jws []byte, marks []dte.Member) (storage.Part, error) {
	normal, err := record.Payload(jws)
	if err != nil {
		return storage.Part{}, err
	}
	document, err := record.ReplaceMarks(normal, marks)
	if err != nil {
		return storage.Part{}, err
	}
	signed, err := s.signer.Right(code, record.FormContingency).Sign(ctx, document)
	if err != nil {
		return storage.Part{}, fmt.Errorf("signing the contingency form: %w", err)
	}
	return storage.Part{Name: record.FormContingency, Data: signed}, nil
}

// settleAfter is how long a request may hold a document before the recovery takes over: longer than the policy's
// three transmissions and three queries of 8 s.
const settleAfter = 2 * time.Minute

// Recover settles, once, every signed document that was due before the given time. It ends at the first error: the store's, or
// of a document that cannot be settled.
func (s *settlement) Recover(ctx context.Context, before time.Time) error {
	for {
		open, err := s.store.Due(record.QueueSettle, before, 100)
		if err != nil {
			return fmt.Errorf("listing unsettled documents: %w", err)
		}
		settled := 0
		for _, entry := range open {
			if _, err := record.DecodeHead(entry); err != nil {
				s.unread.Note(record.QueueSettle, err)
				continue
			}
			_, err := s.settleDocument(ctx, entry.Code, true)
			switch {
			case errors.Is(err, errPutOff):
				continue
			case err != nil:
				return fmt.Errorf("settling document %s: %w", dte.Code(entry.Code), err)
			}
			settled++
		}
		if settled == 0 {
			return nil
		}
	}
}
