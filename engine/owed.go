package engine

import (
	"sync"
	"time"

	"dtegate/engine/contingency"
	"dtegate/engine/outbox"
)

// Owed is what the branch owes, and by when.
type Owed struct {
	contingency.Owed
	// Delivery is what the receivers and the archive are owed.
	Delivery outbox.Undelivered `json:"delivery"`
}

// owedCache keeps what was counted a moment ago.
type owedCache struct {
	mu   sync.Mutex
	last *Owed
}

// Owed counts what is owed, or returns a count that is not older than two seconds.
func (e *Engine) Owed() *Owed {
	e.owed.mu.Lock()
	defer e.owed.mu.Unlock()
	if e.owed.last == nil || e.now().Before(e.owed.last.At) || e.now().Sub(e.owed.last.At) > 2*time.Second {
		o, err := e.countOwed()
		if err != nil {
			e.log.Error("counting what is owed", "error", err)
			o = &Owed{Owed: contingency.Owed{At: e.now().UTC(), Waiting: map[string]int{}}}
		}
		e.owed.last = o
	}
	now := *e.owed.last
	now.Contingency = e.contingency.Current()
	return &now
}

func (e *Engine) countOwed() (*Owed, error) {
	toMH, err := e.contingency.Owed()
	if err != nil {
		return nil, err
	}
	o := &Owed{Owed: *toMH}
	return o, e.outbox.CountUndelivered(&o.Delivery)
}
