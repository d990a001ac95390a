package storage

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

const markPath = "other/mark"

func TestMark_StoreBehind(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	put(t, s, "b", 2)
	sound(t, s)
	backup := copyOf(fs)
	s = openStore(t, fs)
	put(t, s, "b", 3)
	sound(t, s)

	// The backup beside today's mark: record 3 is missing.
	writeFile(t, backup, markPath, readFile(t, fs, markPath))
	s = openStore(t, copyOf(backup))
	if w := mustHold(t, s); len(w) != 1 || !strings.Contains(w[0].String(), "b: 1 here, 2 there") {
		t.Errorf("a store behind its mark: %v", w)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	report, err := Check(ctx, options(backup))
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].String(),
		"acknowledged records are missing") {
		t.Errorf("Check says %+v, %v", report, err)
	}
	sound(t, openStore(t, fs))

	// A whole series is missing.
	writeFile(t, fs, markPath, encodeFile(t, fs, []string{"a", "b", "c"}, 1, 2, 1))
	s = openStore(t, copyOf(fs))
	mustHold(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	// A mark behind the store is what a crash leaves; Open brings it up to date.
	writeFile(t, fs, markPath, encodeFile(t, fs, []string{"a", "b"}, 1, 1))
	sound(t, openStore(t, fs))
	if said, err := readMark(fs, markPath, false); err != nil ||
		!reflect.DeepEqual(said, markSaying(said.Store, []string{"a", "b"}, 1, 2)) {
		t.Errorf("the mark says %v, %v", said, err)
	}
}

// encodeFile is a mark of the store on fs with other content.
func encodeFile(t *testing.T, fs vfs.FS, names []string, numbers ...uint64) []byte {
	m, err := openMarkFile(fs, markPath, true)
	if err == nil {
		err = m.close()
	}
	if err != nil {
		t.Fatal(err)
	}
	err = writeNewMark(fs, "aside", markSaying(m.said.Store, names, numbers...), firstSlot, m.generation.Load())
	if err != nil {
		t.Fatal(err)
	}
	return readFile(t, fs, "aside")
}

func TestMark_Refused(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	sound(t, s)
	good := readFile(t, fs, markPath)
	strange := slices.Clone(good)
	other := vfs.NewMem()
	if err := Create(options(other)); err != nil {
		t.Fatal(err)
	}
	for i := range firstSlot * 2 {
		strange[i] ^= 0x55
	}
	for name, content := range map[string][]byte{
		"missing": nil, "empty": {}, "short": good[:100], "unreadable": strange, "of another store": readFile(t, other,
			markPath),
	} {
		if content == nil {
			if err := fs.Remove(markPath); err != nil {
				t.Fatal(err)
			}
		} else {
			writeFile(t, fs, markPath, content)
		}
		if _, err := Open(options(fs)); !errors.Is(err, ErrMark) {
			t.Errorf("%s: %v", name, err)
		}
		if report, err := Check(ctx, options(fs)); err != nil || len(report.Problems) == 0 {
			t.Errorf("%s: Check says %v, %v", name, report, err)
		}
	}
	writeFile(t, fs, markPath, good)
	sound(t, openStore(t, fs))
}

// A torn write of one slot leaves the content of the other: the numbers, and the names that came with them.
func TestMark_Torn(t *testing.T) {
	fs := vfs.NewMem()
	if err := Create(options(fs)); err != nil {
		t.Fatal(err)
	}
	m, err := openMarkFile(fs, markPath, true)
	if err != nil {
		t.Fatal(err)
	}
	before := m.said
	for n := uint64(1); n <= 6; n++ {
		now := markSaying(before.Store, []string{"a", "b"}, n, 7)
		if n > 3 {
			now = markSaying(before.Store, []string{"a", "b", "c"}, n, 7, 1)
		}
		if err := m.write(now); err != nil {
			t.Fatal(err)
		}
		whole := readFile(t, fs, markPath)
		newest := int(slotAt(firstSlot, m.generation.Load()))
		for _, at := range []int{0, 9, 20, 32, 35, 43, 44, 45, 53, len(m.buf) - 4, len(m.buf) - 1} {
			torn := slices.Clone(whole)
			torn[newest+at] ^= 1
			writeFile(t, fs, "torn", torn)
			said, err := readMark(fs, "torn", false)
			before.Slack = maxWaiting
			if err != nil || !reflect.DeepEqual(said, before) {
				t.Errorf("byte %d after write %d: %v, %v", at, n, said, err)
			}
		}
		before = now
	}
	// A mark that is renewed has as many series, in another order.
	for n := range uint64(2) {
		now := markSaying(before.Store, []string{"c", "a", "b"}, n, 2, 3)
		if err := m.write(now); err != nil {
			t.Fatal(err)
		}
		if said, err := readMark(fs, markPath, false); err != nil || !reflect.DeepEqual(said, now) {
			t.Errorf("renewed: %v, %v", said, err)
		}
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

// TestMark_TornNewest: a box whose last write of the mark was torn starts, whichever slot is damaged.
func TestMark_TornNewest(t *testing.T) {
	s, whole := newStore(t)
	put(t, s, "a", 1)
	put(t, s, "a", 2)
	sound(t, s)
	for slot := range int64(2) {
		disk := whole.Copy()
		if err := disk.Flip(markPath, 8*(slot*firstSlot+20)); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, disk)
		if e := put(t, s, "a", 3); e.Number != 3 {
			t.Errorf("slot %d is damaged: the series goes on at %d", slot, e.Number)
		}
		sound(t, s)
	}
}

// TestMark_Close: a proper end writes every number into the mark, also a number that came during the last write.
func TestMark_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := disktest.New(disktest.Strict)
		if err := Create(options(disk)); err != nil {
			t.Fatal(err)
		}
		var held atomic.Bool
		hold := make(chan struct{})
		o := options(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Path == markPath && held.Load() {
				<-hold
			}
			return nil
		})))
		o.FakeTime = true
		s := openStoreWith(t, o)
		put(t, s, "a", 1)
		synctest.Wait()
		held.Store(true)
		put(t, s, "a", 2)
		synctest.Wait() // the writer writes it
		put(t, s, "b", 3)
		ended := make(chan error)
		go func() { ended <- s.Close() }()
		synctest.Wait()
		close(hold)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		said, err := readMark(disk, markPath, false)
		if err != nil || !maps.Equal(said.byName(), map[string]uint64{"a": 2, "b": 1}) {
			t.Errorf("the mark says %+v: %v", said, err)
		}
	})
}

func TestMark_Grows(t *testing.T) {
	fs := disktest.New(disktest.Strict)
	if err := Create(options(fs)); err != nil {
		t.Fatal(err)
	}
	m, err := openMarkFile(fs, markPath, true)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var numbers []uint64
	for i := range firstSlot / 16 { // the numbers and the names of these series need more than a slot
		names, numbers = append(names, fmt.Sprintf("%04d, a series %02000d", i, i)[:min(20+i, 250)]),
			append(numbers, uint64(i))
	}
	for range 3 {
		numbers[0]++
		now := markSaying(m.said.Store, names, numbers...)
		if err := m.write(now); err != nil {
			t.Fatal(err)
		}
		durable := fs.Crash(0, nil)
		if got, err := readMark(durable, markPath, false); err != nil || !reflect.DeepEqual(got, now) {
			t.Errorf("after growing: %v", err)
		}
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

// One flipped bit anywhere in the log: the store opens with everything that was acknowledged, or not at all, or says
// that its mark knows more, and numbers nothing.
func TestMark_FlippedLog(t *testing.T) {
	s, fs := newStore(t)
	for n := uint64(1); n <= 20; n++ {
		put(t, s, fmt.Sprint(n%2), n)
	}
	for !s.mark.idle() {
		if _, err := s.Get(code(1)); err != nil { // let the writer run
			t.Fatal(err)
		}
	}
	disk := copyOf(fs) // as kill -9 leaves it
	sound(t, s)
	log := newestLog(t, disk)
	whole := readFile(t, disk, log)
	size := len(whole)
	for size > 0 && whole[size-1] == 0 {
		size--
	}
	refused, opened := 0, 0
	for at := 0; at < size; at += 97 {
		flipped := copyOf(disk)
		b := slices.Clone(whole)
		b[at] ^= 1 << (at % 8)
		writeFile(t, flipped, log, b)
		s, err := Open(options(flipped))
		if err != nil {
			refused++
			continue
		}
		if s.Behind() != nil {
			refused++
			mustHold(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		opened++
		for n := uint64(1); n <= 20; n++ {
			if _, err := s.Get(code(n)); err != nil {
				t.Errorf("byte %d flipped: opened without record %d: %v", at, n, err)
			}
		}
		sound(t, s)
	}
	t.Logf("%d refused, %d complete", refused, opened)
	if refused == 0 {
		t.Error("no flip was noticed")
	}
}

func (m *mark) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Equal(m.known, m.said)
}

// newestLog is the path of the log in use.
func newestLog(t *testing.T, fs vfs.FS) string {
	t.Helper()
	list, err := fs.List("box/store")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	for _, name := range slices.Backward(list) {
		if strings.HasSuffix(name, ".log") {
			return fs.PathJoin("box/store", name)
		}
	}
	t.Fatal("no log")
	return ""
}

func TestCreate_Refuses(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	sound(t, s)
	if err := Create(options(fs)); !errors.Is(err, ErrExists) {
		t.Errorf("over a store: %v", err)
	}
	// The store is lost; its mark alone prevents that numbers start at 1 again.
	if err := fs.RemoveAll("box/store"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(fs)); !errors.Is(err, ErrNoStore) {
		t.Errorf("opening nothing: %v", err)
	}
	if _, err := fs.Stat("box/store"); err == nil {
		t.Error("Open made something")
	}
	if err := Create(options(fs)); !errors.Is(err, ErrExists) {
		t.Errorf("beside a mark that has counted: %v", err)
	}
	writeFile(t, fs, markPath, []byte("something else"))
	if err := Create(options(fs)); !errors.Is(err, ErrExists) {
		t.Errorf("over another file: %v", err)
	}
}

// With the operating system's own files and default paths.
func TestOpen_RealDisk(t *testing.T) {
	o := Options{Dir: t.TempDir() + "/var/box/store", Now: clock()}
	if err := Create(o); err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= 3; n++ {
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if e := put(t, s, "a", n); e.Number != n {
			t.Errorf("number %d", e.Number)
		}
		if _, err := Open(o); err == nil {
			t.Error("opened twice at once")
		}
		sound(t, s)
	}
}

// A single record waits for nothing. While others are on their way the log rests between two syncs, four milliseconds
// at most, or until half of them have arrived.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newStore(t)
		n := uint64(0)
		ten := func(others int32) time.Duration {
			s.writing.Add(others)
			defer s.writing.Add(-others)
			began := time.Now()
			for range 10 {
				n++
				put(t, s, "a", n)
			}
			return time.Since(began)
		}
		for others, want := range map[int32]time.Duration{0: 0, 1: 0, 4: 9 * time.Millisecond,
			16: 36 * time.Millisecond, 1000: 36 * time.Millisecond} {
			time.Sleep(time.Second)
			if took := ten(others); took != want {
				t.Errorf("ten records beside %d others took %v, want %v", others, took, want)
			}
		}
		s.writing.Add(2)
		began := time.Now()
		for range 10 {
			var two sync.WaitGroup
			for _, series := range []string{"b", "c"} {
				n++
				two.Go(func() { put(t, s, series, n) })
				synctest.Wait()
			}
			two.Wait()
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("two of four waited %v for the others", took)
		}
		s.writing.Add(-2)
		sound(t, s)
	})
}

// TestRest_SameOrigin: the log does not rest for writers that wait for a lock whose holder waits for the log.
func TestRest_SameOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newStore(t)
		origin := put(t, s, "a", 1).Code
		time.Sleep(time.Second)
		began := time.Now()
		var writers sync.WaitGroup
		for n := range uint64(16) {
			writers.Go(func() {
				_, err := s.build(ctx, Keys{Series: "b", Origins: []Code{origin}, Idempotency: idem(n + 2)},
					func(slot Slot) (Draft, error) { return draft(code(n+2), slot), nil })
				if err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		if took := time.Since(began); took > 0 {
			t.Errorf("the log rested %v", took)
		}
		sound(t, s)
	})
}
