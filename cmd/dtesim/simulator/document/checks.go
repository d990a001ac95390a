package document

import (
	"math/big"
	"slices"
	"time"
	"unicode/utf8"
)

// common are the checks of every tax document after its schema and before its amounts, in this order; sold are further
// checks of documents with priced items.
var (
	common = []func(*Document) *Refusal{issued, operated, addressed, checkRemarks, numbered, checkOneType}
	sold   = []func(*Document) *Refusal{itemised, paid}
)

// issued compares emisor with the registered taxpayer (observed: "[emisor.nrc] NO CORRESPONDE A CONTRIBUYENTE").
func issued(d *Document) *Refusal {
	emisor, name, _ := d.issuer()
	if r := itself(d); r != nil {
		return r
	}
	nrc := emisor.Text("nrc")
	if !emisor.Null("nrc") && !digits(nrc, 2, 3, 4, 5, 6, 7, 8) {
		return Misshapen(name + ".nrc")
	}
	if d.Issuer.NRC != "" && nrc != d.Issuer.NRC {
		return Stranger(name + ".nrc")
	}
	code := emisor.Text("codActividad")
	if r := active(code, name+".codActividad"); r != nil {
		return r
	}
	if len(d.Issuer.Activities) > 0 && !slices.Contains(d.Issuer.Activities, code) {
		return Stranger(name + ".codActividad")
	}
	return placed(emisor.Object("direccion"), name+".direccion")
}

// itself checks that the issuer is the holder of the token and the key.
func itself(d *Document) *Refusal {
	emisor, name, field := d.issuer()
	switch nit := emisor.Text(field); {
	case !digits(nit, 9, 14):
		return Misshapen(name + "." + field)
	case nit != d.Issuer.NIT:
		return Stranger(name + "." + field)
	}
	return nil
}

// issuer returns the party that issues, the name of its member, and the name of its NIT's field. A donee (15) is
// identified like a person.
func (d *Document) issuer() (party Object, name, nit string) {
	name, nit = "emisor", "nit"
	if d.Tipo == "15" {
		nit = "numDocumento"
		if d.Previous {
			name = "donatario"
		}
	}
	return d.Root.Object(name), name, nit
}

// operated checks that four members agree on whether a document is normal or of contingency (MF2 p.18, NV2 Anexo IV n.º
// 9): tipoModelo, tipoOperacion, tipoContingencia, motivoContin.
func operated(d *Document) *Refusal {
	id := d.Root.Object("identificacion")
	model, operation := id.Integer("tipoModelo"), id.Integer("tipoOperacion")
	if model != operation {
		return NotAllowed("identificacion.tipoModelo")
	}
	if operation != 1 && operation != 2 {
		return NotAllowed("identificacion.tipoOperacion")
	}
	if operation == 1 {
		switch {
		case !id.Null("tipoContingencia"):
			return NotAllowed("identificacion.tipoContingencia")
		case !id.Null("motivoContin"):
			return NotAllowed("identificacion.motivoContin")
		}
		return nil
	}
	switch kind := id.Integer("tipoContingencia"); {
	case id.Null("tipoContingencia"):
		return lacking("identificacion.tipoContingencia")
	case kind < 1 || kind > 5:
		return NotAllowed("identificacion.tipoContingencia")
	case kind == 5 && id.Null("motivoContin") && id.Null("motivoContigencia"): // the spelling of 11 before DTE 2.0
		return lacking("identificacion.motivoContin")
	}
	return nil
}

// receiver returns the other party, and the name of its member.
func (d *Document) receiver() (Object, string) {
	for _, name := range []string{"sujetoExcluido", "donante", "receptor"} {
		if r := d.Root.Object(name); r != nil {
			return r, name
		}
	}
	if d.Tipo == "18" {
		return d.Root.Object("documento"), "documento"
	}
	return nil, "receptor"
}

// addressed checks the receiver's activity, NRC and address.
func addressed(d *Document) *Refusal {
	r, name := d.receiver()
	if r == nil {
		return nil
	}
	if bad := active(r.Text("codActividad"), name+".codActividad"); bad != nil {
		return bad
	}
	if nrc := r.Text("nrc"); nrc != "" && !digits(nrc, 2, 3, 4, 5, 6, 7, 8) {
		return Misshapen(name + ".nrc")
	}
	return placed(r.Object("direccion"), name+".direccion")
}

// checkRemarks limits observaciones to the 3000 characters that NV2 allows. MH's schema of 03 v4 means the same, but
// states maximum, which has no effect on a string.
func checkRemarks(d *Document) *Refusal {
	if utf8.RuneCountInString(d.Root.Object("resumen").Text("observaciones")) > 3000 {
		return unschemed("Campo #/resumen/observaciones no cumple el tamaño máximo permitido")
	}
	return nil
}

// dated compares fecEmi with the day of reception in El Salvador. An earlier day is sealed with an observation
// (observed up to four days late), or without it in contingency; a later day is refused. NV2 Anexo IV n.º 10 is said to
// allow five days ahead, but a branch needs no such date, and a clock in UTC would produce it by mistake.
func dated(d *Document) (notes []string, _ *Refusal) {
	id := d.Root.Object("identificacion")
	issue := id.Text("fecEmi")
	today := d.At.Format(time.DateOnly)
	switch {
	case issue > today:
		return nil, NotAllowed("identificacion.fecEmi")
	case issue < today && id.Integer("tipoOperacion") == 1:
		return []string{"identificacion.fecEmi Difiere de la fecha de envío."}, nil
	}
	return nil, nil
}

// last are the checks of a tax document after its amounts.
var last = []func(*Document) *Refusal{settled}

// paid checks resumen.condicionOperacion and the codes of resumen.pagos (CAT-016, 017, 018; MF2 p.50).
func paid(d *Document) *Refusal {
	sum := d.Root.Object("resumen")
	condition := sum.Integer("condicionOperacion")
	if condition < 1 || condition > 3 {
		return NotAllowed("resumen.condicionOperacion")
	}
	if condition != 1 && !d.Previous && slices.Contains(words("01 03 11"), d.Tipo) &&
		sum.number("totalPagar").Sign() == 0 {
		return NotAllowed("resumen.condicionOperacion") // NV2 Anexo IV; fe-ccf-v3 says it itself
	}
	if sum.Null("pagos") {
		if _, due := sum["pagos"]; due && !d.Previous { // MF2 p.49: at least one; sealed without any before DTE 2.0
			return lacking("resumen.pagos")
		}
		return nil
	}
	onTerms := false
	for _, p := range sum.Objects("pagos") {
		if r := d.settledBy(p); r != nil {
			return r
		}
		if !d.law.lists("CAT-017", payments, p.Text("codigo")) {
			return NotAllowed("resumen.pagos.codigo")
		}
		if !p.Null("plazo") && !slices.Contains(terms, p.Text("plazo")) {
			return NotAllowed("resumen.pagos.plazo")
		}
		onTerms = onTerms || !p.Null("plazo") && !p.Null("periodo")
	}
	if condition == 2 && !onTerms {
		return lacking("resumen.pagos.plazo")
	}
	return nil
}

// settled checks that the payments, credit included, add up to totalPagar (MF2 p.50 shows the full amount).
func settled(d *Document) *Refusal {
	sum := d.Root.Object("resumen")
	if sum.Null("pagos") {
		return nil
	}
	total := new(big.Rat)
	for _, p := range sum.Objects("pagos") {
		total.Add(total, p.number("montoPago"))
	}
	if !near(total, sum.number("totalPagar")) {
		return miscalculated("resumen.pagos.montoPago")
	}
	return nil
}
