package document

import (
	"cmp"
	"fmt"
	"math/big"
)

// Fits refuses a note or retorno that exceeds what remains of its original. l is the law of the original; before are
// the earlier notes and retornos. A debit note increases what remains.
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
	if r := d.besideSales(original, before); r != nil || d.Tipo != "18" {
		return r
	}
	return d.counted(original, before)
}

// besideSales checks what a note or retorno gives back beside the sold amounts. MH publishes no such check, but nobody
// can give back more than was charged.
func (d *Document) besideSales(original *Document, before []*Document) *Refusal {
	left := original.beside("")
	for _, a := range append(before[:len(before):len(before)], d) {
		for field, amount := range a.beside(original.Code) {
			if was := cmp.Or(left[field], zero); a.Tipo == "06" {
				left[field] = add(was, amount)
			} else {
				left[field] = sub(was, amount)
			}
		}
	}
	for field := range d.beside(original.Code) {
		if left[field].Sign() < 0 {
			return exceeded("resumen." + field)
		}
	}
	return nil
}

// beside returns the charges outside the tax base, and each tax but VAT, which is a share of the sold amounts. of is
// the code of the original of a note or retorno, or "". Taxes are rounded: an original's tax counts half a cent more, a
// note's half a cent less. If a note has several originals, its taxes count for none of them.
func (d *Document) beside(of string) map[string]*big.Rat {
	charged, half := new(big.Rat), big.NewRat(1, 200)
	if of != "" {
		charged, half = floored(d.share(of, "noGravado")), half.Neg(half)
	}
	for _, it := range d.Root.Objects("cuerpoDocumento") {
		if of == "" {
			charged.Add(charged, floored(it.number("noGravado")))
		}
	}
	all := map[string]*big.Rat{"totalNoGravado": charged}
	for _, t := range d.Root.Object("resumen").Objects("tributos") {
		if code := t.Text("codigo"); code != "20" && (of == "" || len(d.Root.Objects("documentoRelacionado")) == 1) {
			all[code] = floored(add(t.number("valor"), half))
		}
	}
	return all
}

// gross returns the factor that makes a column of a note or retorno comparable with its original, which has the type
// original and the law l: prices of an invoice include VAT, prices of a note do not.
func (d *Document) gross(original, column string, l Law) *big.Rat {
	if original == "01" && d.Tipo != "18" && column == "ventaGravada" {
		return l.gross()
	}
	return one
}

// balance names an amount that may be taken back: the column of the items, the original's total that bounds it, the
// global discount to subtract (a note has it in its lines, MF2 p.48), and the summary's field in MH's refusal.
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

// counted checks that a retorno returns no more than was sold. Its items have their own numbers, codes and
// descriptions; therefore items of one kind and price are counted together. For an item with another price, such as a
// service returned in part, only the amounts are checked.
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
			if rest == nil || it.Text("codigoGeneracion") != original.Code { // only a retorno has one
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
