package simulator

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
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

// submission is what any way of receiving a document or event hands on.
type submission struct {
	ambiente, tipo, code, jws string
	version                   int
}

// enclosed is a submission without an envelope of its own: what the document says of itself, believed as an envelope
// would be. What cannot be read stays empty.
func enclosed(jws string) (sub submission) {
	sub.jws = jws
	_, rest, _ := strings.Cut(jws, ".")
	part, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return sub
	}
	var said struct {
		Identificacion struct {
			Ambiente, TipoDte, TipoEvento, CodigoGeneracion string
			Version                                         json.Number
		}
	}
	_ = json.Unmarshal(payload, &said) // what it says is checked when it is opened
	id := said.Identificacion
	sub.ambiente, sub.tipo, sub.code = id.Ambiente, cmp.Or(id.TipoDte, id.TipoEvento), id.CodigoGeneracion
	if reasonable(string(id.Version)) {
		sub.version = object{"version": id.Version}.integer("version")
	}
	return sub
}

// document is a submission whose signature held.
type document struct {
	submission
	issuer    Issuer
	payload   []byte // exactly as signed
	root      object
	at        time.Time // of the reception, in El Salvador
	turn      int64     // of the reception, among everything received and sealed
	done      time.Time // when MH has processed it: at once, or when its lot is done
	duplicate bool      // counted as one when it arrived
	previous  bool      // of the generation before DTE 2.0
	law       Law       // that it is held to
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
	if s.poisons(*e.CodigoGeneracion) {
		s.fault(w, r, http.StatusInternalServerError, "No message available")
		return
	}
	sub := submission{ambiente: *e.Ambiente, tipo: *e.TipoDte, code: *e.CodigoGeneracion, jws: *e.Documento, version: *e.Version}
	d := &document{submission: sub, issuer: holder(r), at: at, done: at}
	if s.strikes(documents, func(c *Chaos) *int { return &c.LateRequests }) {
		d.done = at.Add(time.Duration(s.Hostilities().LateMS) * time.Millisecond)
		notes, refusal := s.examine(d)
		s.pend(&lot{due: d.done, entries: []entry{{d, notes, refusal}}})
		cut()
	}
	a := s.judge(d)
	s.log.Debug("reception", "code", sub.code, "state", a.Estado, "message", a.CodigoMsg, "text", a.DescripcionMsg,
		"notes", a.Observaciones)
	s.deliver(w, r, documents, a.status(), a, nil)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// judge is MH's own processing of one document: signature first, then structure, then data, then the seal (MT1 §3).
// The first check that fails is the answer.
func (s *registry) judge(d *document) answer {
	notes, r := s.examine(d)
	if r != nil {
		return rejected(d.ambiente, d.code, d.done, r)
	}
	// 7. Uniqueness, the event and the documents it refers to, and the seal, in one step.
	a, r := s.register(d, notes)
	if r != nil {
		return rejected(d.ambiente, d.code, d.done, r)
	}
	return a
}

// examine is what can be said of a document without the books, and the observations that it is sealed with.
func (s *registry) examine(d *document) (notes []string, _ *refusal) {
	s.arrived(d)
	// 1. to 5. The signature, the text, the schema of its type and generation.
	form, r := s.openDocument(d)
	if r != nil {
		return nil, r
	}
	// 6. Dates, taxpayers, mode, catalogues, amounts.
	if notes, r = dated(d); r != nil {
		return nil, r
	}
	for _, check := range form.checks {
		if r := check(s, d); r != nil {
			return nil, r
		}
	}
	return notes, nil
}

// openDocument reads what was sent, a document or an event.
func (s *registry) openDocument(d *document) (*schema, *refusal) {
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
	s.keep(d)
	// 3. The text is JSON.
	if d.root, err = decode(payload); err != nil {
		return nil, unschemed(err.Error())
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
	d.previous, d.law = form.previous, s.under(d)
	if d.ambiente == "01" && d.previous != (d.date() < s.options.Switch.In(zone).Format(time.DateOnly)) {
		return nil, unschemed(invalid("/identificacion/version"))
	}
	return form, nil
}

// guard keeps production out (Options.AllowProduction).
func (s *registry) guard(sub submission) *refusal {
	switch sub.ambiente {
	case "00":
		return nil
	case "":
		if sub.tipo == contingencia { // has no envelope that says: the signature, then the schema decide
			return nil
		}
	case "01":
		if s.options.AllowProduction {
			return nil
		}
		return notAllowed("ambiente", "Este es un simulador: no recibe documentos de producción")
	}
	return notAllowed("ambiente")
}

// keep remembers a signed payload until it is accepted, for observers.
func (s *registry) keep(d *document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.code != "" && s.books.records[d.code] == nil {
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
	switch {
	case id.text("ambiente") != d.ambiente:
		return mismatched("ambiente")
	case id.text(kind) != d.tipo && !event(d.tipo):
		return mismatched(kind)
	case id.integer("version") != d.version:
		return mismatched("version")
	case id.text("codigoGeneracion") != d.code:
		return mismatched("codigoGeneracion")
	}
	return nil
}
