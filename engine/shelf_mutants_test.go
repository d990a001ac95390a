package engine_test

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/recordmac"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
	"dtegate/storage/disktest"
)

// mutants gives mutants of a signed bundle to a branch. Each is refused, or it is the bundle that was signed, lives
// through a power cut and a restart with the same digest, and makes the same document.
type mutants struct {
	base   *disktest.Disk // a branch that has shipped rules
	box    *recordmac.Key
	dry    *enginetest.World // a branch on which they are only tried
	shelf  *rulestore.Store
	good   []byte
	digest string
	made   string // the document

	mu     sync.Mutex
	proven map[[32]byte]bool // stored bytes of mutants that were proven: the same bytes end in the same way
}

var theMutants = sync.OnceValue(func() *mutants { return &mutants{proven: make(map[[32]byte]bool)} })

func newMutants(t testing.TB) *mutants {
	t.Helper()
	m := theMutants()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.good != nil {
		return m
	}
	constant := constantRule(t)
	m.box = recordmac.New()
	w := enginetest.NewWorld(t)
	w.Box = m.box
	w.Wire.Sever()
	m.shelf = w.Shelf(
		map[string][]byte{"catalogues": plugintest.Bundle(t, "catalogues"), "dte01": enginetest.Edition(t, "2.1.0",
			constant)},
	)
	m.dry = w
	m.base = w.Fs.Crash(0, nil)
	good := enginetest.Edition(t, "2.1.1", constant)
	b, err := bundle.Inspect(good)
	if err != nil {
		t.Fatal(err)
	}
	m.digest = b.Digest
	if m.made = m.live(t, good); m.made == "" {
		t.Fatal("the bundle itself makes no document")
	}
	m.good = good
	return m
}

// constantRule answers the sale of these tests as the real rule does, in a module that is cheap to read a million
// times.
func constantRule(t testing.TB) bundletest.Change {
	t.Helper()
	w := enginetest.NewWorld(t)
	defer w.Close()
	r, err := w.Engine.RulesInForce().Pick("01", "00", dte.Date(enginetest.Start))
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.Engine.NewDraft(enginetest.Sale("", 1130), enginetest.Start)
	if err != nil {
		t.Fatal(err)
	}
	computed, faults, err := r.Evaluate(t.Context(), d.DraftFacts())
	if err != nil || len(faults) > 0 {
		t.Fatal(faults, err)
	}
	defer computed.Free()
	return bundletest.Constant(t, "dte01/v2", &computed.Out)
}

// live activates a bundle at a branch of its own, cuts the power, starts again and sells.
func (m *mutants) live(t testing.TB, data []byte) string {
	t.Helper()
	w := enginetest.NewSim(t)
	w.Box = m.box
	fs := m.base.Crash(0, nil)
	w.Open(fs, fs)
	w.Shelf(nil)
	defer func() { w.Close() }()
	if a := enginetest.Push(t, w.Engine.Shelf(), data); a.State != rulestore.Live || a.Rule.Digest != m.digest {
		t.Errorf("%+v", a)
		return ""
	}
	s, log := w.Restart()
	w.Wire.Sever()
	if got := s.Book().Active("00", dte.Date(enginetest.Start))["01"]; got.Digest != m.digest ||
		strings.Contains(log, "level=ERROR") {
		t.Errorf("after a restart %+v is live\n%s", got, log)
	}
	r, err := w.Engine.Issue(context.Background(), enginetest.Sale("", 1130))
	if err != nil || r.Rule.Digest != m.digest {
		t.Errorf("%+v, %v", r, err)
		return ""
	}
	return strings.ReplaceAll(string(r.JSON), r.Code, "")
}

// try tries one mutant; it tells whether the branch took it.
func (m *mutants) try(t testing.TB, data []byte) bool {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.shelf.Activate(context.Background(), data, rulestore.Order{Who: "test", Dry: true, FewerCases: true})
	if err != nil {
		t.Fatal(err)
	}
	if a.Refused != "" {
		return false
	}
	inspected, seen := bundle.Inspect(data)
	if seen != nil || inspected.Digest != m.digest || a.Rule.Digest != m.digest {
		t.Fatalf("taken as %+v, and as another bundle than was signed: %v", a.Rule, seen)
	}
	packed, err := inspected.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := bundle.Reopen(packed, m.digest); err != nil || b.Digest != m.digest {
		t.Fatalf("what is stored of it does not open: %v", err)
	}
	if sum := sha256.Sum256(packed); !m.proven[sum] {
		if made := m.live(t, data); made != m.made {
			t.Fatalf("it makes another document:\n%s\n%s", made, m.made)
		}
		m.proven[sum] = true
	}
	return true
}

// TestShelf_Mutants tries mutants for some seconds; DTE_SOAK tries a million.
func TestShelf_Mutants(t *testing.T) {
	m := newMutants(t)
	n := 200
	if os.Getenv("DTE_SOAK") != "" {
		n = 1_000_000
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // each mutant is garbage at once
	r, mutator := rand.New(rand.NewPCG(1, uint64(n))), bundletest.NewMutator(t, m.good)
	began, taken := time.Now(), 0
	for i := 1; i <= n; i++ {
		if m.try(t, mutator.Mutant(t, r)) {
			taken++
		}
		if i%50_000 == 0 {
			t.Logf("%d of %d mutants, %d taken, after %v", i, n, taken, time.Since(began).Round(time.Second))
		}
	}
	if taken == 0 || taken == n || !m.try(t, m.good) {
		t.Errorf("%d of %d mutants were taken: the test has lost them", taken, n)
	}
	t.Logf("%d mutants, %d taken, %d different in what is stored, %v each", n, taken, len(m.proven),
		(time.Since(began) / time.Duration(n)).Round(time.Microsecond))
}

// FuzzShelf_Mutants lets the fuzzer choose the bytes and the change.
func FuzzShelf_Mutants(f *testing.F) {
	m := newMutants(f)
	f.Add(m.good, uint64(0))
	f.Add(bundletest.Tampered(f, m.good, bundletest.Payload), uint64(0))
	f.Add(bundletest.Tampered(f, m.good, func(s string) string { return " " + s }), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		if seed != 0 {
			if _, err := bundle.Inspect(data); err == nil {
				data = bundletest.NewMutator(t, data).Mutant(t, rand.New(rand.NewPCG(seed, 0)))
			}
		}
		m.try(t, data)
	})
}
