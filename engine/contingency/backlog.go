package contingency

import (
	"fmt"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Backlog is what the branch owes MH, and by when. A time is zero if nothing has that deadline.
type Backlog struct {
	At          time.Time `json:"at"`
	Contingency *Period   `json:"contingency"` // nil: MH is there
	// Waiting counts records by queue: settle, report, event, forward, lot, invalidate, correct. Of each queue at most record.MaxCounted.
	Waiting map[string]int `json:"waiting"`
	// Unreadable counts the records that wait and cannot be read. They are in Waiting, but the deadlines here leave them out. If the
	// queues cannot be counted at all, it is at least 1, and the other fields are those of the last count.
	Unreadable int `json:"unreadable,omitempty"`
	// Oldest is when the oldest document that waits was issued.
	Oldest time.Time `json:"oldest,omitzero"`
	// EventDeadline is when the first contingency event is due at MH: 24 h from the end of its cause. It is set while a
	// document waits for an event and its contingency is over.
	EventDeadline time.Time `json:"event_deadline,omitzero"`
	// DocumentDeadline is when the first document is due: 72 h from the seal of its event.
	DocumentDeadline time.Time `json:"document_deadline,omitzero"`
	// CorrectionDeadline is when the first event that MH refused must be right: 24 h from the refusal.
	CorrectionDeadline time.Time `json:"correction_deadline,omitzero"`
	// RefusedDeadline is when the first document that MH refused after the fact can no longer be corrected under its own
	// code: 24 h from the refusal.
	RefusedDeadline time.Time `json:"refused_deadline,omitzero"`
	// TechnicalReport is when the contingency that no sealed event reports yet lasts, or would last, so long that MH wants a
	// technical report (Informe Técnico) before its event. It is set from a day before that moment until MH has the report
	// or the event.
	TechnicalReport time.Time `json:"technical_report,omitzero"`
	// Refused is what MH said of the last event that it refused and whose documents still wait.
	Refused string `json:"refused,omitempty"`
}

// owedQueues are the queues that Waiting counts.
var owedQueues = []string{record.QueueSettle, record.QueueReport, record.QueueEvent, record.QueueForward, record.QueueLot, record.QueueInvalidate, record.QueueCorrect}

// count counts what is owed.
type count struct {
	*common
	*Backlog
	law  law
	ends map[string]time.Time // of periods of which documents wait for an event; zero: it goes on
}

// CountBacklog reads what waits, and returns what the branch owes MH. A record that cannot be read is counted as Unreadable.
// Errors: the store's, or a period's record that cannot be read.
func (c *Contingency) CountBacklog() (*Backlog, error) {
	o := &Backlog{At: c.branch.Now().UTC(), Waiting: make(map[string]int)}
	n := count{c.common, o, c.law(), make(map[string]time.Time)}
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
			if err := n.add(queue, entry); err != nil {
				c.unread.Note(queue, err)
				o.Unreadable++
			}
		}
	}
	long, err := c.longContingency(n.ends)
	if err != nil {
		return nil, err
	}
	if long != nil && long.reportNote() == nil {
		from := long.needsReportFrom(n.law)
		if !o.At.Before(from.Add(-reportNotice)) && (long.ended.IsZero() || !long.ended.Before(from)) {
			o.TechnicalReport = from
		}
	}
	return o, nil
}

// add adds a record that waits to what is owed: documents that MH has no event of, or that follow theirs, have deadlines.
func (n *count) add(queue string, entry storage.Entry) error {
	switch queue {
	case record.QueueEvent:
		_, err := DecodeEvent(entry)
		return err
	case record.QueueLot:
		_, err := decodeLot(entry)
		return err
	}
	h, err := record.DecodeHead(entry)
	if err != nil || queue != record.QueueReport && queue != record.QueueForward {
		return err
	}
	record.Earliest(&n.Oldest, h.CreatedAt)
	if entry.State == record.Reported {
		record.Earliest(&n.DocumentDeadline, h.Limit)
		return nil
	}
	if h.Event != "" { // of an event that MH refused
		if at, text, err := n.refusal(h.Event); err == nil {
			record.Earliest(&n.CorrectionDeadline, at.Add(n.law.correction))
			n.Refused = text
		}
	}
	if h.Period == "" {
		record.Earliest(&n.EventDeadline, h.Until.Add(n.law.event))
		return nil
	}
	ended, known := n.ends[h.Period]
	if !known {
		p, err := n.periodOf(h.Period)
		if err != nil {
			return err
		}
		ended = p.Ended
		n.ends[h.Period] = ended
	}
	if !ended.IsZero() {
		record.Earliest(&n.EventDeadline, ended.Add(n.law.event))
	}
	return nil
}

func (n *count) refusal(event string) (at time.Time, text string, err error) {
	code, err := dte.ParseCode(event)
	if err != nil {
		return at, "", err
	}
	entry, err := n.branch.Store.Get(storage.Code(code))
	if err != nil {
		return at, "", err
	}
	h, err := DecodeEvent(entry)
	if err != nil {
		return at, "", err
	}
	if h.Receipt == nil {
		return at, "", fmt.Errorf("event %s has no answer", event)
	}
	return h.Receipt.At, h.Receipt.Text(), nil
}
