package simulator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// record is an accepted document or event. The document is kept as bytes: few are ever read again.
type record struct {
	nit, ambiente, tipo string
	version             int
	date                string // that it bears
	payload             []byte
	at                  time.Time // of the seal
	turn                int64     // of the seal, among everything received and sealed
	answer              answer
	invalidated         bool
	adjustments         []*record // the notes and retornos accepted against it
}

func (r *record) code() string  { return *r.answer.CodigoGeneracion }
func (r *record) sello() string { return *r.answer.SelloRecibido }

// event tells what is no document.
func event(tipo string) bool { return tipo == anulacion || tipo == contingencia }

// read is the document again.
func (r *record) read() *document {
	root, err := decode(r.payload)
	if err != nil {
		panic("simulator: an accepted document is no longer JSON: " + err.Error())
	}
	return &document{submission: submission{ambiente: r.ambiente, tipo: r.tipo, code: r.code(), version: r.version}, root: root}
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
	order    []*record          // the documents among them, as they were sealed
	numbers  map[string]string  // by number(): the codigoGeneracion that has it
	attempts map[string]int     // by codigoGeneracion
	signed   map[string][]byte  // by codigoGeneracion: the last payload that was signed and refused

	announced map[string]*notice   // by the codigoGeneracion of a document in contingency
	causes    []*cause             // as their events were received
	grace     map[string]time.Time // by the codigoGeneracion of a refused event: until when it may be put right

	lots    map[string]*lot // by codigoLote
	cyclic  map[string]int  // lots of cyclic billing, by issuer and window
	pending []*lot          // those in process, the first to be done first

	turn     int64 // counts whatever is received or sealed
	counts   Counts
	breaches []string
	unlisted int // breaches beyond those listed
}

func newBooks() books {
	return books{
		records:   make(map[string]*record),
		numbers:   make(map[string]string),
		attempts:  make(map[string]int),
		signed:    make(map[string][]byte),
		announced: make(map[string]*notice),
		grace:     make(map[string]time.Time),
		lots:      make(map[string]*lot),
		cyclic:    make(map[string]int),
	}
}

// next is the turn of whatever happens now.
func (b *books) next() int64 {
	b.turn++
	return b.turn
}

// lock is mu with the books brought up to the present: what was to be done by now is done.
func (s *registry) lock() {
	s.mu.Lock()
	s.settleLots(s.now())
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

// arrived notes an attempt. A document whose code was accepted before counts as a duplicate; an event that is sent
// again does not, since MH has no query for one: sending it again is the only way to learn whether it was received.
func (s *registry) arrived(d *document) {
	s.lock()
	defer s.mu.Unlock()
	d.turn = s.books.next()
	if d.code == "" {
		return
	}
	s.books.attempts[d.code]++
	if s.books.records[d.code] != nil && !event(d.tipo) {
		d.duplicate = true
		s.books.counts.Duplicates++
	}
}

// register takes a document that passed every check into the books and seals it.
func (s *registry) register(d *document, notes []string) (answer, *refusal) {
	s.lock()
	defer s.mu.Unlock()
	return s.admit(d, notes)
}

// admit seals a document unless its code or number is there already, or what it refers to does not bear it. A refused
// document registers nothing: its number stays free (MF2 p.28). The caller holds mu.
func (s *registry) admit(d *document, notes []string) (answer, *refusal) {
	if r := s.unused(d); r != nil {
		return answer{}, r
	}
	n := number(d)
	if other := s.books.numbers[n]; n != "" && other != "" {
		s.breach("%s bears the number of %s", d.code, other)
		return answer{}, exists("identificacion.numeroControl")
	}
	if r := s.listed(d); r != nil {
		return answer{}, r
	}
	origins, r := s.origins(d)
	if r != nil {
		return answer{}, r
	}
	// A refusal on request is the last thing before the seal.
	if aim := s.chaos.RejectType; (aim == "" || aim == d.tipo) && s.taken(func(c *Chaos) *int { return &c.Reject }) {
		return answer{}, notAllowed("resumen.totalPagar", provoked)
	}
	held := s.enter(d, accepted(d, s.seal(d.done), notes))
	for _, o := range origins {
		o.adjustments = append(o.adjustments, held)
	}
	if n != "" {
		s.books.numbers[n] = d.code
	}
	s.books.order = append(s.books.order, held)
	s.books.counts.Documents++
	return held.answer, nil
}

// provoked is the observation of a refusal on request.
const provoked = "Rechazo provocado en el simulador"

// unused refuses a code that is in the books. The caller holds mu.
func (s *registry) unused(d *document) *refusal {
	held := s.books.records[d.code]
	if held == nil {
		return nil
	}
	if !d.duplicate && !event(d.tipo) { // accepted while this one was being checked, or in process
		s.books.counts.Duplicates++
	}
	if string(held.payload) != string(d.payload) {
		s.breach("%s was accepted, and another document came under its code", d.code)
	}
	return exists("identificacion.codigoGeneracion")
}

// enter writes what was accepted into the books. The caller holds mu.
func (s *registry) enter(d *document, a answer) *record {
	held := &record{nit: d.issuer.NIT, ambiente: d.ambiente, tipo: d.tipo, version: d.version, date: d.date(),
		payload: d.payload, at: d.done, turn: s.books.next(), answer: a}
	s.books.records[d.code] = held
	delete(s.books.signed, d.code)
	return held
}

// seal makes a selloRecibido: year, a UUIDv4 without hyphens, and SIMU where MH has four characters of its own, so
// that a simulated seal can never pass for a real one. The caller holds mu.
func (s *core) seal(at time.Time) string {
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
