package registry

import (
	"time"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
)

// JudgeInvalidation processes an invalidation as MH does.
func (s *Registry) JudgeInvalidation(d *document.Document) Answer {
	s.arrived(d)
	bad := s.reader.ExamineEvent(d)
	s.keep(d)
	s.lock()
	defer s.mu.Unlock()
	var a Answer
	if bad == nil {
		a, bad = s.books.invalidate(d)
	}
	if bad != nil {
		return Rejected(d.Ambiente, d.Code, d.At, bad)
	}
	return a
}

// invalidate marks a document as invalidated, and seals the event.
func (b *books) invalidate(d *document.Document) (Answer, *document.Refusal) {
	if r := b.unused(d); r != nil {
		return Answer{}, r
	}
	doc := d.Root.Object("documento")
	held := b.sealed(d, doc.Text("codigoGeneracion"))
	if held == nil {
		return Answer{}, document.Absent("documento") // observed
	}
	if held.invalidated {
		return Answer{}, document.Exists("documento.codigoGeneracion")
	}
	if r := document.First(d.Describes(held.read(), held.sello()), d.SameIssuer(held.read()), b.replaced(d, held),
		timely(d, held)); r != nil {
		return Answer{}, r
	}
	if len(held.active()) > 0 {
		return Answer{}, document.NotAllowed("documento.codigoGeneracion",
			"El documento tiene notas o retornos vigentes")
	}
	if b.hostility.Take(func(c *hostility.Chaos) *int { return &c.RejectEvents }) {
		return Answer{}, document.NotAllowed("motivo.motivoAnulacion", Provoked)
	}
	held.invalidated = true
	a := accepted(d, b.seal(d.At), nil)
	a.ClasificaMsg, a.DescripcionMsg = nil, "Invalidación Recibida y Procesada" // observed, production and apitest
	b.enter(d, a)
	b.write(d, a)
	b.counts.Invalidations++
	return a, nil
}

// sealed returns the accepted document with a code, if the event's issuer issued it, or nil.
func (b *books) sealed(d *document.Document, code string) *record {
	held := b.records[code]
	if held == nil || held.nit != d.Issuer.NIT || held.ambiente != d.Ambiente || document.IsEvent(held.tipo) {
		return nil
	}
	return held
}

// replaced checks the replacement, if any: another document, sealed, of the same type, and not invalidated.
func (b *books) replaced(d *document.Document, held *record) *document.Refusal {
	code := d.Root.Object("documento").Text("codigoGeneracionR")
	if code == "" {
		return nil
	}
	switch other := b.sealed(d, code); {
	case other == nil:
		return document.Absent("documento.codigoGeneracionR")
	case other == held, other.tipo != held.tipo, other.invalidated:
		return document.NotAllowed("documento.codigoGeneracionR")
	}
	return nil
}

// timely checks the date of the event, and the window, which counts from the seal (MF2 pp.9-17). The event's date must
// be the document's, or for 01, 11 and 14 up to three months later. With LaxDates, and before DTE 2.0, any day of the
// window passes for the other types too: sealed events before DTE 2.0 bear the day on which they were made.
func timely(d *document.Document, held *record) *document.Refusal {
	path := "identificacion.fecEmi"
	if d.Previous {
		path = "identificacion.fecAnula/identificacion.horAnula" // observed
	}
	day, until := d.Date(), deadline(held.tipo, held.at)
	last := until
	switch {
	case lasting(held.tipo):
		last = addMonths(held.date, 3)
	case !d.Habits.LaxDates && !d.Previous:
		last = held.date
	}
	today := d.At.Format(time.DateOnly)
	switch {
	case day < held.date, day > today, day > last:
		return document.NotAllowed(path)
	case today > until:
		return document.NotAllowed(path, "El plazo para invalidar el documento terminó el "+until)
	}
	return nil
}
