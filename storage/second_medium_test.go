package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/storage/disktest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// sick is a card that fails, or hangs, when told to.
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

// A missing or hanging card stops nothing, nobody waits longer than the patience, and it catches up by itself.
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
				if c, _ := s.SecondCopy(); c.Live || c.Why == "" ||
					metrictest.Value(t, s, "dte_store_second_copy_live") != 0 {
					t.Errorf("the copy says %+v, the metric %v", c, metrictest.Value(t, s,
						"dte_store_second_copy_live"))
				}
				time.Sleep(3 * time.Hour) // of the bubble's clock
				everything(t, s, 300)
				if _, err := s.Advance(ctx, code(8), fresh, Change{To: fresh, Due: &Due{"settle",
					time.Unix(7, 0)}}); err != nil {
					t.Error(err) // copied before, and moved now
				}
				medium.gate.Store(nil)
				medium.fails.Store(false)
				close(gate)
				time.Sleep(retryLongest + time.Minute)
				if c, _ := s.SecondCopy(); !c.Live || metrictest.Value(t, s, "dte_store_second_copy_live") != 1 {
					t.Errorf("the copy does not come back: %+v, the metric says %v", c, metrictest.Value(t, s,
						"dte_store_second_copy_live"))
				}
				everything(t, s, 400)
				burn(t, "caught up", s, mem)
			})
		})
	}
}

// A till's patience ends while nothing is being written, because an earlier change is late: the copy comes back by
// itself, as soon the third time as the first, because it was live for long between them.
func TestSecondCopy_PatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := disktest.New(disktest.Strict)
		if err := Create(options(mem)); err != nil {
			t.Fatal(err)
		}
		o := withCard(mem)
		o.FakeTime, o.Now = true, time.Now
		s := openStoreWith(t, o)
		everything(t, s, 1)
		synctest.Wait()
		for i := range uint64(3) {
			s.second.leave(errSlow)
			if c, _ := s.SecondCopy(); c.Live {
				t.Errorf("%+v", c)
			}
			time.Sleep(retryFirst + time.Second)
			if c, _ := s.SecondCopy(); !c.Live {
				t.Errorf("time %d: the copy does not come back: %+v", i, c)
			}
			time.Sleep(retryLongest)
			everything(t, s, 200+100*i)
		}
		burn(t, "caught up", s, mem)
	})
}

// Nobody waits for a write that will not come: a change that is early waits for the change before it only while the
// medium is written.
func TestSecondCopy_WriteReleases(t *testing.T) {
	s, _ := newStore(t)
	at := func(position uint64) place { return place{Reach: Reach{Sequence: 1, Position: position}} }
	for name, c := range map[string]struct {
		mode   copyMode
		failed error
		waits  bool
	}{
		"live":                 {copyLive, nil, true},
		"the write fails":      {copyLive, errorfs.ErrInjected, false},
		"a patience has ended": {copyAway, nil, false},
	} {
		copied, early := &change{at: at(3), done: make(chan struct{})}, &change{at: at(5), done: make(chan struct{})}
		second := newSecond(s)
		second.mode = c.mode
		l := &copyLog{c: second, failed: c.failed, state: copyState{Series: map[uint32]place{1: at(3)}}}
		err := second.write(l, []*change{early, copied})
		select {
		case <-copied.done:
		default:
			t.Errorf("%s: the caller of a copied change waits", name)
		}
		waits := false
		select {
		case <-early.done:
		default:
			waits = true
		}
		if waits != c.waits || (err == nil) != c.waits || (len(second.queue) == 1) != c.waits {
			t.Errorf("%s: %v; the early change waits: %v, %d are queued", name, err, waits, len(second.queue))
		}
	}
	sound(t, s)
}

// What the store could still lose is not copied: a copy that says more than its store would be another store's.
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
			_, err := s.build(ctx, Keys{Series: "a"}, func(slot Slot) (Draft, error) {
				return benchDraft(n, slot, data),
					nil
			})
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

// slot is a file system whose folder "card" lies on another device while the card is in its slot, and is a bare folder
// of the store's own device while it is not.
type slot struct {
	vfs.FS
	out atomic.Bool
}

func (s *slot) Stat(name string) (vfs.FileInfo, error) {
	info, err := s.FS.Stat(name)
	if err == nil && strings.HasPrefix(name, card) && !s.out.Load() {
		return onCard{info}, nil
	}
	return info, err
}

func (s *slot) take(t *testing.T) {
	t.Helper()
	must(t, errors.Join(s.FS.Rename(card, "desk"), s.FS.MkdirAll(card, 0o700)))
	s.out.Store(true)
}

func (s *slot) put(t *testing.T) {
	t.Helper()
	must(t, errors.Join(s.FS.RemoveAll(card), s.FS.Rename("desk", card)))
	s.out.Store(false)
}

type onCard struct{ vfs.FileInfo }

// DeviceID implements vfs.FileInfo. Only a real file has a device that is not zero, as those of package disktest are.
func (onCard) DeviceID() vfs.DeviceID {
	info, err := vfs.Default.Stat(".")
	if err != nil {
		panic(err)
	}
	return info.DeviceID()
}

// A card that is not mounted leaves an empty folder on the store's own disk. No copy is built there and called live, at
// a start or later; the store sells on, and the copy catches up when the card is mounted again.
func TestSecondCopy_NotMounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slot{FS: disktest.New(disktest.Strict)}
		must(t, Create(options(disk)))
		o := withCard(disk)
		o.FakeTime = true
		bare := func(s *Store, from uint64) {
			t.Helper()
			everything(t, s, from)
			if c, _ := s.SecondCopy(); c.Live || !strings.Contains(c.Why, "not mounted") ||
				metrictest.Value(t, s, "dte_store_second_copy_live") != 0 {
				t.Errorf("without a card: %+v", c)
			}
			if names, err := disk.List(card); err != nil || len(names) > 0 {
				t.Errorf("on the mount point: %v, %v", names, err)
			}
		}
		mounted := func(s *Store) {
			t.Helper()
			disk.put(t)
			time.Sleep(2 * retryFirst)
			if c, _ := s.SecondCopy(); !c.Live {
				t.Errorf("mounted again: %+v", c)
			}
		}
		s := openStoreWith(t, o)
		everything(t, s, 1)
		must(t, s.Close())

		disk.take(t)
		s = openStoreWith(t, o)
		bare(s, 2000)
		must(t, s.Close())
		r, err := OpenReadOnly(o)
		must(t, err)
		if _, err := r.LookAtCopy(card); !errors.Is(err, ErrNotMounted) {
			t.Errorf("doctor sees %v", err)
		}
		must(t, r.Close())
		s = openStoreWith(t, o)
		mounted(s)

		disk.take(t) // a lazy unmount: open files go on, nothing new is made
		for n := range uint64(40) {
			put(t, s, "a", 1000+n)
		}
		bare(s, 3000)
		mounted(s)
		burn(t, "caught up", s, disk.FS.(*disktest.Disk))
	})
}
