package registry

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"dtegate/engine/authority/simulator/document"
	"dtegate/engine/authority/simulator/hostility"
)

// record is an accepted document or event. The document is kept as bytes: few are ever read again.
type record struct {
	nit, ambiente, tipo string
	version             int
	date                string // that it bears
	payload             []byte
	at                  time.Time // of the seal
	turn                int64     // of the seal, among everything received and sealed
	answer              Answer
	invalidated         bool
	adjustments         []*record // the notes and retornos accepted against it
}

func (r *record) code() string  { return *r.answer.CodigoGeneracion }
func (r *record) sello() string { return *r.answer.SelloRecibido }

// read is the document again.
func (r *record) read() *document.Document {
	return document.Reread(document.Submission{Ambiente: r.ambiente, Tipo: r.tipo, Code: r.code(), Version: r.version}, r.payload)
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

// Registry is what MH has received. All methods may be called at once. It calls the hostility while it holds mu; the hostility
// never calls back.
type Registry struct {
	reader    *document.Reader
	hostility *hostility.Hostility
	log       *slog.Logger
	mostLots  int // of cyclic billing, see simulator.Options

	mu    sync.Mutex // guards everything below
	rand  *rand.Rand
	books books
}

// New returns one that has received nothing. It takes mostLots of cyclic billing from an issuer in a window; seed makes
// what it draws repeatable.
func New(r *document.Reader, h *hostility.Hostility, mostLots int, seed uint64, log *slog.Logger) *Registry {
	return &Registry{reader: r, hostility: h, log: log, mostLots: mostLots, rand: rand.New(rand.NewPCG(seed, 0x53494d55)), books: newBooks()}
}

// Reset forgets everything.
func (s *Registry) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books = newBooks()
}

// now is MH's time.
func (s *Registry) now() time.Time { return s.hostility.Now() }

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
func (s *Registry) lock() {
	s.mu.Lock()
	s.settleLots(s.now())
}

// number is the scope in which a numeroControl is unique: issuer, ambiente and calendar year (NV2 Anexo IV n.º 5). A
// retorno has none.
func number(d *document.Document) string {
	id := d.Root.Object("identificacion")
	if id.Null("numeroControl") {
		return ""
	}
	return strings.Join([]string{d.Issuer.NIT, id.Text("ambiente"), id.Text("fecEmi")[:4], id.Text("numeroControl")}, "|")
}

// arrived notes an attempt. A document whose code was accepted before counts as a duplicate; an event that is sent
// again does not, since MH has no query for one: sending it again is the only way to learn whether it was received.
func (s *Registry) arrived(d *document.Document) {
	s.lock()
	defer s.mu.Unlock()
	d.Turn = s.books.next()
	if d.Code == "" {
		return
	}
	s.books.attempts[d.Code]++
	if s.books.records[d.Code] != nil && !document.IsEvent(d.Tipo) {
		d.Duplicate = true
		s.books.counts.Duplicates++
	}
}

// register takes a document that passed every check into the books and seals it.
func (s *Registry) register(d *document.Document, notes []string) (Answer, *document.Refusal) {
	s.lock()
	defer s.mu.Unlock()
	return s.admit(d, notes)
}

// admit seals a document unless its code or number is there already, or what it refers to does not bear it. A refused
// document registers nothing: its number stays free (MF2 p.28). The caller holds mu.
func (s *Registry) admit(d *document.Document, notes []string) (Answer, *document.Refusal) {
	if r := s.unused(d); r != nil {
		return Answer{}, r
	}
	n := number(d)
	if other := s.books.numbers[n]; n != "" && other != "" {
		s.breach("%s bears the number of %s", d.Code, other)
		return Answer{}, document.Exists("identificacion.numeroControl")
	}
	if r := s.listed(d); r != nil {
		return Answer{}, r
	}
	origins, r := s.origins(d)
	if r != nil {
		return Answer{}, r
	}
	// A refusal on request is the last thing before the seal.
	if s.hostility.Refuses(d.Tipo) {
		return Answer{}, document.NotAllowed("resumen.totalPagar", Provoked)
	}
	held := s.enter(d, accepted(d, s.seal(d.Done), notes))
	for _, o := range origins {
		o.adjustments = append(o.adjustments, held)
	}
	if n != "" {
		s.books.numbers[n] = d.Code
	}
	s.books.order = append(s.books.order, held)
	s.books.counts.Documents++
	return held.answer, nil
}

// Provoked is the observation of a refusal on request.
const Provoked = "Rechazo provocado en el simulador"

// unused refuses a code that is in the books. The caller holds mu.
func (s *Registry) unused(d *document.Document) *document.Refusal {
	held := s.books.records[d.Code]
	if held == nil {
		return nil
	}
	if !d.Duplicate && !document.IsEvent(d.Tipo) { // accepted while this one was being checked, or in process
		s.books.counts.Duplicates++
	}
	if string(held.payload) != string(d.Payload) {
		s.breach("%s was accepted, and another document came under its code", d.Code)
	}
	return document.Exists("identificacion.codigoGeneracion")
}

// enter writes what was accepted into the books. The caller holds mu.
func (s *Registry) enter(d *document.Document, a Answer) *record {
	held := &record{nit: d.Issuer.NIT, ambiente: d.Ambiente, tipo: d.Tipo, version: d.Version, date: d.Date(),
		payload: d.Payload, at: d.Done, turn: s.books.next(), answer: a}
	s.books.records[d.Code] = held
	delete(s.books.signed, d.Code)
	return held
}

// seal makes a selloRecibido: year, a UUIDv4 without hyphens, and SIMU where MH has four characters of its own, so
// that a simulated seal can never pass for a real one. The caller holds mu.
func (s *Registry) seal(at time.Time) string {
	u := uuid(s.rand)
	return fmt.Sprintf("%04d%XSIMU", at.Year(), u[:])
}

// UUID is a UUIDv4 out of the sequence that makes the seals.
func (s *Registry) UUID() [16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uuid(s.rand)
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
