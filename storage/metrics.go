package storage

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the store. What Pebble counts itself is asked for at each scrape.
type metrics struct {
	appends  prometheus.Histogram
	advances prometheus.Histogram
	mark     prometheus.Histogram
	sync     prometheus.Histogram
	refused  prometheus.Counter
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
	}
}

func (m *metrics) own() []prometheus.Collector {
	return []prometheus.Collector{m.appends, m.advances, m.mark, m.sync, m.refused}
}

var (
	diskDesc = prometheus.NewDesc("dte_store_disk_bytes", "Space that the store takes on its disk.", nil, nil)
	freeDesc = prometheus.NewDesc("dte_store_free_bytes", "Space that is left on the store's disk.", nil, nil)
	debtDesc = prometheus.NewDesc("dte_store_compaction_debt_bytes", "Bytes that compaction has still to move.", nil,
		nil)
	readAmpDesc = prometheus.NewDesc("dte_store_read_amplification", "Tables that a read may have to look at.", nil,
		nil)
	memoryDesc = prometheus.NewDesc("dte_store_memory_bytes", "Memory of cache and memtables.", nil, nil)
	tablesDesc = prometheus.NewDesc("dte_store_tables_failing",
		"1 while the disk does not take the store's tables; nothing new is issued then.", nil, nil)
	retriesDesc = prometheus.NewDesc("dte_store_table_failures_total", "Attempts to write tables that failed.", nil,
		nil)
	readDesc = prometheus.NewDesc("dte_store_read_timestamp_seconds",
		"When the last whole reading of the store's tables ended; 0 before the first.", nil, nil)
	rottenDesc = prometheus.NewDesc("dte_store_read_damaged_tables",
		"Damaged tables that the last whole reading found.", nil, nil)
	damagedDesc = prometheus.NewDesc("dte_store_damaged", "1 when the disk returned damaged data; nothing is issued "+
		"then.", nil, nil)
	seriesDesc = prometheus.NewDesc("dte_store_series", "Series that have a number.", nil, nil)
	backupDesc = prometheus.NewDesc("dte_store_backup_timestamp_seconds",
		"When the latest backup was taken that was checked to its last row; 0: none was.", nil, nil)
	provedDesc = prometheus.NewDesc("dte_store_mark_proved_timestamp_seconds",
		"When the high-water mark's file was last opened by its path and said what was written to it.", nil, nil)
	lostDesc = prometheus.NewDesc("dte_store_lost_numbers",
		"Numbers without a record, given up when a restored store was reconciled.", nil, nil)
)

// Describe and Collect make the store its own collector. After Close it collects nothing.
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.metrics.own() {
		c.Describe(ch)
	}
	if s.second != nil {
		s.second.metrics.wait.Describe(ch)
		s.second.metrics.failures.Describe(ch)
		ch <- liveDesc
		for _, d := range scrubMetrics {
			ch <- d
		}
	}
	ch <- behindDesc
	for _, d := range []*prometheus.Desc{diskDesc, freeDesc, debtDesc, readAmpDesc, memoryDesc, tablesDesc, retriesDesc,
		readDesc, rottenDesc, damagedDesc, seriesDesc, backupDesc, provedDesc, lostDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	if s.enter() != nil {
		return
	}
	defer s.leave()
	for _, c := range s.metrics.own() {
		c.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	if copied, ok := s.SecondCopy(); ok {
		s.second.metrics.wait.Collect(ch)
		s.second.metrics.failures.Collect(ch)
		copied.collect(ch)
	}
	behind := 0.0
	if s.Behind() != nil {
		behind = 1
	}
	gauge(behindDesc, behind)
	m := s.db.Metrics()
	gauge(diskDesc, float64(m.DiskSpaceUsage()))
	if space, err := s.space(); err == nil {
		gauge(freeDesc, float64(space.Free))
	}
	gauge(debtDesc, float64(m.Compact.EstimatedDebt))
	gauge(readAmpDesc, float64(m.ReadAmp()))
	gauge(memoryDesc, float64(uint64(m.BlockCache.Size)+m.MemTable.Size+m.MemTable.ZombieSize))
	broken := 0.0
	if s.damage.err() != nil {
		broken = 1
	}
	gauge(damagedDesc, broken)
	gauge(readDesc, float64(s.reading.at.Load())/1e9)
	gauge(rottenDesc, float64(s.reading.tables.Load()))
	if s.tables != nil {
		failing := 0.0
		if s.tables.err() != nil {
			failing = 1
		}
		gauge(tablesDesc, failing)
		ch <- prometheus.MustNewConstMetric(retriesDesc, prometheus.CounterValue, float64(s.tables.failures()))
	}
	gauge(seriesDesc, float64(s.names.highest()))
	if at, err := lastBackup(s.db); err == nil {
		gauge(backupDesc, unixSeconds(at))
	}
	if s.mark != nil {
		gauge(provedDesc, unixSeconds(s.MarkProved()))
	}
	if lost, err := s.lost(); err == nil {
		gauge(lostDesc, float64(lost))
	}
}

// unixSeconds is a time as metrics show it: 0 when there is none.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// lost counts the numbers that have no record. Its table has a row a reconciling and series: none in most stores.
func (s *Store) lost() (n uint64, err error) {
	err = scan(s.db, []byte{tableLost}, []byte{tableLost + 1}, func(_, value []byte) error {
		if len(value) > 0 && value[0] != rowVersion {
			return nil
		}
		row, err := decodeLost(value)
		n += row.To - row.From + 1
		return err
	})
	holes, bad := readHoles(s.db)
	if err = errors.Join(err, bad); err != nil {
		return 0, err
	}
	for sequence, list := range holes.at {
		for _, h := range list {
			for _, span := range h.Numbers.without(slices.Sorted(slices.Values(holes.numbers[sequence]))) {
				n += span.To - span.From + 1
			}
		}
	}
	return n, nil
}

// Space is what the store's disk has, in bytes.
type Space struct {
	Total uint64 // of the filesystem
	Free  uint64 // for this process
	Store uint64 // used by the store
}

// Space asks the filesystem. A full disk ends the process. Therefore stop issuing long before: compaction and the log
// need room of their own (64 MiB is little).
func (s *Store) Space() (Space, error) {
	if err := s.enter(); err != nil {
		return Space{}, err
	}
	defer s.leave()
	space, err := s.space()
	space.Store = s.db.Metrics().DiskSpaceUsage()
	return space, err
}

func (s *Store) space() (Space, error) {
	u, err := s.o.FS.GetDiskUsage(s.o.Dir)
	return Space{Total: u.TotalBytes, Free: u.AvailBytes}, err
}

// perMinute logs an error that repeats itself: at once, and then once a minute with the number of those in between.
type perMinute struct {
	logger *slog.Logger

	mu      sync.Mutex
	last    time.Time
	skipped int
}

func (p *perMinute) error(message string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() && time.Since(p.last) < time.Minute {
		p.skipped++
		return
	}
	p.logger.Error(message, "error", err.Error(), "more_since_last_line", p.skipped)
	p.last, p.skipped = time.Now(), 0
}
