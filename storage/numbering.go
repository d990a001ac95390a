package storage

import "sync"

// turns lets the records of a series be made side by side and be stored in the order of their numbers. It keeps the
// order and nothing else: whether a number is the next one is read from the series' row, when its record is stored.
type turns struct {
	mu    sync.Mutex
	lines map[string]*line // by series
}

// line is the records of one series that have a number and are not stored yet.
type line struct {
	last *turn
}

// turn is the place of one record in its line.
type turn struct {
	series   string
	sequence uint32 // the series' id
	line     *line
	number   uint64
	before   <-chan struct{} // closed once nobody is in front; nil: nobody was
	over     chan struct{}   // closed once this record is stored, or never will be
	ended    bool            // over is closed
}

// take gives the number behind those that are given already, or behind the last one stored, which read knows.
func (t *turns) take(series string, read func(series string) (seriesRow, error)) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &turn{series: series, over: make(chan struct{})}
	if l := t.lines[series]; l != nil {
		n.line, n.sequence, n.number, n.before = l, l.last.sequence, l.last.number+1, l.last.over
	} else {
		row, err := read(series)
		if err != nil {
			return nil, err
		}
		n.line, n.sequence, n.number = &line{}, row.Sequence, row.Last+1
		t.lines[series] = n.line
	}
	n.line.last = n
	return n, nil
}

// wait returns when those in front have been stored, or never will be.
func (n *turn) wait() {
	if n.before != nil {
		<-n.before
	}
}

// endStored lets the next one go on.
func (t *turns) endStored(n *turn) { t.end(n, true) }

// leave is for a record that was not stored; after endStored it does nothing. No number behind it in its line is right any
// more, so later ones begin another line.
func (t *turns) leave(n *turn) {
	n.wait()
	t.end(n, false)
}

func (t *turns) end(n *turn, stored bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.ended {
		return
	}
	n.ended = true
	if t.lines[n.series] == n.line && (!stored || n.line.last == n) {
		delete(t.lines, n.series)
	}
	close(n.over)
}
