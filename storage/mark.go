package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// mark is the high-water mark: the last durable number of every series, kept outside of the store and synced on its
// own. A store that lost acknowledged records, by a damaged log, an old backup, a wrong disk, is behind its mark and
// does not open.
//
// It is written in the background and never says more than the store holds. Number n is acknowledged once the mark says
// at least n-1.
//
// The mark says the names of the series too, so that it speaks of the same series to any store of the family: to one
// that was restored of a backup, and to the next one restored of the same.
type mark struct {
	o       *Options
	metrics *metrics
	names   *names
	file    *markFile
	kick    chan struct{} // one element: there is something to write
	stopped chan struct{} // closed when the writer has ended
	opened  uint64        // its generation then
	proved  atomic.Int64  // Unix ns, see ProveMark

	mu    sync.Mutex
	wrote sync.Cond
	known []uint64 // durable in the store, by sequence - 1
	named []string // of these series; only ever appended to
	said  []uint64 // durable in the file
	busy  bool     // the writer is writing
	stop  bool
}

// openMark compares the file with what the store holds, brings it up to date and starts its writer.
//
// The mark of a restored store may say more than the store, and says that until the store has got there; a lost one is
// made anew. So may that of a store which is behind another medium.
//
// It returns what the file said. Series that the file names and the store lacks get a sequence id in names.
func openMark(o *Options, m *metrics, j *markJudge, names *names) (*mark, reached, error) {
	file, said, err := openMarkFile(o.FS, o.MarkPath, true)
	if errors.Is(err, errNoMark) && j.restored != nil && j.restored.MarkLost {
		if err := j.writeNew(o, j.newLine()); err != nil {
			return nil, said, err
		}
		file, said, err = openMarkFile(o.FS, o.MarkPath, true)
	}
	state := j.judge(o.MarkPath, file, said, err)
	switch {
	case file == nil:
		return nil, said, j.refuse(o, state)
	case state.Kind != MarkSound && (state.Kind != MarkAhead || !o.OpenBehind):
		return nil, said, errors.Join(j.refuse(o, state), file.close())
	}
	k := &mark{o: o, metrics: m, names: names, file: file, kick: make(chan struct{}, 1), stopped: make(chan struct{})}
	k.wrote.L = &k.mu
	for i, n := range said.numbers { // it never sinks
		if n > 0 {
			k.raise(names.sequenceOf(said.names[i]), n)
		}
	}
	// Of a restored store the mark keeps what it said itself, until Settle has settled what the two say.
	if j.restored == nil {
		for _, row := range j.series {
			k.raise(row.Sequence, row.Last)
		}
	}
	// Written also when it says the same: the process before this one may have ended because a sync of the mark failed.
	// What was read here is then in Linux's memory and not on the medium.
	if err := file.write(reached{k.named, k.known}); err != nil {
		return nil, said, errors.Join(fmt.Errorf("writing mark %s: %w", o.MarkPath, err), file.close())
	}
	k.said = slices.Clone(k.known)
	k.opened = file.durable()
	k.proved.Store(o.Now().UnixNano())
	go k.run()
	return k, said, nil
}

// raise returns whether the number of a series is news.
func (m *mark) raise(sequence uint32, number uint64) bool {
	for len(m.known) < int(sequence) {
		m.known = append(m.known, 0)
		m.named = append(m.named, m.names.named(uint32(len(m.known))))
	}
	k := &m.known[sequence-1]
	news := *k < number
	*k = max(*k, number)
	return news
}

// compareMark returns ErrMark when a store is not the mark's, or holds less than the mark says.
func compareMark(here, marked *Head) error {
	if marked.Store != here.Store {
		return fmt.Errorf("%w: the mark is of store %x, this is store %x", ErrMark, marked.Store, here.Store)
	}
	_, list, err := Relate(here, marked)
	for _, l := range list {
		if l.There > l.Here {
			return fmt.Errorf("%w: series %s ends at number %d, the mark says %d", ErrMark, l.Series, l.Here, l.There)
		}
	}
	return err
}

// note says that rows are durable in the store.
func (m *mark) note(rows []seriesRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := false
	for _, row := range rows {
		news = m.raise(row.Sequence, row.Last) || news
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
		now := reached{m.named, numbers}
		m.busy = true
		m.mu.Unlock()
		start := m.o.Now()
		if err := m.file.write(now); err != nil {
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

// renew makes the mark that of another store, or of the same one after a restoration, with what that holds. Nobody
// appends meanwhile.
func (m *mark) renew(store [16]byte, series map[string]seriesRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.busy { // or it would put back what it took before
		m.wrote.Wait()
	}
	m.known, m.named = nil, nil
	for _, row := range series {
		m.raise(row.Sequence, row.Last)
	}
	m.file.store = store
	if err := m.file.write(reached{m.named, m.known}); err != nil {
		m.o.die("writing mark %s: %v", m.o.MarkPath, err)
	}
	m.said = slices.Clone(m.known)
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

// proofTries is how often the mark is read in one proof: a read that meets two writes sees neither slot whole.
const proofTries = 3

// ProveMark opens the mark's file by its path, as the next start will, and compares it with what was written. A running
// store does not notice that its mark was deleted, or that the medium was unmounted or has become read-only; but the
// next start refuses such a mark. ErrMark: the next start would refuse. If the medium hangs, ProveMark waits.
func (s *Store) ProveMark() error {
	if s.mark == nil {
		return fmt.Errorf("proving the mark: %w", ErrReadOnly)
	}
	if _, err := s.mark.prove(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMark, s.o.MarkPath, err)
	}
	s.mark.proved.Store(s.o.Now().UnixNano())
	return nil
}

// MarkProved is when the mark's file was last opened by its path and held what was written to it.
func (s *Store) MarkProved() time.Time {
	if s.mark == nil {
		return time.Time{}
	}
	return time.Unix(0, s.mark.proved.Load()).UTC()
}

// durable is what was written to the file.
func (m *mark) durable() (reached, [16]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reached{m.named, slices.Clone(m.said)}, m.file.store
}

// prove returns what the file says, which is at least what was written to it.
func (m *mark) prove() (said reached, err error) {
	least, store := m.durable()
	for range proofTries {
		var file *markFile
		if file, said, err = openMarkFile(m.o.FS, m.o.MarkPath, true); err == nil {
			err = errors.Join(file.close(), compareMark(said.head(file.store), least.head(store)))
		}
		if err == nil {
			break
		}
	}
	return said, err
}
