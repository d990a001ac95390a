package engine_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
)

// manyLined returns a sale with that many lines.
func manyLined(key string, lines int) engine.Request {
	req := enginetest.Sale(key, 100)
	line := req.Facts.Get(rulestore.LinesName).Index(0)
	items := make([]dte.Value, lines)
	for i := range items {
		items[i] = line.With("numItem", dte.Int(int64(i+1)))
	}
	req.Facts = req.Facts.With(rulestore.LinesName, dte.Arr(items...))
	return req
}

// Of sales with many lines, at most as many as half of the cores work at once; a till's small sales pass them.
func TestIssue_LargeTakeTurns(t *testing.T) {
	const cores, slots = 4, 2
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * cores)) // as in dted
	w := enginetest.NewWorld(t)
	defer w.Close()
	entered, proceed := make(chan struct{}, 100), make(chan struct{})
	var small, asked atomic.Int64
	w.Engine.Opts().Gate = func(record.Point) error {
		asked.Add(1)
		if small.Load() == 1 {
			return nil
		}
		entered <- struct{}{}
		<-proceed
		return nil
	}
	var sold sync.WaitGroup
	for i := range slots + 3 {
		sold.Go(func() {
			if _, err := w.Engine.Issue(context.Background(), manyLined("large "+strconv.Itoa(i),
				engine.ManyLines)); err != nil {
				t.Error(err)
			}
		})
	}
	for range slots {
		<-entered
	}
	small.Store(1) // from here on the gate stands open
	if r, err := w.Engine.Issue(context.Background(), manyLined("small", engine.ManyLines-1)); err != nil ||
		r.Estado != record.EstadoProcessed {
		t.Errorf("a sale of fewer lines: %+v, %v", r, err)
	}
	if got := asked.Load() - 1; got != slots {
		t.Errorf("%d large sales work at once, want %d", got, slots)
	}
	close(proceed)
	sold.Wait()
	if end, err := w.Engine.Large().Enter(context.Background(), 1); err != nil {
		t.Error(err)
	} else {
		end()
	}
}

// TestIssue_LargeRefused: a sale with many lines that gets no turn is refused with advice for the till, and spends no
// number; its key is free.
func TestIssue_LargeRefused(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	const other = 99
	token := manyLined("", 1).Caller.TokenID
	var ends []func()
	for range max(1, runtime.GOMAXPROCS(0)/4) {
		end, err := w.Engine.Large().Enter(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	var waiting sync.WaitGroup
	enter := func() {
		if end, err := w.Engine.Large().Enter(context.Background(), token); err == nil {
			end()
		}
	}
	full := func() {
		for w.Engine.Large().Refusal(token) == nil {
			runtime.Gosched()
		}
	}
	for range 15 {
		waiting.Go(enter)
	}
	gone, hangUp := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := w.Engine.Issue(gone, manyLined("a", engine.ManyLines))
		left <- err
	}()
	full() // the sale is the sixteenth that waits
	hangUp()
	err := <-left
	enginetest.Refused(t, err, refusal.CodeUnavailable, "")
	waiting.Go(enter)
	full()
	_, err = w.Engine.Issue(t.Context(), manyLined("a", engine.ManyLines))
	enginetest.Refused(t, err, refusal.CodeBusy, "")
	for _, end := range ends {
		end()
	}
	waiting.Wait()
	if r, err := w.Engine.Issue(t.Context(), manyLined("a", engine.ManyLines)); err != nil ||
		enginetest.Text(t, r, "identificacion",
			"numeroControl") != "DTE-01-M001P001-000000000000001" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A sale with many lines that waits for MH delays no other such sale.
func TestIssue_LargeBesideWaiting(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	sales := max(1, runtime.GOMAXPROCS(0)/4) + 1
	var there atomic.Int64
	all := make(chan struct{})
	w.Wire.At = func(point string) {
		if point != "before /fesv/recepciondte" {
			return
		}
		if there.Add(1) == int64(sales) {
			close(all)
		}
		select {
		case <-all:
		case <-time.After(time.Minute):
			t.Error("one waits for MH, and the other for it")
		}
	}
	var sold sync.WaitGroup
	for i := range sales {
		sold.Go(func() {
			if _, err := w.Engine.Issue(context.Background(), manyLined(strconv.Itoa(i), engine.ManyLines)); err != nil {
				t.Error(err)
			}
		})
	}
	sold.Wait()
}
