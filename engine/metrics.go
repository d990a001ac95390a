package engine

import (
	"errors"
	"time"

	"dtegate/engine/record"
	"dtegate/engine/refusal"

	"github.com/prometheus/client_golang/prometheus"
)

// Paths of issuing, as the latency metric names them.
const (
	pathOnline      = "online"
	pathContingency = "contingency"
	pathReplay      = "replay"
	pathRefused     = "refused"
)

type metrics struct {
	documents *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	recovered prometheus.Counter
	events    *prometheus.CounterVec

	corrections *prometheus.CounterVec
	adopted     *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		documents: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_documents_total",
			Help: "Documents issued by this process, by type of CAT-002 and public state at the time of the answer."},
			[]string{"document", "estado"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_refusals_total",
			Help: "Requests that issued nothing, by document type and error code."}, []string{"document", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dte_issue_duration_seconds",
			Help:    "Time to answer a sale: online, in contingency, replayed by its key, or refused.",
			Buckets: []float64{.001, .002, .003, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 8, 16, 32, 64}},
			[]string{"path"}),
		events: record.NewCounters("dte_invalidations_total",
			"Requested invalidations, by result: PROCESSED, REJECTED, or the code of the refusal.",
			"result"),
		corrections: record.NewCounters("dte_corrections_total", "Documents that MH had refused after the fact and "+
			"that were corrected under their own code, by type.", "document"),
		adopted: record.NewCounters("dte_adopted_documents_total", "Documents that a query found at MH and whose form "+
			"was adopted, by how the form was found: times (of the sendings), archive, likeliest (a guess).",
			"by", "times", "archive", "likeliest"),
		recovered: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_recovered_documents_total",
			Help: "Documents found signed and unsettled, after a crash or a lost request, and settled with MH."}),
	}
}

func refusalCode(err error) string {
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return refused.Code
	}
	return refusal.CodeInternal
}

func (m *metrics) issued(document, path string, r *record.View, err error, took time.Duration) {
	m.latency.WithLabelValues(path).Observe(took.Seconds())
	switch {
	case err != nil:
		m.refusals.WithLabelValues(document, refusalCode(err)).Inc()
	case path != pathReplay:
		m.documents.WithLabelValues(document, r.Estado).Inc()
	}
}

func (m *metrics) invalidated(r *record.View, err error) {
	if err != nil {
		m.events.WithLabelValues(refusalCode(err)).Inc()
	} else {
		m.events.WithLabelValues(r.Invalidation.Estado).Inc()
	}
}

// Describe implements prometheus.Collector. It does not call CountBacklog: CountBacklog would keep the early count.
func (e *Engine) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		e.collect(ch, &Backlog{})
	}), ch)
}

func (e *Engine) Collect(ch chan<- prometheus.Metric) { e.collect(ch, e.CountBacklog()) }

func (e *Engine) collect(ch chan<- prometheus.Metric, o *Backlog) {
	m := e.metrics
	record.SendAll(ch, m.documents, m.refusals, m.latency, m.recovered, m.events, m.corrections, m.adopted,
		e.numberGuard.Gauge(), e.documents.Counter())
	record.SendAll(ch, e.outbox.Counters()...)
	record.SendAll(ch, e.contingency.Counters()...)
	o.Collect(ch)
	o.Delivery.Collect(ch)
}
