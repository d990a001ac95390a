// Package hostility imitates networks and MH's servers at their worst, on request or by the clock: it closes the port,
// loses or delays requests and answers, moves MH's clock. [Chaos] lists every hostility. It also keeps the counters of
// hostilities that other packages carry out: refusals, lost lots.
package hostility

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
)

// Hostility is what the network and MH's servers do to clients. It is safe for concurrent use.
type Hostility struct {
	clock  func() time.Time // the caller's clock
	ahead  atomic.Int64     // Chaos.ClockMS, in nanoseconds
	listen func(network, address string) (net.Listener, error)
	log    *slog.Logger

	// switching serialises changes of the chaos, which may have to open a port.
	switching sync.Mutex

	mu     sync.Mutex // guards everything below
	chaos  Chaos
	spoken chan struct{} // closed when a silence ends
	door   *door         // nil unless Serve runs
	plan   *plan         // nil until there is a schedule
}

// New returns a calm Hostility.
func New(clock func() time.Time, listen func(network, address string) (net.Listener, error),
	log *slog.Logger) *Hostility {
	return &Hostility{clock: clock, listen: listen, log: log, chaos: Calm(), spoken: make(chan struct{})}
}

// Now returns MH's time.
func (s *Hostility) Now() time.Time {
	return s.clock().Add(time.Duration(s.ahead.Load())).In(document.Zone)
}

// Habits returns MH's habits in force.
func (s *Hostility) Habits() document.Habits {
	c := s.Hostilities()
	return document.Habits{LaxOrigins: c.LaxOrigins, LaxDates: c.LaxDates, StrictBase: c.StrictBase}
}

// Refuses reports whether MH refuses a document that it would otherwise accept.
func (s *Hostility) Refuses(tipo string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	aim := s.chaos.RejectType
	return (aim == "" || aim == tipo) && s.taken(func(c *Chaos) *int { return &c.Reject })
}

// Lot returns how long a lot that arrives now is in process, and whether it is lost or stuck.
func (s *Hostility) Lot() (lasts time.Duration, lost, stuck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lasts = time.Duration(s.chaos.LotMS) * time.Millisecond
	lost = s.taken(func(c *Chaos) *int { return &c.LoseLots })
	stuck = !lost && s.taken(func(c *Chaos) *int { return &c.StuckLots })
	return lasts, lost, stuck
}
