package gateway

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refusals *prometheus.CounterVec
}

// The listeners, as a label.
const (
	listenerAPI = "api"
	listenerOps = "ops"
)

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_http_requests_total",
			Help: "Requests of tills by route and status class (2xx, 4xx, 5xx)."}, []string{"route", "class"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dte_http_request_duration_seconds",
			Help: "Time to answer a till's request, by route.", Buckets: []float64{.001, .002, .003, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 8, 32, 64}}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_http_requests_in_flight", Help: "Requests of tills being answered."}),
	}
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_http_refused_total",
		Help: "Requests and connections that were refused before anything was done for them."}, []string{"listener", "reason"})
	for _, listener := range []string{listenerAPI, listenerOps} {
		for _, reason := range []string{"token", "wrong_tokens", "strangers", "rate", "address_connections", "connections", "stranger", "address_stranger", "handshake", "size", "bodies", "body_share", "large", "daily", "printing", "readers", "slow", "malformed"} {
			m.refusals.WithLabelValues(listener, reason)
		}
	}
	r.MustRegister(m.requests, m.latency, m.inFlight, m.refusals)
	return m
}

func (m *metrics) refused(listener, reason string) {
	m.refusals.WithLabelValues(listener, reason).Inc()
}

func (m *metrics) countAnswer(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status/100)+"xx").Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}
