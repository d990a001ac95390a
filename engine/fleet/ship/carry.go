package ship

import (
	"context"
	"slices"
	"sort"
	"time"
)

// place is where something ends in the copy. Names of files ascend.
type place struct {
	file string
	end  int64
}

func (p place) behind(other place) bool {
	return p.file > other.file || p.file == other.file && p.end > other.end
}

// carried is what the store is still to get of what was sold, all of Shipper.mu.
type carried struct {
	live    bool      // changes wait for the store
	last    place     // that is on the copy's medium for certain
	pending []place   // of the changes that are not in the store, ascending
	before  int64     // changes of before the start that are not in the store
	waiting []waiting // of pending: who waits
}

type waiting struct {
	place
	done chan struct{}
}

// maxPending is how many changes are counted: some days' sales. A branch whose store is silent for longer counts no further.
const maxPending = 1 << 18

// recount finds how many changes wait since before the start.
func (s *Shipper) recount(ctx context.Context) {
	if s.o.Count == nil {
		return
	}
	n, err := s.o.Count(ctx, s.state.File, s.state.Offset)
	if err != nil && ctx.Err() == nil {
		s.o.Logger.Warn("how much of the second copy is not shipped is not known", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = max(0, n-int64(len(s.pending))) // those sold since are counted already
}

// Carry is told of each change that the copy's medium has. With Sync it returns once the store has the change too, or when it is
// known that this will not be for now: then the branch goes on, and what it sells is lost with the box until the store has it.
func (s *Shipper) Carry(file string, end int64) {
	p := place{file, end}
	s.mu.Lock()
	if p.behind(s.last) {
		s.last = p
	}
	if !p.behind(s.inStore()) {
		s.mu.Unlock()
		return
	}
	if len(s.pending) < maxPending {
		i := sort.Search(len(s.pending), func(i int) bool { return s.pending[i].behind(p) })
		s.pending = slices.Insert(s.pending, i, p)
	}
	if !s.o.Sync || !s.live {
		s.mu.Unlock()
		return
	}
	w := waiting{p, make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	s.bell.Ring()
	patience := time.NewTimer(s.o.Patience)
	defer patience.Stop()
	select {
	case <-w.done:
	case <-patience.C:
		s.leave("the chain's store does not answer in time")
	}
}

// inStore is how far the store has the copy. The caller holds mu.
func (s *Shipper) inStore() place { return place{s.state.File, s.state.Offset} }

// behind is how many changes the store does not have. The caller holds mu.
func (s *Shipper) behind() int64 { return s.before + int64(len(s.pending)) }

// known is how far a file is on its medium for certain.
func (s *Shipper) known(file string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.file == file {
		return s.last.end
	}
	return 0
}

// arrived lets those go whose changes are in the store. The caller holds mu.
func (s *Shipper) arrived() {
	to := s.inStore()
	s.pending = s.pending[sort.Search(len(s.pending), func(i int) bool { return s.pending[i].behind(to) }):]
	s.waiting = slices.DeleteFunc(s.waiting, func(w waiting) bool {
		if w.behind(to) {
			return false
		}
		close(w.done)
		return true
	})
}

// caughtUp says after a look whether changes wait for the store from now on: it has all that there was, which a rebuild would take, and
// answers in time.
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
	s.before = 0
	if live := s.took < s.o.Patience; live && !s.live && s.o.Sync {
		s.o.Logger.Info("sales wait for the chain's store")
		s.live = true
	}
}

// leave lets everybody go who waits, and the branch goes on. Why is empty when it is told already.
func (s *Shipper) leave(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live && why != "" {
		s.o.Logger.Warn("sales do not wait for the chain's store any more", "error", why)
	}
	s.live = false
	for _, w := range s.waiting {
		close(w.done)
	}
	s.waiting = nil
}
