package registry

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Counts is how much was received since the start or the last Reset.
type Counts struct {
	Documents     int `json:"documents"`     // accepted, alone or in lots
	Events        int `json:"events"`        // contingency events received
	Lots          int `json:"lots"`          // received
	Invalidations int `json:"invalidations"` // received
	// Duplicates is how often the code of an accepted document was sent again, alone or in a lot. An event that is sent
	// again is not counted, see Registry.arrived.
	Duplicates int `json:"duplicates"`
}

// Attempt is what is known of the codigoGeneracion of a document or event.
type Attempt struct {
	// Attempts is how often the code reached MH's processing, whatever the result. A request that a hostility stopped
	// before it (silence, lost request, 500, HTML, expired token, lost or stuck lot) is not counted.
	Attempts int  `json:"attempts"`
	Accepted bool `json:"accepted"`
	// Invalidated is true for an accepted document that was invalidated; otherwise JSON omits it.
	Invalidated bool `json:"invalidated,omitempty"`
	// Sello is the seal; "" unless accepted.
	Sello string `json:"sello"`
	// Document is the signed payload, byte for byte: the accepted payload, or else the last payload with a valid
	// signature, or else nil.
	Document json.RawMessage `json:"document"`
	// At is the time of the seal, in El Salvador.
	At time.Time `json:"-"`
}

func (r *record) attempt(attempts int) Attempt {
	return Attempt{Attempts: attempts, Accepted: true, Invalidated: r.invalidated, Sello: r.sello(),
		Document: r.payload, At: r.at}
}

// Received returns the counts of what was received.
func (s *Registry) Received() Counts {
	s.lock()
	defer s.mu.Unlock()
	return s.books.counts
}

// Types counts the accepted documents, alone or in lots, by type (CAT-002; a retorno is 18). A document that was
// invalidated later is still counted.
func (s *Registry) Types() map[string]int {
	s.lock()
	defer s.mu.Unlock()
	types := make(map[string]int)
	for _, r := range s.books.order {
		types[r.tipo]++
	}
	return types
}

// Document returns what is known of a codigoGeneracion, and false if it was never received.
func (s *Registry) Document(code string) (Attempt, bool) {
	s.lock()
	defer s.mu.Unlock()
	a := Attempt{Attempts: s.books.attempts[code], Document: s.books.signed[code]}
	if r := s.books.records[code]; r != nil {
		a = r.attempt(a.Attempts)
	}
	return a, a.Attempts > 0
}

// Accepted yields the accepted documents with their codigoGeneracion, in the order of their seals. It includes
// invalidated documents and excludes events. It lists the documents of the moment of the call.
func (s *Registry) Accepted() iter.Seq2[string, Attempt] {
	s.lock()
	defer s.mu.Unlock()
	order := slices.Clone(s.books.order)
	return func(yield func(string, Attempt) bool) {
		for _, r := range order {
			s.mu.Lock()
			a := r.attempt(s.books.attempts[r.code()])
			s.mu.Unlock()
			if !yield(r.code(), a) {
				return
			}
		}
	}
}

// Event is a contingency event as it was received.
type Event struct {
	Code, Sello  string
	At           time.Time // of the seal
	Began, Ended time.Time // of the cause
	Kind         int       // CAT-005
	Documents    []string  // by codigoGeneracion, as listed
}

// Events returns the contingency events received, in order.
func (s *Registry) Events() []Event {
	s.lock()
	defer s.mu.Unlock()
	var all []Event
	for _, c := range s.books.causes {
		e := c.Event
		e.Documents = slices.Clone(e.Documents)
		all = append(all, e)
	}
	return all
}

// maxBreaches bounds what Audit lists.
const maxBreaches = 1000

// Audit lists, in order, the breaches since the start or the last Reset. A branch without faults commits none, and an
// answer alone may not show them: a document sent before its event or before the answer with the event's seal; a
// document unlike its entry in the event; a document or event sent after the legal time; another document under an
// accepted code; a number used twice; an event that lists a code accepted or listed before; a note or retorno sent
// before the seal of the document that it adjusts; a lot or event that is too large.
func (s *Registry) Audit() []string {
	s.lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.books.breaches)
	if n := s.books.unlisted; n > 0 {
		all = append(all, fmt.Sprintf("and %d more", n))
	}
	return all
}

// breach records a breach for Audit.
func (b *books) breach(format string, args ...any) {
	if len(b.breaches) == maxBreaches {
		b.unlisted++
		return
	}
	b.breaches = append(b.breaches, b.hostility.Now().Format(time.DateTime)+" "+fmt.Sprintf(format, args...))
}
