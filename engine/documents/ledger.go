package documents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// ledger holds in memory, for each requested day, the documents for lists, their totals and the counts of the day. A
// day is read from the store at its first use, and then updated record by record; it is never stored. A ledger is safe
// for concurrent use and never delays a sale.
type ledger struct {
	store *storage.Store
	rest  func() func() // see Register.rest
	read  prometheus.Counter

	mu   sync.Mutex
	days map[string]*day // by date
	tip  uint64          // the days in memory contain all their records up to this id

	building chan struct{} // held by the goroutine that reads a day for the first time

	changes sync.Mutex
	touched map[uint64]struct{} // records that changed since they were read
	lost    bool                // touched was full, and some changes are not in it
	builder map[uint64]struct{} // records that changed while build reads a day; nil: build is not reading
}

// maxTouched limits the changes kept for the next query; after more changes, all days are read again.
const maxTouched = 1 << 15

func newLedger(store *storage.Store, rest func() func()) *ledger {
	return &ledger{store: store, rest: rest, days: make(map[string]*day), building: make(chan struct{}, 1),
		touched: make(map[uint64]struct{}),
		read: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_list_records_read_total",
			Help: "Records read to list documents and their totals: each once when new or changed, and the records " +
				"of each page."})}
}

// group identifies the documents that share one total.
type group struct {
	branch, point int64
	document      string // CAT-002
	state         storage.State
}

type total struct {
	count  int
	amount dte.Sum
}

// day holds the documents of a day (fecEmi), by ascending id.
type day struct {
	rows   []row
	groups []group
	index  map[group]uint16
	totals []total // by group
}

// row is a document in 24 bytes.
type row struct {
	id     uint64
	amount dte.Amount
	group  uint16
	hour   uint8 // hour of issue in El Salvador
	late   bool  // issued in contingency
}

func groupOf(entry storage.Entry, h *record.Head) group {
	return group{h.BranchID, h.PointID, h.Document, entry.State}
}

// put writes the present state of a document over its previous row.
func (d *day) put(entry storage.Entry, h *record.Head, amount dte.Amount) error {
	g := groupOf(entry, h)
	n, ok := d.index[g]
	if !ok {
		if len(d.groups) >= 1<<16 {
			return errors.New("more than 65,536 points of sale, types and states")
		}
		n = uint16(len(d.groups))
		d.groups, d.totals, d.index[g] = append(d.groups, g), append(d.totals, total{}), n
	}
	i := d.firstAbove(entry.ID - 1)
	if i < len(d.rows) && d.rows[i].id == entry.ID {
		was := &d.totals[d.rows[i].group]
		was.count--
		was.amount.Sub(d.rows[i].amount)
	} else {
		d.rows = slices.Insert(d.rows, i, row{})
	}
	d.rows[i] = row{id: entry.ID, amount: amount, group: n, hour: uint8(h.CreatedAt.In(dte.Zone).Hour()),
		late: h.Form != record.FormNormal}
	d.totals[n].count++
	d.totals[n].amount.Add(amount)
	return nil
}

func (d *day) firstAbove(after uint64) int {
	i, _ := slices.BinarySearchFunc(d.rows, after+1, func(r row, id uint64) int { return cmp.Compare(r.id, id) })
	return i
}

// query selects documents: by days (yyyy-mm-dd, in order, at most a few dozen) and by groups.
type query struct {
	days  []string
	match func(group) bool
	// amount, if not nil, selects documents of this amount; the totals ignore it.
	amount *dte.Amount
	after  uint64 // the last id of the previous page; 0: the first page
	limit  int    // 1 or more
}

type page struct {
	ids    []uint64 // ascending, at most limit
	more   bool
	totals map[group]total // of all documents of the days and groups, on any page
}

// page answers a query from the store's present contents. It skips the rows of groups that the query does not select.
func (l *ledger) page(ctx context.Context, q query) (*page, error) {
	p := &page{totals: make(map[group]total)}
	err := l.look(ctx, q.days, func(d *day) {
		wanted, found := make([]bool, len(d.groups)), false
		for i, g := range d.groups {
			if t := d.totals[i]; t.count > 0 && q.match(g) {
				sum := p.totals[g]
				sum.count += t.count
				sum.amount.Merge(t.amount)
				p.totals[g], wanted[i], found = sum, true, true
			}
		}
		if found {
			p.gather(d, wanted, q)
		}
	})
	if p.more = len(p.ids) > q.limit; p.more {
		p.ids = p.ids[:q.limit]
	}
	return p, err
}

// gather adds a day's ids to the page. The page keeps the lowest limit+1 ids. Ids of two days may alternate.
func (p *page) gather(d *day, wanted []bool, q query) {
	have := len(p.ids)
	for _, r := range d.rows[d.firstAbove(q.after):] {
		if have > q.limit && r.id > p.ids[have-1] || len(p.ids)-have > q.limit {
			break
		}
		if wanted[r.group] && (q.amount == nil || *q.amount == r.amount) {
			p.ids = append(p.ids, r.id)
		}
	}
	slices.Sort(p.ids)
	p.ids = p.ids[:min(len(p.ids), q.limit+1)]
}

// touch notes that a record has changed in the store. It does not wait for readers.
func (l *ledger) touch(id uint64) {
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

// look calls fn with days that are up to date with the store. It first reads the days not used before, one by one, and
// lets sales go first. If ctx ends, the days already read stay in memory.
func (l *ledger) look(ctx context.Context, days []string, fn func(*day)) error {
	for {
		l.mu.Lock()
		err := l.follow()
		missing := slices.IndexFunc(days, func(d string) bool { return l.days[d] == nil })
		if err == nil && missing < 0 {
			for _, name := range days {
				fn(l.days[name])
			}
		}
		l.mu.Unlock()
		if err != nil || missing < 0 {
			return err
		}
		if err := l.build(ctx, days[missing]); err != nil {
			return err
		}
	}
}

// follow updates the days in memory from the store. The caller holds mu.
func (l *ledger) follow() error {
	l.changes.Lock()
	touched, lost := l.touched, l.lost
	l.touched, l.lost = make(map[uint64]struct{}), false
	l.changes.Unlock()
	if lost {
		clear(l.days)
	}
	if len(l.days) == 0 {
		l.tip = l.store.LastID()
	}
	err := l.catchUp(l.days, &l.tip, l.store.LastID())
	if err == nil {
		err = l.refresh(l.days, touched)
	}
	if err != nil { // the changes taken from touched are lost: read the days again
		clear(l.days)
	}
	return err
}

// build reads a day from the store for the first time. Meanwhile other callers can use the days in memory.
func (l *ledger) build(ctx context.Context, name string) error {
	select {
	case l.building <- struct{}{}:
		defer func() { <-l.building }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	known := l.days[name] != nil // another caller read the day meanwhile
	l.mu.Unlock()
	if known {
		return nil
	}
	l.changes.Lock()
	l.builder = make(map[uint64]struct{})
	l.changes.Unlock()
	days := map[string]*day{name: {index: make(map[group]uint16)}}
	tip, rest, err := l.store.LastID(), l.rest(), error(nil)
	read := 0
	for d, e := range record.OfDay(ctx, l.store, record.Day(name), 0) {
		if err = e; err == nil {
			err = l.put(days, d.Entry)
		}
		if err != nil {
			break
		}
		if read++; read%chunk == 0 {
			rest()
		}
	}
	// Catch up under mu, while the ledger's tip cannot change. Few records have changed since the day was read.
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes.Lock()
	touched := l.builder
	l.builder = nil
	l.changes.Unlock()
	if err == nil {
		err = l.catchUp(days, &tip, l.tip)
	}
	if err == nil {
		err = l.refresh(days, touched)
	}
	if err == nil {
		l.days[name] = days[name]
	}
	return err
}

const chunk = 256

// catchUp puts the records with ids above tip, up to upTo, into days, and sets tip to the last id that it read.
func (l *ledger) catchUp(days map[string]*day, tip *uint64, upTo uint64) error {
	for *tip < upTo {
		entries, err := l.store.Page(*tip, chunk)
		if err != nil {
			return fmt.Errorf("following the store: %w", err)
		}
		if err := l.put(days, entries...); err != nil {
			return err
		}
		if *tip = upTo; len(entries) > 0 {
			*tip = entries[len(entries)-1].ID
		}
	}
	return nil
}

func (l *ledger) refresh(days map[string]*day, touched map[uint64]struct{}) error {
	if len(days) == 0 || len(touched) == 0 {
		return nil
	}
	entries, err := l.store.ByID(slices.Collect(maps.Keys(touched)))
	if err != nil {
		return fmt.Errorf("following the store: %w", err)
	}
	return l.put(days, entries...)
}

// put writes each record into its day if the record is a document and days has the document's day.
func (l *ledger) put(days map[string]*day, entries ...storage.Entry) error {
	for _, e := range entries {
		l.read.Inc()
		if !record.IsDocument(e.State) {
			continue
		}
		h, err := record.DecodeHead(e)
		if err != nil {
			return err
		}
		if days[h.Date] == nil {
			continue
		}
		amount, err := dte.ParseAmount(h.Total)
		if err == nil {
			err = days[h.Date].put(e, h, amount)
		}
		if err != nil {
			return fmt.Errorf("record %d of %s: %w", e.ID, h.Date, err)
		}
	}
	return nil
}

// Today counts the branch's documents of one Salvadoran day, by the hour of issue.
type Today struct {
	Date      string // yyyy-mm-dd
	Hours     [24]Hour
	Documents map[string]int // by type of CAT-002
	Partial   bool           // the day is not completely read yet; call again later
}

// Hour counts the documents issued in an hour, by their first result. A later refusal by MH does not count.
type Hour struct{ Normal, Contingency, Rejected int }

// Today counts the day's documents that MH has decided or that wait in contingency. If ctx ends early, Partial is set.
func (r *Register) Today(ctx context.Context, now time.Time) (Today, error) {
	t := Today{Date: dte.Date(now), Documents: make(map[string]int)}
	err := r.ledger.look(ctx, []string{t.Date}, func(d *day) {
		for _, w := range d.rows {
			g, hour := d.groups[w.group], &t.Hours[w.hour]
			switch {
			case g.state == record.Signed:
				continue
			case w.late:
				hour.Contingency++
			case g.state == record.Rejected:
				hour.Rejected++
			default:
				hour.Normal++
			}
			t.Documents[g.document]++
		}
	})
	if err != nil && ctx.Err() != nil {
		return Today{Date: t.Date, Partial: true}, nil
	}
	return t, err
}
