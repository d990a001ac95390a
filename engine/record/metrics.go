package record

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// SendGauge sends a metric that is computed when it is collected: of a number, a bool, or a time (as Unix time, 0 for
// none). label is empty, or the name of a label and its value.
func SendGauge(ch chan<- prometheus.Metric, name, help string, value any, label ...string) {
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
	names := label[:min(1, len(label))]
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), prometheus.GaugeValue, v,
		label[len(names):]...)
}

// NewCounters returns a counter with a label. The counters of the given values begin at 0: in a series that began at 1,
// Prometheus' increase would miss the first event.
func NewCounters(name, help, label string, values ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}
