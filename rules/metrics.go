package rules

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	duration prometheus.Histogram
	failures *prometheus.CounterVec
	engine   *prometheus.GaugeVec
}

func newMetrics(engine string) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dte_rule_evaluation_duration_seconds",
			Help: "Time of a rule module to compute one document.", Buckets: prometheus.ExponentialBuckets(2e-6, 2.5, 14)}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_rule_failures_total",
			Help: "Calls of a rule module that failed, by reason: start, trap, timeout."}, []string{"reason"}),
		engine: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dte_rule_engine_info",
			Help: "1 for the engine that runs the rules: compiler or interpreter."}, []string{"engine"}),
	}
	for _, reason := range []string{"start", "trap", "timeout"} {
		m.failures.WithLabelValues(reason)
	}
	m.engine.WithLabelValues(engine).Set(1)
	return m
}

func (m *metrics) evaluated(took time.Duration) { m.duration.Observe(took.Seconds()) }
func (m *metrics) failed(reason string)         { m.failures.WithLabelValues(reason).Inc() }

// Describe implements prometheus.Collector.
func (h *Host) Describe(ch chan<- *prometheus.Desc) {
	h.metrics.duration.Describe(ch)
	h.metrics.failures.Describe(ch)
	h.metrics.engine.Describe(ch)
}

// Collect implements prometheus.Collector.
func (h *Host) Collect(ch chan<- prometheus.Metric) {
	h.metrics.duration.Collect(ch)
	h.metrics.failures.Collect(ch)
	h.metrics.engine.Collect(ch)
}
