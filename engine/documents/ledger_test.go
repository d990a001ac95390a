package documents

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// book is a ledger of a real store.
type book struct {
	*ledger
	t      *testing.T
	store  *storage.Store
	rested int
}

const notDocument storage.State = 50

func open(t *testing.T) *book {
	t.Helper()
	o := storage.Options{FS: vfs.NewMem(), Dir: "data", MarkPath: "mark", Logger: slog.New(slog.DiscardHandler),
		Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &book{t: t, store: store}
	b.reopen()
	return b
}

// reopen simulates a restart: the ledger has read nothing.
func (b *book) reopen() {
	b.ledger = newLedger(b.store, func() func() { return func() { b.rested++ } })
}

// testRow is a document as a test means it.
type testRow struct {
	day    string
	group  group
	amount dte.Amount
}

func (r *testRow) head() []byte {
	head, _ := json.Marshal(record.Head{Date: r.day, BranchID: r.group.branch, PointID: r.group.point,
		Document: r.group.document, Total: r.amount.String()})
	return head
}

func read(e storage.Entry) (r testRow, ok bool, err error) {
	if !record.IsDocument(e.State) {
		return r, false, nil
	}
	h, err := record.DecodeHead(e)
	if err != nil {
		return r, false, err
	}
	r = testRow{day: h.Date, group: groupOf(e, h)}
	r.amount, err = dte.ParseAmount(h.Total)
	return r, true, err
}

func (b *book) append(n int, r testRow) storage.Code {
	b.t.Helper()
	var code storage.Code
	binary.BigEndian.PutUint64(code[:], uint64(n+1))
	if _, err := b.store.Append(context.Background(), storage.Keys{Series: "s"}, storage.Draft{Code: code,
		State: r.group.state, Head: r.head(), Days: []uint32{record.Day(r.day)}}); err != nil {
		b.t.Error(err)
	}
	return code
}

func (b *book) advance(code storage.Code, to storage.State, amount dte.Amount) {
	b.t.Helper()
	e, err := b.store.Get(code)
	if err != nil {
		b.t.Fatal(err)
	}
	r, _, _ := read(e)
	r.amount = amount
	if _, err := b.store.Advance(context.Background(), code, e.State, storage.Change{To: to,
		Head: r.head()}); err != nil {
		b.t.Fatal(err)
	}
	b.touch(e.ID)
}

// walked answers a query by walking the whole store.
func (b *book) walked(q query) *page {
	p := &page{totals: make(map[group]total)}
	if err := b.store.Records(0, func(e storage.Entry) error {
		r, ok, err := read(e)
		if !ok || err != nil || !slices.Contains(q.days, r.day) || !q.match(r.group) {
			return err
		}
		t := p.totals[r.group]
		t.count++
		t.amount.Add(r.amount)
		p.totals[r.group] = t
		switch {
		case e.ID <= q.after || q.amount != nil && *q.amount != r.amount:
		case len(p.ids) < q.limit:
			p.ids = append(p.ids, e.ID)
		default:
			p.more = true
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *book) check(q query) {
	b.t.Helper()
	got, err := b.page(context.Background(), q)
	if err != nil {
		b.t.Fatal(err)
	}
	want := b.walked(q)
	if !slices.Equal(got.ids, want.ids) || got.more != want.more || fmt.Sprint(got.totals) != fmt.Sprint(want.totals) {
		b.t.Fatalf("%v after %d: %v %v %v\nwant %v %v %v", q.days, q.after, got.ids, got.more, got.totals, want.ids,
			want.more, want.totals)
	}
}

var days = []string{"2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23", "2026-11-24"}

// TestLedger_Model: documents are sold, settled, corrected and invalidated in any order, with ids out of order around
// midnight or through clock jumps, with restarts, and with changes that were not reported before the days were read:
// each page and each total equals the result of a walk through the store.
func TestLedger_Model(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := open(t)
		var codes []storage.Code
		day := 0
		for step := range 400 {
			switch n := r.IntN(20); {
			case n < 11:
				today := days[min(len(days)-1, max(0, day-r.IntN(2)*r.IntN(2)))] // sometimes the day before
				if seed%2 == 1 && step/40%2 == 1 {
					today = days[r.IntN(len(days))] // the clock jumps
				}
				row := testRow{day: today, amount: dte.Amount(r.Int64N(int64(dte.MaxAmount))),
					group: group{branch: 1, point: 1 + r.Int64N(3), document: []string{"01", "03"}[r.IntN(2)],
						state: storage.State(1 + r.IntN(3))}}
				if r.IntN(8) == 0 {
					row.group.state = notDocument
				}
				codes = append(codes, b.append(len(codes), row))
			case n < 15 && len(codes) > 0:
				code := codes[r.IntN(len(codes))]
				if e, err := b.store.Get(code); err == nil && e.State != notDocument {
					b.advance(code, storage.State(1+r.IntN(3)), dte.Amount(r.Int64N(int64(dte.MaxAmount))))
				}
			case n < 16:
				day = min(len(days)-1, step/80)
			case n < 17 && r.IntN(4) == 0:
				b.reopen()
			default:
				from := r.IntN(len(days))
				to := from + r.IntN(len(days)-from)
				point, state := r.Int64N(4), storage.State(r.IntN(4))
				q := query{days: days[from : to+1], after: uint64(r.IntN(len(codes) + 2)), limit: 1 + r.IntN(9),
					match: func(g group) bool {
						return (point == 0 || g.point == point) && (state == 0 || g.state == state)
					}}
				if r.IntN(2) == 0 && len(codes) > 0 {
					e, _ := b.store.Get(codes[r.IntN(len(codes))])
					one, _, _ := read(e)
					q.amount = &one.amount
				}
				b.check(q)
			}
		}
	}
}

// TestLedger_Unreadable: while a record cannot be read there is no page; afterwards none of the changes of that time is
// missing.
func TestLedger_Unreadable(t *testing.T) {
	b := open(t)
	row := testRow{day: days[0], group: group{branch: 1, point: 1, document: "01", state: 1}, amount: 100}
	q := query{days: days[:1], match: func(group) bool { return true }, limit: 9}
	changed, damaged := b.append(0, row), storage.Code{1}
	b.check(q)
	if _, err := b.store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: damaged, State: 1,
		Head: []byte("damaged"), Days: []uint32{record.Day(row.day)}}); err != nil {
		t.Fatal(err)
	}
	b.advance(changed, 2, 300)
	if _, err := b.page(t.Context(), q); err == nil {
		t.Error("a page without the damaged record")
	}
	if _, err := b.store.Advance(t.Context(), damaged, 1, storage.Change{To: 1, Head: row.head()}); err != nil {
		t.Fatal(err)
	}
	b.check(q)
}

// TestLedger_Work: a day is read once; afterwards a page reads only new or changed documents, however many there are.
func TestLedger_Work(t *testing.T) {
	b := open(t)
	all := query{days: days[:1], limit: 1, match: func(group) bool { return true }}
	sell := func(n int) storage.Code {
		return b.append(n, testRow{day: days[0], amount: 91_999_999_999 * dte.Scale, group: group{branch: 1, point: 1,
			document: "01", state: 2}})
	}
	const n = 2000
	for i := range n {
		sell(i)
	}
	cost := func(f func()) float64 {
		before := metrictest.Value(t, b.read, "dte_list_records_read_total")
		f()
		return metrictest.Value(t, b.read, "dte_list_records_read_total") - before
	}
	if got := cost(func() { b.check(all) }); got != n {
		t.Errorf("the first page reads %v records of %d", got, n)
	}
	if b.rested < n/chunk {
		t.Errorf("reading %d records rests %d times", n, b.rested)
	}
	if got := cost(func() { b.check(all); b.check(all) }); got != 0 {
		t.Errorf("the next pages read %v records", got)
	}
	code := sell(n)
	if got := cost(func() { b.check(all) }); got != 1 {
		t.Errorf("one new document: %v records", got)
	}
	b.advance(code, 3, 5)
	b.advance(code, 4, 6)
	if got := cost(func() { b.check(all) }); got != 1 {
		t.Errorf("one that changed twice: %v records", got)
	}
	p, err := b.page(context.Background(), all)
	if err != nil {
		t.Fatal(err)
	}
	if total := p.totals[group{1, 1, "01", 2}]; total.count != n || total.amount.Fixed2() != "183999999998000.00" {
		t.Errorf("%d of the largest sales are %s", total.count, total.amount.Fixed2())
	}
	// More changes than are remembered: the day is read again.
	for id := range uint64(maxTouched + 2) {
		b.touch(id)
	}
	if got := cost(func() { b.check(all) }); got != n+1 {
		t.Errorf("after too many changes: %v records", got)
	}
}

// TestLedger_Bound: a day holds as many groups as a row can name, and refuses another one.
func TestLedger_Bound(t *testing.T) {
	for have, fits := range map[int]bool{1<<16 - 1: true, 1 << 16: false} {
		d := &day{groups: make([]group, have), totals: make([]total, have), index: make(map[group]uint16)}
		if err := d.put(storage.Entry{ID: 1}, &record.Head{}, 1); (err == nil) != fits {
			t.Errorf("with %d groups: %v", have, err)
		}
	}
}

// TestLedger_Beside: pages are right while others sell and settle, and while days are read for the first time; a change
// reported before a query is in its answer.
func TestLedger_Beside(t *testing.T) {
	b := open(t)
	ctx := context.Background()
	var work sync.WaitGroup
	for till := range 4 {
		work.Go(func() {
			for i := range 60 {
				day := days[i/20]
				code := b.append(till*1000+i, testRow{day: day, amount: dte.Scale, group: group{branch: 1,
					point: int64(till), document: "01", state: 1}})
				b.advance(code, 2, 2*dte.Scale)
				// records after one that is not durable yet wait for it
				for e, err := b.store.Get(code); err != nil || b.store.LastID() < e.ID; {
					runtime.Gosched()
				}
				mine := query{days: []string{day}, limit: 100,
					match: func(g group) bool { return g.point == int64(till) && g.state == 2 }}
				p, err := b.page(ctx, mine)
				if err != nil {
					t.Error(err)
					return
				}
				total := p.totals[group{1, int64(till), "01", 2}]
				if n := i%20 + 1; total.count != n || total.amount.Fixed2() != fmt.Sprint(2*n, ".00") ||
					len(p.ids) != n {
					t.Errorf("till %d sees %d of its %d sales of %s: %s", till, total.count, n, day,
						total.amount.Fixed2())
				}
				if i == 30 && till == 0 {
					b.mu.Lock()
					clear(b.days) // the days are read anew in the middle of it
					b.mu.Unlock()
				}
			}
		})
	}
	work.Wait()
	b.check(query{days: days, limit: 500, match: func(group) bool { return true }})
	// A caller that gives up while a day is being read leaves nothing half done.
	b.reopen()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.page(gone, query{days: days, limit: 1, match: func(group) bool { return true }}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("%v", err)
	}
	b.check(query{days: days, limit: 3, match: func(group) bool { return true }})
}

// TestLedger_Meanwhile: a document that changes or is issued while its day is read for the first time is in the answer
// as it is, even if another caller has taken the changes meanwhile.
func TestLedger_Meanwhile(t *testing.T) {
	b := open(t)
	row := testRow{day: days[0], amount: dte.Scale, group: group{branch: 1, point: 1, document: "01", state: 1}}
	first := b.append(0, row)
	for n := range 2 * chunk {
		b.append(n+1, row)
	}
	all := func(day string) query {
		return query{days: []string{day}, limit: 1, match: func(group) bool { return true }}
	}
	b.check(all(days[1])) // another day is in memory
	changed := false
	b.ledger.rest = func() func() {
		return func() {
			if changed {
				return
			}
			changed = true
			b.advance(first, 2, 5*dte.Scale)
			b.check(all(days[1]))
		}
	}
	last, issued := 0.0, false
	if _, err := b.page(asked{t.Context(), func() { // after each part that is read
		switch read := metrictest.Value(t, b.read, "dte_list_records_read_total"); {
		case read == last && !issued: // it was the empty one: the day is read
			issued = true
			b.append(2*chunk+1, row)
			b.check(all(days[1]))
		default:
			last = read
		}
	}}, all(days[0])); err != nil {
		t.Fatal(err)
	}
	b.check(all(days[0]))
	if !changed || !issued {
		t.Errorf("meanwhile a document was changed: %v, issued: %v", changed, issued)
	}
}

// asked is a context that calls a function when it is asked whether it has ended.
type asked struct {
	context.Context
	then func()
}

func (a asked) Err() error { a.then(); return a.Context.Err() }

// An event that cannot be read for a while makes the tally forget no event and count none twice.
func TestTally_Unreadable(t *testing.T) {
	b := open(t)
	tally := &Tally{documents: &Register{store: b.store}}
	sealed := []byte(`{"sealed":"2026-11-20T12:00:00Z"}`)
	var codes []storage.Code
	for n := range 3 {
		codes = append(codes, storage.Code{byte(n + 1)})
		if _, err := b.store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: codes[n],
			State: record.EventSigned, Head: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	now := func(n int, from, to storage.State, head []byte) {
		if _, err := b.store.Advance(t.Context(), codes[n], from, storage.Change{To: to, Head: head}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tally.countEvents(); err != nil || len(tally.open) != 3 {
		t.Fatalf("%d events are open: %v", len(tally.open), err)
	}
	now(0, record.EventSigned, record.EventAccepted, sealed)
	now(1, record.EventSigned, record.EventAccepted, []byte("damaged"))
	for range 2 {
		if _, err := tally.countEvents(); err == nil {
			t.Error("a damaged event was counted")
		}
	}
	now(1, record.EventAccepted, record.EventAccepted, sealed)
	if _, err := tally.countEvents(); err != nil || len(tally.received) != 2 || len(tally.open) != 1 {
		t.Errorf("%d events are sealed and %d open: %v", len(tally.received), len(tally.open), err)
	}
}

// A closing counts a document once for each of its methods of payment, and adds up all amounts.
func TestClosing_Payments(t *testing.T) {
	d := dayCount{payments: make(map[string]*tallyOf)}
	for _, kind := range []string{bundle.Sale, bundle.Sale, bundle.Purchase} {
		summary, err := dte.Parse([]byte(`{"pagos":[{"codigo":"01","montoPago":1.50},{"codigo":"02","montoPago":2},` +
			`{"codigo":"01","montoPago":0.25}]}`))
		if err != nil {
			t.Fatal(err)
		}
		d.pay(summary, kind)
	}
	for method, want := range map[string]string{"01": "3 3.50 1.75", "02": "3 4.00 2.00"} {
		p := of(d.payments, method)
		if got := fmt.Sprint(p.count, " ", p.sum.Fixed2(), " ", p.vat.Fixed2()); got != want {
			t.Errorf("method %s: documents, received and paid are %s, want %s", method, got, want)
		}
	}
}
