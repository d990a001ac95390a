package storage

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// insist appends as callers do: again, when an earlier record of the series was not made.
func insist(s *Store, keys Keys, allow func() error, build func(Slot) (Draft, error)) (Entry, error) {
	for {
		if e, err := s.buildIf(ctx, keys, allow, build); !errors.Is(err, ErrTurn) {
			return e, err
		}
	}
}

// hammer lets clients append and advance at once, and checks that every series got 1…n and every client its own
// records. Some records are refused before they have a number, and some when they have one, with others behind them.
func hammer(t *testing.T, clients, each, series int) {
	s, fs := newStore(t)
	type given struct {
		series string
		number uint64
	}
	var mu sync.Mutex
	numbers := make(map[given]Code)
	perSeries := make(map[string]uint64)
	var wait sync.WaitGroup
	for client := range uint64(clients) {
		wait.Go(func() {
			for i := range uint64(each) {
				n := client<<32 | i
				name := fmt.Sprint("s", n%uint64(series))
				refused := i%7 == 3 || i%11 == 5
				keys := Keys{Series: name, Idempotency: idemOf(n)}
				e, err := insist(s, keys, func() error { return onlyIf(i%7 == 3, errRefused) }, func(slot Slot) (Draft,
					error) {
					runtime.Gosched() // others get the next numbers
					return draft(code(n), slot), onlyIf(refused, errRefused)
				})
				if refused {
					if !errors.Is(err, errRefused) {
						t.Error(err)
					}
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if other, twice := numbers[given{name, e.Number}]; twice {
					t.Errorf("number %d of %s was given to %X and %X", e.Number, name, other, e.Code)
				}
				numbers[given{name, e.Number}] = e.Code
				perSeries[name]++
				mu.Unlock()
				if e, err = s.Get(e.Code); err != nil || string(e.Head) != string(head(e.Code, e.Number)) {
					t.Errorf("record %d of %s reads %q, %v", e.Number, name, e.Head, err)
				}
				if _, err := s.Advance(ctx, e.Code, fresh, Change{To: done,
					Parts: []Part{{"answer", []byte{1}}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { // meanwhile somebody reads the queue, whose records move
		for {
			select {
			case <-stop:
				return
			default:
			}
			due, err := s.Due("settle", time.Unix(1e9, 0), 100)
			if err != nil {
				t.Error(err)
				return
			}
			for _, e := range due {
				if e.Due == nil || e.Due.Queue != "settle" {
					t.Errorf("not due: %+v", e)
				}
			}
		}
	})
	wait.Wait()
	close(stop)
	reader.Wait()
	report, err := s.Fsck(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range perSeries {
		if report.Last[name] != n {
			t.Errorf("%s ends at %d after %d appends", name, report.Last[name], n)
		}
	}
	if due, err := s.Due("settle", time.Unix(1e9, 0), 10); err != nil || len(due) != 0 {
		t.Errorf("still due: %d, %v", len(due), err)
	}
	sound(t, s)
	sound(t, openStore(t, fs))
}

var errRefused = errors.New("refused")

func TestConcurrency_ManySeries(t *testing.T) { hammer(t, 16, volume(40), 8) }
func TestConcurrency_OneSeries(t *testing.T)  { hammer(t, 16, volume(30), 1) }

func volume(n int) int {
	if soak {
		return 50 * n
	}
	return n
}

// Many at once with one key: one record, and all the others get that record.
func TestIdempotency_AtOnce(t *testing.T) {
	s, _ := newStore(t)
	for round := range uint64(10) {
		var mu sync.Mutex
		var made []Code
		var wait sync.WaitGroup
		for client := range uint64(8) {
			wait.Go(func() {
				e, err := s.build(ctx, Keys{Series: fmt.Sprint(client), Idempotency: idem(round)},
					func(slot Slot) (Draft, error) { return draft(code(round<<8|client), slot), nil })
				switch {
				case err == nil:
					mu.Lock()
					made = append(made, e.Code)
					mu.Unlock()
				case !errors.Is(err, ErrKeyTaken):
					t.Error(err)
				default: // the record may have been made already
					if _, digest, err := s.Lookup(idem(round).Key); err != nil || digest != idem(round).Digest {
						t.Errorf("taken, and then %v", err)
					}
				}
			})
		}
		wait.Wait()
		if len(made) != 1 {
			t.Fatalf("one key made %d records", len(made))
		}
		if c, _, err := s.Lookup(idem(round).Key); err != nil || c != made[0] {
			t.Errorf("the key leads to %X, %v", c, err)
		}
	}
	sound(t, s)
}

// A request waits while another with its key is at work, and finds the other's record.
func TestIdempotency_SecondWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newStore(t)
		second := make(chan error, 1)
		_, err := s.build(ctx, Keys{Series: "a", Idempotency: idem(1)}, func(slot Slot) (Draft, error) {
			go func() {
				_, err := s.build(ctx, Keys{Series: "b", Idempotency: idem(1)}, func(slot Slot) (Draft,
					error) {
					return draft(code(3), slot), nil
				})
				second <- err
			}()
			synctest.Wait()
			if len(second) > 0 {
				t.Error("two requests of one key are at work at once")
			}
			return draft(code(2), slot), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-second; !errors.Is(err, ErrKeyTaken) {
			t.Errorf("the second request ends with %v", err)
		}
		sound(t, s)
	})
}

// Of many callers that advance the same record from the same state, one succeeds.
func TestAdvance_AtOnce(t *testing.T) {
	s, _ := newStore(t)
	for round := range uint64(10) {
		put(t, s, "a", round)
		var mu sync.Mutex
		winners := 0
		var wait sync.WaitGroup
		for client := range 8 {
			wait.Go(func() {
				_, err := s.Advance(ctx, code(round), fresh, Change{To: done,
					Parts: []Part{{"answer", []byte{byte(client)}}}})
				var conflict *ConflictError
				switch {
				case err == nil:
					mu.Lock()
					winners++
					mu.Unlock()
				case !errors.As(err, &conflict) || conflict.Have != done:
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if winners != 1 {
			t.Errorf("%d won", winners)
		}
	}
	sound(t, s)
}

// Two records with the same code, in different series: one gets it.
func TestAppend_SameCodeAtOnce(t *testing.T) {
	s, _ := newStore(t)
	for round := range uint64(10) {
		var wait sync.WaitGroup
		errs := make([]error, 4)
		for client := range errs {
			wait.Go(func() {
				_, errs[client] = s.build(ctx, Keys{Series: fmt.Sprint(client)},
					func(slot Slot) (Draft, error) { return draft(code(round), slot), nil })
			})
		}
		wait.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else if !errors.Is(err, ErrCodeTaken) {
				t.Error(err)
			}
		}
		if made != 1 {
			t.Errorf("one code made %d records", made)
		}
	}
	sound(t, s)
}

// Origins in any order, overlapping: no deadlock.
func TestAppend_OriginsDoNotDeadlock(t *testing.T) {
	s, _ := newStore(t)
	for n := range uint64(4) {
		put(t, s, "a", n)
	}
	var wait sync.WaitGroup
	for client := range uint64(8) {
		wait.Go(func() {
			for i := range uint64(10) {
				a, b := code(client%4), code((client+1+i%3)%4)
				_, err := s.build(ctx, Keys{Series: fmt.Sprint(client % 2), Origins: []Code{a, b, a}},
					func(slot Slot) (Draft, error) {
						v, err := s.Counter(a, 0)
						return Draft{Code: code(1000 + client<<8 + i), Counters: []Counter{{a, 0, v + 1}}}, err
					})
				if err != nil {
					t.Error(err)
				}
				if _, err := s.Advance(ctx, a, fresh, Change{To: fresh}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for n := range uint64(4) {
		if v, err := s.Counter(code(n), 0); err != nil || v != 20 {
			t.Errorf("counter of origin %d is %d, %v", n, v, err)
		}
	}
	sound(t, s)
}

// TestQueueStarts: whatever joins and leaves queues between the steps of several readers, a queue is idle only while no
// record of it is due, and an idle queue is recognised.
func TestQueueStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type reading struct {
			queue  string
			joined uint64
			first  int64
		}
		q, table := queueStarts{known: make(map[string]queueStart)}, make(map[string][]int64)
		var readings []reading // begun, not noted yet
		for range 60 {
			queue, at := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"), rapid.Int64Range(0, 9).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				table[queue] = append(table[queue], at)
				q.join(&Due{Queue: queue, At: time.Unix(0, at)})
			case 1:
				if n := len(table[queue]); n > 0 {
					table[queue] = table[queue][:n-1]
				}
			case 2:
				joined, idle := q.idle(queue, at)
				first, due := int64(math.MaxInt64), false
				for _, other := range table[queue] {
					if due = due || other <= at; other > at {
						first = min(first, other)
					}
				}
				if idle && due {
					t.Fatalf("%s is idle at %d, and its records are due at %v", queue, at, table[queue])
				}
				if !idle && !due {
					readings = append(readings, reading{queue, joined, first})
				}
			case 3:
				if n := len(readings); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "reading")
					r := readings[i]
					readings = slices.Delete(readings, i, i+1)
					q.noteFirst(r.queue, r.joined, r.first)
				}
			}
		}
		joined, _ := q.idle("a", 9)
		q.noteFirst("a", joined, 20)
		if _, idle := q.idle("a", 19); !idle {
			t.Fatal("a queue whose first record is due later is read again")
		}
	})
}

// What LastNumbers returns is on the disk: a number that a power cut may still take back is not in it.
func TestLastNumbers_Durable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fs := newStore(t)
		put(t, s, "a", 1)
		held := make(chan struct{})
		fs.OnSync(func(string) error { <-held; return nil })
		var wait sync.WaitGroup
		wait.Go(func() { put(t, s, "a", 2) })
		synctest.Wait()
		told := make(chan uint64, 1)
		wait.Go(func() {
			last, err := s.LastNumbers()
			if err != nil {
				t.Error(err)
			}
			told <- last["a"]
		})
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("number %d is reported before it is on the disk", <-told)
		}
		close(held)
		wait.Wait()
		sound(t, s)
	})
}
