package tilltest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Request is a till's request as a tree: objects are map[string]any, lists []any, numbers json.Number, so that a literal
// stays as it is.
type Request = map[string]any

// Generator makes requests by chance. The same seed and the same answers give the same requests.
type Generator struct {
	rng *rand.Rand
	// Day is today, yyyy-mm-dd. Returns tells that the generation of the day has withholding vouchers and returns.
	Day     string
	Returns bool

	credits, invoices, purchases []*Issued // what notes and returns may refer to
}

// Issued is a document that MH has sealed, with what was asked of it.
type Issued struct {
	Code    string
	Tipo    string
	Asked   Request
	Retains bool
}

// NewGenerator makes a generator.
func NewGenerator(seed uint64, day string, returns bool) *Generator {
	return &Generator{rng: rand.New(rand.NewPCG(seed, 18)), Day: day, Returns: returns}
}

func pick[T any](g *Generator, list ...T) T { return list[g.rng.IntN(len(list))] }

// often is true n times in a hundred.
func (g *Generator) often(n int) bool { return g.rng.IntN(100) < n }

func (g *Generator) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + g.rng.IntN(10))
	}
	return string(b)
}

// number is a decimal with at most so many decimals, of the magnitudes and the ties that arithmetic trips over.
func (g *Generator) number(decimals int) json.Number {
	whole := pick(g, 0, 0, 1, 2, 3, 9, 10, 99, 999, g.rng.IntN(2000))
	fraction := pick(g, "0", "5", "005", "015", "125", "33333333", "66666667", "99999999", "00000001", "00500000", "00499999", "50000001", g.digits(2), g.digits(8))
	if len(fraction) > decimals {
		fraction = fraction[:decimals]
	}
	if fraction == "" {
		return json.Number(fmt.Sprint(whole))
	}
	return json.Number(fmt.Sprintf("%d.%s", whole, fraction))
}

// positive is a number above zero.
func (g *Generator) positive(decimals int) json.Number {
	for {
		n := g.number(decimals)
		if f, _ := n.Float64(); f > 0 {
			return n
		}
	}
}

func (g *Generator) text() string {
	return pick(g, "Café molido 1 lb", "Pan francés", "Tubería Ø 1/2\"", "Ñandú & Cía <S.A.>", "a", "Servicio técnico – visita", "日本茶", "Línea \\ diagonal")
}

// dui and taxNumber are identity numbers in one of the ways in which people write them.
func (g *Generator) dui() string {
	d := g.digits(9)
	return pick(g, d, d[:8]+"-"+d[8:], d[:8]+" "+d[8:])
}

func (g *Generator) taxNumber() string {
	if g.often(20) {
		return g.dui()
	}
	d := "0614" + g.digits(10)
	return pick(g, d, d[:4]+"-"+d[4:10]+"-"+d[10:13]+"-"+d[13:], " "+d+" ")
}

func (g *Generator) registry() string {
	d := g.digits(pick(g, 2, 6, 7, 8))
	return pick(g, d, d[:len(d)-1]+"-"+d[len(d)-1:])
}

// identify puts a kind and a number of an identity document (CAT-022) on a person.
func (g *Generator) identify(r Request) {
	switch kind := pick(g, "13", "13", "36", "37", "03", "02"); kind {
	case "13":
		r["tipoDocumento"], r["numDocumento"] = kind, g.dui()
	case "36":
		r["tipoDocumento"], r["numDocumento"] = kind, g.taxNumber()
	default:
		r["tipoDocumento"], r["numDocumento"] = kind, pick(g, "A"+g.digits(7), g.digits(6), "PA-"+g.digits(5))
	}
}

func (g *Generator) address() Request {
	return Request{"departamento": "05", "municipio": "28", "distrito": "11", "complemento": "Avenida Las Magnolias 2"}
}

func (g *Generator) reach(r Request) {
	if g.often(50) {
		r["correo"] = "compras@example.com"
	}
	if g.often(30) {
		r["telefono"] = pick(g, "22223333", "+503 2222-3333")
	}
}

func (g *Generator) consumer() Request {
	r := Request{}
	if g.often(80) {
		r["nombre"] = "Ana Morales"
	}
	if g.often(50) {
		g.identify(r)
	}
	if g.often(20) {
		r["direccion"] = g.address()
	}
	g.reach(r)
	return r
}

func (g *Generator) taxpayer() Request {
	n := g.taxNumber()
	r := Request{"tipoDocumento": "36", "numDocumento": n, "nit": n, "nombre": "Comercial El Roble, S.A. de C.V.", "nrc": g.registry(),
		"codActividad": "62010", "descActividad": "Programación informática", "direccion": g.address(), "telefono": "22223333", "correo": "compras@example.com"}
	if g.often(30) {
		r["nombreComercial"] = "El Roble"
	}
	return r
}

// items are lines of a sale of one type.
func (g *Generator) items(tipo string) []any {
	var list []any
	for range pick(g, 1, 1, 2, 3, 5, 8) {
		it := Request{"descripcion": g.text(), "cantidad": g.positive(8), "precioUnitario": g.number(8)}
		switch {
		case tipo == "14":
			if g.often(50) {
				it["tipoItem"] = json.Number("2")
			}
		case g.often(15): // a charge beside the tax base
			it = Request{"descripcion": g.text(), "cantidad": json.Number("1"), "precioUnitario": json.Number("0"), "uniMedida": json.Number("99"),
				"noGravado": pick(g, "2.5", "-0.01", "0.005", "10", "-3")}
			it["noGravado"] = json.Number(it["noGravado"].(string))
			if g.often(20) {
				delete(it, "uniMedida")
			}
		case g.often(10): // a tax as a line
			it = Request{"descripcion": g.text(), "cantidad": json.Number("1"), "precioUnitario": g.positive(8), "uniMedida": json.Number("99"),
				"tipoItem": json.Number("4"), "codTributo": pick(g, "A8", "57", "90", "A6")}
		case g.often(10): // fuel
			it["uniMedida"], it["tributos"] = json.Number("22"), []any{"D1", "C8"}
		case g.often(8):
			it["tributos"] = []any{pick(g, "59", "71")}
		case g.often(25):
			it["tipoImpuesto"] = pick(g, "GRAVADO", "EXENTO", "NO_SUJETO")
		}
		if _, special := it["tipoItem"]; g.often(25) && (!special || tipo == "14") && it["noGravado"] == nil {
			it["montoDescu"] = pick(g, json.Number("0"), json.Number("0.01"), json.Number("0.005"), it["precioUnitario"].(json.Number), json.Number("0.00000001"))
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
			r["pago"] = Request{"codigo": pick(g, "01", "02", "05", "11")}
			if g.often(30) {
				r["pago"].(Request)["referencia"] = "REF-" + g.digits(4)
			}
		}
	default:
		r["condicionOperacion"] = pick(g, json.Number("2"), json.Number("3"))
		r["pago"] = Request{"codigo": pick(g, "01", "13"), "plazo": pick(g, "01", "02", "03"), "periodo": json.Number("30")}
	}
}

// Valid is a request that a till might well send, with its endpoint.
func (g *Generator) Valid() (path, tipo string, r Request) {
	for {
		switch tipo := pick(g, "01", "01", "01", "03", "03", "05", "06", "07", "14", "18", "18"); {
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
			r[pick(g, "isRetenIva", "isRetenIva", "isPerciIva")] = true
		}
	case "14":
		person := g.taxpayer()
		delete(person, "nit")
		delete(person, "nrc")
		g.identify(person)
		r[pick(g, "sujetoExcluido", "receptor")] = person
		r["applyrent"] = g.often(50)
	}
	if g.often(15) {
		if tipo == "14" {
			r["descuentoGlobal"] = Request{"compra": g.number(2)}
		} else {
			r["descuentoGlobal"] = Request{pick(g, "gravada", "exenta", "noSujeta"): pick(g, g.number(2), json.Number("0.01"))}
		}
	}
	if g.often(20) {
		r["observaciones"] = pick(g, "Entregar por la tarde", "Línea uno\nLínea dos")
	}
	return r
}

func (g *Generator) withholdings() Request {
	r := Request{"receptor": g.taxpayer()}
	var lines []any
	client := g.often(30)
	for i := range pick(g, 1, 1, 2, 4) {
		amount := g.positive(2)
		code := pick(g, "22", "22", "C4", "C9")
		kept := withheld(string(amount), code)
		number := pick(g, "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F", "S221001345")
		kind := json.Number("1")
		if len(number) == 36 {
			kind = "2"
		}
		if client {
			lines = append(lines, Request{"tipoDocRelacionado": "03", "numDocRelacionado": number, "fechaDocRelacionado": g.Day,
				"montoSujetoRetencion": amount, "codigoRetencion": code, "montoRetenido": kept})
			continue
		}
		lines = append(lines, Request{"numItem": json.Number(fmt.Sprint(i + 1)), "tipoDte": pick(g, "03", "01", "14"), "tipoGeneracion": kind, "numDocumento": number,
			"fechaEmision": g.Day, "montoSujetoGrav": amount, "codigoRetencionMH": code, "ivaRetenido": kept, "descripcion": g.text()})
	}
	r[map[bool]string{true: "items", false: "cuerpoDocumento"}[client]] = lines
	return r
}

func (g *Generator) note(tipo string) Request {
	if len(g.credits) == 0 {
		return nil
	}
	o := pick(g, g.credits...)
	r := Request{"items": g.items("03"), "condicionOperacion": json.Number("1")}
	if tipo == "05" && g.often(70) { // little of what was sold
		r["items"] = []any{Request{"descripcion": g.text(), "cantidad": json.Number("1"), "precioUnitario": pick(g, json.Number("0.01"), json.Number("0.005"), json.Number("1"))}}
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
	o := pick(g, from...)
	sold := o.Asked["items"].([]any)
	r := Request{"documentoOrigen": o.Code, "motivo": "El empaque venía abierto"}
	var items []any
	for _, i := range g.rng.Perm(len(sold))[:1+g.rng.IntN(len(sold))] {
		had := sold[i].(Request)["cantidad"].(json.Number)
		n := pick(g, had, had, json.Number("1"), json.Number("0.5"), json.Number("0.00000001"), json.Number("0.33333333"))
		items = append(items, Request{"numItem": json.Number(fmt.Sprint(i + 1)), "cantidadRetorno": n})
	}
	r["items"] = items
	return r
}

// Sealed tells the generator of a document that notes and returns may refer to.
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
