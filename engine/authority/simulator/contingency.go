package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Deadlines (MF2 pp.19-20): the event comes within a day of the end of its cause, and a refused one is put right
// within a day of its refusal; the documents come within three days of the event's seal.
const (
	eventTime    = 24 * time.Hour
	grace        = 24 * time.Hour
	documentTime = 72 * time.Hour
)

// skew is how far the issuer's clock may be ahead of MH's. Ours.
const skew = 10 * time.Minute

// Types of documents that may be issued in contingency (MF2 p.18, NV2 Anexo V n.º 35; CAT-023 v1.2 before).
var (
	deferrable         = words("01 03 04 05 06 07 11 14 18")
	deferrablePrevious = words("01 03 04 05 06 11 14")
)

// establishments of CAT-009.
var establishments = words("01 02 04 07")

// contingency checks an event by itself; what it lists is looked up when it is received.
var contingency = []func(*registry, *document) *refusal{itself, answerable, detailed, checkCause}

// cause is a contingency that was reported.
type cause struct {
	Event
	nit, ambiente string
	motive        string
	turn          int64 // of the seal
	told          bool  // an answer about the event was sent that could be read
}

// notice is a document as an event lists it.
type notice struct {
	*cause
	tipo string
}

// eventAnswer is the body of contingencia (MT1 §4.2.4), member for member. A refusal comes over HTTP 200.
type eventAnswer struct {
	Estado        string   `json:"estado"`
	FechaHora     string   `json:"fechaHora"`
	Mensaje       string   `json:"mensaje"`
	SelloRecibido *string  `json:"selloRecibido"`
	Observaciones []string `json:"observaciones"`
}

func refusedEvent(at time.Time, r *refusal) eventAnswer {
	return eventAnswer{Estado: "RECHAZADO", FechaHora: at.Format(stamp), Mensaje: "Validaciones no superadas",
		Observaciones: append([]string{r.text}, r.notes...)}
}

// receiveEvent is POST /fesv/contingencia.
func (s *Simulator) receiveEvent(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err != nil {
		s.fault(w, r, http.StatusBadRequest, "Bad Request")
		return
	}
	at := s.now()
	var e struct{ NIT, Documento *string }
	if err := json.Unmarshal(body, &e); err != nil || e.NIT == nil || e.Documento == nil {
		s.deliver(w, r, events, http.StatusOK, refusedEvent(at, incomplete()), nil)
		return
	}
	sub := enclosed(*e.Documento)
	sub.tipo = contingencia
	d := &document{submission: sub, issuer: holder(r), at: at, done: at}
	a := s.judgeEvent(d, *e.NIT)
	s.log.Debug("event", "code", d.code, "state", a.Estado, "notes", a.Observaciones)
	s.deliver(w, r, events, http.StatusOK, a, func() { s.tell(d.code) })
}

// tell notes that the issuer can know what became of an event.
func (s *Simulator) tell(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.books.causes {
		c.told = c.told || c.Code == code
	}
}

func (s *registry) judgeEvent(d *document, nit string) eventAnswer {
	s.arrived(d)
	r := func() *refusal {
		if nit != d.issuer.NIT {
			return stranger("nit")
		}
		form, r := s.openDocument(d)
		if r != nil {
			return r
		}
		for _, check := range form.checks {
			if r := check(s, d); r != nil {
				return r
			}
		}
		return nil
	}()
	s.lock()
	defer s.mu.Unlock()
	var seal string
	if r == nil {
		seal, r = s.report(d)
	}
	if r != nil {
		if _, again := s.books.grace[d.code]; !again && d.payload != nil && s.books.records[d.code] == nil {
			s.books.grace[d.code] = d.at.Add(grace)
		}
		return refusedEvent(d.at, r)
	}
	return eventAnswer{Estado: "RECIBIDO", FechaHora: d.at.Format(stamp), Mensaje: "Documento recibido", SelloRecibido: &seal,
		Observaciones: []string{}}
}

// answerable checks who answers for the event.
func answerable(_ *registry, d *document) *refusal {
	emisor := d.root.object("emisor")
	if !slices.Contains(establishments, emisor.text("tipoEstablecimiento")) {
		return notAllowed("emisor.tipoEstablecimiento")
	}
	return d.identity(emisor, "emisor", "tipoDocResponsable", "numeroDocResponsable", d.previous)
}

// detailed checks the list: types that may be deferred, every code and every number once.
func detailed(_ *registry, d *document) *refusal {
	allowed := deferrable
	if d.previous {
		allowed = deferrablePrevious
	}
	codes, numbers := make(map[string]bool), make(map[int]bool)
	for i, it := range d.root.objects("detalleDTE") {
		code, n := it.text("codigoGeneracion"), it.integer("noItem")
		switch {
		case !slices.Contains(allowed, it.text("tipoDoc")):
			return notAllowed("detalleDTE.tipoDoc", detail(i, "tipoDoc"))
		case !codeForm.MatchString(code):
			return misshapen("detalleDTE.codigoGeneracion")
		case codes[code]:
			return notAllowed("detalleDTE.codigoGeneracion", detail(i, "codigoGeneracion "+code+" está repetido"))
		case numbers[n]:
			return notAllowed("detalleDTE.noItem", detail(i, "noItem"))
		}
		codes[code], numbers[n] = true, true
	}
	return nil
}

// detail is an observation about an entry of detalleDTE.
func detail(i int, text string) string { return fmt.Sprintf("detalleDTE.item.%d: %s", i+1, text) }

// checkCause checks motivo: the cause began before it ended, it has ended, and a cause of another kind is explained.
func checkCause(_ *registry, d *document) *refusal {
	m := d.root.object("motivo")
	began, r := moment(m, "fInicio", "hInicio", "motivo")
	if r != nil {
		return r
	}
	ended, r := moment(m, "fFin", "hFin", "motivo")
	if r != nil {
		return r
	}
	sent, r := moment(d.root.object("identificacion"), "fTransmision", "hTransmision", "identificacion")
	if r != nil {
		return r
	}
	kind := m.integer("tipoContingencia")
	switch {
	case ended.Before(began):
		return notAllowed("motivo.fFin/motivo.hFin")
	case ended.After(d.at.Add(skew)):
		return notAllowed("motivo.fFin/motivo.hFin", "La contingencia no ha terminado")
	case sent.Before(ended), sent.After(d.at.Add(skew)):
		return notAllowed("identificacion.fTransmision/identificacion.hTransmision")
	case kind < 1 || kind > 5:
		return notAllowed("motivo.tipoContingencia")
	case kind == 5 && m.text("motivoContingencia") == "":
		return lacking("motivo.motivoContingencia")
	}
	return nil
}

// moment is a date and a time of day, in El Salvador.
func moment(o object, date, hour, path string) (time.Time, *refusal) {
	t, err := time.ParseInLocation(time.DateTime, o.text(date)+" "+o.text(hour), zone)
	if err != nil {
		return t, misshapen(path + "." + hour)
	}
	return t, nil
}

// report receives an event that passed every check, and seals it. The caller holds mu.
func (s *registry) report(d *document) (seal string, _ *refusal) {
	if r := s.unused(d); r != nil {
		return "", r
	}
	m := d.root.object("motivo")
	began, _ := moment(m, "fInicio", "hInicio", "") // caused has read them
	ended, _ := moment(m, "fFin", "hFin", "")
	until := ended.Add(eventTime)
	if late := s.books.grace[d.code]; late.After(until) {
		until = late
	}
	if d.at.After(until) {
		s.breach("event %s came after %s", d.code, until.Format(time.DateTime))
		return "", notAllowed("motivo.fFin/motivo.hFin", "El plazo para informar la contingencia terminó el "+until.Format(stamp))
	}
	items := d.root.objects("detalleDTE")
	var known []string
	for i, it := range items {
		code := it.text("codigoGeneracion")
		if s.books.records[code] != nil || s.books.announced[code] != nil {
			known = append(known, detail(i, "codigoGeneracion "+code+" YA EXISTE"))
			s.breach("event %s lists %s, which was received before", d.code, code)
		}
	}
	if known != nil {
		return "", &refusal{text: exists("detalleDTE.codigoGeneracion").text, notes: known}
	}
	if s.taken(func(c *Chaos) *int { return &c.RejectEvents }) {
		return "", notAllowed("motivo.motivoContingencia", provoked)
	}
	c := &cause{nit: d.issuer.NIT, ambiente: d.ambiente, motive: m.text("motivoContingencia")}
	c.Event = Event{Code: d.code, Sello: s.seal(d.at), At: d.at, Began: began, Ended: ended, Kind: m.integer("tipoContingencia")}
	for _, it := range items {
		code := it.text("codigoGeneracion")
		s.books.announced[code] = &notice{cause: c, tipo: it.text("tipoDoc")}
		c.Documents = append(c.Documents, code)
	}
	c.turn = s.enter(d, accepted(d, c.Sello, nil)).turn
	s.books.causes = append(s.books.causes, c)
	s.books.counts.Events++
	return c.Sello, nil
}

// listed holds a document issued in contingency to its event (MF2 pp.18-20): received before the document was sent, of
// the same kind and motive, three days ago at most. The caller holds mu.
func (s *registry) listed(d *document) *refusal {
	id := d.root.object("identificacion")
	if id.integer("tipoOperacion") == 1 {
		return nil
	}
	n := s.books.announced[d.code]
	if n == nil || n.nit != d.issuer.NIT || n.ambiente != d.ambiente || n.turn > d.turn {
		s.breach("%s was sent before its event was received", d.code)
		return absent("identificacion.tipoContingencia", "El documento no figura en ningún evento de contingencia recibido")
	}
	if !n.told {
		s.breach("%s was sent before the seal of its event was answered", d.code)
	}
	field := ""
	switch motive := id.text("motivoContin"); {
	case n.tipo != d.tipo && d.tipo == "18":
		field = "tipoEvento"
	case n.tipo != d.tipo:
		field = "tipoDte"
	case id.integer("tipoContingencia") != n.Kind:
		field = "tipoContingencia"
	case motive != "" && motive != n.motive: // only kind 5 must have one, and the document's has it then
		field = "motivoContin"
	}
	if field != "" {
		s.breach("%s differs from its event in %s", d.code, field)
		return notAllowed("identificacion."+field, "No corresponde al evento de contingencia")
	}
	if until := n.At.Add(documentTime); d.at.After(until) {
		s.breach("%s came after %s", d.code, until.Format(time.DateTime))
		return notAllowed("identificacion.fecEmi", "El plazo para transmitir el documento terminó el "+until.Format(stamp))
	}
	return nil
}
