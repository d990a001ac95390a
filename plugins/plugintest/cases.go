package plugintest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"dtegate/engine/dte"
	"dtegate/rules/abi"
)

// Evaluate is a rule called natively.
type Evaluate func(in *abi.Input, out *abi.Output)

// Case is one random document: the module's input, and the same document as facts.
type Case struct {
	In    abi.Input
	Facts dte.Value
}

// Random makes a document that the rule accepts: 1 to most lines with 8 decimals, discounts, exempt and non-subject
// lines, taxes by the gallon, charges outside the tax base, global discounts, retention. Every fourth document has
// exact halves.
func Random(rng *rand.Rand, d *abi.Description, params []int64, evaluate Evaluate, most int) Case {
	g := generator{Rand: rng, d: d, params: params, ties: rng.IntN(4) == 0}
	c := Case{In: abi.Input{Params: params, Scalars: make([]int64, len(d.Scalars)), N: 1 + rng.IntN(most)}}
	if rng.IntN(12) > 0 {
		c.In.N = 1 + rng.IntN(min(12, most))
	}
	if g.ties {
		c.In.N = 1 + rng.IntN(min(3, most))
	}
	for i := range c.In.Scalars {
		c.In.Scalars[i] = abi.Absent
	}
	g.set(&c.In, "receptor.numDocumento", 1)
	g.set(&c.In, "origen.tipoDte", 1) // a tax credit voucher
	for i := range c.In.N {
		c.In.Lines = append(c.In.Lines, g.line(i)...)
	}
	var out abi.Output
	evaluate(&c.In, &out)
	if len(out.Faults) > 0 {
		panic(fmt.Sprintf("a random document is refused: %+v: %s", out.Faults, d.Faults[out.Faults[0].Code].Code))
	}
	for scalar, total := range map[string]string{"descuentoGlobal.gravada": "totalGravada", "descuentoGlobal.exenta": "totalExenta", "descuentoGlobal.noSujeta": "totalNoSuj"} {
		if n := out.Summary[slices.Index(d.Summary, total)] / cent; n > 0 && rng.IntN(3) == 0 {
			discount := rng.Int64N(n)
			if g.ties {
				discount -= discount % 113 // the VAT inside the discount is whole cents: halves stay halves
			}
			g.set(&c.In, scalar, discount*cent) // less than the total, as the previous generation requires
		}
	}
	switch rng.IntN(4) {
	case 0:
		g.set(&c.In, "isRetenIva", 1)
	case 1:
		g.set(&c.In, "isPerciIva", 1) // only some rules read it
	}
	c.Facts = g.facts(&c.In)
	return c
}

const cent = dte.Scale / 100

type generator struct {
	*rand.Rand
	d      *abi.Description
	params []int64
	ties   bool // amounts are exact halves
}

// param returns a parameter of the bundle, or the value otherwise if the rule has no parameter of that name.
func (g generator) param(name string, otherwise int64) int64 {
	if i := slices.IndexFunc(g.d.Params, func(p abi.Param) bool { return p.Name == name }); i >= 0 {
		return g.params[i]
	}
	return otherwise
}

// note reports whether the rule computes notes, which name the type of an original.
func (g generator) note() bool {
	return slices.ContainsFunc(g.d.Scalars, func(f abi.Field) bool { return f.Name == "origen.tipoDte" })
}

func (g generator) set(in *abi.Input, scalar string, n int64) {
	if i := slices.IndexFunc(g.d.Scalars, func(f abi.Field) bool { return f.Name == scalar }); i >= 0 {
		in.Scalars[i] = n
	}
}

// amount is a number of random size and precision, from 1e-8 to 10^digits.
func (g generator) amount(digits int) int64 {
	n := 1 + g.Int64N(9)
	for range g.IntN(8 + digits) {
		n = n*10 + g.Int64N(10)
	}
	if g.IntN(3) == 0 { // often whole cents, as in a shop
		n = max(1, n/cent) * cent
	}
	return n
}

func (g generator) line(i int) []int64 {
	row := make([]int64, len(g.d.Columns))
	put := func(name string, n int64) {
		row[slices.IndexFunc(g.d.Columns, func(f abi.Field) bool { return f.Name == name })] = n
	}
	for _, name := range []string{"montoDescu", "noGravado"} {
		put(name, abi.Absent)
	}
	quantity, price := g.amount(3), g.amount(3)
	if i == 0 { // at least one line is sold
		quantity, price = quantity+dte.Scale, price+dte.Scale
	}
	if g.ties {
		quantity, price = g.tie()
	}
	put("tipoItem", 1)
	put("uniMedida", 59)
	kind := g.IntN(8)
	if g.ties && g.IntN(2) == 0 {
		kind = 7 // a plain line
	}
	switch {
	case i > 0 && kind == 0 && g.param("noGravado", dte.Scale) != 0: // outside the tax base
		put("cantidad", dte.Scale)
		put("precioUni", 0)
		put("uniMedida", 99)
		put("noGravado", (g.Int64N(2000)-1000)*cent|1*cent)
		return row
	case kind == 1: // a tax line of section 2
		quantity = dte.Scale
		put("tipoItem", 4)
		put("uniMedida", 99)
		put("codTributo", 1+g.Int64N(4))
	case kind == 2: // fuel; the amount must not round to zero
		quantity, price = quantity+dte.Scale, price+dte.Scale
		put("uniMedida", 22)
		set := g.d.Columns[slices.IndexFunc(g.d.Columns, func(f abi.Field) bool { return f.Name == "tributos" })].Values
		put("tributos", 1<<slices.Index(set, "D1")|1<<slices.Index(set, "C8"))
	case kind == 3:
		put("tipoImpuesto", 1)
	case kind == 4:
		put("tipoImpuesto", 2)
	}
	put("cantidad", quantity)
	put("precioUni", price)
	gross := int64(1)
	if q, p := quantity/10_000, price/10_000; q > 0 && p > 0 { // a safe part of the line's amount
		gross = q * p
	}
	if g.ties && kind != 1 && g.IntN(3) == 0 {
		put("montoDescu", []int64{cent, cent / 2, 50 * cent}[g.IntN(3)])
	} else if i > 0 && kind != 1 && g.IntN(3) == 0 && gross > 1 { // a tax has no discount; the first line keeps its amount, so that the total is not 0
		put("montoDescu", g.Int64N(gross))
	}
	return row
}

// facts returns the input in the form of facts.
func (g generator) facts(in *abi.Input) dte.Value {
	var lines []dte.Value
	for i := range in.N {
		members := []dte.Member{{Name: "numItem", Value: dte.Int(int64(i + 1))}, {Name: "descripcion", Value: dte.Str("Artículo \"ñ\"")}}
		for c, f := range g.d.Columns {
			if v := value(f, in.Lines[i*len(g.d.Columns)+c]); v.Exists() {
				members = append(members, dte.Member{Name: f.Name, Value: v})
			}
		}
		if g.note() {
			members = append(members, dte.Member{Name: "numeroDocumento", Value: dte.Str(original)})
		}
		lines = append(lines, dte.Obj(members...))
	}
	address := dte.Obj(dte.Member{Name: "departamento", Value: dte.Str("06")}, dte.Member{Name: "municipio", Value: dte.Str("23")},
		dte.Member{Name: "distrito", Value: dte.Str("14")}, dte.Member{Name: "complemento", Value: dte.Str("Calle Arce")})
	texts := func(pairs ...string) []dte.Member {
		var m []dte.Member
		for i := 0; i < len(pairs); i += 2 {
			m = append(m, dte.Member{Name: pairs[i], Value: dte.Str(pairs[i+1])})
		}
		return append(m, dte.Member{Name: "direccion", Value: address})
	}
	facts := dte.Obj(
		dte.Member{Name: "identificacion", Value: dte.Obj(append([]dte.Member{{Name: "tipoModelo", Value: dte.Int(1)}, {Name: "tipoOperacion", Value: dte.Int(1)}},
			texts("ambiente", "00", "numeroControl", "DTE-"+g.d.Name[3:]+"-M001P001-000000000000001", "codigoGeneracion", "FF84E5DB-79C5-42CE-B415-EC510C53EFB5",
				"fecEmi", "2026-12-02", "horEmi", "10:15:30", "tipoMoneda", "USD")...)...)},
		dte.Member{Name: "emisor", Value: dte.Obj(texts("nit", "06141804941035", "nrc", "2390516", "nombre", "Tienda", "codActividad", "47111",
			"tipoEstablecimiento", "02", "descActividad", "Venta en supermercados", "telefono", "22571234", "correo", "a@example.com", "codEstable", "M001", "codPuntoVenta", "P001")...)},
		dte.Member{Name: "receptor", Value: dte.Obj(texts("tipoDocumento", "36", "numDocumento", "06140202801028", "nit", "06140202801028", "nrc", "7654321",
			"nombre", "Receptor", "codActividad", "62010", "descActividad", "Programación informática", "correo", "b@example.com")...)},
		dte.Member{Name: "cuerpoDocumento", Value: dte.Arr(lines...)},
		dte.Member{Name: "resumen", Value: dte.Obj(dte.Member{Name: "condicionOperacion", Value: dte.Int(1)},
			dte.Member{Name: "pagos", Value: dte.Arr(dte.Obj(dte.Member{Name: "codigo", Value: dte.Str("01")}))})})
	var discounts []dte.Member
	for i, f := range g.d.Scalars {
		if name, ok := strings.CutPrefix(f.Name, "descuentoGlobal."); ok && in.Scalars[i] != abi.Absent {
			discounts = append(discounts, dte.Member{Name: name, Value: dte.Num(dte.Amount(in.Scalars[i]))})
		}
	}
	if len(discounts) > 0 {
		facts = facts.With("descuentoGlobal", dte.Obj(discounts...))
	}
	if !g.note() {
		return facts
	}
	related := dte.Obj(dte.Member{Name: "tipoDocumento", Value: dte.Str("03")}, dte.Member{Name: "tipoGeneracion", Value: dte.Int(2)},
		dte.Member{Name: "numeroDocumento", Value: dte.Str(original)}, dte.Member{Name: "fechaEmision", Value: dte.Str("2026-12-01")})
	return facts.With("documentoRelacionado", dte.Arr(related))
}

const original = "80EFD719-7411-451A-A53E-AD4F09C8DF56" // the document that notes name

func value(f abi.Field, n int64) dte.Value {
	switch {
	case n == abi.Absent:
		return dte.Value{}
	case f.Kind == "amount":
		return dte.Num(dte.Amount(n))
	case f.Kind == "integer":
		return dte.Int(n)
	case f.Kind == "enum" && n > 0:
		return dte.Str(f.Values[n])
	}
	return dte.Value{}
}

// Ordinary is a shop's sale, for benchmarks: whole quantities, prices in cents, a discount now and then.
func Ordinary(rng *rand.Rand, d *abi.Description, params []int64, lines int) abi.Input {
	g := generator{Rand: rng, d: d, params: params}
	in := abi.Input{Params: params, Scalars: make([]int64, len(d.Scalars)), N: lines}
	for i := range in.Scalars {
		in.Scalars[i] = abi.Absent
	}
	g.set(&in, "receptor.numDocumento", 1)
	g.set(&in, "origen.tipoDte", 1)
	for i := range lines {
		for _, f := range d.Columns {
			n := int64(abi.Absent)
			switch {
			case f.Name == "cantidad":
				n = (1 + rng.Int64N(12)) * dte.Scale
			case f.Name == "precioUni":
				n = (100 + rng.Int64N(20_000)) * cent
			case f.Name == "montoDescu" && i%5 == 4:
				n = (1 + rng.Int64N(50)) * cent
			case f.Name == "tipoItem":
				n = 1
			case f.Name == "uniMedida":
				n = 59
			case f.Kind == "enum" || f.Kind == "set":
				n = 0
			}
			in.Lines = append(in.Lines, n)
		}
	}
	return in
}
