package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

func (s *Store) newBatch(parts []Part) *pebble.Batch {
	n := 2048
	for _, p := range parts {
		n += len(p.Data) + len(p.Name) + 32
	}
	return s.db.NewBatchWithSize(n)
}

// commit writes a batch to the log, calls applied as soon as the batch's place in the log is certain, and returns when
// the disk and a live second copy have the batch. It returns no error: after a failed write the disk's content is
// unknown, so the process ends, and the next process reads the disk. row is the series' row after the batch; feed is
// the sequence number of the batch's announcement, 0 without an announcement.
func (s *Store) commit(b *pebble.Batch, row *Reach, feed uint64, applied func()) {
	var batch []byte
	if s.second != nil {
		batch = bytes.Clone(b.Repr())
	}
	at := place{*row, s.names.named(row.Sequence)}
	s.o.dieOn(b.Commit(pebble.NoSync), "writing batch")
	s.rows.Store(at.Name, *row)
	applied()
	s.o.dieOn(b.Close(), "closing batch")
	s.syncer.wait(at)
	if s.second != nil {
		s.second.push(at, feed, batch)
	}
}

// set cannot fail: the batch is in memory and not committed.
func set(b *pebble.Batch, key, value []byte) {
	if err := b.Set(key, value, nil); err != nil {
		panic(err)
	}
}

// get returns a copy of a row. ErrNotFound if the row does not exist.
func get(r pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading key %x: %w", key, damaged(err))
	}
	return append([]byte{}, value...), closer.Close() // copied before it is closed
}

// readJSON reads a JSON row; a missing row gives the zero value.
func readJSON[T any](r pebble.Reader, key []byte) (v T, err error) {
	b, err := get(r, key)
	if errors.Is(err, ErrNotFound) {
		return v, nil
	}
	if err == nil && json.Unmarshal(b, &v) != nil {
		err = fmt.Errorf("%w: the row %q", ErrCorrupt, key[1:])
	}
	return v, err
}

func setJSON(w pebble.Writer, key []byte, v any, sync *pebble.WriteOptions) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.Set(key, b, sync)
}

func has(r pebble.Reader, key []byte) (bool, error) {
	_, err := get(r, key)
	return err == nil, onlyIf(!errors.Is(err, ErrNotFound), err)
}

// errStop ends a scan early.
var errStop = errors.New("stop")

func iterate(r pebble.Reader, lower, upper []byte, fn func(it *pebble.Iterator) error) (err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("reading rows: %w", damaged(err))
	}
	defer func() {
		if e := errors.Join(it.Error(), it.Close()); e != nil {
			err = fmt.Errorf("reading rows: %w", damaged(e))
		}
	}()
	return fn(it)
}

// scan calls fn with every row from lower up to upper. Key and value are valid during the call only.
func scan(r pebble.Reader, lower, upper []byte, fn func(key, value []byte) error) error {
	err := iterate(r, lower, upper, func(it *pebble.Iterator) error {
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err == nil {
				err = fn(it.Key(), value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return onlyIf(!errors.Is(err, errStop), err)
}

// damaged adds ErrCorrupt to the error of a read if the medium returned wrong bytes or no bytes.
func damaged(err error) error {
	if pebble.IsCorruptionError(err) || errors.Is(err, syscall.EIO) {
		return errors.Join(ErrCorrupt, err)
	}
	return err
}

func onlyIf(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}

// syncer syncs the log to the disk, once for all batches that wait, and then passes their rows to the mark.
type syncer struct {
	store   *Store
	kick    chan struct{} // one element: a batch waits for a sync
	stopped chan struct{} // closed when run has ended

	mu   sync.Mutex
	next *round
}

// round is the batches that go to the disk with one sync.
type round struct {
	rows []place // the row of the series after each batch
	done chan struct{}
}

func newRound() *round { return &round{done: make(chan struct{})} }

func newSyncer(s *Store) *syncer {
	y := &syncer{store: s, kick: make(chan struct{}, 1), stopped: make(chan struct{}), next: newRound()}
	go y.run()
	return y
}

// wait returns when the disk has a batch that is already in the log; row is the series' row after the batch.
func (y *syncer) wait(row place) {
	y.mu.Lock()
	r := y.next
	r.rows = append(r.rows, row)
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

// ready returns the next round, or nil if the round is empty. since is the time of the last sync. If the last sync is
// too recent, ready sets the timer rested and returns nil.
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

// sync syncs the batches of a round to the disk, and ends the round. Like commit, it returns no error.
func (y *syncer) sync(r *round) {
	s := y.store
	start := s.o.Now()
	if err := s.db.LogData(nil, pebble.Sync); err != nil { // the sync covers everything before it in the log
		s.o.die("syncing log: %v", err)
		return
	}
	s.metrics.sync.Observe(s.secondsSince(start))
	s.mark.note(r.rows)
	close(r.done)
}

// close ends run. No caller may still be in wait.
func (y *syncer) close() {
	close(y.kick)
	<-y.stopped
}

// rest returns the pause after a sync, in which more records become ready to share the next sync. waiting is the number
// of batches that already wait for that sync. The pause is 0 if at least half of the records under way already wait, or
// if only one record is under way.
func (s *Store) rest(waiting int) time.Duration {
	writing := int(s.writing.Load())
	if s.o.FakeTime || 2*waiting >= writing {
		return 0
	}
	return min(time.Duration(writing-1)*time.Millisecond/4, 4*time.Millisecond)
}

// Beat writes a row of its own and returns when the disk has the row: this shows that the store still commits. If the
// disk hangs, Beat waits. If unsure is not zero, the caller does not know yet whether the store has all changes since
// unsure. See LastBeat.
//
// Beat also works in a damaged store, which has already stopped issuing: the watchdog must not restart the process,
// because a new process would not know of the damage. Errors: ErrReadOnly, ErrClosed.
func (s *Store) Beat(at, unsure time.Time) error {
	return s.do("beating", func() error {
		if s.o.readOnly {
			return ErrReadOnly
		}
		start := s.o.Now()
		b := s.db.NewBatch()
		s.o.dieOn(errors.Join(setJSON(b, keyBeat, at.UTC(), nil), setJSON(b, keyUnsure, unsure.UTC(), nil),
			setJSON(b, keyMark, s.mark.row(), nil), b.Commit(pebble.Sync)), "writing heartbeat")
		s.metrics.sync.Observe(s.secondsSince(start))
		return nil
	})
}

// LastBeat returns the times of the latest Beat. In a store without a Beat, at is the time of the last change; in an
// empty store, zero.
func (s *Store) LastBeat() (at, unsure time.Time, err error) {
	at, err = use(s, "reading the last beat", func() (time.Time, error) {
		unsure, _ = readJSON[time.Time](s.db, keyUnsure) // Fsck reports an unreadable row
		if at, err := readJSON[time.Time](s.db, keyBeat); err == nil && !at.IsZero() {
			return at, nil
		}
		return latestChange(s.db)
	})
	return at, unsure, err
}
