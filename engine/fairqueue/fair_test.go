package fairqueue

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// work does a piece of work that takes so long, and reports what Enter said.
func work(q *Queue, who int64, takes time.Duration) error {
	leave, err := q.Enter(context.Background(), who)
	if err != nil {
		return err
	}
	defer leave()
	time.Sleep(takes)
	return nil
}

// Whoever asks once waits for one piece of another's work at most, though that one asked sixty times before.
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
		q := New(Options{Slots: 1, Each: 1, Waiting: 2, Now: time.Now, Allowance: Allowance{Burst: 2 * time.Second, Share: .25}})
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
		// Three seconds of work are twelve of its share; the burst is worth eight, and two have passed since the first ended.
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

// Whatever is asked and given up, at whatever moment, no slot is lost, none is given twice, and no bound is broken.
func TestQueue_Soundness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Slots: 3, Each: 2, Waiting: 4, Now: time.Now}
		q := New(o)
		var all atomic.Int32
		var each [5]atomic.Int32
		var asked sync.WaitGroup
		r := rand.New(rand.NewPCG(5, 6))
		for range 2000 {
			who, takes, patience := r.Int64N(5), time.Duration(r.IntN(20))*time.Millisecond, time.Duration(r.IntN(40))*time.Millisecond
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				leave, err := q.Enter(ctx, who)
				if err != nil {
					return
				}
				if a, e := all.Add(1), each[who].Add(1); int(a) > o.Slots || int(e) > o.Each {
					t.Errorf("%d work, %d of them of one", a, e)
				}
				time.Sleep(takes)
				all.Add(-1)
				each[who].Add(-1)
				leave()
				leave()
			})
			time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
		}
		asked.Wait()
		if q.free != o.Slots || len(q.round) != 0 {
			t.Errorf("%d of %d free, %d in the round", q.free, o.Slots, len(q.round))
		}
	})
}

// TestQueue_Refusal: whoever asks before preparing the work hears what Enter would say, and takes no turn by that.
func TestQueue_Refusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Slots: 1, Each: 1, Waiting: 1, Now: time.Now, Allowance: Allowance{Burst: time.Second, Share: .5}})
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

// TestQueue_Forgets: when many have asked, those who owe nothing are forgotten, and nobody's debt.
func TestQueue_Forgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Slots: 1, Each: 1, Waiting: 1, Now: time.Now, Allowance: Allowance{Burst: time.Second, Share: .5}})
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
