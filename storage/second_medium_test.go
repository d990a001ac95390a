package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/metrictest"
	"dtegate/storage/disktest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// sick is a card that fails, or hangs, while it is said to.
type sick struct {
	fails atomic.Bool
	gate  atomic.Pointer[chan struct{}]
}

func (c *sick) MaybeError(op errorfs.Op) error {
	if !strings.HasPrefix(op.Path, "card") || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	if gate := c.gate.Load(); gate != nil {
		<-*gate
	}
	if c.fails.Load() {
		return errorfs.ErrInjected
	}
	return nil
}

func (*sick) String() string { return "sick" }

// A card that is gone or hangs stops nothing, nobody waits longer than the patience, and it catches up by itself.
func TestSecondCopy_SickMedium(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs=%v", hangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := disktest.New(disktest.Strict)
				if err := Create(options(mem)); err != nil {
					t.Fatal(err)
				}
				medium := &sick{}
				o := withCard(errorfs.Wrap(mem, medium))
				o.FakeTime = true
				s := openStoreWith(t, o)
				everything(t, s, 1)
				if shown := metrictest.Value(t, s, "dte_store_second_copy_live"); shown != 1 {
					t.Errorf("the metric says %v at first", shown)
				}
				gate := make(chan struct{})
				if hangs {
					medium.gate.Store(&gate)
				} else {
					medium.fails.Store(true)
				}
				start := time.Now()
				var tills sync.WaitGroup
				for n := range uint64(5) {
					tills.Go(func() { put(t, s, "a", 100+n) })
				}
				tills.Wait()
				if took := time.Since(start); took > o.SecondPatience+2*time.Second || hangs == (took < 2*time.Second) {
					t.Errorf("the tills waited %v", took)
				}
				start = time.Now()
				everything(t, s, 200)
				if took := time.Since(start); took != 0 {
					t.Errorf("later they waited %v", took)
				}
				if c, _ := s.SecondCopy(); c.Live || c.Why == "" || metrictest.Value(t, s, "dte_store_second_copy_live") != 0 {
					t.Errorf("the copy says %+v, the metric %v", c, metrictest.Value(t, s, "dte_store_second_copy_live"))
				}
				time.Sleep(3 * time.Hour) // of the bubble's clock
				everything(t, s, 300)
				if _, err := s.Advance(ctx, code(8), fresh, Change{To: fresh, Due: &Due{"settle", time.Unix(7, 0)}}); err != nil {
					t.Error(err) // copied before, and moved now
				}
				medium.gate.Store(nil)
				medium.fails.Store(false)
				close(gate)
				time.Sleep(retryLongest + time.Minute)
				if c, _ := s.SecondCopy(); !c.Live || metrictest.Value(t, s, "dte_store_second_copy_live") != 1 {
					t.Errorf("the copy does not come back: %+v, the metric says %v", c, metrictest.Value(t, s, "dte_store_second_copy_live"))
				}
				everything(t, s, 400)
				burn(t, "caught up", s, mem)
			})
		})
	}
}

// What the store could still lose is not copied: a log that says more than the store is the copy of another.
func TestSecondCopy_NotAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := disktest.New(disktest.Strict)
		if err := Create(options(mem)); err != nil {
			t.Fatal(err)
		}
		medium := &sick{}
		medium.fails.Store(true)
		var log gate
		o := withCard(errorfs.Wrap(errorfs.Wrap(mem, medium), &log))
		o.FakeTime = true
		s := openStoreWith(t, o)
		put(t, s, "a", 1)
		hold := log.shut()
		done := make(chan struct{})
		go func() {
			put(t, s, "a", 2)
			close(done)
		}()
		synctest.Wait() // it is in the log, and the disk does not have it
		medium.fails.Store(false)
		time.Sleep(3 * time.Minute)
		if c, _ := s.SecondCopy(); c.Live {
			t.Error("the copy holds what the disk does not")
		}
		close(hold)
		<-done
		synctest.Wait()
		if c, _ := s.SecondCopy(); !c.Live {
			t.Errorf("%+v", c)
		}
		sound(t, s)
	})
}

// What is another store's copy, or says more than the store, is not touched.
func TestSecondCopy_Conflict(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	sound(t, s)
	old := copyOf(fs)
	s = live(t, fs)
	put(t, s, "a", 2)
	sound(t, s)
	other := disktest.New(disktest.Strict)
	if err := Create(options(other)); err != nil {
		t.Fatal(err)
	}
	for name, disk := range map[string]*disktest.Disk{"an older store": old, "another store": other} {
		numbers, err := segmentNumbers(fs, card)
		if err != nil {
			t.Fatal(err)
		}
		if err := makeParents(disk, card+"/x"); err != nil {
			t.Fatal(err)
		}
		var files [][]byte
		for _, n := range numbers {
			files = append(files, readFile(t, fs, segmentPath(fs, card, n)))
			writeFile(t, disk, segmentPath(fs, card, n), files[len(files)-1])
		}
		s := openStoreWith(t, withCard(disk))
		put(t, s, "a", 7)
		if c, ok := s.SecondCopy(); !ok || c.Live || !strings.Contains(c.Why, "another history") {
			t.Errorf("%s: %+v", name, c)
		}
		sound(t, s)
		for i, n := range numbers {
			if !bytes.Equal(files[i], readFile(t, disk, segmentPath(fs, card, n))) {
				t.Errorf("%s: segment %d was touched", name, n)
			}
		}
	}
}

// One flipped bit anywhere: the copy is refused, or what comes of it lacks no more than the last group. A running store
// mends it, where it sees it.
func TestSecondCopy_Flipped(t *testing.T) {
	s, fs := newStore(t)
	sound(t, s)
	s = live(t, fs)
	for n := uint64(1); n <= 40; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	numbers, err := segmentNumbers(fs, card)
	if err != nil || len(numbers) < 3 {
		t.Fatal(numbers, err)
	}
	refused, short := 0, 0
	for _, n := range []uint64{numbers[0], numbers[1], numbers[len(numbers)-1]} {
		path := segmentPath(fs, card, n)
		whole := readFile(t, fs, path)
		for at := 0; at < len(whole); at += 211 {
			disk := onlyCard(t, fs)
			b := slices.Clone(whole)
			b[at] ^= 1 << (at % 8)
			writeFile(t, disk, path, b)
			if _, err := Rebuild(ctx, card, options(disk), nil); err != nil {
				if refused++; !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNoStore) {
					t.Errorf("%s flipped at %d: %v", path, at, err)
				}
				continue
			}
			s := openStore(t, disk)
			for n := uint64(1); n <= 39; n++ {
				if _, err := s.Get(code(n)); err != nil {
					t.Errorf("%s flipped at %d: %v", path, at, err)
				}
			}
			if _, err := s.Get(code(40)); err != nil {
				short++
			}
			trustCopy(t, s)
			sound(t, s)
		}
	}
	if t.Logf("%d refused, %d without the last group", refused, short); refused == 0 {
		t.Error("no flip was noticed")
	}
	last := segmentPath(fs, card, numbers[len(numbers)-1])
	b := readFile(t, fs, last)
	b[len(b)/2] ^= 1
	writeFile(t, fs, last, b)
	burn(t, "mended", live(t, fs), fs)
}

// BenchmarkSecondCopy compares, in turns, an Append of 9 KiB with and without a second copy on the same disk.
func BenchmarkSecondCopy(b *testing.B) {
	dir := b.TempDir()
	plain := benchStore(b, vfs.Default, dir+"/plain")
	o := options(vfs.Default)
	o.Dir, o.MarkPath, o.SecondCopy, o.Now = dir+"/copied/store", dir+"/copied/mark", dir+"/card", time.Now
	if err := Create(o); err != nil {
		b.Fatal(err)
	}
	copied := openStoreWith(b, o)
	data := randomData()
	took := make(map[*Store][]time.Duration)
	var n uint64
	for b.Loop() {
		n++
		for _, s := range []*Store{plain, copied} {
			start := time.Now()
			_, err := s.Append(ctx, Keys{Series: "a"}, func(slot Slot) (Draft, error) { return benchDraft(n, slot, data), nil })
			took[s] = append(took[s], time.Since(start))
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	if c, _ := copied.SecondCopy(); !c.Live {
		b.Errorf("%+v", c)
	}
	report(b, "plain", took[plain])
	report(b, "copied", took[copied])
	b.ReportMetric(float64(median(took[copied]))/float64(median(took[plain])), "copied/plain")
	sound(b, plain)
	sound(b, copied)
}
