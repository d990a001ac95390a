package documents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/authority"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage"
)

// books are three days of two points of sale: on each day a sale of each type at each point, each a dollar more
// expensive than the last. One was refused, one waits, the first was invalidated.
func books(t *testing.T) (*enginetest.World, []documents.Line) {
	w := enginetest.NewWorld(t)
	var all []documents.Line
	for day := range 3 {
		w.Clock.Set(enginetest.Start.AddDate(0, 0, day))
		for i := range 4 {
			price := fmt.Sprint(len(all) + 1)
			req := enginetest.Invoice(price, enginetest.Item(1, "1", price))
			if i >= 2 {
				req = enginetest.Voucher(price, enginetest.Item(1, "1", price)) // VAT of 13 % comes on top
			}
			req.Caller.Point = enginetest.TestCaller(1 + i%2).Point
			estado := record.EstadoProcessed
			switch len(all) {
			case 5: // day 2, point 2, 01
				estado = record.EstadoRejected
				if err := w.Sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
					t.Fatal(err)
				}
			case 11: // day 3, point 2, 03
				list(w, wholly()) // a document that changes after it was listed is listed in its new state
				if _, err := w.Engine.Invalidate(context.Background(), enginetest.Invalidation(&record.View{Code: all[0].Code}, 2,
					"")); err != nil {
					t.Fatal(err)
				}
				all[0].Estado = record.EstadoInvalidated
				estado = record.EstadoContingency
				w.Wire.Sever()
			}
			r := w.Issued(req, estado)
			all = append(all, documents.Line{ID: r.ID, Tipo: r.Tipo, Document: req.Document, Code: r.Code,
				ControlNumber: r.ControlNumber, Estado: estado,
				Total: r.Total, Date: fmt.Sprint("2026-11-", 21+day), Sello: r.Sello, PointID: int64(1 + i%2),
				CreatedAt: r.CreatedAt})
		}
	}
	w.Wire.Mend()
	return w, all
}

// wholly chooses everything of books.
func wholly() documents.Filter {
	return documents.Filter{From: "2026-11-21", To: "2026-11-23", Limit: 500}
}

func list(w *enginetest.World, f documents.Filter) *documents.Listing {
	w.T.Helper()
	l, err := w.Engine.Documents().List(context.Background(), f, enginetest.TestCaller(1))
	if err != nil {
		w.T.Fatalf("%+v: %v", f, err)
	}
	return l
}

// Page by page every document appears once, in order, and each page has the totals of all.
func TestList_Pages(t *testing.T) {
	w, all := books(t)
	defer w.Close()
	totals := []documents.Total{
		{Tipo: "CREDITO_FISCAL", Estado: record.EstadoContingency, Count: 1, Amount: "13.56"}, // 12 and 13 %
		// 3+4+7+8+11 = 33, and 13 %
		{Tipo: "CREDITO_FISCAL", Estado: record.EstadoProcessed, Count: 5, Amount: "37.29"},
		{Tipo: "FACTURA_CONSUMIDOR_FINAL", Estado: record.EstadoInvalidated, Count: 1, Amount: "1.00"},
		{Tipo: "FACTURA_CONSUMIDOR_FINAL", Estado: record.EstadoProcessed, Count: 4, Amount: "26.00"}, // 2+5+9+10
		{Tipo: "FACTURA_CONSUMIDOR_FINAL", Estado: record.EstadoRejected, Count: 1, Amount: "6.00"},
	}
	// A closed last page, an open one, a page of all, one that has room.
	for _, limit := range []int{2, 5, 12, 500} {
		f := wholly()
		f.Limit = limit
		var got []documents.Line
		for pages := 0; ; pages++ {
			l := list(w, f)
			if got = append(got, l.Lines...); !reflect.DeepEqual(l.Totals, totals) {
				t.Errorf("pages of %d: totals %v, want %v", limit, l.Totals, totals)
			}
			if f.After = l.Next; l.Next == 0 {
				if want := (len(all) - 1) / limit; pages != want {
					t.Errorf("pages of %d: %d before the last, want %d", limit, pages, want)
				}
				break
			}
			if len(l.Lines) != limit {
				t.Fatalf("pages of %d: %d documents, and more follow", limit, len(l.Lines))
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("pages of %d:\n%+v\nwant\n%+v", limit, got, all)
		}
	}
}

func TestList_Filters(t *testing.T) {
	w, all := books(t)
	defer w.Close()
	for name, c := range map[string]struct {
		set  func(*documents.Filter)
		want []int // of books
	}{
		"from":        {func(f *documents.Filter) { f.From = "2026-11-23" }, []int{8, 9, 10, 11}},
		"to":          {func(f *documents.Filter) { f.To = "2026-11-21" }, []int{0, 1, 2, 3}},
		"one day":     {func(f *documents.Filter) { f.From, f.To = "2026-11-22", "2026-11-22" }, []int{4, 5, 6, 7}},
		"days before": {func(f *documents.Filter) { f.From, f.To = "2026-11-01", "2026-11-20" }, nil},
		"days after":  {func(f *documents.Filter) { f.From, f.To = "2026-11-24", "2026-12-24" }, nil},
		"point":       {func(f *documents.Filter) { f.PointID = 2 }, []int{1, 3, 5, 7, 9, 11}},
		"another":     {func(f *documents.Filter) { f.PointID = 3 }, nil},
		"type":        {func(f *documents.Filter) { f.Documents = []string{"03"} }, []int{2, 3, 6, 7, 10, 11}},
		"types":       {func(f *documents.Filter) { f.Documents = []string{"14", "01"} }, []int{0, 1, 4, 5, 8, 9}},
		"processed": {func(f *documents.Filter) { f.Estado = record.EstadoProcessed }, []int{1, 2, 3, 4, 6, 7, 8, 9,
			10}},
		"rejected":    {func(f *documents.Filter) { f.Estado = record.EstadoRejected }, []int{5}},
		"contingency": {func(f *documents.Filter) { f.Estado = record.EstadoContingency }, []int{11}},
		"invalidated": {func(f *documents.Filter) { f.Estado = record.EstadoInvalidated }, []int{0}},
		"all together": {func(f *documents.Filter) {
			f.From, f.PointID, f.Documents, f.Estado = "2026-11-22", 1, []string{"01"}, record.EstadoProcessed
		}, []int{4, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			f := wholly()
			c.set(&f)
			var want []documents.Line
			count, sum := 0, dte.Amount(0)
			for _, i := range c.want {
				want = append(want, all[i])
			}
			whole := list(w, f)
			if !slices.Equal(whole.Lines, want) {
				t.Errorf("got %+v\nwant %+v", whole.Lines, want)
			}
			for _, total := range whole.Totals {
				a, err := dte.ParseAmount(total.Amount)
				if err != nil {
					t.Fatal(err)
				}
				count, sum = count+total.Count, sum+a
			}
			for _, x := range want {
				a, err := dte.ParseAmount(x.Total)
				if err != nil {
					t.Fatal(err)
				}
				sum -= a
			}
			if count != len(want) || sum != 0 {
				t.Errorf("the totals count %d of %d, and are %s off: %v", count, len(want), sum.Fixed2(), whole.Totals)
			}
			// A document is found by its key, whatever its day, only where the other filters select it.
			for i, x := range all {
				byKey := f
				byKey.From, byKey.To = wholly().From, wholly().To
				want := slices.DeleteFunc(list(w, byKey).Lines, func(l documents.Line) bool { return l != x })
				if byKey.Key = fmt.Sprint(i + 1); f.PointID == 0 {
					byKey.PointID = x.PointID
				}
				if got := list(w, byKey).Lines; !slices.Equal(got, want) {
					t.Errorf("by the key of %d comes %+v, want %+v", i, got, want)
				}
				stranger := enginetest.TestCaller(1)
				stranger.Point.BranchID++
				if l, err := w.Engine.Documents().List(t.Context(), byKey, stranger); err != nil || len(l.Lines) > 0 {
					t.Errorf("another branch gets %+v by a key: %v", l, err)
				}
			}
			if f.Limit = 1; len(want) > 1 { // the cursor goes by the filter too
				f.After = list(w, f).Next
				if got := list(w, f).Lines; !slices.Equal(got, want[1:2]) {
					t.Errorf("behind the first comes %+v, want %+v", got, want[1])
				}
			}
		})
	}
}

// TestList_Work: a page reads only the records that it shows, whatever the filter and however many documents there are;
// two of the largest sales add up correctly.
func TestList_Work(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Wire.Sever()
	const n = 40
	for range n {
		w.Issued(
			enginetest.Voucher("", enginetest.Item(1, "1", "81415929200")),
			record.EstadoContingency,
		) // and VAT of 13 %
	}
	read := func(f documents.Filter) (*documents.Listing, float64) {
		before := metrictest.Value(t, w.Engine, "dte_list_records_read_total")
		l := list(w, f)
		return l, metrictest.Value(t, w.Engine, "dte_list_records_read_total") - before
	}
	f := wholly()
	f.Limit = 1
	first, _ := read(f) // reads the days
	one, err := dte.ParseAmount(first.Lines[0].Total)
	if err != nil {
		t.Fatal(err)
	}
	var sum dte.Sum
	for range n {
		sum.Add(one)
	}
	if got := first.Totals[0]; got.Count != n || got.Amount != sum.Fixed2() || strings.HasPrefix(got.Amount, "-") {
		t.Errorf("%d sales of %s add up to %s, want %s", n, one.Fixed2(), got.Amount, sum.Fixed2())
	}
	for _, set := range []func(*documents.Filter){func(*documents.Filter) {},
		func(f *documents.Filter) { f.After = first.Next },
		func(f *documents.Filter) { f.Estado = record.EstadoRejected },
		func(f *documents.Filter) { f.Documents = []string{"14"} }, func(f *documents.Filter) { f.Limit = 10 }} {
		f := f
		set(&f)
		if l, records := read(f); records != float64(len(l.Lines)) {
			t.Errorf("%+v: %v records are read for %d lines", f, records, len(l.Lines))
		}
	}
}

func TestList_Stranger(t *testing.T) {
	w, _ := books(t)
	defer w.Close()
	stranger := enginetest.TestCaller(1)
	stranger.Point.BranchID++
	l, err := w.Engine.Documents().List(context.Background(), wholly(), stranger)
	if err != nil || len(l.Lines) != 0 || l.Next != 0 || len(l.Totals) != 0 {
		t.Fatalf("another branch sees %+v %v", l, err)
	}
}

// The clock is a day ahead for a while, longer than any window of ids, and is then corrected: the list of each day has
// exactly its documents, and so have the month's books and the day's counts.
func TestList_ClockAhead(t *testing.T) {
	skip.Short(t)
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Wire.Sever()
	sell := func(till, n int) {
		for range n {
			req := enginetest.Sale("", 100)
			req.Caller = enginetest.TestCaller(till)
			if _, err := w.Engine.Issue(context.Background(), req); err != nil {
				t.Error(err)
			}
		}
	}
	const sales = 320 // of each day, in two runs
	run := func(day int) {
		w.Clock.Set(enginetest.Start.AddDate(0, 0, day))
		var wg sync.WaitGroup
		for till := range 16 {
			wg.Go(func() { sell(1+till, sales/16) })
		}
		wg.Wait()
	}
	for _, day := range []int{0, 1, 0, 1} {
		run(day)
	}
	for day := range 2 {
		at := dte.Date(enginetest.Start.AddDate(0, 0, day))
		w.Clock.Set(enginetest.Start.AddDate(0, 0, day))
		l := list(w, documents.Filter{From: at, To: at, Limit: 1})
		want := []documents.Total{{Tipo: "FACTURA_CONSUMIDOR_FINAL", Estado: record.EstadoContingency, Count: 2 * sales,
			Amount: fmt.Sprint(2*sales, ".00")}}
		if !reflect.DeepEqual(l.Totals, want) || len(l.Lines) != 1 || l.Lines[0].Date != at {
			t.Errorf("%s: %+v, want %v", at, l, want)
		}
		today, err := w.Engine.Documents().Today(t.Context(), w.Now())
		if err != nil || today.Documents["01"] != 2*sales {
			t.Errorf("%s: %d documents are counted, want %d: %v", at, today.Documents["01"], 2*sales, err)
		}
		n, reader := 0, documents.NewMonthReader(w.Store)
		for after, more := uint64(0), true; more; {
			p, err := reader.Page(at[:7], after)
			if err != nil {
				t.Fatal(err)
			}
			n, after, more = n+len(p.Documents), p.Next, p.Next > 0
		}
		if n != 4*sales {
			t.Errorf("the month's books have %d documents, want %d", n, 4*sales)
		}
	}
}

// TestList_States: of what a store has, every look at it shows the caller's branch alone, each document in its public
// state, and a seal only where MH has sealed. What MH has not answered has no public state: only a closing counts it.
func TestList_States(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	day, caller := dte.Date(w.Now()), enginetest.TestCaller(1)
	states := []storage.State{record.Accepted, record.Rejected, record.Deferred, record.Reported, record.Invalidated,
		record.Signed}
	var codes []dte.Code
	for branch := int64(1); branch <= 2; branch++ {
		for i, state := range states {
			code, key := dte.Code{byte(branch), byte(i), 6: 0x40, 8: 0x80}, fmt.Sprint(branch, state)
			head, err := json.Marshal(record.Head{Document: "01", Date: day, BranchID: branch, PointID: 1, Origin: "x",
				Form: record.FormNormal, Total: fmt.Sprint(1<<i, ".00"), ControlNumber: "DTE-" + key, CreatedAt: w.Now(),
				Response: &authority.Response{SelloRecibido: "SELLO", DescripcionMsg: "NO"}})
			if err == nil {
				_, err = w.Store.Append(t.Context(), storage.Keys{Series: "s", Idempotency: &storage.Idempotency{
					Key: record.IdempotencyKey(1, key)}}, storage.Draft{Code: storage.Code(code), State: state, Head: head,
					Days: []uint32{record.Day(day)}})
			}
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
	}
	r := w.Engine.Documents()
	infos, err := r.Infos(t.Context(), append(codes, dte.Code{9}), caller)
	if err != nil || len(infos) != len(codes)+1 {
		t.Fatalf("%d of %d: %v", len(infos), len(codes), err)
	}
	f := documents.Filter{From: day, To: day, Limit: 100}
	lines, totals := list(w, f).Lines, make(map[string]int)
	for i, info := range infos[:len(codes)] {
		estado := record.Estado(states[i%len(states)])
		want := documents.Info{Code: codes[i].String()}
		if i < len(states) && estado != "" {
			want = documents.Info{Code: want.Code, Estado: estado, Tipo: "FACTURA_CONSUMIDOR_FINAL", Found: true}
			if totals[estado]++; estado != record.EstadoRejected {
				want.Sello = "SELLO"
			}
		}
		if info != want {
			t.Errorf("%+v, want %+v", info, want)
		}
		at := slices.IndexFunc(lines, func(l documents.Line) bool { return l.Code == want.Code })
		if (at >= 0) != want.Found || want.Found && (lines[at].Estado != estado || lines[at].Sello != want.Sello) {
			t.Errorf("%+v is listed as %+v", want, lines)
		}
		key := f
		key.Key = fmt.Sprint(1+i/len(states), states[i%len(states)])
		for control, amount := range map[string]dte.Amount{"": 0, "DTE-" + key.Key: dte.Scale << (i % len(states)),
			"DTE-other": 0, "DTE-" + key.Key + " ": 0, " ": dte.Scale} {
			key.ControlNumber, key.Amount = strings.TrimPrefix(control, " "), nil
			if amount > 0 {
				key.Amount = &amount
			}
			matches := (control == "" || control == "DTE-"+key.Key || control == " " && i%len(states) == 0)
			if l := list(w, key); len(l.Lines) > 0 != (want.Found && matches) {
				t.Errorf("by the key of %+v and %q, %v: %+v", want, key.ControlNumber, amount, l.Lines)
			}
		}
	}
	if info := infos[len(codes)]; info != (documents.Info{Code: dte.Code{9}.String()}) {
		t.Errorf("nothing there is %+v", info)
	}
	x, err := r.Closing(t.Context(), day, true, 1, caller, w.Now())
	if err != nil {
		t.Fatal(err)
	}
	totals[record.EstadoContingency]++ // what MH has not answered
	for _, g := range x.Groups {
		if g.Count != totals[g.Estado] || g.Document != "01" {
			t.Errorf("the closing has %+v, want %v", g, totals)
		}
	}
	if len(x.Groups) != len(totals) || x.Net.Total != "45.00" || x.Unread != len(states) { // 1 + 4 + 8 + 32
		t.Errorf("%+v, want %v", x, totals)
	}
	// A note that lost its signed bytes and its origin is one document without details.
	head, err := json.Marshal(record.Head{Document: "05", Date: day, BranchID: 1, PointID: 1, Origin: dte.Code{9}.String(),
		Form: record.FormNormal, Total: "1.00", ControlNumber: "DTE-05", CreatedAt: w.Now()})
	if err == nil {
		_, err = w.Store.Append(t.Context(), storage.Keys{Series: "n"}, storage.Draft{Code: storage.Code{8, 6: 0x40,
			8: 0x80}, State: record.Accepted, Head: head, Days: []uint32{record.Day(day)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if x, err := r.Closing(t.Context(), day, true, 1, caller, w.Now()); err != nil || x.Unread != len(states)+1 {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestChanges: late results of the caller's branch come in order, each once: MH's seal of what it accepted, its words on
// what it refused. A call behind the last result waits for the next.
func TestChanges(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	r, caller := w.Engine.Documents(), enginetest.TestCaller(1)
	decided := func(n byte, branch int64, to storage.State) {
		head, err := json.Marshal(record.Head{Document: "01", Date: dte.Date(w.Now()), BranchID: branch, PointID: 1,
			Form: record.FormContingency, Total: "1.00", ControlNumber: fmt.Sprint("DTE-", n),
			Response: &authority.Response{SelloRecibido: "SELLO", DescripcionMsg: "TOTAL NO ES CORRECTO"}})
		if err == nil {
			_, err = w.Store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: storage.Code{n},
				State: record.Reported, Head: head, Days: []uint32{record.Day(dte.Date(w.Now()))}})
		}
		if err == nil {
			_, err = w.Store.Advance(t.Context(), storage.Code{n}, record.Reported, storage.Change{To: to, Announce: true})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	decided(1, 1, record.Accepted)
	decided(2, 2, record.Accepted)
	decided(3, 1, record.Rejected)
	late, next, err := r.Changes(t.Context(), 0, caller)
	if err != nil || len(late) != 2 || late[0].ControlNumber != "DTE-1" || late[0].Sello != "SELLO" || late[0].Text != "" ||
		late[0].Estado != record.EstadoProcessed || late[1].ControlNumber != "DTE-3" || late[1].Sello != "" ||
		!strings.Contains(late[1].Text, "TOTAL NO ES CORRECTO") || late[1].Estado != record.EstadoRejected ||
		next != late[1].Cursor {
		t.Fatalf("%+v, then %d: %v", late, next, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if late, same, err := r.Changes(over, next, caller); err != nil || len(late) > 0 || same != next {
		t.Errorf("behind the last: %+v, then %d: %v", late, same, err)
	}
	decided(4, 2, record.Rejected) // of another branch: the call goes on waiting
	decided(5, 1, record.Accepted)
	if late, _, err := r.Changes(t.Context(), next, caller); err != nil || len(late) != 1 ||
		late[0].ControlNumber != "DTE-5" {
		t.Errorf("the next: %+v: %v", late, err)
	}
	if late, _, err := r.Changes(t.Context(), late[0].Cursor, caller); err != nil || len(late) != 2 {
		t.Errorf("behind the first: %+v: %v", late, err)
	}
}
