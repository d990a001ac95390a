package simulator

import (
	"fmt"
	"math/big"
	"slices"
	"time"
)

// slowReturns are the activities (CAT-019) whose sales may be returned for two years; MF2 and NV2 list different ones.
var slowReturns = words("01282 21001 21008 46482 46484 46491 47721")

// origins looks up what a note adjusts or a retorno gives back, and holds it to what the originals leave (MF2 pp.26-28,
// 48). Only what was sealed before this one was sent, and is not invalidated, counts. The caller holds mu, so that two
// notes cannot both take the rest of one document.
func (s *registry) origins(d *document) ([]*record, *refusal) {
	var all []*record
	for _, rel := range d.root.objects("documentoRelacionado") {
		field := "numeroDocumento"
		switch {
		case d.tipo == "18":
			field = "codigoGeneracion"
		case d.tipo != "05" && d.tipo != "06": // a 01 or 03 may name documents that are not received here
			return nil, nil
		case rel.integer("tipoGeneracion") == physical:
			continue
		}
		o := s.books.records[rel.text(field)]
		if o == nil || o.nit != d.issuer.NIT || o.ambiente != d.ambiente || o.tipo != rel.text("tipoDocumento") || o.turn > d.turn {
			s.breach("%s was sent before %s was sealed", d.code, rel.text(field))
			return nil, absent("documentoRelacionado." + field)
		}
		if o.invalidated {
			return nil, notAllowed("documentoRelacionado."+field, "El documento relacionado fue invalidado")
		}
		if rel.text("fechaEmision") != o.date {
			return nil, misdated()
		}
		months := 3
		if d.tipo == "18" && slices.Contains(slowReturns, o.read().root.object("emisor").text("codActividad")) {
			months = 24
		}
		// From the seal: MF2 p.27 also says from the date of issue, which is no later.
		if day := d.date(); day < o.date || day > addMonths(o.at.Format(time.DateOnly), months) {
			return nil, notAllowed("identificacion.fecEmi", fmt.Sprintf("Fuera de los %d meses del documento relacionado", months))
		}
		same := d.sameTaxpayer
		if d.tipo == "18" {
			same = func(o *record) *refusal { return first(d.sameIssuer(o), d.sameReceiver(o)) }
		}
		if r := same(o); r != nil {
			return nil, r
		}
		all = append(all, o)
	}
	for _, o := range all {
		if r := d.fits(o, s.law(o.tipo, o.date)); r != nil {
			return nil, r
		}
	}
	return all, nil
}

// addMonths is a date some months after another, the last of its month when it has no such day.
func addMonths(date string, months int) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		panic("simulator: a date that the schema let pass: " + date)
	}
	last := time.Date(t.Year(), t.Month()+time.Month(months)+1, 0, 0, 0, 0, 0, time.UTC)
	return last.AddDate(0, 0, min(t.Day(), last.Day())-last.Day()).Format(time.DateOnly)
}

// fits tells whether what is left of an origin of law l covers the note or retorno. A debit note adds to its original.
func (d *document) fits(o *record, l Law) *refusal {
	if d.tipo == "06" {
		return nil
	}
	code, original := o.code(), o.read()
	var before []*document // what changed what is left
	for _, a := range o.active() {
		before = append(before, a.read())
	}
	for _, b := range balances(o.tipo) {
		sum := original.root.object("resumen")
		left := sub(sum.number(b.total), sum.number(b.discount))
		for _, a := range before {
			amount := product(a.share(code, b.column), a.gross(o, b.column, l))
			if a.tipo == "06" {
				left = add(left, amount)
			} else {
				left = sub(left, amount)
			}
		}
		left = new(big.Rat).Quo(left, d.gross(o, b.column, l))
		if rounded(d.share(code, b.column), 2).Cmp(add(rounded(left, 2), cent)) > 0 {
			return exceeded("resumen." + b.sum)
		}
	}
	if d.tipo == "18" {
		return d.counted(original, before)
	}
	return nil
}

// gross is what a column of the note or retorno is to be multiplied by to compare it with its origin, whose law l is: an
// invoice has VAT in its prices, a note has not.
func (d *document) gross(o *record, column string, l Law) *big.Rat {
	if o.tipo == "01" && d.tipo != "18" && column == "ventaGravada" {
		return l.gross()
	}
	return one
}

// balance is an amount that may be taken back: a column of the items, the total of the original that bounds it less
// its global discount (which a note takes into its lines, MF2 p.48), and the field of the note's or retorno's summary
// that MH names.
type balance struct{ column, total, discount, sum string }

func balances(tipo string) []balance {
	switch tipo {
	case "07":
		return []balance{{"ivaRete", "totalIvaRetenido", "", "ivaRete"}}
	case "14":
		return []balance{{"compra", "totalCompra", "descu", "totalCompraExcluidos"}}
	}
	return []balance{
		{"ventaGravada", "totalGravada", "descuGravada", "totalGravada"},
		{"ventaExenta", "totalExenta", "descuExenta", "totalExenta"},
		{"ventaNoSuj", "totalNoSuj", "descuNoSuj", "totalNoSuj"},
	}
}

// share adds a column over the items that name one original.
func (d *document) share(code, column string) *big.Rat {
	total := new(big.Rat)
	for _, it := range d.root.objects("cuerpoDocumento") {
		if it.text("numeroDocumento") == code || it.text("codigoGeneracion") == code {
			total.Add(total, it.number(column))
		}
	}
	return total
}

// counted holds the quantities of a retorno to those sold. Its items carry numbers, codes and descriptions of their
// own, so that those of one kind and price count together; one at another price, a service given back in part, is held
// to the amounts alone.
func (d *document) counted(original *document, before []*document) *refusal {
	left := make(map[string]*big.Rat)
	for _, it := range original.root.objects("cuerpoDocumento") {
		if left[thing(it)] == nil {
			left[thing(it)] = new(big.Rat)
		}
		left[thing(it)].Add(left[thing(it)], it.number("cantidad"))
	}
	for _, r := range append(before, d) {
		for i, it := range r.root.objects("cuerpoDocumento") {
			rest := left[thing(it)]
			if rest == nil || it.text("codigoGeneracion") != original.code { // the latter is a retorno's
				continue
			}
			if rest.Sub(rest, it.number("cantidad")).Sign() < 0 && r == d {
				return notAllowed("cuerpoDocumento.cantidad", item(i+1, "cantidad mayor que la del documento relacionado"))
			}
		}
	}
	return nil
}

func thing(it object) string {
	return fmt.Sprint(it.integer("tipoItem"), " ", it.number("precioUni").RatString())
}
