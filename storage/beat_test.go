package storage

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

// The time of a Beat is there after a power cut; before the first Beat the last change stands for it.
func TestBeat(t *testing.T) {
	s, fs := newStore(t)
	if at, _, err := s.LastBeat(); err != nil || !at.IsZero() {
		t.Errorf("empty store: %v, %v", at, err)
	}
	put(t, s, "a", 1)
	changed, err := latestChange(s.db)
	if err != nil {
		t.Fatal(err)
	}
	if at, _, err := s.LastBeat(); err != nil || !at.Equal(changed) {
		t.Errorf("%v, %v, the last change was at %v", at, err, changed)
	}
	want := time.Date(2026, 11, 21, 8, 0, 0, 7, time.UTC)
	for _, at := range []time.Time{want.Add(time.Hour), want} { // the clock may have been ahead
		if err := s.Beat(at, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	cut := fs.Crash(0, nil)
	sound(t, s)
	s = openStore(t, cut)
	if at, _, err := s.LastBeat(); err != nil || !at.Equal(want) {
		t.Errorf("after the cut %v, %v", at, err)
	}
	sound(t, s)
	if err := s.Beat(want, time.Time{}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A disk that does not sync keeps Beat waiting, so that the watchdog gets no signal.
func TestBeat_HangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := disktest.New(disktest.Strict)
		if err := Create(options(fs)); err != nil {
			t.Fatal(err)
		}
		var log gate
		s := openStoreWith(t, options(errorfs.Wrap(fs, &log)))
		hold := log.shut()
		beat := make(chan error, 1)
		go func() { beat <- s.Beat(time.Unix(1, 0), time.Time{}) }()
		synctest.Wait() // Beat has returned, or waits for the disk
		select {
		case err := <-beat:
			t.Errorf("a Beat came back before the disk did: %v", err)
			beat <- err
		default:
		}
		close(hold)
		if err := <-beat; err != nil {
			t.Error(err)
		}
		sound(t, s)
	})
}
