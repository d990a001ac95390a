package ship

import "github.com/prometheus/client_golang/prometheus"

var (
	behindDesc = prometheus.NewDesc("dte_fleet_ship_behind_changes",
		"Changes of the store that the chain's store does not have: what is lost, at most, when the box and its media are.", nil, nil)
	shippedDesc = prometheus.NewDesc("dte_fleet_shipped_timestamp_seconds", "When something was last shipped; 0: not since the start.", nil, nil)
	baseDesc    = prometheus.NewDesc("dte_fleet_ship_base_failed", "1 while the month's base of the second copy could not be made, the last time that it was tried.", nil, nil)
	waitsDesc   = prometheus.NewDesc("dte_fleet_ship_sync", "1 while sales wait for the chain's store (ship = \"sync\"); 0 while they go on without.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Shipper) Describe(ch chan<- *prometheus.Desc) {
	ch <- behindDesc
	ch <- shippedDesc
	ch <- baseDesc
	ch <- waitsDesc
}

// Collect implements prometheus.Collector.
func (s *Shipper) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	gauge(behindDesc, float64(s.behind()))
	if s.at.IsZero() {
		gauge(shippedDesc, 0)
	} else {
		gauge(shippedDesc, float64(s.at.Unix()))
	}
	failed := 0.0
	if s.baseFailed.Load() {
		failed = 1
	}
	gauge(baseDesc, failed)
	switch {
	case s.o.Sync && s.live && s.copyLive():
		gauge(waitsDesc, 1)
	case s.o.Sync:
		gauge(waitsDesc, 0)
	}
}
