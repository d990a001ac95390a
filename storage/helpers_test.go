package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/storage/disktest"
)

var ctx = context.Background()

// soak marks volumes that do not fit the everyday run.
var soak = os.Getenv("DTE_SOAK") == "1"

// The states of the tests; the store gives them no meaning.
const (
	fresh State = 1
	done  State = 2
)

// clock advances one millisecond each time it is read.
func clock() func() time.Time {
	var ticks atomic.Int64
	start := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	return func() time.Time { return start.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
}

func options(fs vfs.FS) Options {
	return Options{Dir: "box/store", MarkPath: "other/mark", FS: fs, Now: clock(),
		Fatal: func(m string) { panic("store died: " + m) }}
}

// newStore is a store on a new crashable filesystem. sound must end the test.
func newStore(t testing.TB) (*Store, *disktest.Disk) {
	t.Helper()
	fs := disktest.New(disktest.Strict)
	if err := Create(options(fs)); err != nil {
		t.Fatal(err)
	}
	return openStore(t, fs), fs
}

// fakeStore is a new store in a bubble of synctest.
func fakeStore(t testing.TB) (*Store, Options, *disktest.Disk) {
	t.Helper()
	disk := disktest.New(disktest.Strict)
	o := options(disk)
	o.FakeTime = true
	if err := Create(o); err != nil {
		t.Fatal(err)
	}
	return openStoreWith(t, o), o, disk
}

func openStore(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	return openStoreWith(t, options(fs))
}

func openStoreWith(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sound ends a test and checks: no problem in any row, nothing leaked.
func sound(t testing.TB, s *Store) {
	t.Helper()
	if err := checkSound(s); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func checkSound(s *Store) error {
	report, err := s.Fsck(ctx)
	if err != nil {
		return err
	}
	for _, p := range report.Problems {
		err = errors.Join(err, fmt.Errorf("fsck: %v", p))
	}
	return err
}

// code is a record's code for a number that a test chose.
func code(n uint64) (c Code) {
	binary.BigEndian.PutUint64(c[:], n*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(c[8:], n)
	return c
}

func idem(n uint64) *Idempotency {
	return &Idempotency{Key: [32]byte{1, byte(n), byte(n >> 8), byte(n >> 16)}, Digest: [32]byte{2, byte(n)}}
}

// draft is a record whose content follows from its code.
func draft(c Code, slot Slot) Draft {
	return Draft{Code: c, State: fresh, Head: head(c, slot.Number), Parts: []Part{{"form", form(c)}},
		Due: &Due{Queue: "settle", At: time.Unix(int64(slot.ID), 0)}, Days: []uint32{uint32(slot.ID % 3)}}
}

func head(c Code, number uint64) []byte { return fmt.Appendf(nil, "head of %X, number %d", c, number) }
func form(c Code) []byte                { return bytes.Repeat(c[:], 40) }

// build appends a record that build makes of its number.
func (s *Store) build(ctx context.Context, keys Keys, build func(Slot) (Draft, error)) (Entry, error) {
	return s.buildIf(ctx, keys, func() error { return nil }, build)
}

// buildIf is build for a record that may be refused before it has a number.
func (s *Store) buildIf(ctx context.Context, keys Keys, allow func() error, build func(Slot) (Draft, error)) (Entry,
	error) {
	a, err := s.Begin(ctx, keys)
	if err != nil {
		return Entry{}, err
	}
	defer a.Release()
	if err := allow(); err != nil {
		return Entry{}, err
	}
	slot, err := a.Number()
	if err != nil {
		return Entry{}, err
	}
	d, err := build(slot)
	if err != nil {
		return Entry{}, err
	}
	return a.Append(d)
}

// put appends the record with the number n to a series.
func put(t testing.TB, s *Store, series string, n uint64) Entry {
	t.Helper()
	e, err := s.build(ctx, Keys{Series: series, Idempotency: idem(n)},
		func(slot Slot) (Draft, error) { return draft(code(n), slot), nil })
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(bytes.Clone(b)) // a vfs.File may alter what it wrote
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// copyOf is the filesystem as it is now, synced or not.
func copyOf(fs *disktest.Disk) *disktest.Disk { return fs.Copy() }

// settle settles a store's open questions, as a person does who names all that is lost, and n more numbers of each
// series whose last number nothing bounds.
func settle(s *Store, n uint64, reason string, possible ...string) error {
	begun := func(time.Time) []string { return possible }
	o, err := s.Owed(begun)
	if err != nil || o == nil {
		return errors.Join(err, onlyIf(o == nil, errors.New("there is nothing to settle")))
	}
	_, err = s.Settle(ctx, begun, o.losses(n), reason)
	return err
}

func (o *Owed) losses(n uint64) (list []Loss) {
	for _, next := range o.Series {
		l := Loss{next.Series, next.lost}
		if next.Open && n > 0 {
			l.Numbers = append(l.Numbers, Span{next.Known + 1, next.Known + n})
		}
		list = append(list, l)
	}
	return list
}

// doubt is how many changes there may have been after the end of the copy that a store was made from.
func doubt(s *Store) uint64 {
	if row, err := readJSON[*Restoration](s.db, keyRestored); err == nil && row != nil {
		return row.Doubt
	}
	return 0
}

// missing is what no source had.
func (a *Assembled) missing() []Missing {
	if a.Owed == nil {
		return nil
	}
	return a.Owed.Missing
}

// byName is the last number of each series.
func (h *Head) byName() map[string]uint64 {
	m := make(map[string]uint64)
	for name, reach := range h.Series {
		m[name] = reach.Last
	}
	return m
}

// markSaying returns the mark of a store with these last numbers of these series, in the order of their sequences.
func markSaying(store [16]byte, names []string, numbers ...uint64) *Head {
	h := markHead(store, make(map[string]Reach))
	for i, name := range names {
		h.Series[name] = Reach{Sequence: uint32(i + 1), Last: numbers[i]}
	}
	return h
}
