package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/storage"
)

// A document can be signed in several forms: normal, contingency, corrections. MH holds at most one of them. Its query
// returns the seal and the time of the seal, and not the form (MT1 §4.3). This file finds the form.

// adoptHeld makes the form that MH holds the record of a document, whatever this store took it for. held is MH's answer to a
// query, or to a lot.
func (s *settlement) adoptHeld(ctx context.Context, entry storage.Entry, h *record.Head, held *authority.Response, doubt time.Duration) (storage.Entry, error) {
	parts, err := s.store.Parts(entry.Code)
	if err != nil {
		return entry, err
	}
	forms := record.FormsOf(parts)
	if len(forms) == 0 {
		return entry, fmt.Errorf("document %s has no signed form", dte.Code(entry.Code))
	}
	names := make([]string, len(forms))
	for i, f := range forms {
		names[i] = f.Name
	}
	next := *h
	next.Response, next.Doubtful, next.Refused = held, false, time.Time{}
	change := storage.Change{To: record.Accepted, Announce: true}
	sealed := authority.ParseTime(held.FhProcesamiento)
	proof := "times"
	if next.Form = h.FormSealed(names, sealed, doubt); s.sender.InLostTime(sealed) {
		if proof, err = s.formOfLostTime(ctx, entry, &next, forms, sealed, &change); err != nil {
			return entry, err
		}
	}
	s.metrics.adopted.WithLabelValues(proof).Inc()
	s.contingency.Settled(entry.Code)
	return s.move(ctx, entry, change, &next)
}

// formOfLostTime finds the form of a document that was sealed in a time that this store has lost (see storage.Gap): what was
// sent then is not in it. The archive has what was sealed. Where the archive cannot tell, the form is the likeliest, and the
// record says so.
func (s *settlement) formOfLostTime(ctx context.Context, entry storage.Entry, next *record.Head, forms []storage.Part, sealed time.Time, change *storage.Change) (proof string, err error) {
	code := dte.Code(entry.Code).String()
	jws, err := s.archivedForm(ctx, next, code)
	if err == nil {
		for _, f := range forms {
			if string(f.Data) == string(jws) {
				next.Form = f.Name
				return "archive", nil
			}
		}
		document, err := record.Payload(jws)
		if err != nil {
			return "", err
		}
		v, err := dte.Parse(document)
		if err != nil {
			return "", fmt.Errorf("reading what the archive holds of %s: %w", code, err)
		}
		next.Form = record.FormArchived
		next.Total = totalOf(v, next.Total)
		change.Parts = []storage.Part{{Name: record.FormArchived, Data: jws}}
		s.log.Warn("the archive holds a form that this store lacks: it is the record now", "code", code)
		return "archive", nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if !s.correctForm(next, forms, sealed) {
		next.Warnings = append(slices.Clone(next.Warnings), "Hacienda selló este documento después del respaldo que se restauró; compárelo con la consulta pública de Hacienda")
		s.log.Warn("MH sealed a document after the backup that was restored, and does not tell in which form: compare with MH's public page",
			"code", code, "form", next.Form, "archive", err)
	}
	return "likeliest", nil
}

// correctForm corrects the form that the times of the sendings tell where they do not cover what was sent in the lost time. It
// returns false when another form is possible.
func (s *settlement) correctForm(next *record.Head, forms []storage.Part, sealed time.Time) (sure bool) {
	first, last := forms[0].Name, forms[len(forms)-1].Name
	switch {
	case next.Form != first:
		return true // this store sent that form, and the seal came after
	case first != record.FormNormal:
		return true
	case len(forms) == 1:
		return sealed.Before(next.CreatedAt.Add(settleAfter)) // while the sale was being settled
	case !next.Forwarded.IsZero() || sealed.Before(next.Sent.Add(s.sender.Policy.DoubtFor)):
		return true // before the other form was sent, or may have been
	}
	next.Form = last
	return false
}

// archivedForm returns the JWS of a document as the archive holds it, if MH's seal is on it.
func (s *settlement) archivedForm(ctx context.Context, h *record.Head, code string) ([]byte, error) {
	if s.outbox.Archive() == nil {
		return nil, errors.New("no archive is configured")
	}
	data, err := s.outbox.Archive().Get(ctx, outbox.ArchivePath(s.issuer.Slug, h, "json", code))
	if err != nil {
		return nil, err
	}
	v, err := dte.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading the archive's %s: %w", code, err)
	}
	jws := []byte(v.Get("firmaElectronica").Text())
	if err := s.signer.Verify(jws); err != nil {
		return nil, fmt.Errorf("the archive's %s: %w", code, err)
	}
	document, err := record.Payload(jws)
	if err != nil {
		return nil, err
	}
	inside, err := dte.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("reading the archive's %s: %w", code, err)
	}
	if v.Get("selloRecibido").Text() != h.Response.SelloRecibido || inside.Get("identificacion").Get("codigoGeneracion").Text() != code {
		return nil, fmt.Errorf("what the archive holds of %s is not what MH sealed", code)
	}
	return jws, nil
}

// totalOf is the total of a document by itself (SPEC: totalPagar; of 07 totalIvaRetenido), otherwise as given.
func totalOf(document dte.Value, otherwise string) string {
	for _, name := range []string{"totalPagar", "totalIvaRetenido"} {
		if v := document.Get("resumen").Get(name); v.Exists() && !v.IsNull() {
			if a, err := v.Amount(); err == nil {
				return a.Fixed2()
			}
		}
	}
	return otherwise
}
