package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage/disktest"
)

// scenario is one way for three sales to be interrupted.
type scenario struct {
	name     string
	chaos    simulator.Chaos
	point    int // the point of the crash: a write of the store, or a moment around a request; 0: never
	unsynced int // percentage of unsynced data that survives
	seed     uint64
}

func (s scenario) String() string {
	return fmt.Sprintf("%s, crash at point %d, %d %% of unsynced data survives, seed %d", s.name, s.point, s.unsynced,
		s.seed)
}

// hostilities of the authority under which the crashes are tried.
var hostilities = map[string]simulator.Chaos{
	"calm":           {},
	"lost request":   {LostRequests: 1},
	"lost answer":    {LostAnswers: 1},
	"half answer":    {HalfAnswers: 1},
	"server error":   {ServerErrors: 1},
	"rejection":      {Reject: 1},
	"two lost":       {LostRequests: 1, LostAnswers: 1},
	"three errors":   {ServerErrors: 3},
	"expired token":  {ExpiredTokens: 1},
	"page of html":   {HTML: 1},
	"cable pulled":   {Outage: true},
	"answers, twice": {LostAnswers: 2},
}

// run plays a scenario and returns how many points it passed. After the crash the world continues unseen: its answers
// from then on do not count, and its cable is cut.
func (s scenario) run(t *testing.T) (points int, faults []string) {
	w := crashWorld(t, s)
	defer w.Server.Close()
	var count atomic.Int64
	var crash sync.Once
	var armed, crashed atomic.Bool // armed: the branch has started
	var after *disktest.Disk
	disk := w.Fs
	at := func(string) {
		if n := count.Add(1); int(n) == s.point {
			crash.Do(func() {
				crashed.Store(true) // before the disk is copied: what is answered meanwhile may not be in the copy
				after = disk.Crash(s.unsynced, rand.New(rand.NewPCG(s.seed, 1)))
				w.Wire.Sever()
			})
		}
	}
	seen := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			at("write")
		}
		return nil
	}))
	w.Open(disk, seen)
	w.Wire.At = at
	armed.Store(true)

	answered := make(map[string]*record.View)
	for i := 1; i <= 3; i++ {
		key := fmt.Sprintf("sale %d", i)
		r, err := w.Engine.Issue(context.Background(), enginetest.Sale(key, 1000+i))
		if crashed.Load() {
			break
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", key, err))
			continue
		}
		answered[key] = r
	}
	points = int(count.Load())
	if err := w.Store.Close(); err != nil {
		faults = append(faults, fmt.Sprintf("closing the store that crashed: %v", err))
	}
	if after == nil {
		after = disk
	}
	return points, append(faults, audit(w, after, answered)...)
}

// audit restarts the branch on what the crash left, repeats every sale with its key, and checks P1 to P4.
func audit(w *enginetest.World, disk *disktest.Disk, answered map[string]*record.View) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if err := w.Sim.Chaos(simulator.Chaos{}); err != nil {
		fault("%v", err)
	}
	if err := w.Reopen(disk); err != nil {
		return append(faults, err.Error())
	}
	defer func() {
		if err := w.Store.Close(); err != nil {
			fault("closing store: %v", err)
		}
	}()
	ctx := context.Background()
	if err := w.Engine.Recover(ctx, enginetest.Start.Add(engine.SettleAfter+1)); err != nil {
		fault("recovering: %v", err)
	}
	codes := make(map[string]string)
	for i := 1; i <= 3; i++ {
		key := fmt.Sprintf("sale %d", i)
		r, err := w.Engine.Issue(ctx, enginetest.Sale(key, 1000+i))
		if err != nil {
			fault("P3: repeating %s: %v", key, err)
			continue
		}
		if before := answered[key]; before != nil && (before.Code != r.Code || !bytes.Equal(before.JWS, r.JWS) ||
			before.ControlNumber != r.ControlNumber || before.Estado != r.Estado) {
			fault("P2: %s was answered %s %s %s, is %s %s %s", key, before.Code, before.ControlNumber, before.Estado,
				r.Code, r.ControlNumber, r.Estado)
		}
		if other, twice := codes[r.Code]; twice {
			fault("%s and %s are one document", key, other)
		}
		codes[r.Code] = key
		a, _ := w.Sim.Document(r.Code)
		if r.Estado == record.EstadoProcessed && (!a.Accepted || string(a.Document) != string(r.JSON)) {
			fault("P4: %s is PROCESSED, MH holds %s", key, a.Document)
		}
		if r.Estado != record.EstadoProcessed && a.Accepted && r.Estado == record.EstadoRejected {
			fault("P4: %s is %s and MH accepted it", key, r.Estado)
		}
	}
	report, err := w.Store.Fsck(ctx)
	if err != nil {
		return append(faults, err.Error())
	}
	for _, p := range report.Problems {
		fault("fsck: %v", p)
	}
	if n := enginetest.DocumentsOf(report); n != 3 {
		fault("P1: three sales, %d documents", n)
	}
	if got := w.Sim.Received(); got.Duplicates != 0 || got.Documents > 3 {
		fault("P3/P4: MH received %+v", got)
	}
	return faults
}

func crashWorld(t *testing.T, s scenario) *enginetest.World {
	w := enginetest.NewSim(t)
	w.Fs = enginetest.Base().Crash(100, rand.New(rand.NewPCG(1, 1)))
	if err := w.Sim.Chaos(s.chaos); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestIssue_CrashEverywhere crashes at every point of three sales, under every hostility, with unsynced data lost, kept
// or half kept: DTE_SOAK tries the three at every point, the suite one of them, by turns.
func TestIssue_CrashEverywhere(t *testing.T) {
	var scenarios atomic.Int64
	var wg sync.WaitGroup
	gate := make(chan struct{}, 3)
	shares, seeds := []int{0, 50, 100}, 1
	if os.Getenv("DTE_SOAK") != "" {
		seeds = 10 * len(shares)
	}
	for name, chaos := range hostilities {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			points, _ := scenario{name: name, chaos: chaos, unsynced: 50, seed: 1}.run(t)
			for i := range points * seeds {
				point, round := 1+i%points, i/points
				s := scenario{name: name, chaos: chaos, point: point, seed: uint64(i),
					unsynced: shares[(point+round)%len(shares)]}
				scenarios.Add(1)
				if _, faults := s.run(t); len(faults) > 0 {
					t.Errorf("%v:\n%v", s, strings.Join(faults, "\n"))
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d scenarios", scenarios.Load())
	if scenarios.Load() < 340 && !t.Failed() {
		t.Errorf("only %d scenarios: the enumeration has shrunk", scenarios.Load())
	}
}
