package fleet

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/engine/fleet/wire"
)

type metrics struct {
	requests *prometheus.CounterVec
	reported prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_fleet_requests_total",
			Help: "Requests to the chain's object store, by verb and result: ok (an answer, also that nothing is there), failed."}, []string{"verb", "result"}),
		reported: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_fleet_reported_timestamp_seconds",
			Help: "When the branch's status was last written to the store; 0: not since the start."}),
	}
	for _, verb := range []string{"get", "create", "put"} {
		for _, result := range []string{"ok", "failed"} {
			m.requests.WithLabelValues(verb, result)
		}
	}
	return m
}

func (m *metrics) count(verb string, err error) {
	result := "ok"
	if err != nil && !errors.Is(err, wire.ErrNotFound) && !errors.Is(err, wire.ErrExists) && !errors.Is(err, wire.ErrTooLarge) {
		result = "failed"
	}
	m.requests.WithLabelValues(verb, result).Inc()
}

var (
	versionDesc  = prometheus.NewDesc("dte_fleet_desired_version", "The last version of the group's desired state that this box has verified; 0: none.", nil, nil)
	expiryDesc   = prometheus.NewDesc("dte_fleet_desired_expiry_timestamp_seconds", "When that version expires; 0: there is none.", nil, nil)
	askedDesc    = prometheus.NewDesc("dte_fleet_asked_timestamp_seconds", "When the store last answered about the desired state; 0: not since the start.", nil, nil)
	troubleDesc  = prometheus.NewDesc("dte_fleet_trouble", "1 while the box does not do what is desired, or cannot reach the store; the log says why.", nil, nil)
	actsDesc     = prometheus.NewDesc("dte_fleet_acts_waiting", "Acts that are not in the store yet.", nil, nil)
	replacedDesc = prometheus.NewDesc("dte_fleet_replaced", "1 while another box has the branch, and nothing is numbered here.", nil, nil)
	closedDesc   = prometheus.NewDesc("dte_fleet_closed_points", "Points of sale of this box that the centre has closed for this year: they number nothing.", nil, nil)
	epochDesc    = prometheus.NewDesc("dte_fleet_epoch", "The epoch at which this box is enrolled; 0: it is not.", nil, nil)
	stageDesc    = prometheus.NewDesc("dte_fleet_rollout_stage", "1 for how far the roll-out of the desired state is here: outside, waiting, admitted, live, refused, returned; absent without one.", []string{"stage"}, nil)
)

// Describe implements prometheus.Collector.
func (a *Agent) Describe(ch chan<- *prometheus.Desc) {
	a.metrics.requests.Describe(ch)
	a.metrics.reported.Describe(ch)
	for _, d := range []*prometheus.Desc{versionDesc, expiryDesc, askedDesc, troubleDesc, actsDesc, closedDesc, replacedDesc, epochDesc, stageDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (a *Agent) Collect(ch chan<- prometheus.Metric) {
	a.metrics.requests.Collect(ch)
	a.metrics.reported.Collect(ch)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	flag := map[bool]float64{true: 1}
	standing, trouble, closed := a.fence.Standing(), a.trouble(""), 0
	for _, p := range a.o.Points {
		if a.Closed(p, dte.Year(a.o.Now())) {
			closed++
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var asked, expires int64
	if !a.asked.IsZero() {
		asked = a.asked.Unix()
	}
	if a.desired != nil {
		expires = a.desired.Expires.Unix()
	}
	gauge(versionDesc, float64(a.state.Version))
	gauge(expiryDesc, float64(expires))
	gauge(askedDesc, float64(asked))
	gauge(troubleDesc, flag[trouble != ""])
	gauge(actsDesc, float64(len(a.state.Acts)))
	gauge(closedDesc, float64(closed))
	gauge(replacedDesc, flag[standing.Replaced])
	gauge(epochDesc, float64(standing.Epoch))
	if a.progress != nil {
		gauge(stageDesc, 1, string(a.progress.Stage))
	}
}
