package ship

import (
	"context"
	"slices"
	"time"
)

// place is the end of a change or piece in the copy. Later files have higher names.
type place struct {
	File string `json:"file"`
	End  int64  `json:"end"`
}

func (p place) behind(other place) bool {
	return p.File > other.File || p.File == other.File && p.End > other.End
}

// carried describes the changes that the store lacks. Shipper.mu guards it.
type carried struct {
	live    bool     // changes wait for the store
	last    place    // everything up to this place is certainly on the copy's medium
	pending []change // changes of this run that are not in the store
	before  int64    // number of changes that the store lacks from before this run or epoch
}

// change is a change that is not in the store.
type change struct {
	place
	done chan struct{} // closed when its caller need not wait any more; nil: no caller waits
}

// maxPending limits the changes that are counted, to roughly those of a few days' sales.
const maxPending = 1 << 18

// recount counts the changes from before this run, or before this epoch, that the store lacks.
func (s *Shipper) recount(ctx context.Context) {
	if s.o.Count == nil {
		return
	}
	s.mu.Lock()
	from, already := place{s.state.File, s.state.Offset}, len(s.carried.pending)
	s.mu.Unlock()
	n, err := s.o.Count(ctx, s.o.Folder, from.File, from.End)
	if err != nil && ctx.Err() == nil {
		s.o.Logger.Warn("the number of unshipped changes is not known", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried.before = max(0, n-int64(already)) // changes in pending are counted already
}

// Carry must be called for each change that is on the copy's medium. With Sync, Carry returns once the store has the
// change too. If the store takes too long, Carry stops waiting and the branch goes on selling. Until the store has
// caught up, a loss of the box then loses these sales.
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
	w := change{place: p}
	if s.o.Sync && c.live {
		w.done = make(chan struct{})
	}
	if w.done != nil || len(c.pending) < maxPending {
		c.pending = append(c.pending, w)
	}
	s.mu.Unlock()
	if w.done == nil {
		return
	}
	s.bell.Ring()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-w.done:
	case <-patience.C:
		s.leave("the chain's store does not answer in time")
	}
}

// has reports whether the store has a change: whether this box has shipped the change's file up to the change's end.
// The caller holds mu.
func (s *Shipper) has(p place) bool { return s.sent[p.File] >= p.End }

// behind returns how many changes the store lacks. The caller holds mu.
func (s *Shipper) behind() int64 { return s.carried.before + int64(len(s.carried.pending)) }

// known returns how many bytes of a file are certainly on its medium; 0 for any file except the last.
func (s *Shipper) known(file string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carried.last.File == file {
		return s.carried.last.End
	}
	return 0
}

// arrived drops the changes that are in the store, and releases their callers. The caller holds mu.
func (s *Shipper) arrived(inStore func(place) bool) {
	s.carried.pending = slices.DeleteFunc(s.carried.pending, func(c change) bool {
		there := inStore(c.place)
		if there {
			c.release()
		}
		return there
	})
}

func (c *change) release() {
	if c.done != nil {
		close(c.done)
		c.done = nil
	}
}

// caughtUp decides after a Step whether changes wait for the store from now on; err is the result of the Step. Changes
// wait if the store has the whole copy and answers in time. After a start they wait as soon as the store has answered,
// if it had the whole copy before.
func (s *Shipper) caughtUp(err error) {
	if err != nil {
		s.leave("")
		return
	}
	if s.o.Epoch() == 0 || !s.all || !s.state.Whole {
		return
	}
	s.mu.Lock()
	s.carried.before = 0
	s.mu.Unlock()
	s.waitFromNow(s.took < Patience)
}

func (s *Shipper) waitFromNow(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if yes && !s.carried.live && s.o.Sync {
		s.o.Logger.Info("sales wait for the chain's store")
		s.carried.live = true
	}
}

// leave releases all waiting callers. No change waits again before caughtUp allows it. why is the reason to log, or "".
func (s *Shipper) leave(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.carried
	if c.live && why != "" {
		s.o.Logger.Warn("sales do not wait for the chain's store any more", "error", why)
	}
	c.live = false
	for i := range c.pending {
		c.pending[i].release()
	}
}
