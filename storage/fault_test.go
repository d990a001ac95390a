package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

// dyingDisk fails every write from the k-th on. The store must call Fatal and acknowledge nothing more; what it had
// acknowledged must be on the disk.
func dyingDisk(k int64) (died bool, err error) {
	mem := disktest.New(disktest.Strict)
	if err := Create(options(mem)); err != nil {
		return false, err
	}
	var writes atomic.Int64
	var armed atomic.Bool
	o := options(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) >= k {
			return errorfs.ErrInjected
		}
		return nil
	})))
	dead := make(chan struct{})
	var once sync.Once
	o.Fatal = func(string) { // stands for the end of the process: this goroutine does nothing more
		once.Do(func() { close(dead) })
		select {} // Pebble may hold a lock here
	}
	s, err := Open(o)
	if err != nil {
		return false, err
	}
	armed.Store(true)
	acked := ledger{acked: make(map[Code]ackedRecord)}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for n := range uint64(12) {
			e, err := s.build(ctx, Keys{Series: fmt.Sprint(n % 2), Idempotency: idemOf(n)},
				func(slot Slot) (Draft, error) { return draft(code(n), slot), nil })
			if err != nil {
				return
			}
			acked.ack(e, n)
		}
	}()
	select {
	case <-dead:
		died = true
	case <-finished:
		// The disk held long enough for the work, or failed so late that only Close would see it.
	}
	disk := crashed{mem.Crash(0, nil), acked.copy()}
	_, err = disk.verify(false)
	return died, err
}

func TestFault_DyingDisk(t *testing.T) {
	deaths := 0
	for k := int64(1); k <= 60; k += 3 {
		died, err := dyingDisk(k)
		if err != nil {
			t.Errorf("from write %d on: %v", k, err)
		}
		if died {
			deaths++
		}
	}
	if deaths < 10 {
		t.Errorf("only %d deaths", deaths)
	}
}

// gate, while it is shut, holds back every sync of a store's log.
type gate struct{ hold atomic.Pointer[chan struct{}] }

// shut returns a channel; closing it opens the gate.
func (g *gate) shut() chan struct{} {
	hold := make(chan struct{})
	g.hold.Store(&hold)
	return hold
}

func (g *gate) MaybeError(op errorfs.Op) error {
	sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
	if hold := g.hold.Load(); hold != nil && sync && strings.HasSuffix(op.Path, ".log") {
		<-*hold
	}
	return nil
}

func (*gate) String() string { return "gate" }

// slowDisk holds back every sync of the log until the gate opens, and calls probe meanwhile. It returns what the probe
// saw before the sync, false when it had to wait, and what it saw in the end.
func slowDisk(t *testing.T, probe func(s *Store) (shown bool)) (shown, finally bool) {
	synctest.Test(t, func(t *testing.T) {
		mem := disktest.New(disktest.Strict)
		if err := Create(options(mem)); err != nil {
			t.Fatal(err)
		}
		var log gate
		o := options(errorfs.Wrap(mem, &log))
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", 1)
		hold := log.shut()
		appended := make(chan error, 1)
		go func() {
			_, err := s.build(ctx, Keys{Series: "a", Idempotency: idem(2), Origins: []Code{code(1)}},
				func(slot Slot) (Draft, error) {
					d := draft(code(2), slot)
					d.Counters = []Counter{{code(1), 1, 5}}
					return d, nil
				})
			appended <- err
		}()
		synctest.Wait() // the batch is applied, its sync waits at the gate
		answered := make(chan bool, 1)
		go func() { answered <- probe(s) }()
		synctest.Wait() // the probe has answered, or waits too
		select {
		case shown = <-answered:
			answered <- shown
		case <-appended:
			t.Error("acknowledged before the sync")
		default:
		}
		close(hold)
		if err := <-appended; err != nil {
			t.Error(err)
		}
		finally = <-answered
		sound(t, s)
	})
	return shown, finally
}

// probes try to see record 2, which is applied and not durable.
var probes = map[string]func(*Store) bool{
	"Get":   func(s *Store) bool { _, err := s.Get(code(2)); return err == nil },
	"Part":  func(s *Store) bool { _, err := s.Part(code(2), "form"); return err == nil },
	"Parts": func(s *Store) bool { _, err := s.Parts(code(2)); return err == nil },
	"PartsOf": func(s *Store) bool {
		lists, err := s.PartsOf([]Entry{{Code: code(2), ID: 2}})
		return err == nil && len(lists[0]) > 0
	},
	"Lookup": func(s *Store) bool { _, _, err := s.Lookup(idem(2).Key); return err == nil },
	"Due": func(s *Store) bool {
		due, err := s.Due("settle", clock()(), 10)
		return err == nil && len(due) == 2
	},
	"Counter": func(s *Store) bool { v, err := s.Counter(code(1), 1); return err == nil && v == 5 },
	"Records": func(s *Store) bool {
		seen := errors.New("seen")
		return s.Records(1, func(Entry) error { return seen }) != nil
	},
	"Advance": func(s *Store) bool {
		_, err := s.Advance(ctx, code(2), fresh, Change{To: fresh})
		return err == nil
	},
	"repetition": func(s *Store) bool {
		_, err := s.build(ctx, Keys{Series: "b", Idempotency: idem(2)}, nil)
		return errors.Is(err, ErrKeyTaken)
	},
}

func TestReads_ShowOnlyWhatIsDurable(t *testing.T) {
	for name, probe := range probes {
		t.Run(name, func(t *testing.T) {
			shown, finally := slowDisk(t, probe)
			if shown {
				t.Error("shows what a crash would take back")
			}
			// Records does not wait: its reader returns.
			if !finally && name != "Records" {
				t.Error("does not show it when it is durable")
			}
		})
	}
}

// The next number of a series is given while the previous one is still on its way to the disk.
func TestAppend_SeriesDoesNotWaitForTheDisk(t *testing.T) {
	asked, _ := slowDisk(t, func(s *Store) bool {
		refused := errors.New("refused")
		_, err := s.build(ctx, Keys{Series: "a"}, func(slot Slot) (Draft, error) {
			if slot.Number != 3 {
				t.Errorf("number %d", slot.Number)
			}
			return Draft{}, refused
		})
		return errors.Is(err, refused)
	})
	if !asked {
		t.Error("the series waited for the disk")
	}
}

func TestAppend_GivesUpWithItsContext(t *testing.T) {
	s, _ := newStore(t)
	cancelled, cancel := context.WithCancel(ctx)
	_, err := s.build(ctx, Keys{Series: "a", Idempotency: idem(1)}, func(slot Slot) (Draft, error) {
		waiting := make(chan error)
		go func() {
			_, err := s.build(cancelled, Keys{Series: "b", Idempotency: idem(1)}, nil)
			waiting <- err
		}()
		cancel()
		return draft(code(1), slot), onlyIf(!errors.Is(<-waiting, context.Canceled),
			errors.New("the waiter did not give up"))
	})
	if err != nil {
		t.Error(err)
	}
	if len(s.locks.named) != 0 {
		t.Errorf("%d locks are left", len(s.locks.named))
	}
	sound(t, s)
}

// TestFault_ProcessExits: even if Fatal returns, a failed write ends the process, and nothing is acknowledged.
func TestFault_ProcessExits(t *testing.T) {
	if os.Getenv("DTE_STORAGE_CHILD") == "1" {
		mem := disktest.New(disktest.Strict)
		if err := Create(options(mem)); err != nil {
			t.Fatal(err)
		}
		var armed atomic.Bool
		o := options(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return errorfs.ErrInjected
			}
			return nil
		})))
		o.Fatal = nil
		o.Logger = slog.New(slog.NewTextHandler(os.Stdout, nil))
		s := openStoreWith(t, o)
		armed.Store(true)
		e, err := s.build(ctx, Keys{Series: "a"}, func(slot Slot) (Draft, error) { return draft(code(1), slot), nil })
		fmt.Println("went on with", e, err)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestFault_ProcessExits$")
	child.Env = append(os.Environ(), "DTE_STORAGE_CHILD=1")
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "store stops") ||
		strings.Contains(string(out), "went on") {
		t.Errorf("%v: %s", err, out)
	}
}
