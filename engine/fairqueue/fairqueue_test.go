package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// work does a piece of work of that duration, and returns Enter's error.
func work(q *Queue, who int64, takes time.Duration) error {
	leave, err := q.Enter(context.Background(), who)
	if err != nil {
		return err
	}
	defer leave()
	time.Sleep(takes)
	return nil
}

// A caller with one request waits at most for one piece of another caller's work, even if the other asked sixty times
// before.
func TestQueue_Round(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Slots: 2, Each: 1, Waiting: 60, Now: time.Now})
		began := time.Now()
		for range 60 {
			go func() {
				if err := work(q, 1, time.Second); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if err := work(q, 2, time.Millisecond); err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("beside one who asks for much: %v after %v", err, time.Since(began))
		}
		var third sync.WaitGroup
		for who := range int64(3) { // three others at once: each in its turn
			third.Go(func() {
				if err := work(q, 10+who, time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		third.Wait()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("three others took %v", took)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if took := time.Since(began); q.free != 2 || took > 2*time.Minute {
			t.Errorf("%d free after %v", q.free, took)
		}
	})
}

func TestQueue_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Slots: 1, Each: 1, Waiting: 2, Now: time.Now, Allowance: Allowance{Burst: 2 * time.Second,
			Share: .25}})
		var busy *Busy
		for range 3 { // one works, two wait
			go func() { _ = work(q, 1, time.Second) }()
		}
		synctest.Wait()
		if err := work(q, 1, time.Second); !errors.As(err, &busy) || busy.Wait != time.Second {
			t.Errorf("a fourth: %v", err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		// Three seconds of work use up twelve seconds of the share; the burst is worth eight, and two have passed since
		// the first ended.
		if err := work(q, 1, time.Second); !errors.As(err, &busy) || busy.Wait != 2*time.Second {
			t.Errorf("beyond its allowance: %v", err)
		}
		if err := work(q, 2, time.Second); err != nil {
			t.Errorf("one pays for another: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := work(q, 1, time.Second); err != nil {
			t.Errorf("after its wait: %v", err)
		}
	})
}

// Whatever is asked and given up, at any moment and by however many callers, no slot is lost or idle while a caller
// waits, none is given twice, no bound is broken and nobody is forgotten who works or waits.
func TestQueue_Soundness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Slots: 3, Each: 2, Waiting: 4, Now: time.Now}
		q := New(o)
		var all atomic.Int32
		for who := range int64(1024) { // with so many in debt, each new caller makes the queue forget others
			q.by[-1-who] = &claim{id: -1 - who, covered: time.Now().Add(time.Hour)}
		}
		var each [2000]atomic.Int32
		var asked sync.WaitGroup
		r := rand.New(rand.NewPCG(5, 6))
		var given atomic.Int32
		known, forgotten := 0, 0
		for i := range 2000 {
			who, takes, patience := r.Int64N(5), time.Duration(r.IntN(20))*time.Millisecond,
				time.Duration(r.IntN(40)-10)*time.Millisecond
			if i%2 == 0 {
				who = r.Int64N(int64(len(each)))
			}
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				leave, err := q.Enter(ctx, who)
				if err != nil {
					return
				}
				given.Add(1)
				if a, e := all.Add(1), each[who].Add(1); int(a) > o.Slots || int(e) > o.Each {
					t.Errorf("%d work, %d of them of one", a, e)
				}
				time.Sleep(takes)
				all.Add(-1)
				each[who].Add(-1)
				leave()
				leave()
			})
			synctest.Wait()
			fault, knows := q.unsound()
			if fault != "" {
				t.Fatalf("request %d: %s", i, fault)
			}
			if knows < known {
				forgotten++
			}
			known = knows
			time.Sleep(time.Duration(r.IntN(1+i/100%2*20)) * time.Millisecond) // a crowd, then hardly anybody
		}
		asked.Wait()
		if fault, _ := q.unsound(); fault != "" || q.free != o.Slots || len(q.round) != 0 || given.Load() < 500 || forgotten < 100 {
			t.Errorf("%s; %d of %d free, %d in the round; %d worked, some were forgotten %d times", fault, q.free,
				o.Slots, len(q.round), given.Load(), forgotten)
		}
	})
}

// unsound returns what is wrong with a queue in which nothing happens at this moment, or "", and how many callers the
// queue knows.
func (q *Queue) unsound() (fault string, known int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	working, waiting := 0, 0
	for id, c := range q.by {
		working += c.working
		at := slices.Index(q.round, c)
		switch {
		case (at >= 0) != (len(c.waiting) > 0):
			return fmt.Sprintf("%d has %d requests and is at %d in the round", id, len(c.waiting), at), 0
		case at >= 0 && q.free > 0 && c.working < q.o.Each:
			return fmt.Sprintf("%d waits, and %d slots are free", id, q.free), 0
		case at >= 0:
			waiting++
		}
	}
	if q.free+working != q.o.Slots || waiting != len(q.round) {
		fault = fmt.Sprintf("%d slots are free and %d in use; %d callers wait, %d are in the round", q.free, working,
			waiting, len(q.round))
	}
	return fault, len(q.by)
}

// TestQueue_Refusal: a caller that asks before it prepares the work gets the error that Enter would give, and takes no
// turn.
func TestQueue_Refusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Slots: 1, Each: 1, Waiting: 1, Now: time.Now, Allowance: Allowance{Burst: time.Second,
			Share: .5}})
		for range 3 {
			if err := q.Refusal(1); err != nil {
				t.Fatalf("one who asked for nothing: %v", err)
			}
		}
		leave, err := q.Enter(t.Context(), 1)
		if err != nil || q.Refusal(1) != nil {
			t.Fatalf("while it works: %v, %v", err, q.Refusal(1))
		}
		waits, stop := context.WithCancel(t.Context())
		go func() { _, _ = q.Enter(waits, 1) }()
		synctest.Wait()
		var busy *Busy
		if err := q.Refusal(1); !errors.As(err, &busy) || q.Refusal(2) != nil {
			t.Errorf("while one waits: %v; another: %v", err, q.Refusal(2))
		}
		stop()
		synctest.Wait()
		if err := q.Refusal(1); err != nil {
			t.Errorf("when none waits any more: %v", err)
		}
		time.Sleep(time.Minute)
		leave()
		if err := q.Refusal(1); !errors.As(err, &busy) || busy.Wait != 118*time.Second {
			t.Errorf("after a minute's work: %v", err)
		}
	})
}

// TestQueue_Forgets: after many callers, those without debt are forgotten, and no debt is.
func TestQueue_Forgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Slots: 1, Each: 1, Waiting: 1, Now: time.Now, Allowance: Allowance{Burst: time.Second,
			Share: .5}})
		var busy *Busy
		if err := work(q, 1, time.Hour); err != nil {
			t.Fatal(err)
		}
		for who := range int64(5000) {
			if err := work(q, 2+who, 0); err != nil {
				t.Fatal(err)
			}
		}
		if len(q.by) > 2048 {
			t.Errorf("%d are remembered", len(q.by))
		}
		if err := work(q, 1, 0); !errors.As(err, &busy) {
			t.Errorf("behind five thousand others an hour's work is forgotten: %v", err)
		}
	})
}

// TestQueue_Model: any caller, however often it asks and however the clock is set, is refused for exactly as long as
// its own earlier work requires; idle time is no credit, no debt is forgotten, and the house owes nothing.
func TestQueue_Model(t *testing.T) {
	now := time.Unix(1e9, 0)
	o := Options{Slots: 1, Each: 1, Waiting: 1, Now: func() time.Time { return now },
		Allowance: Allowance{Burst: 2 * time.Second, Share: .25}}
	q, debts, r := New(o), make(map[int64]time.Time), rand.New(rand.NewPCG(7, 8))
	refused, forgotten := 0, 0
	for range 40_000 {
		who := r.Int64N(4)
		if r.IntN(2) == 0 {
			who = r.Int64N(4000)
		}
		now = now.Add(time.Duration(r.IntN(8)-1) * 50 * time.Millisecond)
		want := max(0, debts[who].Sub(now)) - 8*time.Second
		known := len(q.by)
		leave, err := q.Enter(t.Context(), who)
		if len(q.by) < known {
			forgotten++
			for other, debt := range debts {
				if debt.After(now) && q.by[other] == nil {
					t.Fatalf("%d owes %v, and is forgotten", other, debt.Sub(now))
				}
			}
		}
		var busy *Busy
		if want > 0 && who != House {
			if refused++; !errors.As(err, &busy) || busy.Wait != want {
				t.Fatalf("%d owes %v: %v", who, want, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d may work: %v", who, err)
		}
		worked := time.Duration(r.IntN(40)-4) * 50 * time.Millisecond
		now = now.Add(worked)
		leave()
		if debts[who].Before(now) {
			debts[who] = now
		}
		debts[who] = debts[who].Add(4 * max(0, worked))
	}
	if refused < 200 || forgotten == 0 {
		t.Errorf("%d were refused, and some forgotten %d times", refused, forgotten)
	}
}

// TestQueue_Turns: two callers with much work take turns on the only slot; any number of the house's requests may wait.
func TestQueue_Turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Slots: 1, Each: 1, Waiting: 4, Now: time.Now})
		var order []int64
		var asked sync.WaitGroup
		ask := func(who int64, times int) {
			for range times {
				asked.Go(func() {
					leave, err := q.Enter(t.Context(), who)
					if err != nil {
						t.Errorf("%d: %v", who, err)
						return
					}
					order = append(order, who)
					time.Sleep(time.Second)
					leave()
				})
				synctest.Wait()
			}
		}
		ask(1, 4)
		ask(2, 3)
		ask(House, 9)
		asked.Wait()
		if want := []int64{1, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0}; !slices.Equal(order, want) {
			t.Errorf("the turns were %v, want %v", order, want)
		}
	})
}
