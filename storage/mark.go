package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mark is the high-water mark: the last durable number of every series, kept outside of the store and synced on its
// own. A store that lost acknowledged records, by a damaged log, an old backup, a wrong disk, is behind its mark and
// does not open.
//
// It is written in the background and never says more than the store holds. Number n is acknowledged once the mark
// says at least n-1.
type mark struct {
	o       *Options
	metrics *metrics
	file    *markFile
	kick    chan struct{} // one element: there is something to write
	stopped chan struct{} // closed when the writer has ended
	opened  uint64        // its generation then
	proved  atomic.Int64  // Unix ns, see ProveMark

	mu    sync.Mutex
	wrote sync.Cond
	known []uint64 // durable in the store, by sequence - 1
	said  []uint64 // durable in the file
	busy  bool     // the writer is writing
	stop  bool
}

// openMark compares the file with what the store holds, brings it up to date and starts its writer.
//
// The mark of a restored store may say more than the store, and says that until the store has got there; a lost one is
// made anew. So may that of a store which is behind another medium.
func openMark(o *Options, m *metrics, j *markJudge) (*mark, error) {
	file, said, err := openMarkFile(o.FS, o.MarkPath)
	if errors.Is(err, errNoMark) && j.markLost {
		if err := j.writeNew(o, j.newLine()); err != nil {
			return nil, err
		}
		file, said, err = openMarkFile(o.FS, o.MarkPath)
	}
	state := j.judge(o.MarkPath, file, said, err)
	switch {
	case file == nil:
		return nil, j.refuse(o, state)
	case state.Kind == MarkSound, state.Kind == MarkAhead && o.OpenBehind:
	default:
		return nil, errors.Join(j.refuse(o, state), file.close())
	}
	known := furthest(j.last, said) // it never sinks
	k := &mark{o: o, metrics: m, file: file, known: known, said: said,
		kick: make(chan struct{}, 1), stopped: make(chan struct{})}
	k.wrote.L = &k.mu
	// Written also when it says the same: the process before this one may have ended because a sync of the mark failed. What
	// was read here is then in Linux's memory and not on the medium.
	if err := file.write(known); err != nil {
		return nil, errors.Join(fmt.Errorf("writing mark %s: %w", o.MarkPath, err), file.close())
	}
	k.said = slices.Clone(known)
	k.opened = file.durable()
	k.proved.Store(o.Now().UnixNano())
	go k.run()
	return k, nil
}

// furthest is the higher of two numbers for each series.
func furthest(a, b []uint64) []uint64 {
	f := make([]uint64, max(len(a), len(b)))
	copy(f, a)
	for i, n := range b {
		f[i] = max(f[i], n)
	}
	return f
}

// compareMark returns ErrMark when the store holds less than the mark says.
func compareMark(marked, store [16]byte, said, last []uint64) error {
	if marked != store {
		return fmt.Errorf("%w: the mark is of store %x, this is store %x", ErrMark, marked, store)
	}
	for i, n := range said {
		have := uint64(0)
		if i < len(last) {
			have = last[i]
		}
		if have < n {
			return fmt.Errorf("%w: series %d ends at number %d, the mark says %d", ErrMark, i+1, have, n)
		}
	}
	return nil
}

// note says that rows are durable in the store.
func (m *mark) note(rows []seriesRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := false
	for _, row := range rows {
		if n := int(row.Sequence); len(m.known) < n {
			m.known = append(m.known, make([]uint64, n-len(m.known))...)
		}
		if k := &m.known[row.Sequence-1]; *k < row.Last {
			*k, news = row.Last, true
		}
	}
	if news {
		signal(m.kick)
	}
}

// signal leaves one word for whoever receives, unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait returns when the file durably says number or more.
func (m *mark) wait(sequence uint32, number uint64) {
	if number == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for int(sequence) > len(m.said) || m.said[sequence-1] < number {
		m.wrote.Wait()
	}
}

// run writes what is new, all series at once, as fast as the disk allows.
func (m *mark) run() {
	defer close(m.stopped)
	for range m.kick {
		m.mu.Lock()
		if m.stop && slices.Equal(m.known, m.said) {
			m.mu.Unlock()
			return
		}
		numbers := slices.Clone(m.known)
		m.busy = true
		m.mu.Unlock()
		start := m.o.Now()
		if err := m.file.write(numbers); err != nil {
			// Without it nothing may be acknowledged, and what is in flight is durable already.
			m.o.die("writing mark %s: %v", m.o.MarkPath, err)
			return
		}
		m.metrics.mark.Observe(m.o.Now().Sub(start).Seconds())
		m.mu.Lock()
		m.said, m.busy = numbers, false
		stop := m.stop && slices.Equal(m.known, m.said)
		m.wrote.Broadcast()
		m.mu.Unlock()
		if stop {
			return
		}
	}
}

// numbers returns what the mark says: in the file, as it is now.
func (m *mark) numbers() ([]uint64, error) {
	m.mu.Lock()
	least := slices.Clone(m.said)
	m.mu.Unlock()
	numbers, store, err := m.file.read()
	if err != nil {
		return nil, err
	}
	if err := compareMark(store, m.file.store, least, numbers); err != nil {
		return nil, fmt.Errorf("the file says less than was written to it: %w", err)
	}
	return numbers, nil
}

// renew makes the mark that of another store, or of the same one after a restoration. Nobody appends meanwhile.
func (m *mark) renew(store [16]byte, numbers []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.busy { // or it would put back what it took before
		m.wrote.Wait()
	}
	if err := m.file.rewrite(store, numbers); err != nil {
		m.o.die("writing mark %s: %v", m.o.MarkPath, err)
	}
	m.known, m.said = slices.Clone(numbers), slices.Clone(numbers)
}

// close ends the writer after its last write. Nobody notes any more.
func (m *mark) close() error {
	m.mu.Lock()
	m.stop = true
	m.mu.Unlock()
	signal(m.kick)
	<-m.stopped
	return m.file.close()
}

// readMark returns what the file at path says, and of which store. errNoMark when there is no file.
func readMark(fs vfs.FS, path string) ([]uint64, [16]byte, error) {
	file, numbers, err := openMarkFile(fs, path)
	if err != nil {
		return nil, [16]byte{}, err
	}
	return numbers, file.store, file.close()
}
