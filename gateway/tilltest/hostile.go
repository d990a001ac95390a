package tilltest

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
)

// withheld is the VAT to withhold from an amount under a code of CAT-006, half up to cents, and at least a cent.
func withheld(amount, code string) json.Number {
	rate := map[string]*big.Rat{"22": big.NewRat(1, 100), "C4": big.NewRat(13, 100), "C9": big.NewRat(7, 100)}[code]
	n, _ := new(big.Rat).SetString(amount)
	text := n.Mul(n, rate).FloatString(2)
	if text == "0.00" {
		text = "0.01"
	}
	return json.Number(text)
}

// texts and numbers are what programs send by mistake.
var (
	texts = []any{nil, "", " ", "\t", "0", "00", "01", "13", "36", "37", "99", "ZZ", "null", "\u0000", "a\u0007b",
		"línea\notra", " 13 ", "😀", strings.Repeat("x", 151), strings.Repeat("x", 1501), strings.Repeat("9", 40),
		"2026-12-31", "2026-02-30", "GRAVADO", "EXENTO", "D1", "20", "57", "ana@example.com", "not a mail",
		"5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F", true, []any{}, Request{}, json.Number("1")}
	numbers = []json.Number{"0", "-1", "1", "2", "4", "5", "99", "0.005", "0.01", "0.00000001", "0.000000001", "1.005",
		"1e2", "1e-8", "1e400", "91999999999.99", "92000000000", "99999999999999999999", "-0", "0.5", "1.5", "1094.99",
		"1095", "24999.99", "25000", "5000", "2001"}
)

// extra are members that a till might add to an object, known and unknown ones.
var extra = []string{"tipoDocumento", "numDocumento", "nit", "nrc", "nombre", "nombreComercial", "codActividad",
	"descActividad", "direccion", "telefono", "correo", "departamento", "municipio", "distrito", "complemento",
	"descripcion", "cantidad", "precioUnitario", "codigo", "montoDescu", "tipoImpuesto", "uniMedida", "tipoItem",
	"tributos", "codTributo", "noGravado", "condicionOperacion", "pago", "pagos", "plazo", "periodo", "referencia",
	"montoPago", "observaciones", "isRetenIva", "isPerciIva", "applyrent", "descuentoGlobal", "gravada", "exenta",
	"noSujeta", "compra", "motivo", "apendice", "codigoGeneracion", "documentoRelacionado", "documentoOrigen",
	"tipoDte", "fechaEmision", "numItem", "cantidadRetorno", "motivoModificacion", "montoAjuste", "items", "receptor",
	"sujetoExcluido", "cuerpoDocumento", "tipoGeneracion", "montoSujetoGrav", "codigoRetencionMH", "ivaRetenido",
	"tipoDocRelacionado", "numDocRelacionado", "fechaDocRelacionado", "montoSujetoRetencion", "codigoRetencion",
	"montoRetenido", "testContingencia", "nombreDesconocido"}

// spot is a member or an element that can be changed.
type spot struct {
	object Request
	name   string
	list   []any
	at     int
}

func (s *spot) get() any {
	if s.object != nil {
		return s.object[s.name]
	}
	return s.list[s.at]
}

func (s *spot) set(v any) {
	if s.object != nil {
		s.object[s.name] = v
	} else {
		s.list[s.at] = v
	}
}

// spots are all places of a tree, in a fixed order.
func spots(v any, all []*spot) []*spot {
	switch v := v.(type) {
	case Request:
		for _, name := range names(v) {
			all = spots(v[name], append(all, &spot{object: v, name: name}))
		}
	case []any:
		for i := range v {
			all = spots(v[i], append(all, &spot{list: v, at: i}))
		}
	}
	return all
}

func names(r Request) []string {
	list := make([]string, 0, len(r))
	for name := range r {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Spoil makes n random changes to a request.
func (c *chance) Spoil(r Request, n int) {
	for range n {
		all := spots(r, nil)
		if len(all) == 0 {
			return
		}
		c.spoil(r, all[c.rng.IntN(len(all))])
	}
}

func (c *chance) spoil(root Request, s *spot) {
	switch was := s.get().(type) {
	case string:
		s.set(c.spoiltText(was))
	case json.Number:
		s.set(c.spoiltNumber(was))
	case bool:
		s.set(pick[any](c, !was, nil, "true", json.Number("1")))
	case []any:
		switch {
		case len(was) > 0 && c.often(40):
			s.set(append(slices.Clone(was), clone(pick(c, was...))))
		case len(was) > 0 && c.often(40):
			s.set(was[1:])
		default:
			s.set(pick[any](c, []any{}, nil, Request{}, []any{nil}))
		}
	case Request:
		switch {
		case c.often(60):
			was[pick(c, extra...)] = c.any()
		case len(was) > 0 && c.often(60):
			delete(was, pick(c, names(was)...))
		default:
			s.set(pick[any](c, Request{}, nil, "", []any{}))
		}
	default:
		s.set(c.any())
	}
	if s.object != nil && c.often(15) {
		delete(s.object, s.name)
	}
	if c.often(5) {
		root[pick(c, extra...)] = c.any()
	}
}

// any is a value of any kind, sensible or not.
func (c *chance) any() any {
	switch c.rng.IntN(8) {
	case 0:
		return c.number(9)
	case 1:
		return pick(c, numbers...)
	case 2:
		return pick[any](c, c.dui(), c.taxNumber(), c.registry())
	case 3:
		return c.text()
	case 4:
		return pick[any](c, c.address(), c.consumer(), []any{"D1"}, []any{"59", "59"}, true, false)
	}
	return clone(pick(c, texts...)) // the tree may change its own copy
}

func (c *chance) spoiltText(was string) any {
	runes := []rune(was)
	switch c.rng.IntN(8) {
	case 0:
		return " " + was
	case 1:
		return was + pick(c, " ", "\n", "\u0001", "x", "-")
	case 2:
		if len(runes) > 1 {
			return string(runes[:len(runes)-1])
		}
	case 3:
		return strings.ToLower(was)
	case 4:
		at := c.rng.IntN(len(runes) + 1)
		return string(runes[:at]) + pick(c, "-", " ", "0", "\u200b", "\u0085") + string(runes[at:])
	}
	return clone(pick(c, texts...)) // the tree may change its own copy
}

func (c *chance) spoiltNumber(was json.Number) any {
	switch c.rng.IntN(6) {
	case 0:
		return json.Number("-" + strings.TrimPrefix(string(was), "-"))
	case 1:
		return string(was)
	case 2:
		whole, _, _ := strings.Cut(string(was), ".")
		if strings.ContainsAny(whole, "e") {
			return was
		}
		return json.Number(whole + ".005")
	case 3:
		return c.number(9)
	}
	return pick(c, numbers...)
}

// clone is a deep copy.
func clone(v any) any {
	switch v := v.(type) {
	case Request:
		c := make(Request, len(v))
		for name, x := range v {
			c[name] = clone(x)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, x := range v {
			c[i] = clone(x)
		}
		return c
	}
	return v
}
