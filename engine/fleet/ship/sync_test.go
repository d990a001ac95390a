package ship_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
	"dtegate/engine/fleet/wire"
	"dtegate/storage"
)

const syncSeries = "00/01/M001/P001/2026"

// seller is a store whose second copy is shipped before a change is acknowledged.
type seller struct {
	*world
	db   *storage.Store
	sold int64
	left atomic.Int64 // warnings: how often sales went on without the chain's store

	fault atomic.Pointer[func(fleettest.Request) fleettest.Fault]
}

// faults has the chain's store fail from now on.
func (s *seller) faults(f func(fleettest.Request) fleettest.Fault) { s.fault.Store(&f) }

// sell starts the store and the shipper; both end with the test.
func newSeller(t *testing.T) *seller {
	s := &seller{world: newWorld(t)}
	s.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if f := s.fault.Load(); f != nil {
			return (*f)(r)
		}
		return fleettest.None
	}
	var err error
	s.ship, err = ship.New(ship.Options{Store: s.store, Branch: "centro", Box: box, Folder: s.dir, Epoch: func() int64 { return 1 }, State: s.disk, Sync: true,
		Cloned: func() { s.cloned++ }, Now: time.Now, Logger: slog.New(warnings{slog.DiscardHandler, &s.left}),
		Count: func(ctx context.Context, file string, end int64) (int64, error) {
			return storage.CopyChanges(ctx, s.dir, file, end)
		}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := storage.Options{Dir: filepath.Join(dir, "data"), MarkPath: filepath.Join(dir, "mark"), Now: time.Now, Logger: slog.New(slog.DiscardHandler), FakeTime: true,
		SecondCopy: s.dir, Carry: s.ship.Carry}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	if s.db, err = storage.Open(o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.ship.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// warnings counts them.
type warnings struct {
	slog.Handler
	n *atomic.Int64
}

func (w warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		w.n.Add(1)
	}
	return nil
}

// sell stores a record, and returns how long that took.
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

// shipped is how many changes the chain's store gives back.
func (s *seller) shipped() int64 {
	s.t.Helper()
	dir := s.t.TempDir()
	_, err := ship.Fetch(context.Background(), s.store, []wire.Key{wire.Public(director)}, "centro", 0, dir)
	if errors.Is(err, ship.ErrNothing) {
		return 0
	}
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := storage.CopyChanges(s.t.Context(), dir, "", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestCarry: whatever goes wrong with requests, a sale that was acknowledged while sales waited for the chain's store is in it, and what
// the branch says that it has not shipped is never less than what a rebuild would lack.
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
						t.Fatalf("seed %d: a rebuild lacks %d changes, and the branch says that %d are not shipped", seed, lost, told)
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
			if got, status := s.shipped(), s.ship.Shipped(); got != s.sold || status.Behind != 0 || status.Why != "" || status.Mode != "sync" {
				t.Errorf("seed %d: %d of %d are in the store, %+v", seed, got, s.sold, status)
			}
			if waited < 8 {
				t.Errorf("seed %d: only %d of 40 sales waited", seed, waited)
			}
		})
	}
}

// A store that does not answer costs one sale its patience, and the next ones nothing; when it answers again it gets everything, and
// sales wait again.
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
		if took := s.sell(); took != ship.DefaultPatience {
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
		// The answer came late: sales do not wait before one came in time.
		s.sell()
		time.Sleep(2 * ship.DefaultEvery)
		if status := s.ship.Shipped(); status.Why != "" {
			t.Errorf("sales do not wait again: %+v", status)
		}
		if s.sell(); s.shipped() != s.sold {
			t.Errorf("%d of %d are in the store", s.shipped(), s.sold)
		}
	})
}

// What was not shipped before a start counts.
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
		if n, err := storage.CopyChanges(t.Context(), s.dir, state.File, state.Offset); err != nil || n != 3 {
			t.Errorf("%d %v", n, err)
		}
	})
}
