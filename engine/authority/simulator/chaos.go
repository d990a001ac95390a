package simulator

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Chaos is every hostility at once; the zero value is a calm authority whose lots take no time. Counters count down
// as they strike and apply to receptions of documents; the others last until switched off.
type Chaos struct {
	// Outage closes the port and cuts every connection: clients are refused. Without Serve, connections are cut.
	Outage bool `json:"outage"`
	// Silence accepts connections and requests, processes none and answers none. What it swallowed is cut, not
	// answered, when it ends.
	Silence bool `json:"silence"`
	// LostAnswers: the next n receptions are processed and the connection is cut instead of answering.
	LostAnswers int `json:"lost_answers"`
	// LostRequests: the next n are cut before processing.
	LostRequests int `json:"lost_requests"`
	// ServerErrors: the next n are answered 500 without processing.
	ServerErrors int `json:"server_errors"`
	// Reject: the next n that would be accepted are refused instead.
	Reject int `json:"reject"`
	// DelayMS holds every answer back, in milliseconds. The request is processed at once.
	DelayMS int `json:"delay_ms"`
	// LotMS is the time that a lot takes, in milliseconds. It waits for the lots' endpoint.
	LotMS int `json:"lot_ms"`
	// StrictOrigins refuses a note against an invoice, as MH does. The product's API lets them, hence off.
	StrictOrigins bool `json:"strict_origins"`
	// StrictDates demands that an invalidation of a 03, 05, 06, 07 or retorno bear the document's own date.
	StrictDates bool `json:"strict_dates"`
	// HalfAnswers: the next n are processed and their answer breaks off in the middle.
	HalfAnswers int `json:"half_answers"`
	// HTML: the next n are answered 200 with a page of HTML, without processing.
	HTML int `json:"html"`
	// ExpiredTokens: the next n requests with a valid token are answered 401.
	ExpiredTokens int `json:"expired_tokens"`
}

// calm is the state at the start. A real lot of 100 takes minutes; half a second keeps a demonstration lively.
func calm() Chaos { return Chaos{LotMS: 500} }

// maxDelay bounds the delays: beyond an hour, silence is meant.
const maxDelay = 3_600_000

func (c *Chaos) check() error {
	for name, n := range map[string]int{
		"lost_answers": c.LostAnswers, "lost_requests": c.LostRequests, "server_errors": c.ServerErrors,
		"reject": c.Reject, "delay_ms": c.DelayMS, "lot_ms": c.LotMS, "half_answers": c.HalfAnswers,
		"html": c.HTML, "expired_tokens": c.ExpiredTokens,
	} {
		if n < 0 {
			return fmt.Errorf("%s is negative", name)
		}
	}
	if c.DelayMS > maxDelay || c.LotMS > maxDelay {
		return fmt.Errorf("a delay is longer than %d ms", maxDelay)
	}
	return nil
}

// Chaos replaces every hostility by those given, and returns when they are in force: after an outage was switched
// on, the port refuses; after it was switched off, the port accepts. It fails when a number is negative or the port
// cannot be opened again.
func (s *Simulator) Chaos(c Chaos) error {
	return s.alter(func(old *Chaos) error { *old = c; return nil })
}

// alter changes the hostilities in force.
func (s *Simulator) alter(change func(*Chaos) error) error {
	s.switching.Lock()
	defer s.switching.Unlock()

	s.mu.Lock()
	c := s.chaos
	if err := change(&c); err != nil {
		s.mu.Unlock()
		return err
	}
	if err := c.check(); err != nil {
		s.mu.Unlock()
		return err
	}
	if s.chaos.Silence && !c.Silence {
		close(s.spoken)
		s.spoken = make(chan struct{})
	}
	s.chaos = c
	door := s.door
	s.mu.Unlock()

	if door == nil {
		return nil
	}
	if c.Outage {
		door.shut()
		return nil
	}
	if err := door.open(); err != nil {
		s.mu.Lock()
		s.chaos.Outage = true
		s.mu.Unlock()
		return fmt.Errorf("ending the outage: %w", err)
	}
	return nil
}

// Hostilities returns those in force, with what is left of the counters.
func (s *Simulator) Hostilities() Chaos {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chaos
}

// take counts a hostility down and tells whether it strikes.
func (s *Simulator) take(counter func(*Chaos) *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := counter(&s.chaos)
	if *n == 0 {
		return false
	}
	*n--
	return true
}

// cut closes the connection without an answer. Only the goroutine of the request may call it.
func cut() { panic(http.ErrAbortHandler) }

// hostile is the weather over the whole protocol.
func (s *Simulator) hostile(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		c, spoken := s.chaos, s.spoken
		s.mu.Unlock()
		if c.Outage {
			cut()
		}
		if c.Silence {
			// The server notices that the client hung up only once the body is read.
			if _, err := readBody(w, r); err == nil {
				select {
				case <-r.Context().Done():
				case <-spoken:
				}
			}
			cut()
		}
		next.ServeHTTP(w, r)
	})
}

// disturbed is what can befall a reception before it is processed.
func (s *Simulator) disturbed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.take(func(c *Chaos) *int { return &c.LostRequests }):
			_, _ = readBody(w, r) // the client has sent everything: it cannot know
			cut()
		case s.take(func(c *Chaos) *int { return &c.ServerErrors }):
			_, _ = readBody(w, r)
			s.fault(w, r, http.StatusInternalServerError, "No message available")
		case s.take(func(c *Chaos) *int { return &c.HTML }):
			_, _ = readBody(w, r)
			s.write(w, r, http.StatusOK, "text/html;charset=UTF-8",
				[]byte("<!DOCTYPE html><html><body><h1>Sitio en mantenimiento</h1></body></html>\n"))
		default:
			next(w, r)
		}
	}
}

// wait lasts as long as the delay in force. False when the client left first.
func (s *Simulator) wait(ctx context.Context) bool {
	delay := time.Duration(s.Hostilities().DelayMS) * time.Millisecond
	if delay == 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// half sends the first half of an answer and cuts.
func half(w http.ResponseWriter, status int, data []byte) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data[:len(data)/2])
	_ = http.NewResponseController(w).Flush()
	cut()
}
