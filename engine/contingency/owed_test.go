package contingency_test

import (
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// shows compares what a box shows with values, and every other figure of Owed with 0.
func shows(b *enginetest.Box, when string, want map[string]float64) {
	b.T.Helper()
	got := metrictest.Values(b.T, b.Engine)
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
			b.T.Errorf("%s: %s is %v, shown: %v, want %v", when, name, v, shown, want[name])
		}
	}
}

// about tells that a time is the other one, or a second or two before it: MH counts in seconds, and until looks once a
// second.
func about(at, want time.Time) bool { return at.Sub(want).Abs() <= 2*time.Second }

// TestOwed: each deadline runs from the moment that the law names, is shown as a metric, and disappears with its cause.
// MH refuses the first event and takes the second; of three documents it refuses one.
func TestOwed(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		shows(b, "at first", nil)
		b.Chaos(simulator.Chaos{RejectEvents: 1, Reject: 1})
		b.Cable.Set(enginetest.Refusing)
		began := time.Now()
		first := b.Issue(enginetest.Sale("first", 100))
		time.Sleep(time.Minute)
		b.Issue(enginetest.Sale("second", 200))
		b.Issue(enginetest.Sale("third", 300))
		time.Sleep(time.Hour)
		unix := func(at time.Time) float64 { return float64(at.Unix()) }
		oldest := unix(first.CreatedAt)
		if p := b.Engine.Contingency().Current(); p == nil || !about(p.Began, began) || !about(first.CreatedAt, began) {
			b.T.Errorf("%+v of a sale at %v, begun at %v", p, first.CreatedAt, began)
		}
		shows(b, "in contingency", map[string]float64{"dte_contingency_active": 1,
			"dte_contingency_since_timestamp_seconds": unix(b.Engine.Contingency().Current().Began),
			"dte_queue_records/report":                3, "dte_queue_oldest_timestamp_seconds": oldest})

		b.Cable.Set(enginetest.Plugged)
		for b.Engine.Contingency().Current() != nil {
			time.Sleep(time.Second)
		}
		ended := time.Now()
		time.Sleep(3 * time.Second) // Owed keeps a count for two
		event := b.Engine.CountBacklog().EventDeadline
		if !about(event, ended.Add(24*time.Hour)) {
			b.T.Errorf("the event is due at %v, the cause ended at %v", event, ended)
		}
		shows(b, "the cause is over", map[string]float64{"dte_queue_records/report": 3,
			"dte_queue_oldest_timestamp_seconds":               oldest,
			"dte_contingency_event_deadline_timestamp_seconds": unix(event)})

		refused := b.Until("MH refuses the event", func(o *engine.Backlog) bool { return o.Refused != "" })
		time.Sleep(3 * time.Second)
		correction := b.Engine.CountBacklog().CorrectionDeadline
		if !about(correction, refused.Add(24*time.Hour)) {
			b.T.Errorf("the event must be right by %v, it was refused at %v", correction, refused)
		}
		shows(b, "the event is refused", map[string]float64{"dte_queue_records/report": 3,
			"dte_queue_oldest_timestamp_seconds":                    oldest,
			"dte_contingency_event_deadline_timestamp_seconds":      unix(event),
			"dte_contingency_correction_deadline_timestamp_seconds": unix(correction),
			"dte_contingency_events_total/rejected":                 1})

		sealed := b.Until(
			"MH seals the event",
			func(o *engine.Backlog) bool { return o.Waiting[record.QueueForward] == 3 },
		)
		time.Sleep(3 * time.Second)
		documents := b.Engine.CountBacklog().DocumentDeadline
		if !about(documents, sealed.Add(72*time.Hour)) {
			b.T.Errorf("the documents are due at %v, the event was sealed at %v", documents, sealed)
		}
		shows(b, "the event is sealed", map[string]float64{"dte_queue_records/forward": 3, "dte_queue_records/lot": 1,
			"dte_queue_oldest_timestamp_seconds":                   oldest,
			"dte_contingency_documents_deadline_timestamp_seconds": unix(documents),
			"dte_contingency_events_total/rejected":                1, "dte_contingency_events_total/accepted": 1})

		late := b.Until(
			"MH refuses a document",
			func(o *engine.Backlog) bool { return o.Waiting[record.QueueCorrect] == 1 },
		)
		time.Sleep(3 * time.Second)
		own := b.Engine.CountBacklog().RefusedDeadline
		if !about(own, late.Add(24*time.Hour)) {
			b.T.Errorf("the document must be right by %v, it was refused at %v", own, late)
		}
		shows(b, "a document is refused", map[string]float64{"dte_queue_records/correct": 1,
			"dte_refused_documents_deadline_timestamp_seconds": unix(own),
			"dte_late_rejections_total/01":                     1, "dte_contingency_events_total/rejected": 1,
			"dte_contingency_events_total/accepted": 1})
		b.Audit()
	})
}
