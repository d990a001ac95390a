package contingency

import (
	"errors"
	"fmt"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Backlog is the branch's pending work for MH and its deadlines. A time that applies to no record is zero.
type Backlog struct {
	At          time.Time `json:"at"`
	Contingency *Period   `json:"contingency"` // nil: not in contingency
	// Waiting counts records by queue: settle, report, event, forward, lot, invalidate, correct.
	Waiting map[string]int `json:"waiting"`
	// Lost counts the records that are set aside (see record.LostRecords), and the waiting records that cannot be read.
	// The deadlines here ignore them. LostRecords has at most a hundred lost records: see record.LostRecords.List. If
	// the queues cannot be counted, Lost is at least 1, and the other counts and the deadlines are from the last count.
	Lost        int           `json:"lost,omitempty"`
	LostRecords []record.Lost `json:"lost_records,omitempty"`
	// Oldest is when the oldest document in the queues report and forward was issued.
	Oldest time.Time `json:"oldest,omitzero"`
	// EventDeadline is when the first event is due: 24 h after the end of its cause.
	EventDeadline time.Time `json:"event_deadline,omitzero"`
	// DocumentDeadline is when the first document is due: 72 h from the seal of its event.
	DocumentDeadline time.Time `json:"document_deadline,omitzero"`
	// CorrectionDeadline is when MH must have the event that replaces the first refused event, 24 h after its refusal.
	CorrectionDeadline time.Time `json:"correction_deadline,omitzero"`
	// RefusedDeadline is the earliest end of the 24 h in which a refused contingency document can be corrected.
	RefusedDeadline time.Time `json:"refused_deadline,omitzero"`
	// TechnicalReport is the time from which MH requires a technical report (Informe Técnico) before the event of a
	// long contingency. The field is set from a day before that time until MH has the report or the event.
	TechnicalReport time.Time `json:"technical_report,omitzero"`
	// Refused is MH's text about the last refused event, if documents of that event still wait.
	Refused string `json:"refused,omitempty"`
}

const maxLost = 100

var owedQueues = []string{record.QueueSettle, record.QueueReport, record.QueueEvent, record.QueueForward,
	record.QueueLot, record.QueueInvalidate, record.QueueCorrect}

// count holds the state of CountBacklog while it reads the queues.
type count struct {
	contingency *Contingency
	owed        *Backlog
	law         law
	// unreported has the codes of the periods with waiting documents; ends has the end of each period, zero: open.
	unreported map[string]bool
	ends       map[string]time.Time
	open       *Period // nil: not in contingency
}

// CountBacklog returns the backlog. A record that cannot be read counts as Lost. Errors: the store's.
func (c *Contingency) CountBacklog() (*Backlog, error) {
	o := &Backlog{At: c.branch.Now().UTC(), Waiting: make(map[string]int)}
	n := count{c, o, c.law(), make(map[string]bool), make(map[string]time.Time), c.Current()}
	var err error
	if o.Lost, o.LostRecords, err = c.branch.Lost.List(maxLost); err != nil {
		return nil, err
	}
	for _, queue := range owedQueues {
		due, err := c.branch.Store.Due(queue, record.Whenever, record.MaxCounted)
		if err != nil {
			return nil, fmt.Errorf("reading queue %s: %w", queue, err)
		}
		o.Waiting[queue] = len(due)
		if queue == record.QueueCorrect && len(due) > 0 {
			o.RefusedDeadline = due[0].Due.At
		}
		for _, entry := range due {
			err := n.add(queue, entry)
			if errors.Is(err, record.ErrLost) {
				o.Lost++
				o.Waiting[queue]--
			} else if err != nil {
				return nil, err
			}
		}
	}
	waiting, err := c.waitingStretches(n.unreported)
	if err != nil {
		return nil, err
	}
	if long := needingReport(waiting, n.law, o.At); long != nil && long.reportNote() == nil {
		from := long.needsReportFrom(n.law)
		if !o.At.Before(from.Add(-reportNotice)) && (long.ended.IsZero() || !long.ended.Before(from)) {
			o.TechnicalReport = from
		}
	}
	return o, nil
}

// add adds a waiting record. A document has its event's deadline until the event is sealed, then its own.
func (n *count) add(queue string, entry storage.Entry) error {
	switch queue {
	case record.QueueEvent:
		_, err := DecodeEvent(entry)
		return err
	case record.QueueLot:
		_, err := decode[lotHead](entry)
		return err
	}
	h, err := record.DecodeHead(entry)
	if err != nil || queue != record.QueueReport && queue != record.QueueForward {
		return err
	}
	record.Earliest(&n.owed.Oldest, h.CreatedAt)
	if entry.State == record.Reported {
		record.Earliest(&n.owed.DocumentDeadline, h.Limit)
		return nil
	}
	if r := n.refusal(h.Event); r != nil { // the last event with this document was refused
		record.Earliest(&n.owed.CorrectionDeadline, r.At.Add(n.law.correction))
		n.owed.Refused = r.Text()
	}
	if h.Period == "" || h.Until.After(n.owed.At) { // deferred outside a period, or dated by a clock that was ahead
		if n.open != nil && n.open.Began.Sub(h.Until) < n.law.event { // MH counts the open period as the same cause
			return nil
		}
		ended, err := n.contingency.extendCause(h.Until)
		record.Earliest(&n.owed.EventDeadline, ended.Add(n.law.event))
		return err
	}
	ended, known := n.ends[h.Period]
	if !known {
		p, err := n.contingency.periodOf(h.Period)
		if err != nil {
			return err
		}
		if ended = h.Until; p != nil {
			ended, n.unreported[h.Period] = p.Ended, true
		}
		n.ends[h.Period] = ended
	}
	if !ended.IsZero() {
		record.Earliest(&n.owed.EventDeadline, ended.Add(n.law.event))
	}
	return nil
}

// refusal returns MH's answer to an event, or nil if there is no answer, or the store has lost the event or the answer.
func (n *count) refusal(event string) *authority.Receipt {
	entry, err := n.contingency.entryOf(event)
	if err != nil {
		return nil
	}
	h, err := DecodeEvent(entry)
	if err != nil {
		return nil
	}
	return h.Receipt
}
