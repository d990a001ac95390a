package engine

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Owed is what the branch owes MH, and by when.
type Owed struct {
	At          time.Time `json:"at"`
	Contingency *Period   `json:"contingency"` // nil: MH is there
	// Waiting counts records by queue: settle, report, event, forward, lot, invalidate, correct. Of each queue at most record.MaxCounted.
	Waiting map[string]int `json:"waiting"`
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
	// Delivery is what the receivers and the archive are owed.
	Delivery outbox.Undelivered `json:"delivery"`

	ends map[string]time.Time // of periods; while counting
	law  law
}

// owedQueues are the queues that Waiting counts.
var owedQueues = []string{record.QueueSettle, record.QueueReport, record.QueueEvent, record.QueueForward, record.QueueLot, record.QueueInvalidate, record.QueueCorrect}

// owedCache keeps what was counted a moment ago.
type owedCache struct {
	mu   sync.Mutex
	last *Owed
}

// Owed counts what is owed, or returns a count that is not older than two seconds.
func (e *Engine) Owed() *Owed {
	e.owed.mu.Lock()
	defer e.owed.mu.Unlock()
	if e.owed.last == nil || e.now().Before(e.owed.last.At) || e.now().Sub(e.owed.last.At) > 2*time.Second {
		o, err := e.account()
		if err != nil {
			e.log.Error("counting what is owed", "error", err)
			o = &Owed{At: e.now().UTC(), Waiting: map[string]int{}}
		}
		e.owed.last = o
	}
	now := *e.owed.last
	now.Contingency = e.contingency.current()
	return &now
}

// account counts what is owed.
func (e *Engine) account() (*Owed, error) {
	o := &Owed{At: e.now().UTC(), Waiting: make(map[string]int), ends: make(map[string]time.Time), law: e.contingency.law()}
	for _, queue := range owedQueues {
		due, err := e.store.Due(queue, e.now().Add(record.Distant), record.MaxCounted)
		if err != nil {
			return nil, fmt.Errorf("reading queue %s: %w", queue, err)
		}
		o.Waiting[queue] = len(due)
		if queue == record.QueueCorrect && len(due) > 0 {
			o.RefusedDeadline = due[0].Due.At
		}
		if queue != record.QueueReport && queue != record.QueueForward {
			continue
		}
		for _, entry := range due {
			if err := e.weigh(o, entry); err != nil {
				return nil, err
			}
		}
	}
	long, err := e.contingency.longContingency(o.ends)
	if err != nil {
		return nil, err
	}
	if long != nil && long.noted() == nil {
		o.TechnicalReport = long.needsReportFrom(o.law)
		if o.At.Before(o.TechnicalReport.Add(-reportNotice)) || !long.ended.IsZero() && long.ended.Before(o.TechnicalReport) {
			o.TechnicalReport = time.Time{}
		}
	}
	o.ends = nil
	return o, e.outbox.CountUndelivered(&o.Delivery)
}

// weigh adds a document that waits to what is owed.
func (e *Engine) weigh(o *Owed, entry storage.Entry) error {
	h, err := record.DecodeHead(entry)
	if err != nil {
		return err
	}
	record.Earliest(&o.Oldest, h.CreatedAt)
	if entry.State == record.Reported {
		record.Earliest(&o.DocumentDeadline, h.Limit)
		return nil
	}
	if h.Event != "" { // of an event that MH refused
		if at, text, err := e.refusal(h.Event); err == nil {
			record.Earliest(&o.CorrectionDeadline, at.Add(o.law.correction))
			o.Refused = text
		}
	}
	if h.Period == "" {
		record.Earliest(&o.EventDeadline, h.Until.Add(o.law.event))
		return nil
	}
	ended, known := o.ends[h.Period]
	if !known {
		p, err := e.contingency.periodOf(h.Period)
		if err != nil {
			return err
		}
		ended = p.Ended
		o.ends[h.Period] = ended
	}
	if !ended.IsZero() {
		record.Earliest(&o.EventDeadline, ended.Add(o.law.event))
	}
	return nil
}

func (e *Engine) refusal(event string) (at time.Time, text string, err error) {
	code, err := dte.ParseCode(event)
	if err != nil {
		return at, "", err
	}
	entry, err := e.store.Get(storage.Code(code))
	if err != nil {
		return at, "", err
	}
	h := new(eventHead)
	if err := json.Unmarshal(entry.Head, h); err != nil || h.Receipt == nil {
		return at, "", fmt.Errorf("event %s has no answer", event)
	}
	return h.Receipt.At, h.Receipt.Text(), nil
}

// gauge is a metric that is read off what is owed.
type gauge struct {
	desc    *prometheus.Desc
	collect func(*Owed, chan<- prometheus.Metric)
}

var owedGauges = func() []gauge {
	var gauges []gauge
	add := func(name, help string, value func(*Owed) float64) {
		d := prometheus.NewDesc(name, help, nil, nil)
		gauges = append(gauges, gauge{d, func(o *Owed, ch chan<- prometheus.Metric) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value(o))
		}})
	}
	deadline := func(name, help string, at func(*Owed) time.Time) {
		add(name, help+" As Unix time; 0 when there is none.", func(o *Owed) float64 {
			if t := at(o); !t.IsZero() {
				return float64(t.Unix())
			}
			return 0
		})
	}
	add("dte_contingency_active", "1 while the branch is in contingency.", func(o *Owed) float64 {
		if o.Contingency != nil {
			return 1
		}
		return 0
	})
	deadline("dte_contingency_since_timestamp_seconds", "When the contingency began.", func(o *Owed) time.Time {
		if o.Contingency == nil {
			return time.Time{}
		}
		return o.Contingency.Began
	})
	deadline("dte_contingency_event_deadline_timestamp_seconds", "When the first contingency event is due at MH: 24 h from the end of its cause.",
		func(o *Owed) time.Time { return o.EventDeadline })
	deadline("dte_contingency_documents_deadline_timestamp_seconds", "When the first document issued in contingency is due at MH: 72 h from the seal of its event.",
		func(o *Owed) time.Time { return o.DocumentDeadline })
	deadline("dte_contingency_correction_deadline_timestamp_seconds", "When the first event that MH refused must be right: 24 h from the refusal.",
		func(o *Owed) time.Time { return o.CorrectionDeadline })
	deadline("dte_contingency_technical_report_timestamp_seconds", "When a contingency that MH has no event of lasts so long, three days, that MH wants a technical report first; set from a day before until MH has the report or the event.",
		func(o *Owed) time.Time { return o.TechnicalReport })
	deadline("dte_refused_documents_deadline_timestamp_seconds", "When the first document that MH refused after the fact can no longer be corrected under its own code: 24 h from the refusal.",
		func(o *Owed) time.Time { return o.RefusedDeadline })
	deadline("dte_queue_oldest_timestamp_seconds", "When the oldest document that MH has not decided was issued.",
		func(o *Owed) time.Time { return o.Oldest })
	d := prometheus.NewDesc("dte_queue_records", "Records that wait, by queue: settle, report, event, forward, lot, invalidate, correct.", []string{"queue"}, nil)
	return append(gauges, gauge{d, func(o *Owed, ch chan<- prometheus.Metric) {
		for _, queue := range owedQueues {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(o.Waiting[queue]), queue)
		}
	}})
}()
