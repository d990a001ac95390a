package tilltest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Request is a till's request as a tree: objects are map[string]any, lists []any, numbers json.Number, so that a
// literal stays as it is.
type Request = map[string]any

// Generator makes random requests. The same seed and the same answers give the same requests.
type Generator struct {
	*chance
	// Day is today, yyyy-mm-dd. Returns: the day's generation of schemas has withholding vouchers and returns.
	Day     string
	Returns bool

	credits, invoices, purchases []*Issued // what notes and returns may refer to
}

// Issued is a document that MH has sealed, with the request for it.
type Issued struct {
	Code    string
	Tipo    string
	Asked   Request
	Retains bool
}

// NewGenerator makes a generator.
func NewGenerator(seed uint64, day string, returns bool) *Generator {
	return &Generator{chance: &chance{rand.New(rand.NewPCG(seed, 18))}, Day: day, Returns: returns}
}

// items are lines of a sale of one type.
func (g *Generator) items(tipo string) []any {
	var list []any
	for range pick(g.chance, 1, 1, 2, 3, 5, 8) {
		it := Request{"descripcion": g.text(), "cantidad": g.positive(8), "precioUnitario": g.number(8)}
		switch {
		case tipo == "14":
			if g.often(50) {
				it["tipoItem"] = json.Number("2")
			}
		case g.often(15): // a charge outside the tax base
			it = Request{"descripcion": g.text(), "cantidad": json.Number("1"), "precioUnitario": json.Number("0"),
				"uniMedida": json.Number("99"), "noGravado": pick(g.chance, "2.5", "-0.01", "0.005", "10", "-3")}
			it["noGravado"] = json.Number(it["noGravado"].(string))
			if g.often(20) {
				delete(it, "uniMedida")
			}
		case g.often(10): // a tax as a line
			it = Request{"descripcion": g.text(), "cantidad": json.Number("1"), "precioUnitario": g.positive(8),
				"uniMedida": json.Number("99"),
				"tipoItem":  json.Number("4"), "codTributo": pick(g.chance, "A8", "57", "90", "A6")}
		case g.often(10): // fuel
			it["uniMedida"], it["tributos"] = json.Number("22"), []any{"D1", "C8"}
		case g.often(8):
			it["tributos"] = []any{pick(g.chance, "59", "71")}
		case g.often(25):
			it["tipoImpuesto"] = pick(g.chance, "GRAVADO", "EXENTO", "NO_SUJETO")
		}
		if _, special := it["tipoItem"]; g.often(25) && (!special || tipo == "14") && it["noGravado"] == nil {
			it["montoDescu"] = pick(g.chance, json.Number("0"), json.Number("0.01"), json.Number("0.005"),
				it["precioUnitario"].(json.Number), json.Number("0.00000001"))
		}
		if g.often(20) {
			it["codigo"] = "SKU-" + g.digits(4)
		}
		list = append(list, it)
	}
	return list
}

// pays gives a sale its condition and its payment.
func (g *Generator) pays(r Request) {
	switch {
	case g.often(60):
		r["condicionOperacion"] = json.Number("1")
		if g.often(50) {
			r["pago"] = Request{"codigo": pick(g.chance, "01", "02", "05", "11")}
			if g.often(30) {
				r["pago"].(Request)["referencia"] = "REF-" + g.digits(4)
			}
		}
	default:
		r["condicionOperacion"] = pick(g.chance, json.Number("2"), json.Number("3"))
		r["pago"] = Request{"codigo": pick(g.chance, "01", "13"), "plazo": pick(g.chance, "01", "02", "03"),
			"periodo": json.Number("30")}
	}
}

// Valid is a request that a till might well send, with its endpoint.
func (g *Generator) Valid() (path, tipo string, r Request) {
	for {
		switch tipo := pick(g.chance, "01", "01", "01", "03", "03", "05", "06", "07", "14", "18", "18"); {
		case tipo == "07" && g.Returns:
			return "dte07", tipo, g.withholdings()
		case tipo == "18" && g.Returns:
			if r := g.returns(); r != nil {
				return "retorno", tipo, r
			}
		case tipo == "05" || tipo == "06":
			if r := g.note(tipo); r != nil {
				return "dte" + tipo, tipo, r
			}
		case tipo == "01" || tipo == "03" || tipo == "14":
			return "dte" + tipo, tipo, g.sale(tipo)
		}
	}
}

func (g *Generator) sale(tipo string) Request {
	r := Request{"items": g.items(tipo)}
	g.pays(r)
	switch tipo {
	case "01":
		r["receptor"] = g.consumer()
	case "03":
		r["receptor"] = g.taxpayer()
		if g.often(30) {
			r[pick(g.chance, "isRetenIva", "isRetenIva", "isPerciIva")] = true
		}
	case "14":
		person := g.taxpayer()
		delete(person, "nit")
		delete(person, "nrc")
		g.identify(person)
		r[pick(g.chance, "sujetoExcluido", "receptor")] = person
		r["applyrent"] = g.often(50)
	}
	if g.often(15) {
		if tipo == "14" {
			r["descuentoGlobal"] = Request{"compra": g.number(2)}
		} else {
			r["descuentoGlobal"] = Request{pick(g.chance, "gravada", "exenta", "noSujeta"): pick(g.chance, g.number(2),
				json.Number("0.01"))}
		}
	}
	if g.often(20) {
		r["observaciones"] = pick(g.chance, "Entregar por la tarde", "Línea uno\nLínea dos")
	}
	return r
}

func (g *Generator) withholdings() Request {
	r := Request{"receptor": g.taxpayer()}
	var lines []any
	client := g.often(30)
	for i := range pick(g.chance, 1, 1, 2, 4) {
		amount := g.positive(2)
		code := pick(g.chance, "22", "22", "C4", "C9")
		kept := withheld(string(amount), code)
		number := pick(g.chance, "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F", "S221001345")
		kind := json.Number("1")
		if len(number) == 36 {
			kind = "2"
		}
		if client {
			lines = append(lines, Request{"tipoDocRelacionado": "03", "numDocRelacionado": number,
				"fechaDocRelacionado":  g.Day,
				"montoSujetoRetencion": amount, "codigoRetencion": code, "montoRetenido": kept})
			continue
		}
		lines = append(lines, Request{"numItem": json.Number(fmt.Sprint(i + 1)), "tipoDte": pick(g.chance, "03", "01",
			"14"), "tipoGeneracion": kind, "numDocumento": number,
			"fechaEmision": g.Day, "montoSujetoGrav": amount, "codigoRetencionMH": code, "ivaRetenido": kept,
			"descripcion": g.text()})
	}
	r[map[bool]string{true: "items", false: "cuerpoDocumento"}[client]] = lines
	return r
}

func (g *Generator) note(tipo string) Request {
	if len(g.credits) == 0 {
		return nil
	}
	o := pick(g.chance, g.credits...)
	r := Request{"items": g.items("03"), "condicionOperacion": json.Number("1")}
	if tipo == "05" && g.often(70) { // a small part of what was sold
		r["items"] = []any{Request{"descripcion": g.text(), "cantidad": json.Number("1"),
			"precioUnitario": pick(g.chance, json.Number("0.01"), json.Number("0.005"), json.Number("1"))}}
	}
	if g.often(30) {
		r["documentoRelacionado"] = Request{"codigoGeneracion": o.Code, "tipoDte": o.Tipo, "fechaEmision": g.Day}
	} else {
		r["codigoGeneracion"] = o.Code
	}
	if receptor, ok := o.Asked["receptor"].(Request); ok && g.often(40) {
		r["receptor"] = receptor
	}
	if g.often(30) {
		r["motivo"] = "Producto dañado"
	}
	return r
}

func (g *Generator) returns() Request {
	from := g.invoices
	if len(g.purchases) > 0 && g.often(30) {
		from = g.purchases
	}
	if len(from) == 0 {
		return nil
	}
	o := pick(g.chance, from...)
	sold := o.Asked["items"].([]any)
	r := Request{"documentoOrigen": o.Code, "motivo": "El empaque venía abierto"}
	var items []any
	for _, i := range g.rng.Perm(len(sold))[:1+g.rng.IntN(len(sold))] {
		had := sold[i].(Request)["cantidad"].(json.Number)
		n := pick(g.chance, had, had, json.Number("1"), json.Number("0.5"), json.Number("0.00000001"),
			json.Number("0.33333333"))
		items = append(items, Request{"numItem": json.Number(fmt.Sprint(i + 1)), "cantidadRetorno": n})
	}
	r["items"] = items
	return r
}

// Sealed gives the generator a document that notes and returns may refer to.
func (g *Generator) Sealed(code, tipo string, asked Request) {
	o := &Issued{Code: code, Tipo: tipo, Asked: asked}
	switch list := map[string]*[]*Issued{"01": &g.invoices, "03": &g.credits, "14": &g.purchases}[tipo]; {
	case list == nil:
	case len(*list) < 30:
		*list = append(*list, o)
	default:
		(*list)[g.rng.IntN(len(*list))] = o
	}
}
