package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundletest"
)

// TestRun_EndsAnywhere: the branch ends at every place where its loop checks for its end, while it sends the backlog of
// an outage, and a day later, when refused documents can no longer be corrected. It ends properly, and the next run
// finishes the work.
func TestRun_EndsAnywhere(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Stop()
		<-b.Done
		run := func(c context.Context) {
			if err := b.Engine.Run(c); err != nil {
				t.Fatal(err)
			}
		}
		hour := func() {
			c, end := context.WithTimeout(context.Background(), time.Hour)
			defer end()
			run(c)
		}
		refused := 0
		for n := range 40 {
			b.Cable.Set(enginetest.Refusing)
			for i := range 2 {
				b.Issue(enginetest.Sale("", 500+i))
			}
			b.Chaos(simulator.Chaos{Reject: 1})
			b.Cable.Set(enginetest.Plugged)
			run(enginetest.EndingAfter(n))
			hour()
			o, err := enginetest.OwedBy(b.Engine)
			if err != nil {
				t.Fatal(err)
			}
			refused += o.Waiting[record.QueueCorrect]
			time.Sleep(24 * time.Hour)
			run(enginetest.EndingAfter(n))
			hour()
			if o, err = enginetest.OwedBy(b.Engine); err != nil {
				t.Fatal(err)
			}
			for queue, waiting := range o.Waiting {
				if waiting > 0 {
					t.Errorf("ended at look %d: %d records wait in queue %s", n, waiting, queue)
				}
			}
		}
		if refused < 20 {
			t.Errorf("only %d were refused", refused)
		}
		b.Audit()
	})
}

// TestIssue_EndsAnywhere: a sale's time ends at every place where it is checked. The till gets an error or its
// document; the same key gives that document, and there is only one.
func TestIssue_EndsAnywhere(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		told, last := 0, ""
		for n := range 40 {
			key := strconv.Itoa(n)
			r, err := b.Engine.Issue(enginetest.EndingAfter(n), enginetest.Sale(key, 500+n))
			var e *refusal.Error
			if err != nil && (!errors.As(err, &e) || e.Code != refusal.CodeUnavailable) {
				t.Errorf("ended at look %d: %v", n, err)
			}
			again := b.Issue(enginetest.Sale(key, 500+n))
			if err == nil && again.Code != r.Code {
				t.Errorf("ended at look %d: %s, and then %s", n, r.Code, again.Code)
			}
			if want := fmt.Sprintf("DTE-01-M001P001-%015d", n+1); again.ControlNumber != want {
				t.Errorf("ended at look %d: number %s, want %s", n, again.ControlNumber, want)
			}
			if err == nil {
				told, last = told+1, r.Estado
			}
		}
		if told == 0 || told == 40 || last != record.EstadoProcessed {
			t.Errorf("%d of 40 were told at once, the last was %s", told, last)
		}
		b.Drained()
		b.Audit()
	})
}

// TestShelf_EndsAnywhere: a backtest, a replay and a list of documents end when their caller has gone, and report it.
// None is reported as complete.
func TestShelf_EndsAnywhere(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	for range 3 {
		if _, err := w.Engine.Issue(t.Context(), enginetest.Sale("", 1130)); err != nil {
			t.Fatal(err)
		}
	}
	other := enginetest.Edition(t, "9.0.0", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals)
	month := rulestore.DocumentPeriod{From: "2026-11-01", To: "2026-11-30"}
	for name, work := range map[string]func(context.Context) error{
		"backtest": func(ctx context.Context) error {
			_, a, err := s.Backtest(ctx, other, month,
				rulestore.BacktestReport{Differs: func(*rulestore.Comparison) error { return nil }, Progress: func(int,
					string) error {
					return nil
				}})
			if a != nil && strings.Contains(a.Error, context.Canceled.Error()) {
				return context.Canceled // a step of the admission was not finished
			}
			return err
		},
		"replay": func(ctx context.Context) error {
			return s.ReplayPeriod(ctx, month, func(*rulestore.Comparison) error { return nil })
		},
	} {
		const many = 1 << 30
		whole := enginetest.EndingAfter(many)
		if err := work(whole); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		looks := many - int(whole.Left.Load())
		if looks < 3 {
			t.Errorf("%s looks %d times", name, looks)
		}
		for n := 0; n < looks; n += max(1, looks/8) {
			if err := work(enginetest.EndingAfter(n)); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, ended at look %d of %d: %v", name, n, looks, err)
			}
		}
	}
}
