package simulator

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// maxBody bounds a request: a document of 2000 items is about 1.5 MB once signed.
const maxBody = 16 << 20

// envelope is the request of recepciondte (MT1 §4.2.1). Pointers tell absent members.
type envelope struct {
	Ambiente         *string `json:"ambiente"`
	IDEnvio          *int64  `json:"idEnvio"`
	Version          *int    `json:"version"`
	TipoDte          *string `json:"tipoDte"`
	Documento        *string `json:"documento"`
	CodigoGeneracion *string `json:"codigoGeneracion"`
}

func (e *envelope) complete() bool {
	return e.Ambiente != nil && e.IDEnvio != nil && e.Version != nil && e.TipoDte != nil && e.Documento != nil &&
		e.CodigoGeneracion != nil
}

// submission is what any way of receiving a document or event hands on. An event's code is known once it is read.
type submission struct {
	ambiente, tipo, code, jws string
	version                   int
}

// document is a submission whose signature held.
type document struct {
	submission
	issuer    Issuer
	payload   []byte // exactly as signed
	root      object
	at        time.Time // of the reception, in El Salvador
	duplicate bool      // counted as one when it arrived
	previous  bool      // of the generation before DTE 2.0
}

// date is the day that a document or event bears.
func (d *document) date() string {
	id := d.root.object("identificacion")
	return cmp.Or(id.text("fecEmi"), id.text("fecAnula"), id.text("fTransmision"))
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
}

// receive is POST /fesv/recepciondte.
func (s *Simulator) receive(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err != nil {
		s.fault(w, r, http.StatusBadRequest, "Bad Request")
		return
	}
	at := s.now()
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil || !e.complete() {
		a := rejected(text(e.Ambiente), text(e.CodigoGeneracion), at, incomplete())
		s.reply(w, r, a.status(), a)
		return
	}
	issuer := r.Context().Value(issuerKey{}).(Issuer)
	sub := submission{ambiente: *e.Ambiente, tipo: *e.TipoDte, code: *e.CodigoGeneracion, jws: *e.Documento, version: *e.Version}
	a := s.judge(sub, issuer, at)
	s.log.Debug("reception", "code", sub.code, "state", a.Estado, "message", a.CodigoMsg, "text", a.DescripcionMsg,
		"notes", a.Observaciones)
	s.deliver(w, r, a.status(), a)
}

// deliver answers a reception that was processed, or has the answer lost.
func (s *Simulator) deliver(w http.ResponseWriter, r *http.Request, status int, body any) {
	switch {
	case s.take(func(c *Chaos) *int { return &c.LostAnswers }):
		cut()
	case s.take(func(c *Chaos) *int { return &c.HalfAnswers }):
		data, err := json.Marshal(body)
		if err != nil {
			panic("simulator: encoding an answer: " + err.Error())
		}
		half(w, status, data)
	default:
		s.reply(w, r, status, body)
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// judge is MH's own processing of one document: signature first, then structure, then data, then the seal (MT1 §3).
// The first check that fails is the answer.
func (s *Simulator) judge(sub submission, issuer Issuer, at time.Time) answer {
	d := &document{submission: sub, issuer: issuer, at: at, duplicate: s.arrived(sub.code)}
	refuse := func(r *refusal) answer { return rejected(sub.ambiente, sub.code, at, r) }

	// 1. to 5. The signature, the text, the schema of its type and generation.
	form, r := s.open(d)
	if r != nil {
		return refuse(r)
	}
	// 6. Dates, taxpayers, mode, catalogues, amounts.
	notes, r := dated(d)
	if r != nil {
		return refuse(r)
	}
	for _, check := range form.checks {
		if r := check(s, d); r != nil {
			return refuse(r)
		}
	}
	// 7. Uniqueness, the documents it refers to, and the seal, in one step.
	a, r := s.register(d, notes)
	if r != nil {
		return refuse(r)
	}
	return a
}

// open reads what was sent: a document, or an event that has no code until then.
func (s *Simulator) open(d *document) (*schema, *refusal) {
	// 1. The guard: no production through a simulator.
	if r := s.guard(d.submission); r != nil {
		return nil, r
	}
	// 2. The signature, against the registered key.
	payload, err := verify(d.jws, d.issuer.PublicKey)
	if err != nil {
		s.log.Debug("signature", "code", d.code, "error", err)
		return nil, unsigned()
	}
	d.payload, d.jws = payload, ""
	isEvent := d.code == ""
	if !isEvent {
		s.keep(d)
	}
	// 3. The text is JSON.
	if d.root, err = decode(payload); err != nil {
		return nil, unschemed(err.Error())
	}
	if isEvent {
		if d.code = d.root.object("identificacion").text("codigoGeneracion"); codeForm.MatchString(d.code) {
			d.duplicate = s.arrived(d.code)
			s.keep(d)
		}
	}
	// 4. The envelope speaks of this document.
	if r := agree(d); r != nil {
		return nil, r
	}
	// 5. The schema of its type and generation.
	form, known := s.schemas[generation{d.tipo, d.version}]
	if !known {
		return nil, unschemed(invalid("/identificacion/version"))
	}
	if notes := form.check(d.root); len(notes) > 0 {
		return nil, unschemed(notes...)
	}
	d.previous = form.previous
	if d.ambiente == "01" && d.previous != (d.date() < s.options.Switch.In(zone).Format(time.DateOnly)) {
		return nil, unschemed(invalid("/identificacion/version"))
	}
	return form, nil
}

// guard keeps production out (Options.AllowProduction).
func (s *Simulator) guard(sub submission) *refusal {
	switch sub.ambiente {
	case "00":
		return nil
	case "01":
		if s.options.AllowProduction {
			return nil
		}
		return notAllowed("ambiente", "Este es un simulador: no recibe documentos de producción")
	}
	return notAllowed("ambiente")
}

// keep remembers a signed payload until it is accepted, for observers.
func (s *Simulator) keep(d *document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.books.records[d.code] == nil {
		s.books.signed[d.code] = d.payload
	}
}

// agree compares envelope and document (MT1 §4.2.1: the envelope repeats what identificacion says). The retorno says
// tipoEvento where documents say tipoDte; the other events say neither.
func agree(d *document) *refusal {
	id := d.root.object("identificacion")
	if id == nil {
		return unschemed(required("/identificacion"))
	}
	kind := "tipoDte"
	if d.tipo == "18" {
		kind = "tipoEvento"
	}
	isEvent := d.tipo == anulacion || d.tipo == contingencia
	switch {
	case id.text("ambiente") != d.ambiente:
		return mismatched("ambiente")
	case id.text(kind) != d.tipo && !isEvent:
		return mismatched(kind)
	case id.integer("version") != d.version:
		return mismatched("version")
	case id.text("codigoGeneracion") != d.code:
		return mismatched("codigoGeneracion")
	}
	return nil
}
