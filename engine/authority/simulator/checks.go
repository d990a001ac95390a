package simulator

import (
	"math/big"
	"slices"
	"time"
	"unicode/utf8"
)

// common is what every tax document is held to between its schema and its amounts, in this order; sold is what those
// with priced items are held to besides.
var (
	common = []func(*registry, *document) *refusal{issued, operated, addressed, checkRemarks, numbered, checkOneType}
	sold   = []func(*registry, *document) *refusal{itemised, paid}
)

// issued holds emisor against the registered taxpayer (observed: "[emisor.nrc] NO CORRESPONDE A CONTRIBUYENTE").
func issued(s *registry, d *document) *refusal {
	emisor := d.root.object("emisor")
	if r := itself(s, d); r != nil {
		return r
	}
	nrc := emisor.text("nrc")
	if !emisor.null("nrc") && !digits(nrc, 2, 3, 4, 5, 6, 7, 8) {
		return misshapen("emisor.nrc")
	}
	if d.issuer.NRC != "" && nrc != d.issuer.NRC {
		return stranger("emisor.nrc")
	}
	code := emisor.text("codActividad")
	if r := active(code, "emisor.codActividad"); r != nil {
		return r
	}
	if len(d.issuer.Activities) > 0 && !slices.Contains(d.issuer.Activities, code) {
		return stranger("emisor.codActividad")
	}
	return placed(emisor.object("direccion"), "emisor.direccion")
}

// itself checks that the issuer is the one whose token and key these are.
func itself(_ *registry, d *document) *refusal {
	switch nit := d.root.object("emisor").text("nit"); {
	case !digits(nit, 9, 14):
		return misshapen("emisor.nit")
	case nit != d.issuer.NIT:
		return stranger("emisor.nit")
	}
	return nil
}

// operated holds together the four members that tell a normal document from one issued in contingency (MF2 p.18,
// NV2 Anexo IV n.º 9).
func operated(_ *registry, d *document) *refusal {
	id := d.root.object("identificacion")
	model, operation := id.integer("tipoModelo"), id.integer("tipoOperacion")
	if model != operation {
		return notAllowed("identificacion.tipoModelo")
	}
	if operation != 1 && operation != 2 {
		return notAllowed("identificacion.tipoOperacion")
	}
	if operation == 1 {
		switch {
		case !id.null("tipoContingencia"):
			return notAllowed("identificacion.tipoContingencia")
		case !id.null("motivoContin"):
			return notAllowed("identificacion.motivoContin")
		}
		return nil
	}
	switch kind := id.integer("tipoContingencia"); {
	case id.null("tipoContingencia"):
		return lacking("identificacion.tipoContingencia")
	case kind < 1 || kind > 5:
		return notAllowed("identificacion.tipoContingencia")
	case kind == 5 && id.null("motivoContin"):
		return lacking("identificacion.motivoContin")
	}
	return nil
}

// receiver is the other party, and the member that holds it.
func (d *document) receiver() (object, string) {
	for _, name := range []string{"sujetoExcluido", "receptor"} {
		if r := d.root.object(name); r != nil {
			return r, name
		}
	}
	if d.tipo == "18" {
		return d.root.object("documento"), "documento"
	}
	return nil, "receptor"
}

// addressed checks the receiver.
func addressed(s *registry, d *document) *refusal {
	r, name := d.receiver()
	if r == nil {
		return nil
	}
	if bad := active(r.text("codActividad"), name+".codActividad"); bad != nil {
		return bad
	}
	if nrc := r.text("nrc"); nrc != "" && !digits(nrc, 2, 3, 4, 5, 6, 7, 8) {
		return misshapen(name + ".nrc")
	}
	return placed(r.object("direccion"), name+".direccion")
}

// checkRemarks holds observaciones to the 3000 characters that NV2 allows; the schema file of 03 v4 meant it (it says
// maximum, which has no effect on a string).
func checkRemarks(_ *registry, d *document) *refusal {
	if utf8.RuneCountInString(d.root.object("resumen").text("observaciones")) > 3000 {
		return unschemed("Campo #/resumen/observaciones no cumple el tamaño máximo permitido")
	}
	return nil
}

// dated compares fecEmi with the day of reception in El Salvador. Earlier is sealed with an observation (observed up
// to four days late) unless a contingency explains it, later is refused. NV2 Anexo IV n.º 10 is said to allow up to five days ahead; a branch has no
// reason to, and a clock that runs in UTC looks exactly so.
func dated(d *document) (notes []string, _ *refusal) {
	id := d.root.object("identificacion")
	issue := id.text("fecEmi")
	today := d.at.Format(time.DateOnly)
	switch {
	case issue > today:
		return nil, notAllowed("identificacion.fecEmi")
	case issue < today && id.integer("tipoOperacion") == 1:
		return []string{"identificacion.fecEmi Difiere de la fecha de envío."}, nil
	}
	return nil, nil
}

// last is what every tax document is held to after its amounts.
var last = []func(*registry, *document) *refusal{settled}

// paid checks resumen.condicionOperacion and the codes of resumen.pagos (CAT-016, 017, 018; MF2 p.50).
func paid(_ *registry, d *document) *refusal {
	sum := d.root.object("resumen")
	condition := sum.integer("condicionOperacion")
	if condition < 1 || condition > 3 {
		return notAllowed("resumen.condicionOperacion")
	}
	if sum.null("pagos") {
		if _, due := sum["pagos"]; due && !d.previous { // MF2 p.49: from one on; sealed without any before DTE 2.0
			return lacking("resumen.pagos")
		}
		return nil
	}
	onTerms := false
	for _, p := range sum.objects("pagos") {
		if r := d.settledBy(p); r != nil {
			return r
		}
		if !d.law.lists("CAT-017", payments, p.text("codigo")) {
			return notAllowed("resumen.pagos.codigo")
		}
		if !p.null("plazo") && !slices.Contains(terms, p.text("plazo")) {
			return notAllowed("resumen.pagos.plazo")
		}
		onTerms = onTerms || !p.null("plazo") && !p.null("periodo")
	}
	if condition == 2 && !onTerms {
		return lacking("resumen.pagos.plazo")
	}
	return nil
}

// settled checks that the payments add up to what is to be paid, credit included: MF2 p.50 has the full amount there.
func settled(_ *registry, d *document) *refusal {
	sum := d.root.object("resumen")
	if sum.null("pagos") {
		return nil
	}
	total := new(big.Rat)
	for _, p := range sum.objects("pagos") {
		total.Add(total, p.number("montoPago"))
	}
	if !near(total, sum.number("totalPagar")) {
		return miscalculated("resumen.pagos.montoPago")
	}
	return nil
}
