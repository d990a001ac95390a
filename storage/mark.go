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
// own. A store that lost acknowledged records (damaged log, old backup, wrong disk) is behind its mark and gives no
// number.
//
// It is written in the background and never has a higher number than the store. Number n is acknowledged once the mark
// is at n-1 or more.
//
// The mark also contains the names of the series. Therefore it means the same series to every store of the family, for
// example to two stores restored one after the other from the same backup.
type mark struct {
	o       *Options
	metrics *metrics
	names   *names
	file    *markFile
	kick    chan struct{} // one element: the mark must be written
	stopped chan struct{} // closed when the writer has ended
	opened  uint64        // the file's generation at Open
	proved  atomic.Int64  // Unix ns, see ProveMark

	mu    sync.Mutex
	wrote sync.Cond
	known []uint64 // numbers durable in the store, by sequence - 1
	named []string // names of these series; only appended to
	said  []uint64 // numbers durable in the file
	busy  bool     // the writer is writing
	stop  bool
}

// openMark compares the file with the store's numbers, updates it and starts its writer.
//
// The mark may have higher numbers than the store, and keeps them until the store reaches them. A restored store whose
// mark is lost gets a new mark.
//
// It returns the content of the file. Series that the file names and the store lacks get a sequence id in names.
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
	case state.Kind != MarkSound && state.Kind != MarkAhead:
		return nil, said, errors.Join(j.refuse(o, state), file.close())
	}
	k := &mark{o: o, metrics: m, names: names, file: file, kick: make(chan struct{}, 1), stopped: make(chan struct{})}
	k.wrote.L = &k.mu
	for i, n := range said.numbers { // a mark's numbers never fall
		if n > 0 {
			k.raise(names.sequenceOf(said.names[i]), n)
		}
	}
	// The mark of a restored store keeps only its own numbers, until Settle has compared them with the store's.
	if j.restored == nil {
		for _, row := range j.series {
			k.raise(row.Sequence, row.Last)
		}
	}
	// Write the mark even if nothing changed: the previous process may have ended because a sync of the mark failed.
	// Then the content read here is in Linux's cache and not on the medium.
	if err := file.write(reached{k.named, k.known}); err != nil {
		return nil, said, errors.Join(fmt.Errorf("writing mark %s: %w", o.MarkPath, err), file.close())
	}
	k.said = slices.Clone(k.known)
	k.opened = file.generation.Load()
	k.proved.Store(o.Now().UnixNano())
	go k.run()
	return k, said, nil
}

// raise raises the number of a series, and returns whether it was lower.
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

// compareMark returns ErrMark when the mark is another store's, or has a higher number than the store.
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

// note passes rows that are durable in the store to the writer.
func (m *mark) note(rows []Reach) {
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

// signal puts one element into the channel, unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait returns when the file durably has number or more.
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

// run writes new numbers, all series at once, as fast as the disk allows.
func (m *mark) run() {
	defer close(m.stopped)
	for range m.kick {
		m.mu.Lock()
		if numbers := slices.Clone(m.known); !slices.Equal(numbers, m.said) {
			now := reached{m.named, numbers}
			m.busy = true
			m.mu.Unlock()
			start := m.o.Now()
			if err := m.file.write(now); err != nil {
				// Without the mark nothing may be acknowledged, and the records in flight are durable already.
				m.o.die("writing mark %s: %v", m.o.MarkPath, err)
				return
			}
			m.metrics.mark.Observe(m.o.Now().Sub(start).Seconds())
			m.mu.Lock()
			m.said, m.busy = numbers, false
			m.wrote.Broadcast()
		}
		stop := m.stop && slices.Equal(m.known, m.said)
		m.mu.Unlock()
		if stop {
			return
		}
	}
}

// renew gives the mark to another store, or to the same store after a restoration, with that store's numbers. Nobody
// appends meanwhile.
func (m *mark) renew(store [16]byte, series map[string]Reach) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.busy { // otherwise the writer would write the old numbers again
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

// close ends the writer after its last write. note is not called any more.
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

// MarkProved returns when the mark's file was last opened by its path and had the numbers that were written to it.
func (s *Store) MarkProved() time.Time {
	if s.mark == nil {
		return time.Time{}
	}
	return time.Unix(0, s.mark.proved.Load()).UTC()
}

// durable returns the numbers that were written to the file.
func (m *mark) durable() (reached, [16]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reached{m.named, slices.Clone(m.said)}, m.file.store
}

// prove returns the file's numbers, which are at least those that were written to it.
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
