package document

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Tolerances (MF2 pp.52-54): one cent on every amount, lines included.
var (
	cent = big.NewRat(1, 100)
	// looseLine is the largest error of a sealed line of the previous generation (observed once in 68).
	looseLine = big.NewRat(3, 100)
	zero      = new(big.Rat)
	one       = big.NewRat(1, 1)
)

// rounded rounds to the given decimals; halves round away from zero.
func rounded(r *big.Rat, decimals int) *big.Rat {
	text, ok := new(big.Rat).SetString(r.FloatString(decimals)) // FloatString rounds halves away from zero
	if !ok {
		panic("simulator: FloatString wrote no number")
	}
	return text
}

// near reports whether two amounts differ by at most a cent.
func near(a, b *big.Rat) bool { return within(a, b, cent) }

func within(a, b, most *big.Rat) bool {
	diff := new(big.Rat).Sub(a, b)
	return diff.Abs(diff).Cmp(most) <= 0
}

func add(values ...*big.Rat) *big.Rat {
	total := new(big.Rat)
	for _, v := range values {
		total.Add(total, v)
	}
	return total
}

func sub(a *big.Rat, values ...*big.Rat) *big.Rat {
	total := new(big.Rat).Set(a)
	for _, v := range values {
		total.Sub(total, v)
	}
	return total
}

// sales are the three columns of a sale's items; each item fills one column.
var sales = []string{"ventaNoSuj", "ventaExenta", "ventaGravada"}

// columns returns the amount columns that the document's items have.
func (d *Document) columns() []string {
	switch d.Tipo {
	case "11":
		return []string{"ventaGravada"}
	case "14":
		return []string{"compra"}
	case "18":
		return append(slices.Clone(sales), "compra")
	}
	return sales
}

// itemised checks each item by itself: catalogues, the line amount, the special kinds of line.
func itemised(d *Document) *Refusal {
	items := d.Root.Objects("cuerpoDocumento")
	columns, tolerance := d.columns(), cent
	if d.Previous {
		tolerance = looseLine
	}
	sold := false
	for i, it := range items {
		n := i + 1
		if r := d.catalogued(it, n); r != nil {
			return r
		}
		if r := d.levies(it, n); r != nil {
			return r
		}
		if it.number("noGravado").Sign() != 0 {
			if r := untaxed(it, columns, n); r != nil {
				return r
			}
			continue
		}
		column, r := oneColumn(it, columns, n)
		if r != nil {
			return r
		}
		if d.adjustsWithholding(it) {
			if it.number(column).Sign() != 0 { // its amounts are in totalIva and ivaRete
				return NotAllowed("cuerpoDocumento."+column, item(n, column))
			}
			sold = true
			continue
		}
		// MF2 p.45: montoDescu is the discount of the whole line.
		want := rounded(sub(new(big.Rat).Mul(it.number("precioUni"), it.number("cantidad")), it.number("montoDescu")),
			8)
		if got := it.number(column); !within(want, got, tolerance) {
			return miscalculated("cuerpoDocumento."+column,
				item(n, fmt.Sprintf("%s CALCULO INCORRECTO, se esperaba %s", column, want.FloatString(8))))
		}
		sold = sold || it.number(column).Sign() > 0
	}
	for _, it := range items {
		if it.number("noGravado").Sign() != 0 && !sold {
			return NotAllowed("cuerpoDocumento.noGravado") // MF2 p.30: another line must be above zero
		}
	}
	return nil
}

// catalogued checks the codes of the n-th item (CAT-011, 014, 015).
func (d *Document) catalogued(it Object, n int) *Refusal {
	kind, unit := it.Integer("tipoItem"), it.Integer("uniMedida")
	_, ofPurchase := it["compra"]
	_, taxable := it["codTributo"]
	if _, stated := it["tipoItem"]; !stated {
		kind = 1 // an 11 before DTE 2.0 may omit it
	}
	if kind < 1 || kind > taxItem || kind == taxItem && ofPurchase && !taxable { // a purchase (14) has no tax items
		return NotAllowed("cuerpoDocumento.tipoItem", item(n, "tipoItem"))
	}
	// An 18 may omit uniMedida.
	if _, stated := it["uniMedida"]; stated && !d.law.lists("CAT-014", units, fmt.Sprint(unit)) {
		return NotAllowed("cuerpoDocumento.uniMedida", item(n, "uniMedida"))
	}
	for _, code := range it.texts("tributos") {
		if !d.law.lists("CAT-015", summaryTaxes, code) && !slices.Contains(informativeTaxes, code) {
			return NotAllowed("cuerpoDocumento.tributos", item(n, "tributos"))
		}
	}
	if kind != taxItem {
		if !it.Null("codTributo") {
			return NotAllowed("cuerpoDocumento.codTributo", item(n, "codTributo"))
		}
		return nil
	}
	// A tax as a separate item: ME field 70 and following.
	switch {
	case it.Null("codTributo"):
		return lacking("cuerpoDocumento.codTributo", item(n, "codTributo"))
	case !slices.Contains(bodyTaxes, it.Text("codTributo")):
		return NotAllowed("cuerpoDocumento.codTributo", item(n, "codTributo"))
	case unit != otherUnit:
		return NotAllowed("cuerpoDocumento.uniMedida", item(n, "uniMedida"))
	case it.number("cantidad").Cmp(one) != 0:
		return NotAllowed("cuerpoDocumento.cantidad", item(n, "cantidad"))
	}
	return nil
}

// untaxed checks a line of charges or credits outside the tax base (MF2 p.30). The price is 0.00 on p.30, but the
// example on p.47 repeats the amount; therefore both pass.
func untaxed(it Object, columns []string, n int) *Refusal {
	for _, column := range columns {
		if it.number(column).Sign() != 0 {
			return NotAllowed("cuerpoDocumento."+column, item(n, column))
		}
	}
	for _, other := range besides {
		if it.number(other).Sign() != 0 {
			return NotAllowed("cuerpoDocumento."+other, item(n, other))
		}
	}
	price := it.number("precioUni")
	switch {
	case !it.Null("tributos"):
		return NotAllowed("cuerpoDocumento.tributos", item(n, "tributos"))
	case it.Integer("tipoItem") == taxItem: // p.30: goods, services or both
		return NotAllowed("cuerpoDocumento.tipoItem", item(n, "tipoItem"))
	case it.number("cantidad").Cmp(one) != 0:
		return NotAllowed("cuerpoDocumento.cantidad", item(n, "cantidad"))
	case it.Integer("uniMedida") != otherUnit:
		return NotAllowed("cuerpoDocumento.uniMedida", item(n, "uniMedida"))
	case price.Sign() != 0 && new(big.Rat).Abs(price).Cmp(new(big.Rat).Abs(it.number("noGravado"))) != 0:
		return miscalculated("cuerpoDocumento.precioUni", item(n, "precioUni"))
	}
	return nil
}

// oneColumn returns the only column that an item fills. For an item of amount zero, it returns the last column.
func oneColumn(it Object, columns []string, n int) (string, *Refusal) {
	used := ""
	for _, column := range columns {
		if it.number(column).Sign() == 0 {
			continue
		}
		if used != "" {
			return "", miscalculated("cuerpoDocumento."+column, item(n, "solo una de "+strings.Join(columns, ", ")))
		}
		used = column
	}
	if used == "" {
		used = columns[len(columns)-1]
	}
	return used, nil
}
