package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/registry"
)

// Manage returns the handler of the management port, for tests and operators: chaos, observation, reset. It has no
// authentication and belongs on a loopback address.
func (s *Simulator) Manage() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /chaos", func(w http.ResponseWriter, r *http.Request) {
		say(w, http.StatusOK, s.Hostilities())
	})
	mux.HandleFunc("POST /chaos", s.postChaos)
	mux.HandleFunc("POST /schedule", s.postSchedule)
	mux.HandleFunc("GET /audit", func(w http.ResponseWriter, r *http.Request) {
		say(w, http.StatusOK, map[string][]string{"breaches": append([]string{}, s.Audit()...)})
	})
	mux.HandleFunc("GET /received", s.getCounts)
	mux.HandleFunc("GET /received/{code}", s.getReceived)
	mux.HandleFunc("POST /reset", s.postReset)
	return s.hostility.Marked(mux)
}

// postChaos merges the given members into the hostilities in force and answers the result. An unknown member is a 400
// and changes nothing: otherwise a test would seem to survive a hostility that was only misspelt.
func (s *Simulator) postChaos(w http.ResponseWriter, r *http.Request) {
	body, err := hostility.ReadBody(w, r)
	if err != nil {
		say(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	err = s.hostility.Alter(func(c *Chaos) error {
		if err := read(bytes.NewReader(body), c); err != nil {
			return &badRequest{fmt.Errorf("reading the hostilities: %w", err)}
		}
		if err := c.Check(); err != nil {
			return &badRequest{err}
		}
		return nil
	})
	var bad *badRequest
	switch {
	case errors.As(err, &bad):
		say(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
	case err != nil:
		say(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
	default:
		c := s.Hostilities()
		s.options.Logger.Info("chaos", "now", fmt.Sprintf("%+v", c))
		say(w, http.StatusOK, c)
	}
}

// postSchedule replaces the schedule: {"every_ms", "steps": [{"after_ms", "chaos": members to merge}]}.
func (s *Simulator) postSchedule(w http.ResponseWriter, r *http.Request) {
	var body struct {
		EveryMS int64 `json:"every_ms"`
		Steps   []struct {
			AfterMS int64           `json:"after_ms"`
			Chaos   json.RawMessage `json:"chaos"`
		} `json:"steps"`
	}
	err := read(http.MaxBytesReader(w, r.Body, 1<<20), &body)
	var steps []Step
	for _, step := range body.Steps {
		if err == nil {
			err = read(bytes.NewReader(step.Chaos), new(Chaos))
		}
		steps = append(steps, Step{
			After:  time.Duration(step.AfterMS) * time.Millisecond,
			Change: func(c *Chaos) { _ = read(bytes.NewReader(step.Chaos), c) }, // already read once
		})
	}
	if err == nil {
		err = s.Schedule(time.Duration(body.EveryMS)*time.Millisecond, steps...)
	}
	if err != nil {
		say(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	say(w, http.StatusOK, map[string]int{"steps": len(steps)})
}

// read decodes one JSON value. It refuses unknown members and text after the value.
func read(r io.Reader, into any) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("there is something behind it")
	}
	return nil
}

type badRequest struct{ error }

func (b *badRequest) Unwrap() error { return b.error }

func (s *Simulator) getCounts(w http.ResponseWriter, _ *http.Request) {
	say(w, http.StatusOK, struct {
		Counts
		Types map[string]int `json:"types"`
	}{s.Received(), s.Types()})
}

// getReceived answers zeros for an unknown code: "not received" is an observation, not an error.
func (s *Simulator) getReceived(w http.ResponseWriter, r *http.Request) {
	a, _ := s.Document(r.PathValue("code"))
	say(w, http.StatusOK, struct {
		Attempt
		Sello *string `json:"sello"` // null unless accepted
	}{a, registry.OrNull(a.Sello)})
}

func (s *Simulator) postReset(w http.ResponseWriter, _ *http.Request) {
	if err := s.Reset(); err != nil {
		say(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	say(w, http.StatusOK, s.Received())
}

func say(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body)
}
