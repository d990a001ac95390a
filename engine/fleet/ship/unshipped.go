package ship

import (
	"context"
	"slices"
	"time"
)

// place is the end of a change or piece in the copy. Later files have higher names.
type place struct {
	file string
	end  int64
}

func (p place) behind(other place) bool {
	return p.file > other.file || p.file == other.file && p.end > other.end
}

// carried describes the changes that the store does not have yet. Shipper.mu guards it.
type carried struct {
	live    bool      // changes wait for the store
	last    place     // the last place that is certainly on the copy's medium
	pending []place   // the changes that are not in the store
	before  int64     // number of changes from before the start that are not in the store
	waiting []waiting // callers that wait for a pending change
}

type waiting struct {
	place
	done chan struct{}
}

// maxPending is how many changes are counted: some days' sales. If the store is silent for longer, the count stops.
const maxPending = 1 << 18

// recount finds how many changes from before this run, or before this epoch, are not in the store.
func (s *Shipper) recount(ctx context.Context) {
	if s.o.Count == nil {
		return
	}
	s.mu.Lock()
	from, already := place{s.state.File, s.state.Offset}, len(s.carried.pending)
	s.mu.Unlock()
	n, err := s.o.Count(ctx, from.file, from.end)
	if err != nil && ctx.Err() == nil {
		s.o.Logger.Warn("how much of the second copy is not shipped is not known", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried.before = max(0, n-int64(already)) // changes in pending are counted already
}

// Carry must be called for each change that the copy's medium has. With Sync it returns once the store has the change
// too, or when the store is known not to get it soon. In the second case the branch goes on selling, and until the
// store answers again the loss of the box would lose these sales.
func (s *Shipper) Carry(file string, end int64) {
	p := place{file, end}
	s.mu.Lock()
	c := &s.carried
	if p.behind(c.last) {
		c.last = p
	}
	if s.has(p) {
		s.mu.Unlock()
		return
	}
	if len(c.pending) < maxPending {
		c.pending = append(c.pending, p)
	}
	if !s.o.Sync || !c.live {
		s.mu.Unlock()
		return
	}
	w := waiting{p, make(chan struct{})}
	c.waiting = append(c.waiting, w)
	s.mu.Unlock()
	s.bell.Ring()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-w.done:
	case <-patience.C:
		s.leave("the chain's store does not answer in time")
	}
}

// has reports whether the store has a change. Names of files prove nothing: only bytes that this box knows to have
// shipped count. The caller holds mu.
func (s *Shipper) has(p place) bool { return s.sent[p.file] >= p.end }

// behind returns how many changes the store does not have. The caller holds mu.
func (s *Shipper) behind() int64 { return s.carried.before + int64(len(s.carried.pending)) }

// known returns how many bytes of a file are certainly on its medium.
func (s *Shipper) known(file string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carried.last.file == file {
		return s.carried.last.end
	}
	return 0
}

// arrived releases the callers whose changes are in the store. The caller holds mu.
func (s *Shipper) arrived() {
	c := &s.carried
	c.pending = slices.DeleteFunc(c.pending, s.has)
	c.waiting = slices.DeleteFunc(c.waiting, func(w waiting) bool {
		if !s.has(w.place) {
			return false
		}
		close(w.done)
		return true
	})
}

// caughtUp decides after a look whether changes wait for the store from now on: the store must have the whole copy, as
// a rebuild needs it, and must answer in time.
func (s *Shipper) caughtUp(err error) {
	if err != nil {
		s.leave("")
		return
	}
	if s.o.Epoch() == 0 || !s.all || !s.state.Whole {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried.before = 0
	if live := s.took < Patience; live && !s.carried.live && s.o.Sync {
		s.o.Logger.Info("sales wait for the chain's store")
		s.carried.live = true
	}
}

// leave releases all waiting callers, and the branch goes on. why is empty when it was logged already.
func (s *Shipper) leave(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.carried
	if c.live && why != "" {
		s.o.Logger.Warn("sales do not wait for the chain's store any more", "error", why)
	}
	c.live = false
	for _, w := range c.waiting {
		close(w.done)
	}
	c.waiting = nil
}
