package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// take counts a hostility down and tells whether it strikes.
func (s *core) take(counter func(*Chaos) *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken(counter)
}

// taken is take for a caller that holds mu.
func (s *core) taken(counter func(*Chaos) *int) bool {
	n := counter(&s.chaos)
	if *n == 0 {
		return false
	}
	*n--
	return true
}

// strikes is take for the counters that Only aims.
func (s *core) strikes(kind string, counter func(*Chaos) *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if only := s.chaos.Only; only != kind && (only != "" || kind == queries) {
		return false
	}
	return s.taken(counter)
}

// poisons tells whether a document is one that MH chokes on.
func (s *hostility) poisons(code string) bool {
	poison := s.Hostilities().Poison
	return poison != "" && strings.HasPrefix(code, poison)
}

// cut closes the connection without an answer. Only the goroutine of the request may call it.
func cut() { panic(http.ErrAbortHandler) }

// hostile is the weather over the whole protocol.
func (s *hostility) hostile(next http.Handler) http.Handler {
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

// disturbed is what can befall a request before it is processed.
func (s *hostility) disturbed(kind string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.strikes(kind, func(c *Chaos) *int { return &c.LostRequests }):
			_, _ = readBody(w, r) // the client has sent everything: it cannot know
			cut()
		case s.strikes(kind, func(c *Chaos) *int { return &c.ServerErrors }):
			_, _ = readBody(w, r)
			s.fault(w, r, http.StatusInternalServerError, "No message available")
		case s.strikes(kind, func(c *Chaos) *int { return &c.HTML }):
			_, _ = readBody(w, r)
			s.write(w, r, http.StatusOK, "text/html;charset=UTF-8",
				[]byte("<!DOCTYPE html><html><body><h1>Sitio en mantenimiento</h1></body></html>\n"))
		default:
			next(w, r)
		}
	}
}

// deliver answers a request that was processed, or has the answer lost. told, when given, is called before a client
// can have read the answer, and not if it never can.
func (s *hostility) deliver(w http.ResponseWriter, r *http.Request, kind string, status int, body any, told func()) {
	data, err := json.Marshal(body)
	if err != nil {
		panic("simulator: encoding an answer: " + err.Error())
	}
	if s.strikes(kind, func(c *Chaos) *int { return &c.LostAnswers }) {
		cut()
	}
	broken := s.strikes(kind, func(c *Chaos) *int { return &c.HalfAnswers })
	if !s.wait(r.Context()) {
		return
	}
	if broken {
		half(w, status, data)
	}
	if told != nil {
		told()
	}
	send(w, status, jsonKind, data)
}

// wait lasts as long as the delay in force. False when the client left first.
func (s *hostility) wait(ctx context.Context) bool {
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
	w.Header().Set("Content-Type", jsonKind)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data[:len(data)/2])
	_ = http.NewResponseController(w).Flush()
	cut()
}
