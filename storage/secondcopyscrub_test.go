package storage

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/storage/disktest"
)

// Whatever happens to a segment at rest, scrubbing sees it within a day and writes the segment anew from the store; a
// store made from the card alone is the same, row by row. The segments are of a fill over several, and of changes.
func TestScrub(t *testing.T) {
	harms := map[string]func(disk *disktest.Disk, path string){
		"gone": func(disk *disktest.Disk, path string) { _ = disk.Remove(path) },
		"cut short": func(disk *disktest.Disk, path string) {
			b := readFile(t, disk, path)
			writeFile(t, disk, path, b[:len(b)/2])
		},
		"zeros": func(disk *disktest.Disk, path string) { writeFile(t, disk, path, make([]byte, 1000)) },
	}
	for at := range 3 {
		harms[fmt.Sprint("flipped ", at)] = func(disk *disktest.Disk, path string) {
			b := readFile(t, disk, path)
			b[(2*at+1)*len(b)/7] ^= 4
			writeFile(t, disk, path, b)
		}
	}
	harms["flipped head"] = func(disk *disktest.Disk, path string) {
		b := readFile(t, disk, path)
		b[frameHeader+5] ^= 1
		writeFile(t, disk, path, b)
	}
	mended := 0
	for name, harm := range harms {
		synctest.Test(t, func(t *testing.T) {
			mem := disktest.New(disktest.Strict)
			o := withCard(mem)
			o.FakeTime, o.Now = true, time.Now
			if err := Create(o); err != nil {
				t.Fatal(err)
			}
			plain := o
			plain.SecondCopy = ""
			s := openStoreWith(t, plain)
			everything(t, s, 1)
			everything(t, s, 100)
			sound(t, s)
			s = openStoreWith(t, o)
			everything(t, s, 200)
			numbers, err := segmentNumbers(mem, card)
			if err != nil || len(numbers) < 6 {
				t.Fatal(numbers, err)
			}
			for i, n := range numbers { // each in its turn, including the one that is being written
				if testing.Short() && i%3 != 0 {
					continue
				}
				harm(mem, segmentPath(mem, card, n))
				if n == numbers[len(numbers)-1] { // it is ended before it is mended
					time.Sleep(scrubEvery + time.Hour)
					put(t, s, "a", 9000)
				}
				time.Sleep(scrubEvery + time.Hour)
				c, _ := s.SecondCopy()
				if len(c.Scrub.Bad) > 0 || c.Scrub.Found < uint64(mended+1) && c.Scrub.Found == 0 {
					t.Fatalf("segment %d of %v %s: %+v", n, numbers, name, c.Scrub)
				}
				everything(t, s, 300+100*uint64(i))
				disk := onlyCard(t, mem)
				want := rows(t, s)
				again := rebuilt(t, disk)
				same(t, fmt.Sprintf("segment %d of %v %s", n, numbers, name), want, rows(t, again))
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
			c, _ := s.SecondCopy()
			if c.Scrub.Mended < 2 || c.Scrub.Last.IsZero() ||
				metrictest.Value(t, s, "dte_store_second_copy_bad_segments_mended_total") != float64(c.Scrub.Mended) {
				t.Errorf("%s: %+v", name, c.Scrub)
			}
			mended += int(c.Scrub.Mended)
			sound(t, s)
			// The result outlives the process.
			s = openStoreWith(t, o)
			if again, _ := s.SecondCopy(); !again.Scrub.Last.Equal(c.Scrub.Last) ||
				again.Scrub.Mended != c.Scrub.Mended {
				t.Errorf("after a restart %+v, before it %+v", again.Scrub, c.Scrub)
			}
			sound(t, s)
		})
	}
	t.Logf("%d segments mended", mended)
}

// A power cut during a repair leaves the bad segment or the new one, never none.
func TestScrub_Crash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := disktest.New(disktest.Strict)
		fs, taken := cutAtWrites(mem, 3, 0, 50, 100)
		o := withCard(fs)
		o.FakeTime, o.Now = true, time.Now
		if err := Create(o); err != nil {
			t.Fatal(err)
		}
		s := openStoreWith(t, o)
		everything(t, s, 1)
		want := rows(t, s)
		numbers, err := segmentNumbers(mem, card)
		if err != nil {
			t.Fatal(err)
		}
		path := segmentPath(mem, card, numbers[1])
		b := readFile(t, mem, path)
		b[len(b)/2] ^= 1
		writeFile(t, mem, path, b)
		before := len(taken())
		time.Sleep(scrubEvery)
		disks := taken()[before:]
		if c, _ := s.SecondCopy(); c.Scrub.Mended != 1 || len(disks) < 3 {
			t.Fatalf("%+v, %d crashes", c.Scrub, len(disks))
		}
		for i, disk := range disks {
			disk := onlyCard(t, disk)
			made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if err != nil {
				t.Fatalf("crash %d: %v", i, err)
			}
			again := openStore(t, disk)
			if made.missing() == nil {
				same(t, fmt.Sprint("crash ", i), want, rows(t, again))
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		}
		sound(t, s)
	})
}

// TestScrub_Fault: a segment is gone, and one call of the pass that misses it fails. The store sells on, a later pass
// mends the segment, and what the card holds then is the store.
func TestScrub_Fault(t *testing.T) {
	failed := 0
	for n := range int64(60) {
		synctest.Test(t, func(t *testing.T) {
			mem := disktest.New(disktest.Strict)
			var left atomic.Int64 // calls before the one that fails; below zero none does
			left.Store(-1)
			o := withCard(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if strings.HasPrefix(op.Path, card) && left.Load() >= 0 && left.Add(-1) < 0 {
					return errorfs.ErrInjected
				}
				return nil
			})))
			o.FakeTime, o.Now = true, time.Now
			if err := Create(o); err != nil {
				t.Fatal(err)
			}
			s := openStoreWith(t, o)
			everything(t, s, 1)
			numbers, err := segmentNumbers(mem, card)
			if err != nil {
				t.Fatal(err)
			}
			if err := mem.Remove(segmentPath(mem, card, numbers[1])); err != nil {
				t.Fatal(err)
			}
			left.Store(n)
			time.Sleep(scrubFirst + time.Minute)
			if left.Swap(-1) < 0 {
				failed++
			}
			time.Sleep(2 * (scrubEvery + time.Hour))
			if c, _ := s.SecondCopy(); len(c.Scrub.Bad) > 0 || c.Scrub.Mended == 0 || !c.Live {
				t.Errorf("call %d failed: %+v", n, c)
			}
			put(t, s, "a", 10_000)
			disk := onlyCard(t, mem)
			again := rebuilt(t, disk)
			same(t, fmt.Sprint("call ", n), rows(t, s), rows(t, again))
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			sound(t, s)
		})
	}
	t.Logf("%d calls failed", failed)
	if failed < 5 {
		t.Errorf("only %d calls failed", failed)
	}
}

// TestScrub_ShippedInPart: a segment of which some first bytes were shipped rots and is mended. The shipped bytes, with
// those that the folder holds after them in the order of names, are the store.
func TestScrub_ShippedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := disktest.New(disktest.Strict)
		o := withCard(mem)
		o.FakeTime, o.Now = true, time.Now
		must(t, Create(o))
		s := openStoreWith(t, o)
		for n := uint64(0); n < 100; n += 20 {
			everything(t, s, n)
		}
		numbers, err := segmentNumbers(mem, card)
		must(t, err)
		n := numbers[len(numbers)/2]
		path := segmentPath(mem, card, n)
		old := readFile(t, mem, path)
		bad := slices.Clone(old)
		bad[len(bad)*3/4] ^= 1
		writeFile(t, mem, path, bad)
		time.Sleep(scrubEvery)
		if c, _ := s.SecondCopy(); c.Scrub.Mended != 1 {
			t.Fatalf("%+v", c.Scrub)
		}
		if names, err := mem.List(card); err != nil || slices.Contains(names, segmentName(n)) {
			t.Errorf("%v, %v: the damaged file is still there", names, err)
		}
		want := rows(t, s)
		sound(t, s)
		for cut := 0; cut <= len(old); cut += len(old) / 7 {
			disk := onlyCard(t, mem)
			if cut > 0 {
				writeFile(t, disk, path, old[:cut])
			}
			made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if err != nil || len(made.missing()) > 0 {
				t.Fatalf("%d bytes were shipped: missing %v, %v", cut, made.missing(), err)
			}
			again := openStore(t, disk)
			same(t, fmt.Sprint(cut, " bytes were shipped"), want, rows(t, again))
			must(t, again.Close())
		}
	})
}

// TestScrub_Lagging: a segment is mended while the copy still lacks a change that the store has. A store made from the
// card at that moment is whole, and the segment is mended once the copy has the change.
func TestScrub_Lagging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := disktest.New(disktest.Strict)
		var slow atomic.Pointer[chan struct{}]
		o := withCard(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if gate := slow.Load(); gate != nil && op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path,
				".copy") {
				<-*gate
			}
			return nil
		})))
		o.FakeTime, o.Now, o.SecondPatience = true, time.Now, time.Hour
		must(t, Create(o))
		s := openStoreWith(t, o)
		for n := range uint64(60) {
			put(t, s, "a", n+1)
		}
		numbers, err := segmentNumbers(mem, card)
		must(t, err)
		gate := make(chan struct{})
		slow.Store(&gate)
		var work sync.WaitGroup
		work.Go(func() {
			_, err := s.Advance(ctx, code(2), fresh, Change{To: done, Head: []byte("settled"),
				Parts: []Part{{"answer", form(code(2))}}})
			must(t, err)
		})
		synctest.Wait()
		work.Go(func() { must(t, s.second.scrubber.mend(numbers[0])) })
		synctest.Wait()
		made, err := Assemble(ctx, Sources{Copy: card}, options(onlyCard(t, mem)), nil)
		if err != nil || len(made.missing()) > 0 {
			t.Errorf("missing %v, %v", made.missing(), err)
		}
		slow.Store(nil)
		close(gate)
		work.Wait()
		burn(t, "mended", s, mem)
	})
}
