// Package metrictest reads what collectors show.
package metrictest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// collector is what a prometheus.Collector and the method of a prometheus.CollectorFunc share.
type collector interface {
	Collect(chan<- prometheus.Metric)
}

// Values returns the values of a collector by metric name and label values, in the order of the label names:
// dte_queue_records/lot. The value of a histogram is its number of samples.
func Values(t testing.TB, c collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prometheus.CollectorFunc(c.Collect))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			// a metric is only one of the three; the others are 0
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// Value returns the value with a name, which must exist.
func Value(t testing.TB, c collector, name string) float64 {
	t.Helper()
	v, shown := Values(t, c)[name]
	if !shown {
		t.Fatalf("no %s", name)
	}
	return v
}
