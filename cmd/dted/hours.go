package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
)

// hours shows when the branch is open. Monitoring remembers it while the box is away: a box that is off at night is none
// that died.
type hours struct {
	branch config.Branch
	now    func() time.Time
}

var (
	opensDesc   = prometheus.NewDesc("dte_branch_opens_timestamp_seconds", "When the opening under way began, or the next one begins.", nil, nil)
	closesDesc  = prometheus.NewDesc("dte_branch_closes_timestamp_seconds", "When that opening ends.", nil, nil)
	reopensDesc = prometheus.NewDesc("dte_branch_reopens_timestamp_seconds", "When the opening after it begins.", nil, nil)
)

// Describe and Collect make the hours a collector. Without hours in the configuration it shows nothing.
func (h hours) Describe(ch chan<- *prometheus.Desc) {
	ch <- opensDesc
	ch <- closesDesc
	ch <- reopensDesc
}

// Collect implements prometheus.Collector.
func (h hours) Collect(ch chan<- prometheus.Metric) {
	first, second, ok := h.branch.NextOpenings(h.now().In(dte.Zone))
	if !ok {
		return
	}
	for d, at := range map[*prometheus.Desc]time.Time{opensDesc: first.From, closesDesc: first.To, reopensDesc: second.From} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(at.Unix()))
	}
}
