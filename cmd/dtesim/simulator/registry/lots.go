package registry

import (
	"fmt"
	"slices"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
)

// lot is a lot in process or done, or a single delayed document. Its documents are checked on arrival, and sealed or
// refused when the lot is due. No goroutine waits for this time: the first request or observation after it finishes the
// lot.
type lot struct {
	nit      string
	due      time.Time
	entries  []entry // nil once the lot is done
	verdicts Verdicts
}

// entry is a document of a lot in process.
type entry struct {
	*document.Document
	notes   []string
	refusal *document.Refusal
}

// Verdicts is the body of consultadtelote's answer (MT1 §4.2.6).
type Verdicts struct {
	Procesados []Answer `json:"procesados"`
	Rechazados []Answer `json:"rechazados"`
}

// Queue checks the documents of a lot, puts the lot in process, and returns its codigoLote.
func (s *Registry) Queue(subs []document.Submission, issuer document.Issuer, at time.Time) string {
	s.lock()
	u := uuid(s.books.rand)
	code := fmt.Sprintf("%X-%X-%X-%X-%X", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	s.books.counts.Lots++
	window := issuer.NIT + " " + at.Add(2*time.Hour).Format(time.DateOnly) // in production, a window begins at 22:00
	room, cyclic := s.books.cyclic[window] < s.mostLots, false
	s.mu.Unlock()
	lasts, lost, stuck := s.hostility.Lot()
	due := at.Add(lasts)
	if lost {
		return code
	}
	l := &lot{nit: issuer.NIT, due: due, verdicts: Verdicts{Procesados: []Answer{}, Rechazados: []Answer{}}}
	if !stuck {
		l.entries = make([]entry, len(subs))
		for i, sub := range subs {
			d := &document.Document{Submission: sub, Issuer: issuer, At: at, Done: due}
			notes, r := s.examine(d)
			if r == nil && d.Root.Object("identificacion").Integer("tipoOperacion") == 1 {
				cyclic = true
				if r = windowed(d); r == nil && !room {
					r = document.NotAllowed("identificacion.tipoOperacion",
						fmt.Sprintf("Ya se recibieron %d lotes de facturación cíclica", s.mostLots))
				}
			}
			l.entries[i] = entry{d, notes, r}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !stuck {
		s.books.pend(l)
	}
	if cyclic {
		s.books.cyclic[window]++
	}
	s.books.lots[code] = l
	return code
}

// Delay puts a single document in process until d.Done.
func (s *Registry) Delay(d *document.Document) {
	notes, bad := s.examine(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books.pend(&lot{due: d.Done, entries: []entry{{d, notes, bad}}})
}

// pend puts a lot in process until it is due.
func (b *books) pend(l *lot) {
	i, _ := slices.BinarySearchFunc(b.pending, l, func(a, b *lot) int {
		if a.due.After(b.due) {
			return 1
		}
		return -1 // after lots of the same time
	})
	b.pending = slices.Insert(b.pending, i, l)
}

// windowed checks that a document of cyclic billing arrives in the hours for its lots. Contingency lots are accepted
// day and night (MT1 §3.4).
func windowed(d *document.Document) *document.Refusal {
	hour := d.At.Hour()
	open := 8 <= hour && hour < 17
	if d.Ambiente == "01" {
		open = hour >= 22 || hour < 5
	}
	if !open {
		return document.NotAllowed("identificacion.tipoOperacion", "Fuera del horario de lotes de facturación cíclica")
	}
	return nil
}

// settleLots finishes the lots that are due, document by document.
func (b *books) settleLots(now time.Time) {
	for len(b.pending) > 0 && !b.pending[0].due.After(now) {
		l := b.pending[0]
		b.pending = b.pending[1:]
		for _, e := range l.entries {
			if e.refusal == nil {
				a, r := b.admit(e.Document, e.notes)
				if r == nil {
					if a.CodigoMsg == "001" {
						a.DescripcionMsg = "RECIBIDO Y PROCESADO" // observed
					}
					l.verdicts.Procesados = append(l.verdicts.Procesados, a)
					continue
				}
				e.refusal = r
			}
			b.log.Debug("refused in a lot", "code", e.Code, "message", e.refusal.Code, "text", e.refusal.Text, "notes",
				e.refusal.Notes)
			l.verdicts.Rechazados = append(l.verdicts.Rechazados, Rejected(e.Ambiente, e.Code, l.due, e.refusal))
		}
		l.entries = nil
	}
}

// LotVerdicts returns the verdicts on an issuer's lot, or nil while the lot is in process. known is false for a lot
// that MH does not hold.
func (s *Registry) LotVerdicts(code, nit string) (_ *Verdicts, known bool) {
	s.lock()
	defer s.mu.Unlock()
	l := s.books.lots[code]
	if l == nil || l.nit != nit {
		return nil, false
	}
	if l.entries != nil || len(l.verdicts.Procesados)+len(l.verdicts.Rechazados) == 0 {
		return nil, true
	}
	return &l.verdicts, true
}

// Oversized records the breach of a lot that is too large.
func (s *Registry) Oversized(documents int) {
	s.lock()
	defer s.mu.Unlock()
	s.books.breach("a lot of %d documents", documents)
}
