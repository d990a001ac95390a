// Package ledger keeps the totals of a branch's documents, day by day, and knows which documents a list shows. It lives
// in memory: a day is read from the store at its first use, and then updated record by record. Nothing of the ledger is
// durable, therefore a crash, a restored backup or a rebuilt store leave nothing to repair.
package totals

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/storage"
)

// Store is what a ledger reads: see storage.Store.
type Store interface {
	LastID() uint64
	Page(after uint64, limit int) ([]storage.Entry, error)
	Day(day uint32, after uint64, limit int) ([]storage.Entry, error)
	ByID(ids []uint64) ([]storage.Entry, error)
}

// Group is what all documents of one total have in common.
type Group struct {
	BranchID, PointID int64
	Document          string // CAT-002
	State             storage.State
}

// Row is what the ledger keeps of a document.
type Row struct {
	Day    string // fecEmi, yyyy-mm-dd
	Group  Group
	Amount dte.Amount
}

// Options of New; every field is required.
type Options struct {
	Store Store
	// Read returns the row of a record; ok is false for what is no document.
	Read func(storage.Entry) (row Row, ok bool, err error)
	// Day returns the number of a day (yyyy-mm-dd) in the store. Records of other days may have it too.
	Day func(day string) uint32
	// Rest returns a function that is called after every few records of a day that is read for the first time, and may
	// sleep.
	Rest func() func()
}

// Ledger is safe for concurrent use. It never delays a sale.
type Ledger struct {
	o    Options
	read prometheus.Counter

	mu   sync.Mutex
	days map[string]*day
	tip  uint64 // records up to this id are in their days, if those are known

	building chan struct{} // held by the one who reads days for the first time

	changes sync.Mutex
	touched map[uint64]struct{} // records that changed since they were read
	lost    bool                // there were too many to remember
	builder map[uint64]struct{} // the same, for the days that are being read; nil when none are
}

// maxTouched is how many changes wait for the next question. Beyond, the days are forgotten and read again when asked
// for.
const maxTouched = 1 << 15

// New returns a ledger that has read nothing yet.
func New(o Options) *Ledger {
	return &Ledger{o: o, days: make(map[string]*day), building: make(chan struct{}, 1),
		touched: make(map[uint64]struct{}),
		read: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_list_records_read_total",
			Help: "Records read to list documents and their totals: each once, when it is new or changed, and those " +
				"of each page."})}
}

// Touch notes that a record has changed. The change must be in the store already. It does not wait for readers.
func (l *Ledger) Touch(id uint64) {
	l.changes.Lock()
	defer l.changes.Unlock()
	if len(l.touched) >= maxTouched {
		l.lost = true
		clear(l.touched)
	}
	l.touched[id] = struct{}{}
	if l.builder != nil {
		l.builder[id] = struct{}{}
	}
}

// Query selects documents: by days (yyyy-mm-dd, in order, at most a few dozen) and by groups.
type Query struct {
	Days  []string
	Match func(Group) bool
	// Amount, if not nil, is the amount of the documents; the totals are not of these alone.
	Amount *dte.Amount
	After  uint64 // the last id of the page before
	Limit  int    // 1 or more
}

// Page is the answer to a Query.
type Page struct {
	IDs    []uint64 // growing, at most Limit
	More   bool
	Totals map[Group]Total // of all that the query chooses, whatever the page
}

// Total is the count and the amount of one group.
type Total struct {
	Count  int
	Amount dte.Sum
}

// Page answers a query from what the store holds by now. Days that nobody has asked for since the start are read first:
// one reader at a time, at the pace of Options.Rest; it ends with ctx.
func (l *Ledger) Page(ctx context.Context, q Query) (*Page, error) {
	for {
		l.mu.Lock()
		missing, err := l.follow(q.Days)
		if err != nil {
			l.mu.Unlock()
			return nil, err
		}
		if len(missing) == 0 {
			page := l.page(q)
			l.mu.Unlock()
			return page, nil
		}
		l.mu.Unlock()
		if err := l.build(ctx, missing); err != nil {
			return nil, err
		}
	}
}

// follow brings the days that are known up to the store, and returns those of a query that are not. The caller holds
// mu.
func (l *Ledger) follow(days []string) (missing []string, err error) {
	l.changes.Lock()
	touched, lost := l.touched, l.lost
	l.touched, l.lost = make(map[uint64]struct{}), false
	l.changes.Unlock()
	if lost {
		clear(l.days)
	}
	if len(l.days) == 0 {
		l.tip = l.o.Store.LastID()
	}
	err = l.catchUp(l.days, &l.tip, l.o.Store.LastID())
	if err == nil {
		err = l.refresh(l.days, touched)
	}
	if err != nil { // what was taken is not lost
		clear(l.days)
		return nil, err
	}
	for _, d := range days {
		if l.days[d] == nil {
			missing = append(missing, d)
		}
	}
	return missing, nil
}

// chunk is how many records are read at once.
const chunk = 256

// catchUp reads records from a tip on, up to an id, into days.
func (l *Ledger) catchUp(days map[string]*day, tip *uint64, upTo uint64) error {
	for *tip < upTo {
		entries, err := l.o.Store.Page(*tip, chunk)
		if err != nil {
			return fmt.Errorf("following the store: %w", err)
		}
		if len(entries) == 0 {
			*tip = upTo
			return nil
		}
		for _, e := range entries {
			if err := l.put(days, e); err != nil {
				return err
			}
			*tip = e.ID
		}
	}
	return nil
}

// refresh reads records again that changed.
func (l *Ledger) refresh(days map[string]*day, touched map[uint64]struct{}) error {
	if len(days) == 0 || len(touched) == 0 {
		return nil
	}
	ids := make([]uint64, 0, len(touched))
	for id := range touched {
		ids = append(ids, id)
	}
	entries, err := l.o.Store.ByID(ids)
	if err != nil {
		return fmt.Errorf("following the store: %w", err)
	}
	for _, e := range entries {
		if err := l.put(days, e); err != nil {
			return err
		}
	}
	return nil
}

// put writes a record into its day, if that is one of days.
func (l *Ledger) put(days map[string]*day, e storage.Entry) error {
	l.read.Inc()
	row, ok, err := l.o.Read(e)
	if err != nil || !ok || days[row.Day] == nil {
		return err
	}
	if err := days[row.Day].put(e.ID, row); err != nil {
		return fmt.Errorf("day %s: %w", row.Day, err)
	}
	return nil
}

// Shown counts, for the metrics, the records of a page that the caller has read.
func (l *Ledger) Shown(n int) { l.read.Add(float64(n)) }

// Describe and Collect make the ledger a collector.
func (l *Ledger) Describe(ch chan<- *prometheus.Desc) { l.read.Describe(ch) }

// Collect implements prometheus.Collector.
func (l *Ledger) Collect(ch chan<- prometheus.Metric) { l.read.Collect(ch) }
