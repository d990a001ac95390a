package contingency

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	periods        prometheus.Counter
	eventResults   *prometheus.CounterVec
	lots           *prometheus.CounterVec
	lateRejections *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		periods: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_contingency_periods_total",
			Help: "Times that the branch went into contingency, those that went on with a period that had just ended included."}),
		eventResults: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_contingency_events_total",
			Help: "Contingency events that MH decided, by result: accepted, rejected."}, []string{"result"}),
		lots: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_contingency_lots_total",
			Help: "Lots by what happened: received, rejected whole, unknown (no answer), done (every document has its result)."}, []string{"result"}),
		lateRejections: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_late_rejections_total",
			Help: "Documents that were issued in contingency and that MH refused afterwards, by type."}, []string{"document"}),
	}
	// At 0 from the start: a series that began at 1 would hide its first from Prometheus' increase.
	for _, result := range []string{"accepted", "rejected"} {
		m.eventResults.WithLabelValues(result)
	}
	for _, result := range []string{"received", "rejected", "unknown", "done"} {
		m.lots.WithLabelValues(result)
	}
	return m
}

// Counters are the metrics that count as things happen.
func (c *common) Counters() []prometheus.Collector {
	return []prometheus.Collector{c.metrics.periods, c.metrics.eventResults, c.metrics.lots, c.metrics.lateRejections}
}

// gauge is a metric that is read off what is owed.
type gauge struct {
	desc    *prometheus.Desc
	collect func(*Backlog, chan<- prometheus.Metric)
}

var owedGauges = func() []gauge {
	var gauges []gauge
	add := func(name, help string, value func(*Backlog) float64) {
		d := prometheus.NewDesc(name, help, nil, nil)
		gauges = append(gauges, gauge{d, func(o *Backlog, ch chan<- prometheus.Metric) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value(o))
		}})
	}
	deadline := func(name, help string, at func(*Backlog) time.Time) {
		add(name, help+" As Unix time; 0 when there is none.", func(o *Backlog) float64 {
			if t := at(o); !t.IsZero() {
				return float64(t.Unix())
			}
			return 0
		})
	}
	add("dte_contingency_active", "1 while the branch is in contingency.", func(o *Backlog) float64 {
		if o.Contingency != nil {
			return 1
		}
		return 0
	})
	deadline("dte_contingency_since_timestamp_seconds", "When the contingency began.", func(o *Backlog) time.Time {
		if o.Contingency == nil {
			return time.Time{}
		}
		return o.Contingency.Began
	})
	deadline("dte_contingency_event_deadline_timestamp_seconds", "When the first contingency event is due at MH: 24 h from the end of its cause.",
		func(o *Backlog) time.Time { return o.EventDeadline })
	deadline("dte_contingency_documents_deadline_timestamp_seconds", "When the first document issued in contingency is due at MH: 72 h from the seal of its event.",
		func(o *Backlog) time.Time { return o.DocumentDeadline })
	deadline("dte_contingency_correction_deadline_timestamp_seconds", "When the first event that MH refused must be right: 24 h from the refusal.",
		func(o *Backlog) time.Time { return o.CorrectionDeadline })
	deadline("dte_contingency_technical_report_timestamp_seconds", "When a contingency that MH has no event of lasts so long, three days, that MH wants a technical report first; set from a day before until MH has the report or the event.",
		func(o *Backlog) time.Time { return o.TechnicalReport })
	deadline("dte_refused_documents_deadline_timestamp_seconds", "When the first document that MH refused after the fact can no longer be corrected under its own code: 24 h from the refusal.",
		func(o *Backlog) time.Time { return o.RefusedDeadline })
	deadline("dte_queue_oldest_timestamp_seconds", "When the oldest document that MH has not decided was issued.",
		func(o *Backlog) time.Time { return o.Oldest })
	add("dte_queue_unreadable_records", "Records that wait, for MH or for delivery, and cannot be read: the others go on, and no deadline counts these. 1 at least while nothing can be counted.",
		func(o *Backlog) float64 { return float64(o.Unreadable) })
	d := prometheus.NewDesc("dte_queue_records", "Records that wait, by queue: settle, report, event, forward, lot, invalidate, correct.", []string{"queue"}, nil)
	return append(gauges, gauge{d, func(o *Backlog, ch chan<- prometheus.Metric) {
		for _, queue := range owedQueues {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(o.Waiting[queue]), queue)
		}
	}})
}()

// Describe sends the descriptions of the metrics that Collect sends.
func Describe(ch chan<- *prometheus.Desc) {
	for _, g := range owedGauges {
		ch <- g.desc
	}
}

// Collect sends the backlog as metrics.
func (o *Backlog) Collect(ch chan<- prometheus.Metric) {
	for _, g := range owedGauges {
		g.collect(o, ch)
	}
}
