package engine

import (
	"sync"
	"time"

	"dtegate/engine/contingency"
	"dtegate/engine/outbox"
)

// Backlog is what the branch owes, and by when.
type Backlog struct {
	contingency.Backlog
	// Delivery is what the receivers and the archive are owed.
	Delivery outbox.Undelivered `json:"delivery"`
}

// backlogCache keeps what was counted a moment ago.
type backlogCache struct {
	mu   sync.Mutex
	last *Backlog
}

// CountBacklog counts what is owed. A count that is at most two seconds old is returned again.
func (e *Engine) CountBacklog() *Backlog {
	e.owed.mu.Lock()
	defer e.owed.mu.Unlock()
	if e.owed.last == nil || e.now().Before(e.owed.last.At) || e.now().Sub(e.owed.last.At) > 2*time.Second {
		o, err := e.countOwed()
		if err != nil {
			e.log.Error("counting what is owed", "error", err)
			o = e.owed.uncounted(e.now())
		}
		e.owed.last = o
	}
	now := *e.owed.last
	now.Contingency = e.contingency.Current()
	return &now
}

// uncounted is the last count, which says that it is not one of now: what is owed must never look as if there were nothing.
func (c *backlogCache) uncounted(now time.Time) *Backlog {
	o := &Backlog{Backlog: contingency.Backlog{Waiting: map[string]int{}}}
	if c.last != nil {
		*o = *c.last
	}
	o.At, o.Unreadable = now.UTC(), max(1, o.Unreadable)
	return o
}

func (e *Engine) countOwed() (*Backlog, error) {
	toMH, err := e.contingency.CountBacklog()
	if err != nil {
		return nil, err
	}
	o := &Backlog{Backlog: *toMH}
	err = e.outbox.CountUndelivered(&o.Delivery)
	o.Unreadable += o.Delivery.Unreadable
	return o, err
}
