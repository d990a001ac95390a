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
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_http_requests_total",
			Help: "Requests of tills by route and status class (2xx, 4xx, 5xx)."}, []string{"route", "class"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dte_http_request_duration_seconds",
			Help: "Time to answer a till's request, by route.", Buckets: []float64{.001, .002, .003, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 8, 32, 64}}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_http_requests_in_flight", Help: "Requests of tills being answered."}),
	}
	r.MustRegister(m.requests, m.latency, m.inFlight)
	return m
}

func (m *metrics) answered(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status/100)+"xx").Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}
