package simulator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Counts is how much was received since the start or the last Reset. Events and Lots stay zero until their endpoints
// exist.
type Counts struct {
	Documents     int `json:"documents"` // accepted
	Events        int `json:"events"`
	Lots          int `json:"lots"`
	Invalidations int `json:"invalidations"`
	// Duplicates is how often a code was sent again after it had been accepted.
	Duplicates int `json:"duplicates"`
}

// Attempt is what is known of one codigoGeneracion.
type Attempt struct {
	// Attempts is how often a document with that code reached MH's own processing, whatever came of it. A request
	// that a hostility stopped before (silence, lost request, 500, HTML, expired token) is not among them.
	Attempts int  `json:"attempts"`
	Accepted bool `json:"accepted"`
	// Invalidated tells an accepted document that an invalidation took back; JSON leaves it out otherwise.
	Invalidated bool `json:"invalidated,omitempty"`
	// Sello is the seal; "" unless accepted.
	Sello string `json:"sello"`
	// Document is the signed payload, byte for byte: the accepted one, otherwise the last whose signature held,
	// otherwise nil.
	Document json.RawMessage `json:"document"`
}

// record is an accepted document or event.
type record struct {
	nit, ambiente, tipo string
	version             int
	payload             []byte
	at                  time.Time // of the seal
	answer              answer
	invalidated         bool
	adjustments         []*record // the notes and retornos accepted against it
	parsed              *document // read's
}

func (r *record) code() string { return *r.answer.CodigoGeneracion }
func (r *record) date() string { return r.read().date() }

// read is the document again. Few are ever asked for, so only the payload is kept until then. The caller holds mu.
func (r *record) read() *document {
	if r.parsed == nil {
		root, err := decode(r.payload)
		if err != nil {
			panic("simulator: an accepted document is no longer JSON: " + err.Error())
		}
		r.parsed = &document{submission: submission{ambiente: r.ambiente, tipo: r.tipo, code: r.code(), version: r.version}, root: root}
	}
	return r.parsed
}

// active are the notes and retornos that were not invalidated themselves.
func (r *record) active() []*record {
	var all []*record
	for _, a := range r.adjustments {
		if !a.invalidated {
			all = append(all, a)
		}
	}
	return all
}

// books is what MH keeps.
type books struct {
	records  map[string]*record // by codigoGeneracion
	numbers  map[string]bool    // by number()
	attempts map[string]int     // by codigoGeneracion
	signed   map[string][]byte  // by codigoGeneracion: the last payload that was signed and refused
	counts   Counts
}

func newBooks() books {
	return books{
		records:  make(map[string]*record),
		numbers:  make(map[string]bool),
		attempts: make(map[string]int),
		signed:   make(map[string][]byte),
	}
}

// number is the scope in which a numeroControl is unique: issuer, ambiente and calendar year (NV2 Anexo IV n.º 5). A
// retorno has none.
func number(d *document) string {
	id := d.root.object("identificacion")
	if id.null("numeroControl") {
		return ""
	}
	return strings.Join([]string{d.issuer.NIT, id.text("ambiente"), id.text("fecEmi")[:4], id.text("numeroControl")}, "|")
}

// arrived notes an attempt, and tells whether it counted as a duplicate.
func (s *Simulator) arrived(code string) (duplicate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books.attempts[code]++
	if duplicate = s.books.records[code] != nil; duplicate {
		s.books.counts.Duplicates++
	}
	return duplicate
}

// register takes a document that passed every check into the books and seals it, unless its code or number is there
// already, or what it refers to does not bear it. A refused document registers nothing: its number stays free (MF2
// p.28).
func (s *Simulator) register(d *document, notes []string) (answer, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.unused(d); r != nil {
		return answer{}, r
	}
	n := number(d)
	if n != "" && s.books.numbers[n] {
		return answer{}, exists("identificacion.numeroControl")
	}
	origins, r := s.origins(d)
	if r != nil {
		return answer{}, r
	}
	if r := s.announced(d); r != nil {
		return answer{}, r
	}
	// A refusal on request is the last thing before the seal.
	if s.chaos.Reject > 0 {
		s.chaos.Reject--
		return answer{}, notAllowed("resumen.totalPagar", "Rechazo provocado en el simulador")
	}
	held := s.enter(d, accepted(d, s.seal(d.at), notes))
	for _, o := range origins {
		o.adjustments = append(o.adjustments, held)
	}
	if n != "" {
		s.books.numbers[n] = true
	}
	s.books.counts.Documents++
	return held.answer, nil
}

// unused refuses a code that is in the books. The caller holds mu.
func (s *Simulator) unused(d *document) *refusal {
	if s.books.records[d.code] == nil {
		return nil
	}
	if !d.duplicate { // accepted while this one was being checked
		s.books.counts.Duplicates++
	}
	return exists("identificacion.codigoGeneracion")
}

// enter writes what was accepted into the books. The caller holds mu.
func (s *Simulator) enter(d *document, a answer) *record {
	held := &record{nit: d.issuer.NIT, ambiente: d.ambiente, tipo: d.tipo, version: d.version, payload: d.payload, at: d.at, answer: a}
	s.books.records[d.code] = held
	delete(s.books.signed, d.code)
	return held
}

// seal makes a selloRecibido: year, a UUIDv4 without hyphens, and SIMU where MH has four characters of its own, so
// that a simulated seal can never pass for a real one. The caller holds mu.
func (s *Simulator) seal(at time.Time) string {
	u := uuid(s.rand)
	return fmt.Sprintf("%04d%XSIMU", at.Year(), u[:])
}

func uuid(r *rand.Rand) (u [16]byte) {
	for i := 0; i < len(u); i += 8 {
		v := r.Uint64()
		for j := range 8 {
			u[i+j] = byte(v >> (8 * j))
		}
	}
	u[6] = u[6]&0x0f | 0x40 // version 4
	u[8] = u[8]&0x3f | 0x80 // RFC 9562 variant
	return u
}

// Received counts what was received.
func (s *Simulator) Received() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books.counts
}

// Document tells what is known of a codigoGeneracion; false when it was never received.
func (s *Simulator) Document(code string) (Attempt, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := Attempt{Attempts: s.books.attempts[code], Document: s.books.signed[code]}
	if r := s.books.records[code]; r != nil {
		a.Accepted, a.Invalidated, a.Sello, a.Document = true, r.invalidated, *r.answer.SelloRecibido, r.payload
	}
	return a, a.Attempts > 0
}
