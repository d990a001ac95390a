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
	rested := time.NewTimer(0)
	synced := time.Now()
	for {
		select {
		case _, open := <-y.kick:
			if !open {
				return
			}
		case <-rested.C:
		}
		if r := y.ready(synced, rested); r != nil {
			y.sync(r)
			synced = time.Now()
		}
	}
}

// ready takes the next round, unless it is empty or the log rests since the last one: then it sets the timer.
func (y *syncer) ready(since time.Time, rested *time.Timer) *round {
	y.mu.Lock()
	defer y.mu.Unlock()
	r := y.next
	if len(r.rows) == 0 {
		return nil
	}
	if left := y.store.rest(len(r.rows)) - time.Since(since); left > 0 {
		rested.Reset(left)
		return nil
	}
	y.next = newRound()
	return r
}

// sync ends a round. As commit, it does not fail.
func (y *syncer) sync(r *round) {
	s := y.store
	start := s.o.Now()
	if err := s.db.LogData(nil, pebble.Sync); err != nil { // what is in the log before it is synced with it
		s.o.die("syncing log: %v", err)
		return
	}
	s.metrics.sync.Observe(s.secondsSince(start))
	s.mark.note(r.rows)
	close(r.done)
}

// close ends it. Nobody waits any more.
func (y *syncer) close() {
	close(y.kick)
	<-y.stopped
}

// rest is how long the log is left alone after a sync while so many wait for the next one. Records on their way wait for
// each other's signatures anyway, and go with one sync; as soon as half of them are there, or one is alone, nobody rests.
func (s *Store) rest(waiting int) time.Duration {
	writing := int(s.writing.Load())
	if s.o.FakeTime || 2*waiting >= writing {
		return 0
	}
	return min(time.Duration(writing-1)*time.Millisecond/4, 4*time.Millisecond)
}
