package simulator

import (
	"fmt"
	"math/big"
	"strings"
	"time"
)

// origins looks up what a note adjusts or a retorno gives back, and holds it to what the originals leave (MF2 pp.26-28,
// 48). Only what was accepted and is not invalidated counts. The caller holds mu, so that two notes cannot both take
// the rest of one document.
func (s *Simulator) origins(d *document) ([]*record, *refusal) {
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
		if o == nil || o.nit != d.issuer.NIT || o.ambiente != d.ambiente || o.tipo != rel.text("tipoDocumento") {
			return nil, absent("documentoRelacionado." + field)
		}
		if o.invalidated {
			return nil, notAllowed("documentoRelacionado."+field, "El documento relacionado fue invalidado")
		}
		if rel.text("fechaEmision") != o.date() {
			return nil, misdated()
		}
		if day := d.date(); day < o.date() || day > later(o.date(), 3) {
			return nil, notAllowed("identificacion.fecEmi", "Fuera de los tres meses del documento relacionado")
		}
		if d.tipo == "18" && !d.sameParty(o) {
			return nil, notAllowed("documento.numDocumento", "No es el receptor del documento relacionado")
		}
		all = append(all, o)
	}
	for _, o := range all {
		if r := d.fits(o); r != nil {
			return nil, r
		}
	}
	return all, nil
}

// later is a date some months after another, the last of its month when it has no such day.
func later(date string, months int) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		panic("simulator: a date that the schema let pass: " + date)
	}
	last := time.Date(t.Year(), t.Month()+time.Month(months)+1, 0, 0, 0, 0, 0, time.UTC)
	return last.AddDate(0, 0, min(t.Day(), last.Day())-last.Day()).Format(time.DateOnly)
}

// sameParty compares the receiver of a retorno with its origin's; a DUI may have lost its hyphen between generations.
func (d *document) sameParty(o *record) bool {
	was, _ := o.read().receiver()
	now, _ := d.receiver()
	return unhyphened(now.text("numDocumento")) == unhyphened(was.text("numDocumento"))
}

// fits tells whether what is left of an origin covers the note or retorno. A debit note adds to its original.
func (d *document) fits(o *record) *refusal {
	if d.tipo == "06" {
		return nil
	}
	original, code := o.read(), o.code()
	for _, b := range balances(o.tipo) {
		left := original.root.object("resumen").number(b.total)
		if o.tipo == "01" && d.tipo == "05" {
			left = times(left, 100, 113) // the note's prices are without VAT
		}
		for _, a := range o.active() {
			switch {
			case a.tipo == "06" && d.tipo == "05":
				left = add(left, a.read().share(code, b.column))
			case a.tipo == d.tipo:
				left = sub(left, a.read().share(code, b.column))
			}
		}
		if rounded(d.share(code, b.column), 2).Cmp(add(rounded(left, 2), cent)) > 0 {
			return exceeded("resumen." + b.sum)
		}
	}
	if d.tipo == "18" {
		return d.counted(o)
	}
	return nil
}

// balance is an amount that may be taken back: a column of the items, the total of the original that bounds it, and
// the field of the note's or retorno's summary that MH names.
type balance struct{ column, total, sum string }

func balances(tipo string) []balance {
	switch tipo {
	case "07":
		return []balance{{"ivaRete", "totalIvaRetenido", "ivaRete"}}
	case "14":
		return []balance{{"compra", "totalCompra", "totalCompraExcluidos"}}
	}
	return []balance{
		{"ventaGravada", "totalGravada", "totalGravada"},
		{"ventaExenta", "totalExenta", "totalExenta"},
		{"ventaNoSuj", "totalNoSuj", "totalNoSuj"},
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

// counted holds the quantities of a retorno to those sold. Its items carry numbers of their own, so that an item is
// the one sold when code, description, price and kind agree.
func (d *document) counted(o *record) *refusal {
	code, left := o.code(), make(map[string]*big.Rat)
	for _, it := range o.read().root.objects("cuerpoDocumento") {
		if left[thing(it)] == nil {
			left[thing(it)] = new(big.Rat)
		}
		left[thing(it)].Add(left[thing(it)], it.number("cantidad"))
	}
	take := func(it object) *big.Rat {
		rest := left[thing(it)]
		if rest == nil {
			return nil
		}
		return rest.Sub(rest, it.number("cantidad"))
	}
	for _, a := range o.active() {
		for _, it := range a.read().root.objects("cuerpoDocumento") {
			if a.tipo == "18" && it.text("codigoGeneracion") == code {
				take(it)
			}
		}
	}
	for i, it := range d.root.objects("cuerpoDocumento") {
		if it.text("codigoGeneracion") != code {
			continue
		}
		switch rest := take(it); {
		case rest == nil:
			return notAllowed("cuerpoDocumento.descripcion", item(i+1, "no figura en el documento relacionado"))
		case rest.Sign() < 0:
			return notAllowed("cuerpoDocumento.cantidad", item(i+1, "cantidad mayor que la del documento relacionado"))
		}
	}
	return nil
}

func thing(it object) string {
	return strings.Join([]string{it.text("codigo"), it.text("descripcion"), it.number("precioUni").RatString(),
		fmt.Sprint(it.integer("tipoItem"))}, "\x00")
}
