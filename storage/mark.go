package storage

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// mark is the high-water mark: the last durable number of every series, kept outside of the store and synced on its
// own. A store that lost acknowledged records (damaged log, old backup, wrong disk) is behind its mark and gives no
// number.
//
// The mark is written in the background and never has a higher number than the store. Number n is acknowledged once the
// mark is at n-1 or more.
//
// The mark also contains the names of the series. Therefore its numbers belong to the same series in every store of the
// family, for example to two stores restored one after the other from the same backup.
type mark struct {
	o       *Options
	metrics *metrics
	store   [16]byte
	file    *markFile
	kick    chan struct{} // one element: the mark must be written
	stopped chan struct{} // closed when the writer has ended
	opened  uint64        // the file's generation at Open
	proved  atomic.Int64  // Unix ns, see ProveMark

	mu    sync.Mutex
	wrote sync.Cond
	known map[string]Reach // sequences, and numbers durable in the store
	said  map[string]Reach // like known, but durable in the file
	busy  bool             // the writer is writing
	stop  bool
}

// openMark compares the file with the store's numbers, updates the file and starts the mark's writer.
//
// The mark may have higher numbers than the store, and keeps them until the store reaches them. A restored store whose
// mark is lost gets a new mark.
//
// Series that the file names and the store lacks get a sequence id in names.
func openMark(o *Options, m *metrics, j *markJudge, names *names) (*mark, error) {
	file, err := openMarkFile(o.FS, o.MarkPath, true)
	if errors.Is(err, errNoMark) && j.restored != nil && j.restored.MarkLost {
		if err := j.writeNew(o, j.newLine()); err != nil {
			return nil, err
		}
		file, err = openMarkFile(o.FS, o.MarkPath, true)
	}
	state := j.judge(o.MarkPath, file, err)
	switch {
	case file == nil:
		return nil, j.refuse(o, state)
	case state.Kind != MarkSound && state.Kind != MarkAhead:
		return nil, errors.Join(j.refuse(o, state), file.close())
	}
	k := &mark{o: o, metrics: m, store: file.said.Store, file: file, known: make(map[string]Reach),
		kick: make(chan struct{}, 1), stopped: make(chan struct{})}
	k.wrote.L = &k.mu
	for _, name := range file.said.bySequence() { // a mark's numbers never fall
		k.raise(place{Reach{Sequence: names.sequenceOf(name), Last: file.said.Series[name].Last}, name})
	}
	// The mark of a restored store keeps only its own numbers, until Settle has compared them with the store's.
	if j.restored == nil {
		for name, row := range j.series {
			k.raise(place{row, name})
		}
	}
	// Write the mark even if nothing changed: the previous process may have ended because a sync of the mark failed.
	// Then the content read here is in Linux's cache and not on the medium.
	if err := file.write(markHead(k.store, k.known)); err != nil {
		return nil, errors.Join(fmt.Errorf("writing mark %s: %w", o.MarkPath, err), file.close())
	}
	k.said = maps.Clone(k.known)
	k.opened = file.generation.Load()
	k.proved.Store(o.Now().UnixNano())
	go k.run()
	return k, nil
}

// raise raises the number of a series, and returns whether the former number was lower.
func (m *mark) raise(p place) bool {
	if m.known[p.Name].Last >= p.Last {
		return false
	}
	m.known[p.Name] = Reach{Sequence: p.Sequence, Last: p.Last}
	return true
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

// note passes rows to the writer. The rows are durable in the store.
func (m *mark) note(rows []place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := false
	for _, row := range rows {
		news = m.raise(row) || news
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

// wait returns when the file durably has the number or a higher number.
func (m *mark) wait(series string, number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.said[series].Last < number {
		m.wrote.Wait()
	}
}

// run writes new numbers, all series at once, as fast as the disk allows.
func (m *mark) run() {
	defer close(m.stopped)
	for range m.kick {
		m.mu.Lock()
		if now := markHead(m.store, maps.Clone(m.known)); !maps.Equal(now.Series, m.said) {
			m.busy = true
			m.mu.Unlock()
			start := m.o.Now()
			if err := m.file.write(now); err != nil {
				// Without the mark no record may be acknowledged. The records under way cannot be refused either: they
				// are durable already.
				m.o.die("writing mark %s: %v", m.o.MarkPath, err)
				return
			}
			m.metrics.mark.Observe(m.o.Now().Sub(start).Seconds())
			m.mu.Lock()
			m.said, m.busy = now.Series, false
			m.wrote.Broadcast()
		}
		stop := m.stop && maps.Equal(m.known, m.said)
		m.mu.Unlock()
		if stop {
			return
		}
	}
}

// renew gives the mark to another store, or to the same store after a restoration, with that store's numbers. No record
// may be appended meanwhile.
func (m *mark) renew(store [16]byte, series map[string]Reach) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.busy { // otherwise the writer would write the old numbers again
		m.wrote.Wait()
	}
	m.store, m.known = store, make(map[string]Reach)
	for name, row := range series {
		m.raise(place{row, name})
	}
	m.o.dieOn(m.file.write(markHead(store, m.known)), "writing mark %s", m.o.MarkPath)
	m.said = maps.Clone(m.known)
}

// close ends the writer after its last write. note must not be called any more.
func (m *mark) close() error {
	m.mu.Lock()
	m.stop = true
	m.mu.Unlock()
	signal(m.kick)
	<-m.stopped
	return m.file.close()
}

// proofTries is how often the mark is read in one proof: during two writes, a read may find both slots torn.
const proofTries = 3

// ProveMark opens the mark's file by its path, as the next start will, and compares it with what was written. A running
// store does not notice that its mark was deleted, or that the medium was unmounted or has become read-only; but the
// next start refuses such a mark. ErrMark if the next start would refuse the mark. If the medium hangs, ProveMark
// waits.
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
func (m *mark) durable() *Head {
	m.mu.Lock()
	defer m.mu.Unlock()
	return markHead(m.store, maps.Clone(m.said))
}

// prove reads the file and returns its numbers. It returns an error if a number is lower than the number that was
// written.
func (m *mark) prove() (said *Head, err error) {
	least := m.durable()
	for range proofTries {
		if said, err = readMark(m.o.FS, m.o.MarkPath, true); err == nil {
			err = compareMark(said, least)
		}
		if err == nil {
			break
		}
	}
	return said, err
}
