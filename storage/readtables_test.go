package storage

import (
	"context"
	crand "crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/storage/disktest"
)

// readTables reads every byte of every table, in pieces, asks leave for each, and finds a turned bit wherever it is: no
// sale comes after that.
func TestReadTables(t *testing.T) {
	disk := tableStore(t, 120)
	s := openStore(t, disk)
	read := 0
	if err := s.readTables(ctx, func(n int) error { read += n; return nil }); err != nil ||
		metrictest.Value(t, s, "dte_store_read_timestamp_seconds") == 0 {
		t.Errorf("%v", err)
	}
	path := largest(t, disk)
	if least := size(t, disk, path); int64(read) < least {
		t.Errorf("%d bytes were read, a table has %d", read, least)
	}
	over := errors.New("over")
	if err := s.readTables(ctx, func(int) error { return over }); !errors.Is(err, over) || s.Health() != nil {
		t.Errorf("a pass that was ended: %v, %v", err, s.Health())
	}
	last := s.LastReading()
	sound(t, s)
	s = openStore(t, disk)
	if got := s.LastReading(); last.At.IsZero() || got != last {
		t.Errorf("after a restart the last reading is %+v, it was %+v", got, last)
	}
	sound(t, s)
	path = largest(t, disk)
	o, log := options(disk.Copy()), &lines{}
	o.Logger = log.logger()
	s = openStoreWith(t, o)
	if err := o.FS.(*disktest.Disk).Flip(path, 8*size(t, disk, path)/2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.readTables(ctx, nil); err != nil || log.count() != 1 {
			t.Errorf("the log has %d lines of the damage, %v", log.count(), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	step := size(t, disk, path) / 16
	for at := step / 2; at < size(t, disk, path); at += step {
		rotten := disk.Copy()
		s := openStore(t, rotten)
		if err := rotten.Flip(path, at*8); err != nil {
			t.Fatal(err)
		}
		if err := s.readTables(ctx, nil); err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
		_, err := s.build(ctx, Keys{Series: "s1"}, func(slot Slot) (Draft, error) {
			return draft(code(9999), slot),
				nil
		})
		if !errors.Is(s.Health(), ErrCorrupt) || !errors.Is(err, ErrCorrupt) ||
			metrictest.Value(t, s, "dte_store_read_damaged_tables") != 1 {
			t.Errorf("byte %d of %d: the store says %v, a sale %v", at, size(t, disk, path), s.Health(), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The store is read once soon after the start and once a day, with rests; a sale on its way makes the rests longer.
func TestReadDaily(t *testing.T) {
	s, _ := newStore(t)
	big := make([]byte, 3*readPiece/2)
	_, _ = crand.Read(big) // nothing that a table compresses
	_, err := s.Append(ctx, Keys{Series: "b"}, Draft{Code: code(1), Parts: []Part{{"big", big}}})
	must(t, err)
	must(t, s.db.Flush())
	var waits, rests []time.Duration
	days := func(ctx context.Context, d time.Duration) error {
		if d < readFirst {
			rests = append(rests, d)
			return nil
		}
		waits = append(waits, d)
		return onlyIf(len(waits) == 3, context.Canceled)
	}
	s.ReadDaily(ctx, days)
	if !slices.Equal(waits, []time.Duration{readFirst, scrubEvery, scrubEvery}) {
		t.Errorf("waits %v", waits)
	}
	if s.LastReading().At.IsZero() || len(rests) == 0 || rests[0] < readRest || rests[0] >= readBusy*readRest {
		t.Errorf("rests %v after %v", rests, s.LastReading())
	}
	waits, rests = nil, nil
	sale, err := s.Begin(ctx, Keys{Series: "a"})
	if err == nil {
		s.ReadDaily(ctx, days)
		sale.Release()
	}
	if err != nil || len(rests) == 0 || rests[0] < readBusy*readRest {
		t.Errorf("while somebody sells it rests %v, %v", rests, err)
	}
	sound(t, s)
}
