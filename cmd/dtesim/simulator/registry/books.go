package registry

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
)

// record is an accepted document or event. It keeps the document as bytes, because few documents are read again.
type record struct {
	nit, ambiente, tipo string
	version             int
	date                string // that the document bears
	payload             []byte
	at                  time.Time // of the seal
	turn                int64     // number of the seal among all receptions and seals
	answer              Answer
	invalidated         bool
	adjustments         []*record // the notes and retornos accepted against it
}

func (r *record) code() string  { return *r.answer.CodigoGeneracion }
func (r *record) sello() string { return *r.answer.SelloRecibido }

// read returns the document, decoded again.
func (r *record) read() *document.Document {
	return document.Reread(document.Submission{Ambiente: r.ambiente, Tipo: r.tipo, Code: r.code(), Version: r.version},
		r.payload)
}

// active returns the notes and retornos that are not invalidated.
func (r *record) active() []*record {
	var all []*record
	for _, a := range r.adjustments {
		if !a.invalidated {
			all = append(all, a)
		}
	}
	return all
}

// books is what MH keeps, with the decisions that depend on it. The caller of each method holds Registry.mu.
type books struct {
	reader    *document.Reader
	hostility *hostility.Hostility
	log       *slog.Logger
	rand      *rand.Rand

	records  map[string]*record // by codigoGeneracion
	order    []*record          // the documents of records, in the order of their seals
	numbers  map[string]string  // codigoGeneracion by the result of number()
	attempts map[string]int     // by codigoGeneracion
	signed   map[string][]byte  // by codigoGeneracion: the last signed payload that was not accepted

	announced map[string]*notice   // by the codigoGeneracion of a document in contingency
	causes    []*cause             // in the order of their events
	grace     map[string]time.Time // by codigoGeneracion of a refused event: when its correction is due

	lots    map[string]*lot // by codigoLote
	cyclic  map[string]int  // lots of cyclic billing, by issuer and window
	pending []*lot          // lots in process, the first due first

	file io.Writer // see Registry.Keep; nil: nothing is kept

	turn     int64 // counts all receptions and seals
	counts   Counts
	breaches []string
	unlisted int // breaches that are not in the list
}

func newBooks(r *document.Reader, h *hostility.Hostility, rand *rand.Rand, log *slog.Logger) *books {
	return &books{
		reader: r, hostility: h, rand: rand, log: log,
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

// next returns the next turn, for a reception or a seal.
func (b *books) next() int64 {
	b.turn++
	return b.turn
}

// number returns a document's numeroControl with the scope in which it is unique: issuer, ambiente and calendar year
// (NV2 Anexo IV n.º 5). It returns "" for a retorno, which has no numeroControl.
func number(d *document.Document) string {
	id := d.Root.Object("identificacion")
	if id.Null("numeroControl") {
		return ""
	}
	return strings.Join([]string{d.Issuer.NIT, id.Text("ambiente"), id.Text("fecEmi")[:4], id.Text("numeroControl")},
		"|")
}

// admit seals a document unless its code or number is already used, or its event or originals do not allow it. A
// refused document registers nothing: its number stays free (MF2 p.28).
func (b *books) admit(d *document.Document, notes []string) (Answer, *document.Refusal) {
	if r := b.unused(d); r != nil {
		return Answer{}, r
	}
	n := number(d)
	if other := b.numbers[n]; n != "" && other != "" {
		b.breach("%s bears the number of %s", d.Code, other)
		return Answer{}, document.Exists("identificacion.numeroControl")
	}
	if r := b.listed(d); r != nil {
		return Answer{}, r
	}
	origins, r := b.origins(d)
	if r != nil {
		return Answer{}, r
	}
	// A refusal on request is the last check before the seal.
	if b.hostility.Refuses(d.Tipo) {
		return Answer{}, document.NotAllowed("resumen.totalPagar", Provoked)
	}
	held := b.enter(d, accepted(d, b.seal(d.Done), notes))
	b.write(d, held.answer)
	b.place(d, held, origins)
	return held.answer, nil
}

// place enters a sealed document under its number and with the documents that it adjusts.
func (b *books) place(d *document.Document, held *record, origins []*record) {
	for _, o := range origins {
		o.adjustments = append(o.adjustments, held)
	}
	if n := number(d); n != "" {
		b.numbers[n] = d.Code
	}
	b.order = append(b.order, held)
	b.counts.Documents++
}

// adjusted returns the documents that an accepted note or retorno adjusts.
func (b *books) adjusted(d *document.Document) (all []*record) {
	if d.Tipo != "05" && d.Tipo != "06" && d.Tipo != "18" {
		return nil
	}
	for _, rel := range d.Root.Objects("documentoRelacionado") {
		for _, field := range []string{"numeroDocumento", "codigoGeneracion"} {
			if o := b.records[rel.Text(field)]; o != nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// Provoked is the observation of a refusal on request.
const Provoked = "Rechazo provocado en el simulador"

// unused refuses a code that is already in the books.
func (b *books) unused(d *document.Document) *document.Refusal {
	held := b.records[d.Code]
	if held == nil {
		return nil
	}
	if !d.Duplicate && !document.IsEvent(d.Tipo) { // the other document was accepted while d was being checked
		b.counts.Duplicates++
	}
	if string(held.payload) != string(d.Payload) {
		b.breach("%s was accepted, and another document came under its code", d.Code)
	}
	return document.Exists("identificacion.codigoGeneracion")
}

// enter enters an accepted document or event in the books.
func (b *books) enter(d *document.Document, a Answer) *record {
	held := &record{nit: d.Issuer.NIT, ambiente: d.Ambiente, tipo: d.Tipo, version: d.Version, date: d.Date(),
		payload: d.Payload, at: d.Done, turn: b.next(), answer: a}
	b.records[d.Code] = held
	delete(b.signed, d.Code)
	return held
}

// seal makes a selloRecibido: year, a UUIDv4 without hyphens, and SIMU in place of MH's last four characters, so that a
// simulated seal can never pass for a real seal.
func (b *books) seal(at time.Time) string {
	u := uuid(b.rand)
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
