package document

import (
	"fmt"
	"math/big"
)

// Fits tells whether what is left of an original of law l covers the note or retorno; before are the notes and retornos
// that changed what is left. A debit note adds to its original.
func (d *Document) Fits(original *Document, before []*Document, l Law) *Refusal {
	if d.Tipo == "06" {
		return nil
	}
	for _, b := range balances(original.Tipo) {
		sum := original.Root.Object("resumen")
		left := sub(sum.number(b.total), sum.number(b.discount))
		for _, a := range before {
			amount := product(a.share(original.Code, b.column), a.gross(original.Tipo, b.column, l))
			if a.Tipo == "06" {
				left = add(left, amount)
			} else {
				left = sub(left, amount)
			}
		}
		left = new(big.Rat).Quo(left, d.gross(original.Tipo, b.column, l))
		if rounded(d.share(original.Code, b.column), 2).Cmp(add(rounded(left, 2), cent)) > 0 {
			return exceeded("resumen." + b.sum)
		}
	}
	if d.Tipo == "18" {
		return d.counted(original, before)
	}
	return nil
}

// gross is what a column of the note or retorno is to be multiplied by to compare it with its original, of a type and
// law l: an invoice has VAT in its prices, a note has not.
func (d *Document) gross(original, column string, l Law) *big.Rat {
	if original == "01" && d.Tipo != "18" && column == "ventaGravada" {
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

// share sums a column over the items that refer to one original document.
func (d *Document) share(code, column string) *big.Rat {
	total := new(big.Rat)
	for _, it := range d.Root.Objects("cuerpoDocumento") {
		if it.Text("numeroDocumento") == code || it.Text("codigoGeneracion") == code {
			total.Add(total, it.number(column))
		}
	}
	return total
}

// counted holds the quantities of a retorno to those sold. Its items carry numbers, codes and descriptions of their
// own, so that those of one kind and price count together; one at another price, a service given back in part, is held
// to the amounts alone.
func (d *Document) counted(original *Document, before []*Document) *Refusal {
	left := make(map[string]*big.Rat)
	for _, it := range original.Root.Objects("cuerpoDocumento") {
		if left[thing(it)] == nil {
			left[thing(it)] = new(big.Rat)
		}
		left[thing(it)].Add(left[thing(it)], it.number("cantidad"))
	}
	for _, r := range append(before, d) {
		for i, it := range r.Root.Objects("cuerpoDocumento") {
			rest := left[thing(it)]
			if rest == nil || it.Text("codigoGeneracion") != original.Code { // the latter is a retorno's
				continue
			}
			if rest.Sub(rest, it.number("cantidad")).Sign() < 0 && r == d {
				return NotAllowed("cuerpoDocumento.cantidad",
					item(i+1, "cantidad mayor que la del documento relacionado"))
			}
		}
	}
	return nil
}

func thing(it Object) string {
	return fmt.Sprint(it.Integer("tipoItem"), " ", it.number("precioUni").RatString())
}
