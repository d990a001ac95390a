package ship

import "github.com/prometheus/client_golang/prometheus"

// Describe implements prometheus.Collector.
func (s *Shipper) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector.
func (s *Shipper) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gauge := func(name, help string, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, v)
	}
	yes := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	gauge("dte_fleet_ship_behind_changes", "Changes of the store that the chain's store does not have: what is lost, "+
		"at most, when the box and its media are.", float64(s.behind()))
	gauge("dte_fleet_shipped_timestamp_seconds", "When something was last shipped; 0: not since the start.",
		max(0, float64(s.at.Unix())))
	gauge("dte_fleet_ship_incomplete", "1 while a rebuild from the chain's store would not be complete, or while that "+
		"could not be checked.", yes(s.checked.lacks != "" || s.checked.failed))
	if s.o.Sync {
		gauge("dte_fleet_ship_sync", "1 while sales wait for the chain's store (ship = \"sync\"); 0 while they go on "+
			"without.", yes(s.carried.live && s.copyLive()))
	}
}
