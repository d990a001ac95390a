package storage

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// syncer has the disk take the log: one sync for everything that is in it, and one word to the mark.
type syncer struct {
	store   *Store
	kick    chan struct{} // one element: somebody waits
	stopped chan struct{} // closed when it has ended

	mu   sync.Mutex
	next *round
}

// round is the batches that go to the disk with one sync.
type round struct {
	rows []seriesRow // as the batches leave them
	done chan struct{}
}

func newRound() *round { return &round{done: make(chan struct{})} }

func newSyncer(s *Store) *syncer {
	y := &syncer{store: s, kick: make(chan struct{}, 1), stopped: make(chan struct{}), next: newRound()}
	go y.run()
	return y
}

// wait returns when the batch that left row as it is, and is in the log, is on the disk.
func (y *syncer) wait(row *seriesRow) {
	y.mu.Lock()
	r := y.next
	r.rows = append(r.rows, *row)
	y.mu.Unlock()
	signal(y.kick)
	<-r.done
}

func (y *syncer) run() {
	defer close(y.stopped)
	for range y.kick {
		y.mu.Lock()
		r := y.next
		y.next = newRound()
		y.mu.Unlock()
		if len(r.rows) > 0 {
			y.sync(r)
			time.Sleep(y.store.rest())
		}
	}
}

// sync ends a round. As commit, it does not fail.
func (y *syncer) sync(r *round) {
	s := y.store
	start := s.o.Now()
	if err := s.db.LogData(nil, pebble.Sync); err != nil { // what is in the log before it is synced with it
		s.o.die("syncing log: %v", err)
		return
	}
	s.metrics.sync.Observe(s.since(start))
	s.mark.note(r.rows)
	close(r.done)
}

// close ends it. Nobody waits any more.
func (y *syncer) close() {
	close(y.kick)
	<-y.stopped
}

// rest is how long the log is left alone after a sync. Records on their way wait for each other's signatures anyway, and
// go with one sync; one alone waits for nothing.
func (s *Store) rest() time.Duration {
	if s.o.FakeTime {
		return 0
	}
	return min(time.Duration(s.writing.Load()-1)*time.Millisecond/4, 4*time.Millisecond)
}
