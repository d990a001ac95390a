package document

import (
	"log/slog"
	"time"
)

// Reader makes all checks of a document that need no books: its signature, its schema, the law of its day, the
// taxpayers that MH knows.
type Reader struct {
	Laws
	Taxpayers       map[string]bool // NITs; empty: any
	Switch          time.Time       // see simulator.Options
	AllowProduction bool            // see simulator.Options
	Habits          func() Habits   // in force
	Log             *slog.Logger
}

// Habits are rules that MH's manuals leave open, or that MH does not follow.
type Habits struct {
	LaxOrigins bool // see hostility.Chaos
	LaxDates   bool
	StrictBase bool
}

// Examine checks a document without the books, and returns the observations for its seal.
func (r *Reader) Examine(d *Document) (notes []string, _ *Refusal) {
	// 1. to 5. The signature, the text, the schema of its type and generation.
	form, bad := r.open(d)
	if bad != nil {
		return nil, bad
	}
	// 6. Dates, taxpayers, mode, catalogues, amounts.
	if notes, bad = dated(d); bad != nil {
		return nil, bad
	}
	return notes, form.judge(d)
}

// judge makes the checks of a type and generation, and returns the first refusal.
func (s *schema) judge(d *Document) *Refusal {
	for _, check := range s.checks {
		if bad := check(d); bad != nil {
			return bad
		}
	}
	return nil
}

// ExamineEvent is Examine for an event.
func (r *Reader) ExamineEvent(d *Document) *Refusal {
	form, bad := r.open(d)
	if bad != nil {
		return bad
	}
	return form.judge(d)
}

// open reads a document or an event, and finds its schema.
func (r *Reader) open(d *Document) (*schema, *Refusal) {
	// 1. The guard: no production through a simulator.
	if bad := r.Guard(d.Submission); bad != nil {
		return nil, bad
	}
	// 2. The signature, against the registered key.
	payload, err := verify(d.JWS, d.Issuer.PublicKey)
	if err != nil {
		r.Log.Debug("signature", "code", d.Code, "error", err)
		return nil, unsigned()
	}
	d.Payload, d.JWS = payload, ""
	// 3. The text is JSON.
	if d.Root, err = decode(payload); err != nil {
		return nil, unschemed(err.Error())
	}
	// 4. The envelope agrees with the document.
	if bad := agree(d); bad != nil {
		return nil, bad
	}
	// 5. The schema of its type and generation.
	form, known := r.form(generation{d.Tipo, d.Version})
	if !known {
		return nil, unschemed(invalid("/identificacion/version"))
	}
	if notes := form.check(d.Root); len(notes) > 0 {
		return nil, unschemed(notes...)
	}
	d.laws = &r.Laws
	d.Previous, d.law, d.Habits, d.taxpayers = form.previous, r.under(d), r.Habits(), r.Taxpayers
	crossed := d.Previous != (d.Date() < r.Switch.In(Zone).Format(time.DateOnly))
	// An invalidation of DTE 2.0 bears its document's date (MF2 pp.9-17): for it the day of the reception decides.
	if d.Tipo == Anulacion && !d.Previous {
		crossed = d.At.Before(r.Switch)
	}
	if d.Ambiente == "01" && crossed {
		return nil, unschemed(invalid("/identificacion/version"))
	}
	return form, nil
}

// Guard refuses production unless simulator.Options.AllowProduction is set.
func (r *Reader) Guard(sub Submission) *Refusal {
	switch {
	case sub.Ambiente == "00", sub.Ambiente == "01" && r.AllowProduction:
		return nil
	case sub.Ambiente == "" && sub.Tipo == Contingencia: // its envelope has no ambiente: signature and schema decide
		return nil
	case sub.Ambiente == "01":
		return NotAllowed("ambiente", "Este es un simulador: no recibe documentos de producción")
	}
	return NotAllowed("ambiente")
}
