package storage

import (
	"github.com/prometheus/client_golang/prometheus"
)

// secondMetrics are collected only where a second copy is configured.
type secondMetrics struct {
	wait     prometheus.Histogram
	failures prometheus.Counter
}

func newSecondMetrics() *secondMetrics {
	return &secondMetrics{
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dte_store_second_copy_wait_seconds",
			Help: "Time that a change waits for the second copy, the store having it.", Buckets: latencyBuckets}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_store_second_copy_failures_total",
			Help: "How often the second copy was given up for a while, or could not be begun."}),
	}
}

var liveDesc = prometheus.NewDesc("dte_store_second_copy_live", "1 while every acknowledged change is on the second medium too.", nil, nil)

var (
	scrubDesc    = prometheus.NewDesc("dte_store_second_copy_scrub_timestamp_seconds", "When the second copy was last read through; 0 before the first time.", nil, nil)
	badDesc      = prometheus.NewDesc("dte_store_second_copy_bad_segments", "Segments of the second copy that are bad and could not be written anew.", nil, nil)
	foundDesc    = prometheus.NewDesc("dte_store_second_copy_bad_segments_found_total", "Segments of the second copy that were found bad.", nil, nil)
	mendedDesc   = prometheus.NewDesc("dte_store_second_copy_bad_segments_mended_total", "Of these, the ones that were written anew from the store.", nil, nil)
	behindDesc   = prometheus.NewDesc("dte_store_behind", "1 while another medium knows more than the store; nothing is numbered then.", nil, nil)
	scrubMetrics = []*prometheus.Desc{scrubDesc, badDesc, foundDesc, mendedDesc}
)

func (c SecondCopy) collect(ch chan<- prometheus.Metric) {
	live, at := 0.0, 0.0
	if c.Live {
		live = 1
	}
	if !c.Scrub.Last.IsZero() {
		at = float64(c.Scrub.Last.Unix())
	}
	for d, v := range map[*prometheus.Desc]float64{liveDesc: live, scrubDesc: at, badDesc: float64(len(c.Scrub.Bad))} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	for d, v := range map[*prometheus.Desc]float64{foundDesc: float64(c.Scrub.Found), mendedDesc: float64(c.Scrub.Mended)} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
}
