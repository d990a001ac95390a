package connpool

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	steps    *prometheus.HistogramVec
	failures *prometheus.CounterVec
	waits    *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dte_authority_connect_duration_seconds",
			Help: "Time of a step of connecting to MH that went well: lookup, tcp, tls.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 4, 8, 16}}, []string{"step"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_authority_connect_failures_total",
			Help: "Steps of connecting to MH that failed or took too long: lookup, tcp, tls."}, []string{"step"}),
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_authority_connection_waits_total",
			Help: "Requests to MH that found no ready connection: served in their time, or failed."}, []string{"result"}),
	}
	for _, step := range []string{"lookup", "tcp", "tls"} {
		m.failures.WithLabelValues(step)
	}
	m.waits.WithLabelValues("served")
	m.waits.WithLabelValues("failed")
	return m
}

// connected counts the steps of a connect behind its look-up, which counts itself.
func (m *metrics) connected(s *Steps) {
	for _, step := range []struct {
		name string
		took time.Duration
	}{{"tcp", s.TCP}, {"tls", s.TLS}} {
		switch {
		case s.Failed == step.name:
			m.failures.WithLabelValues(step.name).Inc()
		case step.took > 0:
			m.steps.WithLabelValues(step.name).Observe(step.took.Seconds())
		}
	}
}

func (m *metrics) lookedUp(took time.Duration, err error) {
	if err != nil {
		m.failures.WithLabelValues("lookup").Inc()
		return
	}
	m.steps.WithLabelValues("lookup").Observe(took.Seconds())
}

var connectionsDesc = prometheus.NewDesc("dte_authority_connections", "Connections to MH: ready, busy with a request, connecting.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (l *Link) Describe(ch chan<- *prometheus.Desc) {
	ch <- connectionsDesc
	l.metrics.steps.Describe(ch)
	l.metrics.failures.Describe(ch)
	l.metrics.waits.Describe(ch)
}

// Collect implements prometheus.Collector.
func (l *Link) Collect(ch chan<- prometheus.Metric) {
	ready, busy, connecting := l.counts()
	for state, n := range map[string]int{"ready": ready, "busy": busy, "connecting": connecting} {
		ch <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(n), state)
	}
	l.metrics.steps.Collect(ch)
	l.metrics.failures.Collect(ch)
	l.metrics.waits.Collect(ch)
}
