package ship

import "github.com/prometheus/client_golang/prometheus"

var (
	behindDesc = prometheus.NewDesc("dte_fleet_ship_behind_changes",
		"Changes of the store that the chain's store does not have: what is lost, at most, when the box and its media "+
			"are.", nil, nil)
	shippedDesc = prometheus.NewDesc("dte_fleet_shipped_timestamp_seconds",
		"When something was last shipped; 0: not since the start.", nil, nil)
	lacksDesc = prometheus.NewDesc("dte_fleet_ship_incomplete",
		"1 while a rebuild from the chain's store would not be complete, or while that could not be checked.", nil, nil)
	waitsDesc = prometheus.NewDesc("dte_fleet_ship_sync", "1 while sales wait for the chain's store (ship = "+
		"\"sync\"); 0 while they go on without.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Shipper) Describe(ch chan<- *prometheus.Desc) {
	ch <- behindDesc
	ch <- shippedDesc
	ch <- lacksDesc
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
	lacks := 0.0
	if s.checked.lacks != "" || s.checked.failed {
		lacks = 1
	}
	gauge(lacksDesc, lacks)
	switch {
	case s.o.Sync && s.carried.live && s.copyLive():
		gauge(waitsDesc, 1)
	case s.o.Sync:
		gauge(waitsDesc, 0)
	}
}
