package rules

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	duration prometheus.Histogram
	fuel     prometheus.Histogram
	failures *prometheus.CounterVec
	cache    *prometheus.CounterVec
	reloads  prometheus.Counter
	engine   *prometheus.GaugeVec
}

func newMetrics(engine string) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dte_rule_evaluation_duration_seconds",
			Help: "Time of a rule module to compute one document, waiting for an instance included.", Buckets: prometheus.ExponentialBuckets(2e-6, 2.5, 14)}),
		fuel: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dte_rule_evaluation_fuel_units",
			Help: "Fuel that a rule module used to compute one document.", Buckets: prometheus.ExponentialBuckets(1000, 4, 10)}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_rule_failures_total",
			Help: "Calls of a rule module that failed, by reason: start, trap, fuel, timeout, contradiction."}, []string{"reason"}),
		cache: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_rule_cache_failures_total",
			Help: "Modules that were compiled again because of their cache: damaged (thrown away) or unusable (its folder cannot be read or written)."}, []string{"reason"}),
		reloads: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_rule_reloads_total",
			Help: "Calls that had to load their rule module again, because it had not been called for a while."}),
		engine: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dte_rule_engine_info",
			Help: "1 for the engine that runs the rules: compiler or interpreter."}, []string{"engine"}),
	}
	for _, reason := range []string{"start", "trap", "fuel", "timeout", "contradiction"} {
		m.failures.WithLabelValues(reason)
	}
	for _, reason := range []string{"damaged", "unusable"} {
		m.cache.WithLabelValues(reason)
	}
	m.engine.WithLabelValues(engine).Set(1)
	return m
}

func (m *metrics) evaluated(took time.Duration, used int64) {
	m.duration.Observe(took.Seconds())
	m.fuel.Observe(float64(used))
}

func (m *metrics) failed(reason string) { m.failures.WithLabelValues(reason).Inc() }

// Contradicted counts a document of the module's answer that contradicts what the box knows.
func (m *Module) Contradicted() { m.code.host.metrics.failed("contradiction") }

// held is how many modules the host holds.
var held = prometheus.NewDesc("dte_rule_modules", "Rule modules that are ready to run; those that were not called for a while are loaded again first.", nil, nil)

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.duration, m.fuel, m.failures, m.cache, m.reloads, m.engine}
}

// Describe implements prometheus.Collector.
func (h *Host) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range h.metrics.collectors() {
		c.Describe(ch)
	}
	ch <- held
}

// Collect implements prometheus.Collector.
func (h *Host) Collect(ch chan<- prometheus.Metric) {
	for _, c := range h.metrics.collectors() {
		c.Collect(ch)
	}
	h.mu.Lock()
	n := len(h.modules)
	h.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, float64(n))
}
