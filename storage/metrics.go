package storage

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the store. Pebble's own numbers are read at each scrape.
type metrics struct {
	appends, advances, mark, sync prometheus.Histogram
	refused                       prometheus.Counter

	copyWait     prometheus.Histogram // copyWait and copyFailures are collected only if there is a second copy
	copyFailures prometheus.Counter
}

// From 50 µs to 26 s: an fsync takes 0.1 ms on a good disk and seconds on a bad day.
var latencyBuckets = prometheus.ExponentialBuckets(50e-6, 2, 20)

func newMetrics() *metrics {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencyBuckets})
	}
	return &metrics{
		appends:  histogram("dte_store_append_seconds", "Time to append a record durably, build included."),
		advances: histogram("dte_store_advance_seconds", "Time to move a record to its next state durably."),
		mark:     histogram("dte_store_mark_write_seconds", "Time to write and sync the high-water mark."),
		sync:     histogram("dte_store_sync_seconds", "Time that a written batch waits for the disk to have it."),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_store_refused_appends_total",
			Help: "Appends that stored nothing and spent no number."}),
		copyWait: histogram("dte_store_second_copy_wait_seconds",
			"Time that a change waits for the second copy after the store has it."),
		copyFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_store_second_copy_failures_total",
			Help: "How often the second copy was given up for a while, or could not be begun."}),
	}
}

// yes has the values of a yes-or-no gauge.
var yes = map[bool]float64{true: 1}

// Collect is a prometheus.CollectorFunc. After Close it collects nothing.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	if s.enter() != nil {
		return
	}
	defer s.users.Done()
	m := s.metrics
	for _, c := range []prometheus.Collector{m.appends, m.advances, m.mark, m.sync, m.refused} {
		c.Collect(ch)
	}
	send := func(kind prometheus.ValueType, name, help string, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, v)
	}
	gauge := func(name, help string, v float64) { send(prometheus.GaugeValue, name, help, v) }
	counter := func(name, help string, v float64) { send(prometheus.CounterValue, name, help, v) }
	if c, ok := s.SecondCopy(); ok {
		m.copyWait.Collect(ch)
		m.copyFailures.Collect(ch)
		gauge("dte_store_second_copy_live", "1 while every acknowledged change is on the second medium too.",
			yes[c.Live])
		gauge("dte_store_second_copy_scrub_timestamp_seconds",
			"When the second copy was last read through; 0 before the first time.", unixSeconds(c.Scrub.Last))
		gauge("dte_store_second_copy_bad_segments",
			"Segments of the second copy that are bad and could not be written again.", float64(len(c.Scrub.Bad)))
		counter("dte_store_second_copy_bad_segments_found_total",
			"Segments of the second copy that were found bad.", float64(c.Scrub.Found))
		counter("dte_store_second_copy_bad_segments_mended_total",
			"Bad segments that were written again from the store.", float64(c.Scrub.Mended))
	}
	gauge("dte_store_behind", "1 while another medium knows more than the store; nothing is numbered then.",
		yes[s.Behind() != nil])
	gauge("dte_store_disk_bytes", "Space that the store takes on its disk.", float64(s.db.Metrics().DiskSpaceUsage()))
	if u, err := s.o.FS.GetDiskUsage(s.o.Dir); err == nil {
		gauge("dte_store_free_bytes", "Space that is left on the store's disk.", float64(u.AvailBytes))
	}
	gauge("dte_store_damaged", "1 when the disk returned damaged data; nothing is issued then.",
		yes[s.damage.err() != nil])
	read := s.LastReading()
	gauge("dte_store_read_timestamp_seconds",
		"When the store's tables were last read completely; 0 before the first time.", unixSeconds(read.At))
	gauge("dte_store_read_damaged_tables", "Damaged tables found by the last complete reading.", float64(read.Damaged))
	gauge("dte_store_tables_failing", "1 while the disk does not take the store's tables; nothing new is issued then.",
		yes[s.o.tables.err() != nil])
	counter("dte_store_table_failures_total", "Attempts to write tables that failed.", float64(s.o.tables.total.Load()))
	if at, err := readJSON[time.Time](s.db, keyBackup); err == nil {
		gauge("dte_store_backup_timestamp_seconds",
			"When the latest completely checked backup was taken; 0: no such backup.", unixSeconds(at))
	}
	if s.mark != nil {
		gauge("dte_store_mark_proved_timestamp_seconds",
			"When the high-water mark's file was last opened by its path and had what was written to it.",
			unixSeconds(s.MarkProved()))
	}
	if lost, err := s.lost(); err == nil {
		gauge("dte_store_lost_numbers", "Numbers without a record, given up when a restored store was reconciled.",
			float64(lost))
	}
}

// unixSeconds returns a time for a metric, 0 for the zero time.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// lost counts the numbers without a record. It reads the whole table of lost numbers, which is empty in most stores.
func (s *Store) lost() (n uint64, err error) {
	holes, err := readHoles(s.db)
	if err != nil {
		return 0, err
	}
	for _, row := range holes.rows {
		for _, span := range row.Numbers.without(holes.numbers(row.sequence)) {
			n += span.To - span.From + 1
		}
	}
	return n, nil
}
