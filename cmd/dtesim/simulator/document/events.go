package document

import (
	"fmt"
	"slices"
	"time"
)

// skew is how far the issuer's clock may be ahead of MH's. The value is ours.
const skew = 10 * time.Minute

// Types of documents that may be issued in contingency (MF2 p.18, NV2 Anexo V n.º 35; CAT-023 v1.2 before DTE 2.0).
var (
	deferrable         = words("01 03 04 05 06 07 11 14 18")
	deferrablePrevious = words("01 03 04 05 06 11 14")
)

// establishments are the codes of CAT-009.
var establishments = words("01 02 04 07")

// contingency checks an event by itself; the registry looks up the documents.
var contingency = []func(*Document) *Refusal{itself, answerable, detailed, checkCause}

// invalidation checks an event by itself; the registry looks up the document that it invalidates.
var invalidation = []func(*Document) *Refusal{itself, reasoned}

// answerable checks the establishment and the person responsible for the event.
func answerable(d *Document) *Refusal {
	emisor := d.Root.Object("emisor")
	if !slices.Contains(establishments, emisor.Text("tipoEstablecimiento")) {
		return NotAllowed("emisor.tipoEstablecimiento")
	}
	return d.identity(emisor, "emisor", "tipoDocResponsable", "numeroDocResponsable", d.Previous)
}

// detailed checks detalleDTE: only types that may be deferred, each code and each number once.
func detailed(d *Document) *Refusal {
	allowed := deferrable
	if d.Previous {
		allowed = deferrablePrevious
	}
	codes, numbers := make(map[string]bool), make(map[int]bool)
	for i, it := range d.Root.Objects("detalleDTE") {
		code, n := it.Text("codigoGeneracion"), it.Integer("noItem")
		switch {
		case !slices.Contains(allowed, it.Text("tipoDoc")) && !d.laws.brings(it.Text("tipoDoc")):
			return NotAllowed("detalleDTE.tipoDoc", Detail(i, "tipoDoc"))
		case !codeForm.MatchString(code):
			return Misshapen("detalleDTE.codigoGeneracion")
		case codes[code]:
			return NotAllowed("detalleDTE.codigoGeneracion", Detail(i, "codigoGeneracion "+code+" está repetido"))
		case numbers[n]:
			return NotAllowed("detalleDTE.noItem", Detail(i, "noItem"))
		}
		codes[code], numbers[n] = true, true
	}
	return nil
}

// Detail returns an observation about an entry of detalleDTE; i counts from 0.
func Detail(i int, text string) string { return fmt.Sprintf("detalleDTE.item.%d: %s", i+1, text) }

// checkCause checks motivo: the cause began before it ended, it has ended, and a cause of kind 5 has a text.
func checkCause(d *Document) *Refusal {
	m := d.Root.Object("motivo")
	began, r := moment(m, "fInicio", "hInicio", "motivo")
	if r != nil {
		return r
	}
	ended, r := moment(m, "fFin", "hFin", "motivo")
	if r != nil {
		return r
	}
	sent, r := moment(d.Root.Object("identificacion"), "fTransmision", "hTransmision", "identificacion")
	if r != nil {
		return r
	}
	kind := m.Integer("tipoContingencia")
	switch {
	case ended.Before(began):
		return NotAllowed("motivo.fFin/motivo.hFin")
	case ended.After(d.At.Add(skew)):
		return NotAllowed("motivo.fFin/motivo.hFin", "La contingencia no ha terminado")
	case sent.Before(ended), sent.After(d.At.Add(skew)):
		return NotAllowed("identificacion.fTransmision/identificacion.hTransmision")
	case kind < 1 || kind > 5:
		return NotAllowed("motivo.tipoContingencia")
	case kind == 5 && m.Text("motivoContingencia") == "":
		return lacking("motivo.motivoContingencia")
	}
	return nil
}

// Span returns when the cause of an examined event began and ended.
func (d *Document) Span() (began, ended time.Time) {
	m := d.Root.Object("motivo")
	began, _ = moment(m, "fInicio", "hInicio", "") // checkCause has read them
	ended, _ = moment(m, "fFin", "hFin", "")
	return began, ended
}

// moment reads a date and a time of day, in El Salvador.
func moment(o Object, date, hour, path string) (time.Time, *Refusal) {
	t, err := time.ParseInLocation(time.DateTime, o.Text(date)+" "+o.Text(hour), Zone)
	if err != nil {
		return t, Misshapen(path + "." + hour)
	}
	return t, nil
}

// reasoned checks motivo, and whether the invalidation must name a replacement (MF2 pp.9-17): kinds 1 (error) and 3
// (other) must, kind 2 (rescission) must not, and credit notes, 08 and retornos are never replaced. Before DTE 2.0
// credit notes and 08 are no exception: the schema demands the replacement.
func reasoned(d *Document) *Refusal {
	reason, doc := d.Root.Object("motivo"), d.Root.Object("documento")
	kind := reason.Integer("tipoAnulacion")
	if kind < 1 || kind > 3 {
		return NotAllowed("motivo.tipoAnulacion")
	}
	if kind == 3 && reason.Null("motivoAnulacion") {
		return lacking("motivo.motivoAnulacion")
	}
	if r := First(
		d.identity(reason, "motivo", "tipDocResponsable", "numDocResponsable", d.Previous),
		d.identity(reason, "motivo", "tipDocSolicita", "numDocSolicita", d.Previous),
	); r != nil {
		return r
	}
	tipo := doc.Text("tipoDte")
	never := tipo == "18" || (tipo == "05" || tipo == "08") && !d.Previous
	switch replaced := !doc.Null("codigoGeneracionR"); {
	case replaced && (kind == 2 || never):
		return NotAllowed("documento.codigoGeneracionR")
	case !replaced && kind != 2 && !never:
		return lacking("documento.codigoGeneracionR")
	}
	return nil
}
