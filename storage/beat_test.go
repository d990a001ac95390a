package storage

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// What a Beat said is there after a power cut; before the first one the last change stands for it.
func TestBeat(t *testing.T) {
	s, fs := newStore(t)
	if at, err := s.LastBeat(); err != nil || !at.IsZero() {
		t.Errorf("empty store: %v, %v", at, err)
	}
	put(t, s, "a", 1)
	changed, err := s.LastChange()
	if err != nil {
		t.Fatal(err)
	}
	if at, err := s.LastBeat(); err != nil || !at.Equal(changed) {
		t.Errorf("%v, %v, the last change was at %v", at, err, changed)
	}
	want := time.Date(2026, 11, 21, 8, 0, 0, 7, time.UTC)
	for _, at := range []time.Time{want.Add(time.Hour), want} { // the clock may have been ahead
		if err := s.Beat(at); err != nil {
			t.Fatal(err)
		}
	}
	cut := fs.CrashClone(vfs.CrashCloneCfg{})
	sound(t, s)
	s = openStore(t, cut)
	if at, err := s.LastBeat(); err != nil || !at.Equal(want) {
		t.Errorf("after the cut %v, %v", at, err)
	}
	sound(t, s)
	if err := s.Beat(want); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A disk that does not sync keeps Beat waiting, so that nobody feeds a watchdog.
func TestBeat_HangingDisk(t *testing.T) {
	fs := vfs.NewCrashableMem()
	if err := Create(options(fs)); err != nil {
		t.Fatal(err)
	}
	var hangs atomic.Bool
	asked, release := make(chan struct{}, 1), make(chan struct{})
	o := options(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if sync && strings.HasSuffix(op.Path, ".log") && hangs.Load() {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-release
		}
		return nil
	})))
	s := openStoreWith(t, o)
	hangs.Store(true)
	beat := make(chan error, 1)
	go func() { beat <- s.Beat(time.Unix(1, 0)) }()
	<-asked
	select {
	case err := <-beat:
		t.Errorf("a Beat came back before the disk did: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	hangs.Store(false)
	close(release)
	if err := <-beat; err != nil {
		t.Error(err)
	}
	sound(t, s)
}
