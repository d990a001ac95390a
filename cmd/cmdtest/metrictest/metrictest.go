// Package metrictest reads what collectors show.
package metrictest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Values is what a collector shows, by name and the values of its labels in the order of their names:
// dte_queue_records/lot. Of a histogram it is the number of samples.
func Values(t testing.TB, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
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
			// of which it has one
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// Value is one of them; it must be shown.
func Value(t testing.TB, c prometheus.Collector, name string) float64 {
	t.Helper()
	v, shown := Values(t, c)[name]
	if !shown {
		t.Fatalf("no %s", name)
	}
	return v
}
