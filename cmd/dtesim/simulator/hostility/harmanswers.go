package hostility

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const jsonKind = "application/json;charset=UTF-8"

// Reply answers with JSON, after the delay in force.
func (s *Hostility) Reply(w http.ResponseWriter, r *http.Request, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		panic("simulator: encoding an answer: " + err.Error())
	}
	s.write(w, r, status, jsonKind, data)
}

// write answers after the delay in force, unless the client leaves first.
func (s *Hostility) write(w http.ResponseWriter, r *http.Request, status int, kind string, data []byte) {
	if s.Wait(r.Context()) {
		send(w, status, kind, data)
	}
}

func send(w http.ResponseWriter, status int, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(data) // on an error the client is gone
}

// Fault answers an error in the shape of MH's application server.
func (s *Hostility) Fault(w http.ResponseWriter, r *http.Request, status int, message string) {
	s.Reply(w, r, status, map[string]any{
		"timestamp": s.Now().Format("2006-01-02T15:04:05.000-0700"),
		"status":    status,
		"error":     http.StatusText(status),
		"message":   message,
		"path":      r.URL.Path,
	})
}

// Deliver answers a request that was processed, or loses the answer. It calls told, if not nil, before the client can
// read the answer; if the client gets no answer, told is not called.
func (s *Hostility) Deliver(w http.ResponseWriter, r *http.Request, kind string, status int, body any, told func()) {
	data, err := json.Marshal(body)
	if err != nil {
		panic("simulator: encoding an answer: " + err.Error())
	}
	if s.Strikes(kind, func(c *Chaos) *int { return &c.LostAnswers }) {
		Cut()
	}
	broken := s.Strikes(kind, func(c *Chaos) *int { return &c.HalfAnswers })
	if !s.Wait(r.Context()) {
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

// Wait waits for the delay in force. It returns false if the client left first.
func (s *Hostility) Wait(ctx context.Context) bool {
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

// half sends the first half of an answer and cuts the connection.
func half(w http.ResponseWriter, status int, data []byte) {
	w.Header().Set("Content-Type", jsonKind)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data[:len(data)/2])
	_ = http.NewResponseController(w).Flush()
	Cut()
}

// maxBody bounds a request: a document of 2000 items is about 1.5 MB once signed.
const maxBody = 16 << 20

// ReadBody returns the whole body of a request.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
}

// Marked marks every answer as simulated, and dates it by MH's clock.
func (s *Hostility) Marked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Simulated", "true")
		next.ServeHTTP(clocked{w, s.Now}, r)
	})
}

// clocked is a ResponseWriter that dates the answer with the time at which it begins.
type clocked struct {
	http.ResponseWriter
	now func() time.Time
}

func (c clocked) WriteHeader(status int) {
	c.Header().Set("Date", c.now().UTC().Format(http.TimeFormat))
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the original writer.
func (c clocked) Unwrap() http.ResponseWriter { return c.ResponseWriter }
