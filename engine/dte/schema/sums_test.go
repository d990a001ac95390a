package schema

import (
	"math/big"
	"strings"
	"testing"

	"dtegate/engine/dte"
)

const heldSchema = `{"type":"object","additionalProperties":false,"properties":{
 "identificacion":{"type":"object","additionalProperties":false,"properties":{"version":{"type":"integer","const":2},
   "fecEmi":{"type":"string"},"fecAnula":{"type":"string"},"numeroControl":{"type":"string"}}},
 "emisor":{"type":"object","additionalProperties":false,"properties":{"nit":{"type":"string"},"nombre":{"type":"string"},
   "telefono":{"type":["string","null"]},"codEstable":{"type":["string","null"]},"codEstableMH":{"type":["string","null"]}}},
 "sujetoExcluido":{"type":["object","null"],"additionalProperties":false,"properties":{"nombre":{"type":"string"},"numDocumento":{"type":"string"}}},
 "detalleDTE":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"codigoGeneracion":{"type":"string"}}}}}}`

// An overlay or a layout that gives a value which the box knows is refused with its path, except where generations
// differ.
func TestCompile_Held(t *testing.T) {
	from := func(entry string) string { return `{"from":[` + entry + `]}` }
	for overlay, path := range map[string]string{
		from(`{"path":"emisor.nit","value":"X","reason":"r"}`):                                                         "emisor.nit",
		from(`{"path":"emisor.nit","fact":"emisor.nit","value":"X","reason":"r"}`):                                     "emisor.nit",
		from(`{"path":"emisor.nombre","fact":"receptor.nombre","reason":"r"}`):                                         "emisor.nombre",
		from(`{"path":"emisor.nombre","fact":"emisor.nombreComercial","reason":"r"}`):                                  "emisor.nombre",
		from(`{"path":"emisor.codEstable","value":null,"reason":"r"}`):                                                 "emisor.codEstable",
		from(`{"path":"identificacion.numeroControl","value":"X","reason":"r"}`):                                       "identificacion.numeroControl",
		from(`{"path":"identificacion.fecEmi","words":"total","reason":"r"}`):                                          "identificacion.fecEmi",
		from(`{"path":"identificacion.fecAnula","fact":"motivo.fInicio","reason":"r"}`):                                "identificacion.fecAnula",
		from(`{"path":"sujetoExcluido","fact":"emisor.direccion","reason":"r"}`):                                       "sujetoExcluido",
		from(`{"path":"sujetoExcluido.numDocumento","fact":"receptor.nombre","reason":"r"}`):                           "sujetoExcluido.numDocumento",
		from(`{"path":"detalleDTE[].codigoGeneracion","value":"X","reason":"r"}`):                                      "detalleDTE[].codigoGeneracion",
		`{"add":[{"path":"emisor","schema":{"properties":{"nombre":{"const":"X"}}},"reason":"r"}]}`:                    "emisor.nombre",
		`{"add":[{"path":"emisor.nit","schema":{"allOf":[{"enum":["X"]}]},"reason":"r"}]}`:                             "emisor.nit",
		from(`{"path":"emisor.nit","fact":"emisor.nit","form":"9#########","reason":"r"}`):                             "emisor.nit",
		from(`{"path":"emisor.codEstableMH","fact":"emisor.codEstable","reason":"r"}`):                                 "",
		from(`{"path":"identificacion.fecAnula","fact":"identificacion.fecEmi","reason":"r"}`):                         "",
		from(`{"path":"identificacion.fecAnula","fact":"identificacion.dia","reason":"r"}`):                            "identificacion.fecAnula",
		from(`{"path":"sujetoExcluido","fact":"receptor","reason":"r"}`):                                               "",
		from(`{"path":"sujetoExcluido.numDocumento","fact":"receptor.numDocumento","form":"########-#","reason":"r"}`): "",
		from(`{"path":"emisor.codEstable","value":null,"reason":"r"},
		 {"path":"emisor.codEstableMH","fact":"emisor.codEstable","reason":"r"}`): "",
	} {
		switch _, err := Compile([]byte(heldSchema), []byte(overlay), Outputs{Summary: []string{"total"}}, nil); {
		case path == "" && err != nil:
			t.Errorf("%s: %v", overlay, err)
		case path != "" && (err == nil || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: %v, want %s named", overlay, err, path)
		}
	}
	for _, member := range []string{"nit", "nombre", "telefono"} {
		forged := strings.Replace(heldSchema, `"`+member+`":{`, `"`+member+`":{"const":"X",`, 1)
		if _, err := Compile([]byte(forged), nil, Outputs{}, nil); err == nil || !strings.Contains(err.Error(),
			"emisor."+member) {
			t.Errorf("a constant %s: %v", member, err)
		}
	}
}

// An amount that no equation knows, such as a tax of a future law, is added, subtracted, or only informs: any
// difference that it does not explain exactly is found.
func TestFill_StrangeAmount(t *testing.T) {
	number := `{"type":"number"}`
	layout := `{"type":"object","additionalProperties":false,"properties":{
		"cuerpoDocumento":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"ventaGravada":` + number + `},"required":["ventaGravada"]}},
		"resumen":{"type":"object","additionalProperties":false,"properties":{"totalGravada":` + number + `,"impuestoNuevo":` + number + `,
			"montoTotalOperacion":` + number + `,"totalPagar":` + number + `},"required":["totalGravada","impuestoNuevo","montoTotalOperacion","totalPagar"]}},
		"required":["cuerpoDocumento","resumen"]}`
	names := []string{"totalGravada", "impuestoNuevo", "montoTotalOperacion", "totalPagar"}
	filler, err := Compile([]byte(layout), []byte(`{"total":"totalPagar"}`),
		Outputs{Lines: []Output{{Name: "ventaGravada"}}, Summary: names}, nil)
	if err != nil {
		t.Fatal(err)
	}
	facts := dte.Obj(dte.Member{Name: "cuerpoDocumento", Value: dte.Arr(dte.Obj(dte.Member{
		Name: "ventaGravada", Value: dte.Int(100)}))}, dte.Member{Name: "resumen",
		Value: dte.Obj()})
	for _, c := range []struct {
		levy, more float64 // in dollars; more is the totals' excess over the sale
		sold       bool
	}{{0, 0, true}, {7, 0, true}, {7, 7, true}, {7, -7, true}, {7, 7.01, true}, {7, 3.5, false}, {7, 6.9, false},
		{7, 14, false}, {0, 1, false}} {
		levy, more := int64(c.levy*dte.Scale), int64(c.more*dte.Scale)
		sold := int64(100 * dte.Scale)
		_, faults := filler.Fill(nil, facts, &Computed{N: 1, Lines: []int64{sold}, Summary: []int64{sold, levy,
			sold + more, sold + more}}, FillOptions{})
		if (len(faults) == 0) != c.sold {
			t.Errorf("a levy of %v and %v more: %v", c.levy, c.more, faults)
		}
	}
}

// TestMulDiv: the product and the quotient are exact, towards 0, of either sign, and limited to the largest amount.
func TestMulDiv(t *testing.T) {
	const most = dte.MaxAmount
	some := []dte.Amount{0, 1, 3, cent, dte.Scale, 7*dte.Scale + 1, most - 1, most}
	for _, n := range some[1:] {
		some = append(some, -n)
	}
	limit := big.NewInt(int64(most))
	for _, a := range some {
		for _, b := range some {
			for _, by := range some {
				want := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(int64(b)))
				want.Quo(want, big.NewInt(int64(max(1, by))))
				if want.CmpAbs(limit) > 0 {
					want.Mul(limit, big.NewInt(int64(want.Sign())))
				}
				if got := mulDiv(a, b, by); int64(got) != want.Int64() {
					t.Errorf("%d × %d / %d is %d, want %d", a, b, by, got, want)
				}
			}
		}
	}
}
