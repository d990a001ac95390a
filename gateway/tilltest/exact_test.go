package tilltest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// exact compares the amounts of an answered document with the till's request, in exact fractions that share no code
// with the product: the quantity, price and amount of each line, the sums of the columns, the discount on the whole,
// and the total to pay. Taxes, retention and perception are taken from the document: the simulator computes them.
func (c *campaign) exact(q asked, a Answer) {
	lines, known := q.tree["items"].([]any)
	if !known || q.tipo == "07" || q.tipo == "18" {
		return
	}
	var d struct {
		CuerpoDocumento []map[string]any
		Resumen         map[string]any
	}
	decoder := json.NewDecoder(strings.NewReader(a.Document))
	decoder.UseNumber()
	if err := decoder.Decode(&d); err != nil || len(d.CuerpoDocumento) != len(lines) {
		c.fail(q, a, fmt.Sprintf("it has %d lines, %v", len(d.CuerpoDocumento), err))
		return
	}
	is := func(what string, got, want *big.Rat) {
		if got.Cmp(want) != 0 {
			c.fail(q, a, fmt.Sprintf("%s is %s, exactly %s", what, got.FloatString(8), want.FloatString(10)))
		}
	}
	sums := make(map[string]*big.Rat)
	for i, line := range d.CuerpoDocumento {
		said := lines[i].(Request)
		at := fmt.Sprintf("line %d: ", i+1)
		is(at+"cantidad", rat(line["cantidad"]), rat(said["cantidad"]))
		is(at+"precioUni", rat(line["precioUni"]), rat(said["precioUnitario"]))
		is(at+"montoDescu", rat(line["montoDescu"]), rat(said["montoDescu"]))
		is(at+"noGravado", rat(line["noGravado"]), rat(said["noGravado"]))
		sold := new(big.Rat)
		for _, column := range []string{"ventaNoSuj", "ventaExenta", "ventaGravada", "compra", "noGravado"} {
			n := rat(line[column])
			if sums[column] == nil {
				sums[column] = new(big.Rat)
			}
			sums[column].Add(sums[column], n)
			if column != "noGravado" {
				sold.Add(sold, n)
			}
		}
		want := new(big.Rat).Mul(rat(said["cantidad"]), rat(said["precioUnitario"]))
		if want.Sub(want, rat(said["montoDescu"])); want.Sign() < 0 { // a discount of 1e-8 on a price of half of that
			want.SetInt64(0)
		}
		is(at+"sale", sold, rounded(want, 8))
	}
	paid := new(big.Rat)
	for column, total := range map[string]string{"ventaNoSuj": "totalNoSuj", "ventaExenta": "totalExenta",
		"ventaGravada": "totalGravada", "compra": "totalCompra"} {
		is(total, rat(d.Resumen[total]), rounded(sums[column], 2))
		paid.Add(paid, rat(d.Resumen[total]))
	}
	discount, _ := q.tree["descuentoGlobal"].(Request)
	for asked, name := range map[string]string{"gravada": "descuGravada", "exenta": "descuExenta",
		"noSujeta": "descuNoSuj", "compra": "descu"} {
		is(name, rat(d.Resumen[name]), rounded(rat(discount[asked]), 2))
		paid.Sub(paid, rat(d.Resumen[name]))
	}
	taxes, _ := d.Resumen["tributos"].([]any)
	for _, tax := range taxes {
		paid.Add(paid, rat(tax.(map[string]any)["valor"]))
	}
	paid.Add(paid, rounded(sums["noGravado"], 2))
	if _, note := d.Resumen["totalPagar"]; !note && q.tipo != "14" { // of a note: before retention and perception
		is("montoTotalOperacion", rat(d.Resumen["montoTotalOperacion"]), paid)
	}
	for name, sign := range map[string]int64{"ivaPerci": 1, "ivaPerci1": 1, "ivaRete": -1, "ivaRete1": -1,
		"reteRenta": -1} {
		paid.Add(paid, new(big.Rat).Mul(big.NewRat(sign, 1), rat(d.Resumen[name])))
	}
	if paid.Sign() < 0 { // nothing is to be paid, and the rest is the customer's
		if said, has := d.Resumen["saldoFavor"]; has { // a note has none
			is("saldoFavor", rat(said), paid)
		}
		paid = new(big.Rat)
	}
	if said, has := d.Resumen["totalPagar"]; has {
		is("totalPagar", rat(said), paid)
	}
	is("the answer's total", rat(json.Number(a.Total)), paid)
	c.compared++
}

// rat is a number of a request or a document; 0 when it is not there.
func rat(v any) *big.Rat {
	n, _ := v.(json.Number)
	if r, ok := new(big.Rat).SetString(string(n)); ok {
		return r
	}
	return new(big.Rat)
}

// rounded is a number to so many decimals, a half away from zero.
func rounded(r *big.Rat, decimals int64) *big.Rat {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(decimals), nil)
	twice := new(big.Rat).Mul(new(big.Rat).Abs(r), new(big.Rat).SetInt(new(big.Int).Mul(scale, big.NewInt(2))))
	n := new(big.Int).Quo(twice.Num(), twice.Denom())
	n.Add(n, big.NewInt(1)).Rsh(n, 1)
	return new(big.Rat).SetFrac(n.Mul(n, big.NewInt(int64(r.Sign()))), scale)
}
