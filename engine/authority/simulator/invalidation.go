package simulator

import (
	"encoding/json"
	"net/http"
	"time"
)

// invalidation checks an event by itself; the document it takes back is looked up by invalidate.
var invalidation = []func(*registry, *document) *refusal{itself, reasoned}

// annul is POST /fesv/anulardte.
func (s *Simulator) annul(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err != nil {
		s.fault(w, r, http.StatusBadRequest, "Bad Request")
		return
	}
	at := s.now()
	var e struct {
		Ambiente  *string `json:"ambiente"`
		IDEnvio   *int64  `json:"idEnvio"`
		Version   *int    `json:"version"`
		Documento *string `json:"documento"`
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Ambiente == nil || e.IDEnvio == nil || e.Version == nil || e.Documento == nil {
		a := rejected(text(e.Ambiente), "", at, incomplete())
		s.reply(w, r, a.status(), a)
		return
	}
	sub := enclosed(*e.Documento)
	sub.ambiente, sub.tipo, sub.version = *e.Ambiente, anulacion, *e.Version
	d := &document{submission: sub, issuer: holder(r), at: at, done: at}
	a := s.judgeInvalidation(d)
	s.log.Debug("invalidation", "code", d.code, "state", a.Estado, "message", a.CodigoMsg, "text", a.DescripcionMsg,
		"notes", a.Observaciones)
	s.deliver(w, r, invalidations, a.status(), a, nil)
}

func (s *registry) judgeInvalidation(d *document) answer {
	s.arrived(d)
	form, r := s.openDocument(d)
	if r != nil {
		return rejected(d.ambiente, d.code, d.at, r)
	}
	for _, check := range form.checks {
		if r := check(s, d); r != nil {
			return rejected(d.ambiente, d.code, d.at, r)
		}
	}
	a, r := s.invalidate(d)
	if r != nil {
		return rejected(d.ambiente, d.code, d.at, r)
	}
	return a
}

// reasoned checks motivo, and that a replacement is named when the kind of invalidation asks for one (MF2 pp.9-17):
// 1 error and 3 other do, 2 rescission does not, and credit notes and retornos are never replaced. The generation
// before made no exception for credit notes: its schema demands the replacement.
func reasoned(_ *registry, d *document) *refusal {
	reason, doc := d.root.object("motivo"), d.root.object("documento")
	kind := reason.integer("tipoAnulacion")
	if kind < 1 || kind > 3 {
		return notAllowed("motivo.tipoAnulacion")
	}
	if kind == 3 && reason.null("motivoAnulacion") {
		return lacking("motivo.motivoAnulacion")
	}
	if r := first(
		d.identity(reason, "motivo", "tipDocResponsable", "numDocResponsable", d.previous),
		d.identity(reason, "motivo", "tipDocSolicita", "numDocSolicita", d.previous),
	); r != nil {
		return r
	}
	tipo := doc.text("tipoDte")
	never := tipo == "18" || tipo == "05" && !d.previous
	switch replaced := !doc.null("codigoGeneracionR"); {
	case replaced && (kind == 2 || never):
		return notAllowed("documento.codigoGeneracionR")
	case !replaced && kind != 2 && !never:
		return lacking("documento.codigoGeneracionR")
	}
	return nil
}

// invalidate takes a document back, and seals the event.
func (s *registry) invalidate(d *document) (answer, *refusal) {
	s.lock()
	defer s.mu.Unlock()
	if r := s.unused(d); r != nil {
		return answer{}, r
	}
	doc := d.root.object("documento")
	held := s.sealed(d, doc.text("codigoGeneracion"))
	if held == nil {
		return answer{}, absent("documento") // observed
	}
	if held.invalidated {
		return answer{}, exists("documento.codigoGeneracion")
	}
	if r := first(held.described(d), d.sameIssuer(held), s.replaced(d, held), timely(d, held, s.chaos.LaxDates)); r != nil {
		return answer{}, r
	}
	if len(held.active()) > 0 {
		return answer{}, notAllowed("documento.codigoGeneracion", "El documento tiene notas o retornos vigentes")
	}
	if s.taken(func(c *Chaos) *int { return &c.RejectEvents }) {
		return answer{}, notAllowed("motivo.motivoAnulacion", provoked)
	}
	held.invalidated = true
	a := accepted(d, s.seal(d.at), nil)
	a.ClasificaMsg, a.DescripcionMsg = nil, "Invalidación Recibida y Procesada" // observed, production and apitest
	s.enter(d, a)
	s.books.counts.Invalidations++
	return a, nil
}

// sealed is an accepted document of the event's own issuer. The caller holds mu.
func (s *registry) sealed(d *document, code string) *record {
	held := s.books.records[code]
	if held == nil || held.nit != d.issuer.NIT || held.ambiente != d.ambiente || event(held.tipo) {
		return nil
	}
	return held
}

// described checks that the event repeats the document: its type, seal, number, date and receiver, null where that is
// null. Telephone and mail may be null all the same: no refusal for that was published. The schema before DTE 2.0 has
// no null for the receiver's document and name, so what an anonymous invoice puts there is not compared.
func (r *record) described(d *document) *refusal {
	said, doc := d.root.object("documento"), r.read()
	id := doc.root.object("identificacion")
	switch {
	case said.text("tipoDte") != r.tipo:
		return notAllowed("documento.tipoDte")
	case said.text("selloRecibido") != r.sello():
		return notAllowed("documento.selloRecibido")
	case said.text("numeroControl") != id.text("numeroControl"):
		return notAllowed("documento.numeroControl")
	case said.text("fecEmi") != r.date:
		return notAllowed("documento.fecEmi")
	}
	party, _ := doc.receiver()
	kind, number := party.text("tipoDocumento"), party.text("numDocumento")
	if nit := party.text("nit"); nit != "" {
		kind, number = "36", nit
	}
	for _, field := range [][2]string{
		{"tipoDocumento", kind}, {"numDocumento", number}, {"nombre", party.text("nombre")},
		{"telefono", party.text("telefono")}, {"correo", party.text("correo")},
	} {
		got, want := said.text(field[0]), field[1]
		if got == "" && (field[0] == "telefono" || field[0] == "correo") || d.previous && (got == "" || want == "") {
			continue
		}
		if got != want && (field[0] != "numDocumento" || unhyphened(got) != unhyphened(want)) {
			return notAllowed("documento." + field[0])
		}
	}
	return nil
}

// replaced checks the replacement: sealed, of the same type, and another document. The caller holds mu.
func (s *registry) replaced(d *document, held *record) *refusal {
	code := d.root.object("documento").text("codigoGeneracionR")
	if code == "" {
		return nil
	}
	switch other := s.sealed(d, code); {
	case other == nil:
		return absent("documento.codigoGeneracionR")
	case other == held, other.tipo != held.tipo, other.invalidated:
		return notAllowed("documento.codigoGeneracionR")
	}
	return nil
}

// timely checks the date of the event and the window, which counts from the seal (MF2 pp.9-17). The event's date is
// the document's, or for 01, 11 and 14 up to three months later; when lax, any day of the window passes for the others
// too, as it does before DTE 2.0, whose sealed events bear the day on which they were made.
func timely(d *document, held *record, lax bool) *refusal {
	path := "identificacion.fecEmi"
	if d.previous {
		path = "identificacion.fecAnula/identificacion.horAnula" // observed
	}
	day, until := d.date(), deadline(held.tipo, held.at)
	last := until
	switch {
	case lasting(held.tipo):
		last = addMonths(held.date, 3)
	case !lax && !d.previous:
		last = held.date
	}
	today := d.at.Format(time.DateOnly)
	switch {
	case day < held.date, day > today, day > last:
		return notAllowed(path)
	case today > until:
		return notAllowed(path, "El plazo para invalidar el documento terminó el "+until)
	}
	return nil
}
