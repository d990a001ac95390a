package engine

import (
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
)

// shows compares what a box shows with values, and every other figure of Owed with 0.
func (b *box) shows(when string, want map[string]float64) {
	b.t.Helper()
	got := metrictest.Values(b.t, b.engine)
	for _, name := range []string{"dte_contingency_active", "dte_contingency_since_timestamp_seconds",
		"dte_contingency_event_deadline_timestamp_seconds",
		"dte_contingency_documents_deadline_timestamp_seconds", "dte_contingency_correction_deadline_timestamp_seconds",
		"dte_refused_documents_deadline_timestamp_seconds", "dte_queue_oldest_timestamp_seconds",
		"dte_queue_records/settle", "dte_queue_records/report",
		"dte_queue_records/event", "dte_queue_records/forward", "dte_queue_records/lot", "dte_queue_records/invalidate",
		"dte_queue_records/correct",
		"dte_late_rejections_total/01", "dte_contingency_events_total/rejected",
		"dte_contingency_events_total/accepted"} {
		v, shown := got[name]
		if v != want[name] || !shown && name != "dte_late_rejections_total/01" {
			b.t.Errorf("%s: %s is %v, shown: %v, want %v", when, name, v, shown, want[name])
		}
	}
}

// showsDelivery compares the metrics of delivery with what waits for the receivers and the archive.
func (b *box) showsDelivery(u outbox.Undelivered) {
	b.t.Helper()
	flag := func(trouble string) float64 { return map[bool]float64{true: 1}[trouble != ""] }
	unix := func(at time.Time) float64 { return max(0, float64(at.Unix())) }
	got := metrictest.Values(b.t, b.engine)
	for name, want := range map[string]float64{"backlog/mail": float64(u.Mail), "backlog/archive": float64(u.Archive),
		"given_up":                      float64(u.GivenUp),
		"oldest_timestamp_seconds/mail": unix(u.MailOldest), "oldest_timestamp_seconds/archive": unix(u.ArchiveOldest),
		"blocked/mail": flag(u.MailTrouble), "blocked/archive": flag(u.ArchiveTrouble)} {
		if v, shown := got["dte_delivery_"+name]; v != want || !shown {
			b.t.Errorf("dte_delivery_%s is %v, want %v", name, v, want)
		}
	}
}

// until waits until a given moment of a box, to the second, and returns it.
func (b *box) until(what string, is func(*Backlog) bool) time.Time {
	b.t.Helper()
	for range 3600 {
		if o, err := owedBy(b.engine); err != nil {
			b.t.Fatal(err)
		} else if is(o) {
			return time.Now()
		}
		time.Sleep(time.Second)
	}
	b.t.Fatalf("within an hour not: %s", what)
	return time.Time{}
}

// about tells that a time is the other one, or a second or two before it: MH counts in seconds, and until looks once a
// second.
func about(at, want time.Time) bool { return at.Sub(want).Abs() <= 2*time.Second }

// TestOwed: each deadline runs from the moment that the law names, is shown as a metric, and disappears with its cause.
// MH refuses the first event and takes the second; of three documents it refuses one.
func TestOwed(t *testing.T) {
	inBubble(t, func(b *box) {
		b.shows("at first", nil)
		b.chaos(simulator.Chaos{RejectEvents: 1, Reject: 1})
		b.cable.set(refusing)
		began := time.Now()
		first := b.issue(sale("first", 100))
		time.Sleep(time.Minute)
		b.issue(sale("second", 200))
		b.issue(sale("third", 300))
		time.Sleep(time.Hour)
		unix := func(at time.Time) float64 { return float64(at.Unix()) }
		oldest := unix(first.CreatedAt)
		if p := b.engine.Contingency().Current(); p == nil || !about(p.Began, began) || !about(first.CreatedAt, began) {
			b.t.Errorf("%+v of a sale at %v, begun at %v", p, first.CreatedAt, began)
		}
		b.shows("in contingency", map[string]float64{"dte_contingency_active": 1,
			"dte_contingency_since_timestamp_seconds": unix(b.engine.Contingency().Current().Began),
			"dte_queue_records/report":                3, "dte_queue_oldest_timestamp_seconds": oldest})

		b.cable.set(plugged)
		for b.engine.Contingency().Current() != nil {
			time.Sleep(time.Second)
		}
		ended := time.Now()
		time.Sleep(3 * time.Second) // Owed keeps a count for two
		event := b.engine.CountBacklog().EventDeadline
		if !about(event, ended.Add(24*time.Hour)) {
			b.t.Errorf("the event is due at %v, the cause ended at %v", event, ended)
		}
		b.shows("the cause is over", map[string]float64{"dte_queue_records/report": 3,
			"dte_queue_oldest_timestamp_seconds":               oldest,
			"dte_contingency_event_deadline_timestamp_seconds": unix(event)})

		refused := b.until("MH refuses the event", func(o *Backlog) bool { return o.Refused != "" })
		time.Sleep(3 * time.Second)
		correction := b.engine.CountBacklog().CorrectionDeadline
		if !about(correction, refused.Add(24*time.Hour)) {
			b.t.Errorf("the event must be right by %v, it was refused at %v", correction, refused)
		}
		b.shows("the event is refused", map[string]float64{"dte_queue_records/report": 3,
			"dte_queue_oldest_timestamp_seconds":                    oldest,
			"dte_contingency_event_deadline_timestamp_seconds":      unix(event),
			"dte_contingency_correction_deadline_timestamp_seconds": unix(correction),
			"dte_contingency_events_total/rejected":                 1})

		sealed := b.until("MH seals the event", func(o *Backlog) bool { return o.Waiting[record.QueueForward] == 3 })
		time.Sleep(3 * time.Second)
		documents := b.engine.CountBacklog().DocumentDeadline
		if !about(documents, sealed.Add(72*time.Hour)) {
			b.t.Errorf("the documents are due at %v, the event was sealed at %v", documents, sealed)
		}
		b.shows("the event is sealed", map[string]float64{"dte_queue_records/forward": 3, "dte_queue_records/lot": 1,
			"dte_queue_oldest_timestamp_seconds":                   oldest,
			"dte_contingency_documents_deadline_timestamp_seconds": unix(documents),
			"dte_contingency_events_total/rejected":                1, "dte_contingency_events_total/accepted": 1})

		late := b.until("MH refuses a document", func(o *Backlog) bool { return o.Waiting[record.QueueCorrect] == 1 })
		time.Sleep(3 * time.Second)
		own := b.engine.CountBacklog().RefusedDeadline
		if !about(own, late.Add(24*time.Hour)) {
			b.t.Errorf("the document must be right by %v, it was refused at %v", own, late)
		}
		b.shows("a document is refused", map[string]float64{"dte_queue_records/correct": 1,
			"dte_refused_documents_deadline_timestamp_seconds": unix(own),
			"dte_late_rejections_total/01":                     1, "dte_contingency_events_total/rejected": 1,
			"dte_contingency_events_total/accepted": 1})
		b.audit()
	})
}
