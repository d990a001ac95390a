package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

// A crash test runs a workload once. Before every write that the store asks of its filesystem, and between any two
// calls, it takes what the disk would hold if the power went just then. Each of these disks is then opened: what had
// been acknowledged until that moment must be there, and everything must fit together.

// ledger is what the store has acknowledged.
type ledger struct {
	mu    sync.Mutex
	acked map[Code]ackedRecord
}

type ackedRecord struct {
	series   string
	number   uint64
	revision uint32
	key      uint64
}

func (l *ledger) ack(e Entry, key uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[e.Code] = ackedRecord{e.Series, e.Number, e.Revision, key}
}

func (l *ledger) copy() map[Code]ackedRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := make(map[Code]ackedRecord, len(l.acked))
	for c, r := range l.acked {
		m[c] = r
	}
	return m
}

// crashed is a disk after a power cut, and what had been acknowledged before.
type crashed struct {
	fs    *disktest.Disk
	acked map[Code]ackedRecord
}

// crasher takes what a power cut leaves of disk.
type crasher struct {
	disk   *disktest.Disk
	ledger ledger
	each   int // one of so many moments is taken
	out    chan crashed

	mu    sync.Mutex
	rng   *rand.Rand
	count int
	off   atomic.Bool // nothing more to take
}

func (c *crasher) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		c.take()
	}
	return nil
}

func (*crasher) String() string { return "crasher" }

func (c *crasher) take() {
	if c.off.Load() {
		return
	}
	c.mu.Lock()
	c.count++
	if c.count%c.each != 0 {
		c.mu.Unlock()
		return
	}
	acked := c.ledger.copy() // before the disk is taken: a later acknowledgement is not required
	disk := crashed{c.disk.Crash([]int{0, 0, 30, 70, 100}[c.rng.IntN(5)], c.rng), acked}
	c.mu.Unlock()
	c.out <- disk
}

// crashRun is one seeded run: workers × ops calls, and a crash at every moment that is taken. It returns how many disks
// were opened and what was wrong with them.
type crashRun struct {
	seed    uint64
	workers int
	ops     int
	series  int
	each    int
	rules   disktest.Rules
}

func (r crashRun) run() (scenarios int, problems error) {
	disk := disktest.New(r.rules)
	if err := Create(options(disk)); err != nil {
		return 0, err
	}
	c := &crasher{disk: disk, each: max(1, r.each), out: make(chan crashed, 8), rng: newRand(r.seed)}
	c.ledger.acked = make(map[Code]ackedRecord)
	var mu sync.Mutex
	var verifiers sync.WaitGroup
	for range 2 {
		verifiers.Go(func() {
			for disk := range c.out {
				n, err := disk.verify(true)
				mu.Lock()
				scenarios += n
				if err != nil {
					c.off.Store(true) // one is enough
				}
				if err != nil && problems == nil {
					problems = fmt.Errorf("crash %d: %w", scenarios, err)
				}
				mu.Unlock()
			}
		})
	}
	err := r.work(c)
	close(c.out)
	verifiers.Wait()
	return scenarios, errors.Join(problems, err)
}

func (r crashRun) work(c *crasher) error {
	o := options(errorfs.Wrap(c.disk, c))
	s, err := Open(o)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	errs := make([]error, r.workers)
	for w := range r.workers {
		workers.Go(func() { errs[w] = r.worker(s, c, uint64(w)) })
	}
	workers.Wait()
	err = errors.Join(errors.Join(errs...), checkSound(s), s.Close())
	c.off.Store(true)
	return err
}

// worker appends and advances. Now and then a record is refused, or its making fails, which must not spend a number.
func (r crashRun) worker(s *Store, c *crasher, w uint64) error {
	rng := newRand(r.seed<<8 | w)
	var open []Entry
	for i := range uint64(r.ops) {
		c.take()
		n := w<<32 | i
		switch roll := rng.IntN(10); {
		case roll < 6 || len(open) == 0:
			keys := Keys{Series: fmt.Sprint("s", rng.IntN(r.series)), Idempotency: idemOf(n)}
			if len(open) > 0 && roll < 2 {
				keys.Origins = []Code{open[0].Code}
			}
			e, err := insist(s, keys, func() error { return nil }, func(slot Slot) (Draft, error) {
				runtime.Gosched() // others get the next numbers
				d := draft(code(n), slot)
				for _, o := range keys.Origins {
					d.Counters = []Counter{{o, 1, int64(slot.ID)}}
				}
				return d, nil
			})
			if err != nil {
				return err
			}
			c.ledger.ack(e, n)
			open = append(open, e)
		case roll < 9:
			at := rng.IntN(len(open))
			e, err := s.Advance(ctx, open[at].Code, fresh, Change{To: done, Head: []byte("settled"),
				Parts:    []Part{{"answer", form(open[at].Code)}},
				Counters: []Counter{{open[0].Code, 1, -1}}})
			if err != nil {
				return err
			}
			c.ledger.ack(e, c.ledger.copy()[e.Code].key)
			open = append(open[:at], open[at+1:]...)
		default:
			refused := errors.New("refused")
			keys := Keys{Series: fmt.Sprint("s", rng.IntN(r.series))}
			_, err := insist(s, keys, func() error { return onlyIf(rng.IntN(2) == 0, refused) }, func(Slot) (Draft,
				error) {
				runtime.Gosched()
				return Draft{}, refused
			})
			if !errors.Is(err, refused) {
				return fmt.Errorf("a refusing build: %w", err)
			}
		}
	}
	return nil
}

func idemOf(n uint64) *Idempotency {
	c := code(n)
	i := &Idempotency{Digest: [32]byte{byte(n)}}
	copy(i.Key[:], c[:])
	return i
}

// verify opens the disk. With again it also cuts the power during that Open, and verifies what is left then.
func (d crashed) verify(again bool) (scenarios int, err error) {
	scenarios = 1
	marked, err := readMark(d.fs, options(nil).MarkPath, false)
	if err != nil {
		return scenarios, fmt.Errorf("mark: %w", err)
	}
	fs := vfs.FS(d.fs)
	var second crashed
	var mu sync.Mutex
	if again && len(d.acked)%4 == 1 {
		moment, count := len(d.acked), 0
		fs = errorfs.Wrap(d.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				mu.Lock()
				defer mu.Unlock()
				if count++; count == moment {
					second = crashed{d.fs.Crash(50, newRand(uint64(moment))), d.acked}
				}
			}
			return nil
		}))
	}
	s, err := Open(options(fs))
	if err != nil {
		return scenarios, err
	}
	err = errors.Join(d.compare(s, marked.byName()), goOn(s, len(d.acked)%8 == 3), s.Close())
	if second.fs != nil && err == nil {
		n, more := second.verify(false)
		return scenarios + n, more
	}
	return scenarios, err
}

// compare looks for what was acknowledged.
func (d crashed) compare(s *Store, marked map[string]uint64) error {
	for c, want := range d.acked {
		e, err := s.Get(c)
		if err != nil {
			return fmt.Errorf("acknowledged number %d of %s is lost: %w", want.number, want.series, err)
		}
		if e.Number != want.number || e.Series != want.series || e.Revision < want.revision {
			return fmt.Errorf("acknowledged %+v, found %+v", want, e)
		}
		if e.State == fresh && !bytes.Equal(e.Head, head(c, want.number)) {
			return fmt.Errorf("number %d of %s was made as %q", want.number, want.series, e.Head)
		}
		if b, err := s.Part(c, "form"); err != nil || !bytes.Equal(b, form(c)) {
			return fmt.Errorf("form of number %d of %s: %w", want.number, want.series, err)
		}
		if want.revision == 2 {
			if b, err := s.Part(c, "answer"); err != nil || !bytes.Equal(b, form(c)) {
				return fmt.Errorf("answer of number %d of %s: %w", want.number, want.series, err)
			}
		}
		if found, digest, err := s.Lookup(idemOf(want.key).Key); err != nil || found != c ||
			digest != idemOf(want.key).Digest {
			return fmt.Errorf("key of number %d of %s leads to %X: %w", want.number, want.series, found, err)
		}
		if n := marked[want.series]; marked != nil && n+1 < want.number {
			return fmt.Errorf("number %d of %s was acknowledged, the mark said %d", want.number, want.series, n)
		}
	}
	return nil
}

// goOn checks the store and issues one more record in every series.
func goOn(s *Store, again bool) error {
	report, err := s.Fsck(ctx)
	if err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return fmt.Errorf("fsck: %v", report.Problems)
	}
	n := 1<<60 + uint64(report.Documents)<<8 // no code twice
	for series, last := range report.Last {
		n++
		e, err := s.build(ctx, Keys{Series: series}, func(slot Slot) (Draft, error) {
			return draft(code(n), slot),
				nil
		})
		if err != nil || e.Number != last+1 {
			return fmt.Errorf("after number %d of %s came %d: %w", last, series, e.Number, err)
		}
	}
	if again {
		return checkSound(s)
	}
	return nil
}

func TestCrash(t *testing.T) {
	runs := []crashRun{
		{seed: 1, workers: 1, ops: 40, series: 1, each: 2},
		{seed: 2, workers: 1, ops: 40, series: 3, each: 2},
		{seed: 3, workers: 8, ops: 12, series: 1, each: 4},
		{seed: 4, workers: 8, ops: 12, series: 4, each: 4},
		{seed: 5, workers: 16, ops: 40, series: 3, each: 18},
	}
	want := 300
	if testing.Short() { // under the race detector an opened disk takes ten times as long
		runs, want = []crashRun{{seed: 4, workers: 8, ops: 8, series: 3, each: 15}, {seed: 5, workers: 8, ops: 8,
			series: 3, each: 15}, {seed: 6, workers: 8, ops: 8, series: 3, each: 15}}, 20
	}
	if soak {
		for seed := uint64(100); seed < 400; seed++ {
			runs = append(runs, crashRun{seed: seed, workers: 1 + int(seed%16), ops: 60, series: 1 + int(seed%5)})
		}
	}
	total := make(map[disktest.Rules]int)
	for i, r := range runs {
		r.rules = disktest.AllRules[(i+1)%len(disktest.AllRules)]
		n, err := r.run()
		if err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		total[r.rules] += n
	}
	t.Logf("crashes: %v", total)
	sum := 0
	for _, rules := range disktest.AllRules {
		if sum += total[rules]; total[rules] == 0 {
			t.Errorf("no crash under the rules %v", rules)
		}
	}
	if sum < want {
		t.Errorf("only %d crashes", sum)
	}
}
