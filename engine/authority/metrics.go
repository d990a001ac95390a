package authority

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	logins   *prometheus.CounterVec
	up       prometheus.Gauge
	expiry   prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_authority_requests_total",
			Help: "Calls to MH by operation and result: accepted, rejected, not_found, unknown, unreachable, simulated."}, []string{"operation", "result"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dte_authority_request_duration_seconds",
			Help: "Time of a call to MH, its login included.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 4, 8, 16}}, []string{"operation"}),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_authority_logins_total",
			Help: "Logins by result: ok, refused, unknown."}, []string{"result"}),
		up: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_authority_up",
			Help: "1 when the last call to MH was answered, 0 when it was not."}),
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_authority_token_expiry_timestamp_seconds",
			Help: "When the token of MH's API will be renewed, as Unix time; 0 before the first login."}),
	}
	for _, r := range []string{"ok", "refused", "unknown"} {
		m.logins.WithLabelValues(r)
	}
	return m
}

func (m *metrics) observe(operation string, o Outcome, took time.Duration) {
	result := [...]string{Unknown: "unknown", Accepted: "accepted", Rejected: "rejected", NotFound: "not_found"}[o.Kind]
	switch {
	case errors.Is(o.Err, ErrSimulated):
		result = "simulated"
	case o.Kind == Unknown && !o.Sent:
		result = "unreachable"
	}
	m.requests.WithLabelValues(operation, result).Inc()
	m.latency.WithLabelValues(operation).Observe(took.Seconds())
	if o.Kind == Unknown {
		m.up.Set(0)
	} else {
		m.up.Set(1)
	}
}

// Describe implements prometheus.Collector.
func (c *Client) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *Client) Collect(ch chan<- prometheus.Metric) {
	c.metrics.requests.Collect(ch)
	c.metrics.latency.Collect(ch)
	c.metrics.logins.Collect(ch)
	c.metrics.up.Collect(ch)
	c.metrics.expiry.Collect(ch)
}
