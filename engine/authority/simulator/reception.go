package simulator

import (
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

// submission is what any way of receiving a document hands to judge.
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

	switch {
	case s.take(func(c *Chaos) *int { return &c.LostAnswers }):
		cut()
	case s.take(func(c *Chaos) *int { return &c.HalfAnswers }):
		data, err := json.Marshal(a)
		if err != nil {
			panic("simulator: encoding an answer: " + err.Error())
		}
		half(w, a.status(), data)
	default:
		s.reply(w, r, a.status(), a)
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
	duplicate := s.arrived(sub.code)
	refuse := func(r *refusal) answer { return rejected(sub.ambiente, sub.code, at, r) }

	// 1. The guard: no production through a simulator.
	if r := s.guard(sub); r != nil {
		return refuse(r)
	}
	// 2. The signature, against the registered key.
	payload, err := verify(sub.jws, issuer.PublicKey)
	if err != nil {
		s.log.Debug("signature", "code", sub.code, "error", err)
		return refuse(unsigned())
	}
	d := &document{submission: sub, issuer: issuer, payload: payload, at: at, duplicate: duplicate}
	s.keep(d)
	// 3. The text is JSON.
	if d.root, err = decode(payload); err != nil {
		return refuse(unschemed(err.Error()))
	}
	// 4. The envelope speaks of this document.
	if r := agree(d); r != nil {
		return refuse(r)
	}
	// 5. The schema of its type and generation.
	form, known := s.schemas[generation{d.tipo, d.version}]
	if !known {
		return refuse(unschemed(invalid("/identificacion/version")))
	}
	if notes := form.check(d.root); len(notes) > 0 {
		return refuse(unschemed(notes...))
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
	// 7. A refusal on request, the last thing before the seal: nothing is registered.
	if s.take(func(c *Chaos) *int { return &c.Reject }) {
		return refuse(notAllowed("resumen.totalPagar", "Rechazo provocado en el simulador"))
	}
	// 8. Uniqueness and the seal, in one step.
	a, r := s.register(d, notes)
	if r != nil {
		return refuse(r)
	}
	return a
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
	if s.books.documents[d.code] == nil {
		s.books.signed[d.code] = d.payload
	}
}

// agree compares envelope and document (MT1 §4.2.1: the envelope repeats what identificacion says).
func agree(d *document) *refusal {
	id := d.root.object("identificacion")
	if id == nil {
		return unschemed(required("/identificacion"))
	}
	switch {
	case id.text("ambiente") != d.ambiente:
		return mismatched("ambiente")
	case id.text("tipoDte") != d.tipo:
		return mismatched("tipoDte")
	case id.integer("version") != d.version:
		return mismatched("version")
	case id.text("codigoGeneracion") != d.code:
		return mismatched("codigoGeneracion")
	}
	return nil
}
