package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"
)

// maxLotSize is how many documents a lot may hold (MT1 §3.4).
const maxLotSize = 100

// sendForm: idEnvio of a lot is a UUIDv4 in capitals.
var sendForm = regexp.MustCompile(`^[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}$`)

// lot is one that was received, or a single document that MH takes its time with. The documents are checked on arrival
// and sealed or refused when its time has come, which nobody waits for: the first request or observation after that
// finds it done.
type lot struct {
	nit      string
	due      time.Time
	entries  []entry // until it is done
	verdicts verdicts
}

// entry is a document of a lot in process.
type entry struct {
	*document
	notes   []string
	refusal *refusal
}

// verdicts is the body of consultadtelote (MT1 §4.2.6).
type verdicts struct {
	Procesados []answer `json:"procesados"`
	Rechazados []answer `json:"rechazados"`
}

// lotAnswer is the body of recepcionlote (MT1 §4.2.5), member for member; of a refusal none was published.
type lotAnswer struct {
	Version         int      `json:"version"`
	Ambiente        *string  `json:"ambiente"`
	VersionApp      int      `json:"versionApp"`
	Estado          string   `json:"estado"`
	IDEnvio         *string  `json:"idEnvio"`
	FhProcesamiento string   `json:"fhProcesamiento"`
	CodigoLote      *string  `json:"codigoLote"`
	CodigoMsg       string   `json:"codigoMsg"`
	DescripcionMsg  string   `json:"descripcionMsg"`
	ClasificaMsg    *string  `json:"clasificaMsg"`
	Observaciones   []string `json:"observaciones,omitempty"`
}

type lotEnvelope struct {
	Ambiente   *string  `json:"ambiente"`
	IDEnvio    *string  `json:"idEnvio"`
	Version    *int     `json:"version"`
	NITEmisor  *string  `json:"nitEmisor"`
	Documentos []string `json:"documentos"`
}

// receiveLot is POST /fesv/recepcionlote.
func (s *Simulator) receiveLot(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err != nil {
		s.fault(w, r, http.StatusBadRequest, "Bad Request")
		return
	}
	at := s.now()
	var e lotEnvelope
	bad := incomplete()
	if err := json.Unmarshal(body, &e); err == nil {
		bad = s.acceptable(&e, holder(r))
	}
	a := lotAnswer{Version: 1, Ambiente: e.Ambiente, VersionApp: 1, IDEnvio: e.IDEnvio, FhProcesamiento: at.Format(stamp)}
	if bad != nil {
		a.Estado, a.CodigoMsg, a.DescripcionMsg, a.ClasificaMsg, a.Observaciones = "RECHAZADO", bad.code, bad.text, orNull(bad.class), bad.notes
		s.deliver(w, r, lots, http.StatusBadRequest, a, nil)
		return
	}
	subs := make([]submission, len(e.Documentos))
	for i, jws := range e.Documentos {
		subs[i] = enclosed(jws)
		subs[i].ambiente = *e.Ambiente
		if s.poisons(subs[i].code) {
			s.fault(w, r, http.StatusInternalServerError, "No message available")
			return
		}
	}
	code := s.queue(subs, holder(r), at)
	s.log.Debug("lot", "code", code, "documents", len(subs))
	a.Estado, a.CodigoLote, a.CodigoMsg, a.DescripcionMsg, a.ClasificaMsg = "RECIBIDO", &code, "001", "LOTE RECIBIDO", orNull("10")
	s.deliver(w, r, lots, http.StatusOK, a, nil)
}

// acceptable checks a lot as a whole.
func (s *Simulator) acceptable(e *lotEnvelope, issuer Issuer) *refusal {
	if e.Ambiente == nil || e.IDEnvio == nil || e.Version == nil || e.NITEmisor == nil || len(e.Documentos) == 0 {
		return incomplete()
	}
	if r := s.guard(submission{ambiente: *e.Ambiente}); r != nil {
		return r
	}
	switch {
	case *e.NITEmisor != issuer.NIT:
		return stranger("nitEmisor")
	case !sendForm.MatchString(*e.IDEnvio):
		return misshapen("idEnvio")
	case *e.Version != 1 && *e.Version != 2: // integrators use either
		return notAllowed("version")
	case len(e.Documentos) > maxLotSize:
		s.lock()
		defer s.mu.Unlock()
		s.breach("a lot of %d documents", len(e.Documentos))
		return notAllowed("documentos", fmt.Sprintf("El lote tiene más de %d documentos", maxLotSize))
	case s.take(func(c *Chaos) *int { return &c.RejectLots }):
		return notAllowed("documentos", provoked)
	}
	return nil
}

// queue checks the documents of a lot, has it in process, and returns its codigoLote.
func (s *Simulator) queue(subs []submission, issuer Issuer, at time.Time) string {
	s.lock()
	u := uuid(s.rand)
	code := fmt.Sprintf("%X-%X-%X-%X-%X", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	s.books.counts.Lots++
	window := issuer.NIT + " " + at.Add(2*time.Hour).Format(time.DateOnly) // in production from 22:00 on the next day's
	room, cyclic := s.books.cyclic[window] < s.options.CyclicLots, false
	due := at.Add(time.Duration(s.chaos.LotMS) * time.Millisecond)
	lost := s.taken(func(c *Chaos) *int { return &c.LoseLots })
	stuck := !lost && s.taken(func(c *Chaos) *int { return &c.StuckLots })
	s.mu.Unlock()
	if lost {
		return code
	}
	l := &lot{nit: issuer.NIT, due: due, verdicts: verdicts{Procesados: []answer{}, Rechazados: []answer{}}}
	if !stuck {
		l.entries = make([]entry, len(subs))
		for i, sub := range subs {
			d := &document{submission: sub, issuer: issuer, at: at, done: due}
			notes, r := s.examine(d)
			if r == nil && d.root.object("identificacion").integer("tipoOperacion") == 1 {
				cyclic = true
				if r = windowed(d); r == nil && !room {
					r = notAllowed("identificacion.tipoOperacion", fmt.Sprintf("Ya se recibieron %d lotes de facturación cíclica", s.options.CyclicLots))
				}
			}
			l.entries[i] = entry{d, notes, r}
		}
		s.pend(l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cyclic {
		s.books.cyclic[window]++
	}
	s.books.lots[code] = l
	return code
}

// pend has documents in process until they are due.
func (s *registry) pend(l *lot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.books.pending, l, func(a, b *lot) int {
		if a.due.After(b.due) {
			return 1
		}
		return -1 // after those of the same time
	})
	s.books.pending = slices.Insert(s.books.pending, i, l)
}

// windowed holds a document of cyclic billing to the hours in which lots of it are taken; contingency lots are open
// day and night (MT1 §3.4).
func windowed(d *document) *refusal {
	hour := d.at.Hour()
	open := 8 <= hour && hour < 17
	if d.ambiente == "01" {
		open = hour >= 22 || hour < 5
	}
	if !open {
		return notAllowed("identificacion.tipoOperacion", "Fuera del horario de lotes de facturación cíclica")
	}
	return nil
}

// settleLots finishes the lots whose time has come, document by document. The caller holds mu.
func (s *registry) settleLots(now time.Time) {
	for len(s.books.pending) > 0 && !s.books.pending[0].due.After(now) {
		l := s.books.pending[0]
		s.books.pending = s.books.pending[1:]
		for _, e := range l.entries {
			if e.refusal == nil {
				a, r := s.admit(e.document, e.notes)
				if r == nil {
					if a.CodigoMsg == "001" {
						a.DescripcionMsg = "RECIBIDO Y PROCESADO" // observed
					}
					l.verdicts.Procesados = append(l.verdicts.Procesados, a)
					continue
				}
				e.refusal = r
			}
			s.log.Debug("refused in a lot", "code", e.code, "message", e.refusal.code, "text", e.refusal.text, "notes", e.refusal.notes)
			l.verdicts.Rechazados = append(l.verdicts.Rechazados, rejected(e.ambiente, e.code, l.due, e.refusal))
		}
		l.entries = nil
	}
}

// queryLot is GET /fesv/recepcion/consultadtelote/{codigoLote}: the verdicts, 204 while the lot is in process, or 400
// for a lot that MH does not hold; what MH itself says to that was not published.
func (s *Simulator) queryLot(w http.ResponseWriter, r *http.Request) {
	issuer, at := holder(r), s.now()
	s.lock()
	l := s.books.lots[r.PathValue("lot")]
	known := l != nil && l.nit == issuer.NIT
	working := known && (l.entries != nil || len(l.verdicts.Procesados)+len(l.verdicts.Rechazados) == 0)
	s.mu.Unlock()
	switch {
	case !known:
		a := rejected("", "", at, absent("codigoLote"))
		s.deliver(w, r, queries, a.status(), a, nil)
	case working:
		if s.wait(r.Context()) {
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		s.deliver(w, r, queries, http.StatusOK, l.verdicts, nil)
	}
}
