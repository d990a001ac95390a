package ship_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
	"dtegate/storage"
)

const syncSeries = "00/01/M001/P001/2026"

// seller is a store whose second copy is shipped before a change is acknowledged.
type seller struct {
	*world
	options storage.Options
	mode    ship.Options
	db      *storage.Store
	end     func() error // of what open has started
	sold    int64
	left    atomic.Int64 // warnings: how often sales went on without the chain's store

	fault atomic.Pointer[func(fleettest.Request) fleettest.Fault]
}

// faults makes the chain's store fail from now on.
func (s *seller) faults(f func(fleettest.Request) fleettest.Fault) { s.fault.Store(&f) }

// newSeller starts the store and the shipper; both end with the test.
func newSeller(t *testing.T) *seller {
	s := &seller{world: newWorld(t)}
	s.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if f := s.fault.Load(); f != nil {
			return (*f)(r)
		}
		return fleettest.None
	}
	now := func() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) }
	s.mode = ship.Options{Store: s.store, Chain: chain, Branch: "centro", Box: box, Folder: s.dir,
		Epoch: func() int64 { return 1 }, Sync: true, Live: always,
		Cloned: func() { s.cloned++ }, Now: now, Logger: slog.New(levels{slog.DiscardHandler, &s.left, slog.LevelWarn})}
	dir := t.TempDir()
	s.options = storage.Options{Dir: filepath.Join(dir, "data"), MarkPath: filepath.Join(dir, "mark"), Now: now,
		Logger: slog.New(slog.DiscardHandler), FakeTime: true,
		SecondCopy: s.dir}
	if err := storage.Create(s.options); err != nil {
		t.Fatal(err)
	}
	s.open()
	t.Cleanup(s.close)
	return s
}

// open starts the store and the shipper.
func (s *seller) open() {
	s.t.Helper()
	var err error
	s.mode.State = s.disk
	s.mode.Restart = func(file string) { s.db.CopyAfter(file) }
	s.mode.Segment = func(file string, r io.ReaderAt) (string, string, int64, error) { return s.db.CopySegment(file, r) }
	s.mode.Has = func(b []byte) (bool, error) { return s.db.HasCopied(b) }
	s.mode.Count = func(ctx context.Context, dir, file string, end int64) (int64, error) {
		return s.db.CopyChanges(ctx, dir, file, end)
	}
	s.mode.Live = func() bool { c, _ := s.db.SecondCopy(); return c.Live }
	if s.ship, err = ship.New(s.mode); err != nil {
		s.t.Fatal(err)
	}
	s.options.Carry = s.ship.Carry
	if s.db, err = storage.Open(s.options); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	shipper := s.ship
	go func() { done <- shipper.Run(ctx) }()
	s.end = func() error {
		stop()
		return errors.Join(<-done, s.db.Close())
	}
}

func (s *seller) close() {
	if s.end == nil {
		return
	}
	if err := s.end(); err != nil {
		s.t.Error(err)
	}
	s.end = nil
}

// levels counts the entries of a level.
type levels struct {
	slog.Handler
	n     *atomic.Int64
	level slog.Level
}

func (l levels) Enabled(context.Context, slog.Level) bool { return true }
func (l levels) Handle(_ context.Context, r slog.Record) error {
	if r.Level == l.level {
		l.n.Add(1)
	}
	return nil
}

// sell stores a record, and returns the time that it took.
func (s *seller) sell() time.Duration {
	s.t.Helper()
	began := time.Now()
	a, err := s.db.Begin(s.t.Context(), storage.Keys{Series: syncSeries})
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Release()
	if _, err := a.Number(); err != nil {
		s.t.Fatal(err)
	}
	var code storage.Code
	_, _ = rand.Read(code[:])
	if _, err := a.Append(storage.Draft{Code: code, State: 1, Head: []byte(`{"a":1}`)}); err != nil {
		s.t.Fatal(err)
	}
	s.sold++
	return time.Since(began)
}

// shipped returns how many changes the chain's store gives back.
func (s *seller) shipped() int64 {
	s.t.Helper()
	dir := s.t.TempDir()
	_, err := ship.Fetch(context.Background(), s.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro",
		0, dir, nil)
	if errors.Is(err, ship.ErrNothing) {
		return 0
	}
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := s.db.CopyChanges(s.t.Context(), dir, "", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestCarry: whatever fails with requests, the chain's store has every sale that was acknowledged while sales waited
// for it, and the branch's count of unshipped changes is never less than what a rebuild would lack.
func TestCarry(t *testing.T) {
	seeds := uint64(4)
	if os.Getenv("DTE_SOAK") == "1" {
		seeds = 200
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			s := newSeller(t)
			dice := mathrand.New(mathrand.NewPCG(seed, 1))
			var faulty atomic.Bool
			troubles := mathrand.New(mathrand.NewPCG(seed, 2)) // of the one goroutine that ships
			s.faults(func(r fleettest.Request) fleettest.Fault {
				if faulty.Load() && r.Verb == "create" && troubles.IntN(4) == 0 {
					return fleettest.Faults[troubles.IntN(len(fleettest.Faults))]
				}
				return fleettest.None
			})
			waited := 0
			for n := range 40 {
				time.Sleep(time.Duration(dice.IntN(7)) * time.Second)
				synctest.Wait()
				before, live := s.left.Load(), s.ship.Shipped().Why == ""
				faulty.Store(true)
				s.sell()
				faulty.Store(false)
				if n%5 == 0 {
					if lost, told := s.sold-s.shipped(), s.ship.Shipped().Behind; told < lost {
						t.Fatalf("seed %d: a rebuild lacks %d changes, and the branch says that %d are not shipped",
							seed, lost, told)
					}
				}
				if !live || s.left.Load() != before || s.ship.Shipped().Why != "" {
					continue
				}
				waited++
				if got := s.shipped(); got < s.sold {
					t.Fatalf("seed %d: %d changes are acknowledged and %d in the store", seed, s.sold, got)
				}
			}
			time.Sleep(time.Minute)
			if got, status := s.shipped(), s.ship.Shipped(); got != s.sold || status.Behind != 0 || status.Why != "" ||
				status.Mode != "sync" {
				t.Errorf("seed %d: %d of %d are in the store, %+v", seed, got, s.sold, status)
			}
			if waited < 8 {
				t.Errorf("seed %d: only %d of 40 sales waited", seed, waited)
			}
		})
	}
}

// A store that does not answer costs one sale its patience, and the next sales nothing; when it answers again it gets
// everything, and sales wait again.
func TestCarry_Silent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeller(t)
		time.Sleep(2 * ship.DefaultEvery)
		s.sell()
		silent, asked := make(chan struct{}), make(chan struct{}, 100)
		s.faults(func(r fleettest.Request) fleettest.Fault {
			asked <- struct{}{}
			<-silent
			return fleettest.None
		})
		if took := s.sell(); took != ship.Patience {
			t.Errorf("the first sale takes %v", took)
		}
		for range 5 {
			if took := s.sell(); took != 0 {
				t.Errorf("a later sale takes %v", took)
			}
		}
		if status := s.ship.Shipped(); status.Behind != 6 || status.Why == "" {
			t.Errorf("%+v", status)
		}
		time.Sleep(10 * time.Second)
		close(silent)
		time.Sleep(2 * ship.DefaultEvery)
		if status := s.ship.Shipped(); status.Behind != 0 || s.shipped() != s.sold {
			t.Errorf("%+v, %d of %d", status, s.shipped(), s.sold)
		}
		// The answer was late: sales do not wait before an answer comes in time.
		s.sell()
		time.Sleep(2 * ship.DefaultEvery)
		if status := s.ship.Shipped(); status.Why != "" {
			t.Errorf("sales do not wait again: %+v", status)
		}
		if s.sell(); s.shipped() != s.sold {
			t.Errorf("%d of %d are in the store", s.shipped(), s.sold)
		}
		// A store that fails at once costs no sale anything.
		s.faults(func(fleettest.Request) fleettest.Fault { return fleettest.Failed })
		for range 3 {
			if took := s.sell(); took != 0 {
				t.Errorf("a sale beside a store that fails takes %v", took)
			}
		}
		s.faults(func(fleettest.Request) fleettest.Fault { return fleettest.None })
		time.Sleep(2 * ship.DefaultEvery)
		if s.shipped() != s.sold {
			t.Errorf("%d of %d are in the store", s.shipped(), s.sold)
		}
	})
}

// TestCarry_NotLive: while the copy does not hold everything, no sale waits for the chain's store, and what it lacks is
// counted, however much of the copy is shipped; from when it holds everything, sales wait.
func TestCarry_NotLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, live := newWorld(t), atomic.Bool{}
		w.grow("0000000001.copy", "head")
		shipper, err := ship.New(ship.Options{Store: w.store, Chain: chain, Branch: "centro", Box: box, Folder: w.dir,
			Epoch: func() int64 { return 1 }, State: w.disk, Sync: true, Cloned: func() {}, Live: live.Load, Segment: segment,
			Has: has, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
			Count: func(context.Context, string, string, int64) (int64, error) { return 3, nil }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- shipper.Run(ctx) }()
		for n, c := range []struct {
			live   bool
			behind int64
			waits  time.Duration
		}{{false, 3, 0}, {true, 1, ship.Patience}} { // 1: the first sale below
			live.Store(c.live)
			time.Sleep(3 * ship.DefaultEvery)
			synctest.Wait()
			if status := shipper.Shipped(); status.Segment != 1 || status.Behind != c.behind || (status.Why == "") != c.live {
				t.Errorf("live %v: %+v", c.live, status)
			}
			if n := metrictest.Value(t, shipper, "dte_fleet_ship_sync"); n != map[bool]float64{true: 1}[c.live] {
				t.Errorf("live %v: monitoring shows %v", c.live, n)
			}
			if live.Store(false); metrictest.Value(t, shipper, "dte_fleet_ship_sync") != 0 { // the card is taken out
				t.Error("monitoring shows that sales wait")
			}
			live.Store(c.live)
			w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Failed }
			began := time.Now()
			shipper.Carry("0000000001.copy", 1000+int64(n)) // never shipped
			if took := time.Since(began); took != c.waits {
				t.Errorf("live %v: a sale waits %v, want %v", c.live, took, c.waits)
			}
			synctest.Wait()
			w.store.Fault = nil
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestCarry_Waits: sales begin to wait once the store has the whole copy and answers in time, and only with Sync.
func TestCarry_Waits(t *testing.T) {
	for name, c := range map[string]struct {
		sync  bool
		takes time.Duration // of a request
		grows bool          // the copy, after the store failed once
		want  int64         // how often sales begin to wait
	}{
		"at once":               {sync: true, want: 1},
		"in time":               {sync: true, takes: ship.Patience - 1, want: 1},
		"too late":              {sync: true, takes: ship.Patience},
		"not wanted":            {},
		"never shipped further": {sync: true, grows: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, begun := newWorld(t), atomic.Int64{}
				w.grow("0000000001.copy", "head")
				w.store.Fault = func(r fleettest.Request) fleettest.Fault {
					if r.Verb == "create" {
						time.Sleep(c.takes)
					}
					return fleettest.None
				}
				shipper, err := ship.New(ship.Options{Store: w.store, Chain: chain, Branch: "centro", Box: box,
					Folder: w.dir, Epoch: func() int64 { return 1 }, State: w.disk, Sync: c.sync, Cloned: func() {},
					Live: always, Segment: segment, Has: has,
					Logger: slog.New(levels{slog.DiscardHandler, &begun, slog.LevelInfo}), Now: time.Now})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- shipper.Run(ctx) }()
				time.Sleep(5*ship.DefaultEvery + time.Second)
				synctest.Wait()
				if c.grows {
					w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Failed }
				}
				for n := 0; c.grows && n < 10; n++ {
					w.grow("0000000001.copy", "-more")
					time.Sleep(ship.DefaultEvery)
					synctest.Wait()
					if n == 2 {
						w.store.Fault = nil
					}
				}
				if got := begun.Load(); got != c.want {
					t.Errorf("sales begin to wait %d times, want %d", got, c.want)
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCarry_Restarted: once the store has answered after a start, the first sale waits for it. The copy is whole there.
func TestCarry_Restarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeller(t)
		time.Sleep(2 * ship.DefaultEvery)
		for range 3 {
			s.sell()
			s.close()
			s.open()
			<-s.ship.Compared(1)
			if s.sell(); s.shipped() != s.sold {
				t.Errorf("%d changes are acknowledged and %d in the store", s.sold, s.shipped())
			}
		}
	})
}

// Changes that were not shipped before a start count.
func TestCarry_Recount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeller(t)
		time.Sleep(2 * ship.DefaultEvery)
		s.sell()
		s.faults(func(fleettest.Request) fleettest.Fault { return fleettest.Failed })
		for range 3 {
			s.sell()
		}
		image, err := s.disk.Load()
		if err != nil {
			t.Fatal(err)
		}
		var state struct {
			File   string
			Offset int64
		}
		if err := json.Unmarshal(image, &state); err != nil {
			t.Fatal(err)
		}
		if n, err := s.db.CopyChanges(t.Context(), s.dir, state.File, state.Offset); err != nil || n != 3 {
			t.Errorf("%d %v", n, err)
		}
	})
}

// TestCarry_CountedOnce: a change that was made before the box began its epoch counts once, however it came to be
// known: as a change of this run, or by a count of the copy.
func TestCarry_CountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeller(t)
		s.close()
		s.enrol(box, 3)
		var epoch atomic.Int64 // 0: the box runs, and is not enrolled again yet
		s.mode.Epoch = epoch.Load
		s.faults(func(r fleettest.Request) fleettest.Fault {
			if r.Verb == "create" {
				return fleettest.Failed
			}
			return fleettest.None
		})
		s.open()
		for range 3 {
			s.sell()
		}
		time.Sleep(time.Minute)
		epoch.Store(3)
		time.Sleep(time.Minute)
		s.sell()
		time.Sleep(time.Minute)
		if n, err := s.db.CopyChanges(t.Context(), s.dir, "", 0); err != nil || s.ship.Shipped().Behind != n || n < 4 {
			t.Errorf("%d changes count as %+v: %v", n, s.ship.Shipped(), err)
		}
		s.faults(func(fleettest.Request) fleettest.Fault { return fleettest.None })
		time.Sleep(time.Minute)
		if behind := s.ship.Shipped().Behind; behind != 0 {
			t.Errorf("all is shipped, and %d changes are not", behind)
		}
	})
}

// TestCarry_Epoch: changes that were shipped under an earlier epoch count as not shipped, until the box has shipped
// them under its new epoch.
func TestCarry_Epoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeller(t)
		for range 5 {
			s.sell()
		}
		time.Sleep(time.Minute)
		s.close()
		s.enrol(box, 2)
		s.mode.Epoch = func() int64 { return 2 }
		s.faults(func(r fleettest.Request) fleettest.Fault {
			if r.Verb == "create" {
				return fleettest.Failed
			}
			return fleettest.None
		})
		s.open()
		s.sell()
		time.Sleep(time.Minute)
		if status := s.ship.Shipped(); status.Behind < s.sold || status.Why == "" { // a head may count beside the sales
			t.Errorf("nothing of %d is shipped: %+v", s.sold, status)
		}
		s.faults(func(fleettest.Request) fleettest.Fault { return fleettest.None })
		time.Sleep(time.Minute)
		if status := s.ship.Shipped(); status.Behind != 0 || status.Why != "" || s.shipped() != s.sold {
			t.Errorf("%+v, %d of %d", status, s.shipped(), s.sold)
		}
	})
}

// TestCarry_CardTaken: a card that is exchanged while the box runs, with unshipped changes on it, loses nothing: the
// new card has them, and they are counted until they are shipped, and not for ever.
func TestCarry_CardTaken(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	w.grow("0000000001.copy", "-sold")
	w.ship.Carry("0000000001.copy", 9)
	if behind := w.ship.Shipped().Behind; behind != 1 {
		t.Errorf("%d changes are not shipped", behind)
	}
	if err := os.Remove(filepath.Join(w.dir, "0000000001.copy")); err != nil {
		t.Fatal(err)
	}
	w.steps()
	if behind := w.ship.Shipped().Behind; behind != 1 {
		t.Errorf("the card is away, and %d changes are not shipped", behind)
	}
	w.grow("0000000002.copy", "head-sold")
	w.steps()
	if behind := w.ship.Shipped().Behind; behind != 0 {
		t.Errorf("all is shipped, and %d changes are counted", behind)
	}
}

// TestCarry_EarlierNames: a copy whose files have earlier names than shipped files is set aside and begun anew, and
// shipped whole.
func TestCarry_EarlierNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeller(t)
		s.sell()
		time.Sleep(time.Minute)
		s.close()
		image, err := s.disk.Load()
		if err != nil {
			t.Fatal(err)
		}
		var state map[string]any
		if err := json.Unmarshal(image, &state); err != nil {
			t.Fatal(err)
		}
		state["file"] = "7000000000.copy"
		if image, err = json.Marshal(state); err != nil {
			t.Fatal(err)
		}
		if err := s.disk.Save(image); err != nil {
			t.Fatal(err)
		}
		s.open()
		s.sell()
		time.Sleep(5 * time.Minute)
		names, err := filepath.Glob(filepath.Join(s.dir, "*.copy"))
		if err != nil || len(names) != 1 || filepath.Base(names[0]) != "7000000001.copy" {
			t.Errorf("%v %v", names, err)
		}
		if status := s.ship.Shipped(); status.Behind != 0 || status.Why != "" {
			t.Errorf("%+v", status)
		}
	})
}
