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
	// Duplicates is how often the code of a document was sent again, alone or in a lot, after it had been accepted. An
	// event sent again is not counted: see the answer it gets.
	Duplicates int `json:"duplicates"`
}

// Attempt is what is known of one codigoGeneracion, of a document or event.
type Attempt struct {
	// Attempts is how often it reached MH's own processing, whatever came of it. A request that a hostility stopped
	// before (silence, lost request, 500, HTML, expired token, lost lot) is not among them.
	Attempts int  `json:"attempts"`
	Accepted bool `json:"accepted"`
	// Invalidated tells an accepted document that an invalidation took back; JSON leaves it out otherwise.
	Invalidated bool `json:"invalidated,omitempty"`
	// Sello is the seal; "" unless accepted.
	Sello string `json:"sello"`
	// Document is the signed payload, byte for byte: the accepted one, otherwise the last whose signature held,
	// otherwise nil.
	Document json.RawMessage `json:"document"`
	// At is when it was sealed, in El Salvador.
	At time.Time `json:"-"`
}

func (r *record) attempt(attempts int) Attempt {
	return Attempt{Attempts: attempts, Accepted: true, Invalidated: r.invalidated, Sello: r.sello(),
		Document: r.payload, At: r.at}
}

// Received counts what was received.
func (s *Registry) Received() Counts {
	s.lock()
	defer s.mu.Unlock()
	return s.books.counts
}

// Types counts the documents that were accepted, alone or in lots, by type (CAT-002; a retorno is 18). One that was
// invalidated since remains counted.
func (s *Registry) Types() map[string]int {
	s.lock()
	defer s.mu.Unlock()
	types := make(map[string]int)
	for _, r := range s.books.order {
		types[r.tipo]++
	}
	return types
}

// Document tells what is known of a codigoGeneracion; false when it was never received.
func (s *Registry) Document(code string) (Attempt, bool) {
	s.lock()
	defer s.mu.Unlock()
	a := Attempt{Attempts: s.books.attempts[code], Document: s.books.signed[code]}
	if r := s.books.records[code]; r != nil {
		a = r.attempt(a.Attempts)
	}
	return a, a.Attempts > 0
}

// Accepted yields the accepted documents by codigoGeneracion, in the order of their seals; invalidated ones are among
// them, events are not. It is a view of the moment of the call.
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

// Audit lists, in order, the breaches of the rules that a branch without faults never commits and that an answer
// alone may not show. Since the start or the last Reset: a document sent before its event, or before the seal of its
// event was answered; one that the event does not describe; one sent, or an event, after the legal time; another
// document under an accepted code; a number used twice; an event that lists an accepted code or one listed before; a
// note or retorno sent before what it adjusts was sealed; a lot or event that is too large. None is what one hopes for.
func (s *Registry) Audit() []string {
	s.lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.books.breaches)
	if n := s.books.unlisted; n > 0 {
		all = append(all, fmt.Sprintf("and %d more", n))
	}
	return all
}

// breach notes one.
func (b *books) breach(format string, args ...any) {
	if len(b.breaches) == maxBreaches {
		b.unlisted++
		return
	}
	b.breaches = append(b.breaches, b.hostility.Now().Format(time.DateTime)+" "+fmt.Sprintf(format, args...))
}
