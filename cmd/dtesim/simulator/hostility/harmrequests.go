package hostility

import (
	"net/http"
	"strings"
)

// Take counts a hostility down and reports whether it strikes.
func (s *Hostility) Take(counter func(*Chaos) *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken(counter)
}

// taken is Take for a caller that holds mu.
func (s *Hostility) taken(counter func(*Chaos) *int) bool {
	n := counter(&s.chaos)
	if *n == 0 {
		return false
	}
	*n--
	return true
}

// Strikes is Take for the counters that Chaos.Only restricts to a kind of request.
func (s *Hostility) Strikes(kind string, counter func(*Chaos) *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if only := s.chaos.Only; only != kind && (only != "" || kind == Queries) {
		return false
	}
	return s.taken(counter)
}

// Poisons reports whether a document makes MH fail, see Chaos.Poison.
func (s *Hostility) Poisons(code string) bool {
	poison := s.Hostilities().Poison
	return poison != "" && strings.HasPrefix(code, poison)
}

// Cut closes the connection without an answer. Only the request's goroutine may call Cut.
func Cut() { panic(http.ErrAbortHandler) }

// Hostile applies outages and silences to the whole protocol.
func (s *Hostility) Hostile(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		c, spoken := s.chaos, s.spoken
		s.mu.Unlock()
		if c.Outage {
			Cut()
		}
		if c.Silence {
			// The server notices that the client hung up only once the body is read.
			if _, err := ReadBody(w, r); err == nil {
				select {
				case <-r.Context().Done():
				case <-spoken:
				}
			}
			Cut()
		}
		next.ServeHTTP(w, r)
	})
}

// Disturbed applies the hostilities that stop a request before it is processed.
func (s *Hostility) Disturbed(kind string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.Strikes(kind, func(c *Chaos) *int { return &c.LostRequests }):
			_, _ = ReadBody(w, r) // after sending everything, the client cannot know the outcome
			Cut()
		case s.Strikes(kind, func(c *Chaos) *int { return &c.ServerErrors }):
			_, _ = ReadBody(w, r)
			s.Fault(w, r, http.StatusInternalServerError, "No message available")
		case s.Strikes(kind, func(c *Chaos) *int { return &c.HTML }):
			_, _ = ReadBody(w, r)
			s.write(w, r, http.StatusOK, "text/html;charset=UTF-8",
				[]byte("<!DOCTYPE html><html><body><h1>Sitio en mantenimiento</h1></body></html>\n"))
		default:
			next(w, r)
		}
	}
}
