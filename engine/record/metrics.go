package record

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// SendGauge sends a metric that is computed when it is collected: value is a number, a bool, or a time (sent as Unix
// time, a zero time as 0). labels alternates names and values.
func SendGauge(ch chan<- prometheus.Metric, name, help string, value any, labels ...string) {
	v := 0.0
	switch value := value.(type) {
	case float64:
		v = value
	case int:
		v = float64(value)
	case bool:
		if value {
			v = 1
		}
	case time.Time:
		if !value.IsZero() {
			v = float64(value.Unix())
		}
	}
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), prometheus.GaugeValue, v, values...)
}

func SendAll(ch chan<- prometheus.Metric, list ...prometheus.Collector) {
	for _, c := range list {
		c.Collect(ch)
	}
}

// NewCounters returns a counter with a label, at 0 for each given value: Prometheus's function increase would miss the
// first event of a counter that begins at 1.
func NewCounters(name, help, label string, values ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}
