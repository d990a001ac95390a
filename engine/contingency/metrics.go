package contingency

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/record"
)

type metrics struct {
	periods        prometheus.Counter
	eventResults   *prometheus.CounterVec
	lots           *prometheus.CounterVec
	lateRejections *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		periods: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_contingency_periods_total",
			Help: "Times that the branch entered contingency, including times that resumed a period that had " +
				"just ended."}),
		eventResults: record.NewCounters("dte_contingency_events_total",
			"Contingency events that MH decided, by result: accepted, rejected.", "result", "accepted", "rejected"),
		lots: record.NewCounters("dte_contingency_lots_total", "Lots by what happened: received, rejected whole, "+
			"unknown (no answer), done (every document has its result).", "result", "received", "rejected", "unknown",
			"done"),
		lateRejections: record.NewCounters("dte_late_rejections_total",
			"Documents that were issued in contingency and that MH refused afterwards, by type.", "document"),
	}
}

// Counters returns the counters of the contingency. The other metrics are computed when they are collected.
func (c *Contingency) Counters() []prometheus.Collector {
	return []prometheus.Collector{c.metrics.periods, c.metrics.eventResults, c.metrics.lots, c.metrics.lateRejections}
}

func (o *Backlog) Collect(ch chan<- prometheus.Metric) {
	record.SendGauge(ch, "dte_contingency_active", "1 while the branch is in contingency.", o.Contingency != nil)
	deadline := func(name, help string, at time.Time) {
		record.SendGauge(ch, name, help+" As Unix time; 0 when there is none.", at)
	}
	deadline("dte_contingency_since_timestamp_seconds", "When the contingency began.",
		cmp.Or(o.Contingency, new(Period)).Began)
	deadline("dte_contingency_event_deadline_timestamp_seconds",
		"When the first contingency event is due at MH: 24 h from the end of its cause.", o.EventDeadline)
	deadline("dte_contingency_documents_deadline_timestamp_seconds",
		"When the first document issued in contingency is due at MH: 72 h from the seal of its event.",
		o.DocumentDeadline)
	deadline("dte_contingency_correction_deadline_timestamp_seconds",
		"When the event that replaces the first refused event is due: 24 h from the refusal.", o.CorrectionDeadline)
	deadline("dte_contingency_technical_report_timestamp_seconds",
		"When a contingency without a sealed event reaches three days: then MH wants a technical report "+
			"before the event. Set from a day before until MH has the report or the event.", o.TechnicalReport)
	deadline("dte_refused_documents_deadline_timestamp_seconds", "When the first document that MH refused after the "+
		"fact can no longer be corrected under its own code: 24 h from the refusal.", o.RefusedDeadline)
	deadline("dte_queue_oldest_timestamp_seconds", "When the oldest document that MH has not decided was issued.",
		o.Oldest)
	record.SendGauge(ch, "dte_lost_records", "Records that are or will be set aside, because the store lacks a piece "+
		"of them after a repair or a rebuild with losses, or because the layout of contingency events does not take "+
		"them. Other records go on; the deadlines ignore these. At least 1 while counting fails.", o.Lost)
	for _, queue := range owedQueues {
		record.SendGauge(ch, "dte_queue_records", "Records that wait, by queue: settle, report, event, forward, lot, "+
			"invalidate, correct.", o.Waiting[queue], "queue", queue)
	}
}
