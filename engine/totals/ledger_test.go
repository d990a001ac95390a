package totals

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
	"dtegate/storage"
)

// book is a ledger of a real store, whose records are rows as JSON.
type book struct {
	*Ledger
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

// reopen is a restart: the ledger has read nothing.
func (b *book) reopen() {
	b.Ledger = New(Options{Store: b.store, Day: number, Read: read,
		Rest: func() func() { return func() { b.rested++ } }})
}

// number is a day as the store has it.
func number(day string) (n uint32) {
	for _, c := range []byte(day) {
		n = 31*n + uint32(c)
	}
	return n
}

func read(e storage.Entry) (Row, bool, error) {
	if e.State == notDocument {
		return Row{}, false, nil
	}
	var r Row
	err := json.Unmarshal(e.Head, &r)
	r.Group.State = e.State
	return r, true, err
}

func (b *book) append(n int, r Row) storage.Code {
	b.t.Helper()
	var code storage.Code
	binary.BigEndian.PutUint64(code[:], uint64(n+1))
	head, _ := json.Marshal(r)
	if _, err := b.store.Append(context.Background(), storage.Keys{Series: "s"}, storage.Draft{Code: code,
		State: r.Group.State, Head: head, Days: []uint32{number(r.Day)}}); err != nil {
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
	r.Amount = amount
	head, _ := json.Marshal(r)
	if _, err := b.store.Advance(context.Background(), code, e.State, storage.Change{To: to, Head: head}); err != nil {
		b.t.Fatal(err)
	}
	b.Touch(e.ID)
}

// walked answers a query by walking the whole store.
func (b *book) walked(q Query) *Page {
	p := &Page{Totals: make(map[Group]Total)}
	if err := b.store.Records(0, func(e storage.Entry) error {
		r, ok, err := read(e)
		if !ok || err != nil || !slices.Contains(q.Days, r.Day) || !q.Match(r.Group) {
			return err
		}
		t := p.Totals[r.Group]
		t.Count++
		t.Amount.Add(r.Amount)
		p.Totals[r.Group] = t
		switch {
		case e.ID <= q.After:
		case len(p.IDs) < q.Limit:
			p.IDs = append(p.IDs, e.ID)
		default:
			p.More = true
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *book) check(q Query) {
	b.t.Helper()
	got, err := b.Page(context.Background(), q)
	if err != nil {
		b.t.Fatal(err)
	}
	want := b.walked(q)
	if !slices.Equal(got.IDs, want.IDs) || got.More != want.More || fmt.Sprint(got.Totals) != fmt.Sprint(want.Totals) {
		b.t.Fatalf("%v after %d: %v %v %v\nwant %v %v %v", q.Days, q.After, got.IDs, got.More, got.Totals, want.IDs,
			want.More, want.Totals)
	}
}

var days = []string{"2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23", "2026-11-24"}

// TestLedger_Model: whatever is sold, settled, corrected and invalidated, in whatever order, with ids mixed about
// midnight or by clocks that jump, restarts in between, and changes that nobody told before the days were read: each
// page and each total is what a walk through the store gives.
func TestLedger_Model(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := open(t)
		var codes []storage.Code
		day := 0
		for step := range 400 {
			switch n := r.IntN(20); {
			case n < 11:
				today := days[min(len(days)-1, max(0, day-r.IntN(2)*r.IntN(2)))] // now and then the day before
				if seed%2 == 1 && step/40%2 == 1 {
					today = days[r.IntN(len(days))] // the clock jumps
				}
				row := Row{Day: today, Amount: dte.Amount(r.Int64N(int64(dte.MaxAmount))),
					Group: Group{BranchID: 1, PointID: 1 + r.Int64N(3), Document: []string{"01", "03"}[r.IntN(2)],
						State: storage.State(1 + r.IntN(3))}}
				if r.IntN(8) == 0 {
					row.Group.State = notDocument
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
				b.check(Query{Days: days[from : to+1], After: uint64(r.IntN(len(codes) + 2)), Limit: 1 + r.IntN(9),
					Match: func(g Group) bool {
						return (point == 0 || g.PointID == point) && (state == 0 || g.State == state)
					}})
			}
		}
	}
}

// TestLedger_Work: a day is read once; then a page costs nothing but what is new or changed, however many documents
// there are.
func TestLedger_Work(t *testing.T) {
	b := open(t)
	all := Query{Days: days[:1], Limit: 1, Match: func(Group) bool { return true }}
	sell := func(n int) storage.Code {
		return b.append(n, Row{Day: days[0], Amount: 91_999_999_999 * dte.Scale, Group: Group{BranchID: 1, PointID: 1,
			Document: "01", State: 2}})
	}
	const n = 2000
	for i := range n {
		sell(i)
	}
	cost := func(f func()) float64 {
		before := metrictest.Value(t, b.Ledger, "dte_list_records_read_total")
		f()
		return metrictest.Value(t, b.Ledger, "dte_list_records_read_total") - before
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
	p, err := b.Page(context.Background(), all)
	if err != nil {
		t.Fatal(err)
	}
	if total := p.Totals[Group{1, 1, "01", 2}]; total.Count != n || total.Amount.Fixed2() != "183999999998000.00" {
		t.Errorf("%d of the largest sales are %s", total.Count, total.Amount.Fixed2())
	}
	// More changes than are remembered: the day is read again.
	for id := range uint64(maxTouched + 2) {
		b.Touch(id)
	}
	if got := cost(func() { b.check(all) }); got != n+1 {
		t.Errorf("after too many changes: %v records", got)
	}
}

// TestLedger_Beside: pages are right while others sell and settle, and while days are read for the first time; what was
// told before a question is in the answer.
func TestLedger_Beside(t *testing.T) {
	b := open(t)
	ctx := context.Background()
	var work sync.WaitGroup
	for till := range 4 {
		work.Go(func() {
			for i := range 60 {
				day := days[i/20]
				code := b.append(till*1000+i, Row{Day: day, Amount: dte.Scale, Group: Group{BranchID: 1,
					PointID: int64(till), Document: "01", State: 1}})
				b.advance(code, 2, 2*dte.Scale)
				// records behind one that is on its way wait for it
				for e, err := b.store.Get(code); err != nil || b.store.LastID() < e.ID; {
					runtime.Gosched()
				}
				mine := Query{Days: []string{day}, Limit: 100,
					Match: func(g Group) bool { return g.PointID == int64(till) && g.State == 2 }}
				p, err := b.Page(ctx, mine)
				if err != nil {
					t.Error(err)
					return
				}
				total := p.Totals[Group{1, int64(till), "01", 2}]
				if n := i%20 + 1; total.Count != n || total.Amount.Fixed2() != fmt.Sprint(2*n, ".00") ||
					len(p.IDs) != n {
					t.Errorf("till %d sees %d of its %d sales of %s: %s", till, total.Count, n, day,
						total.Amount.Fixed2())
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
	b.check(Query{Days: days, Limit: 500, Match: func(Group) bool { return true }})
	// Who gives up while a day is being read leaves nothing half done.
	b.reopen()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Page(gone, Query{Days: days, Limit: 1, Match: func(Group) bool { return true }}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("%v", err)
	}
	b.check(Query{Days: days, Limit: 3, Match: func(Group) bool { return true }})
}
