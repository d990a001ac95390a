package plugins_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/rulestore"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// rogue makes the first case of a shipped bundle by a forger's module and overlay: change gets what the honest module
// answers, by name, and the overlay. The error is the one by which the bundle or its answer was refused.
func (f *forge) rogue(t *testing.T, change func(*rogueAnswer)) ([]byte, error) {
	t.Helper()
	facts := f.facts[0]
	r := &rules.Rule{Bundle: &bundle.Bundle{Manifest: f.manifest, Parts: f.parts}, Module: f.module.Module, Params: f.module.Params}
	c, err := rulestore.Compile(r, f.catalogues)
	if err != nil {
		t.Fatal(err)
	}
	ev, _, err := c.Evaluate(t.Context(), facts)
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Free()
	d := c.Description()
	a := &rogueAnswer{facts: facts, summary: map[string]dte.Amount{}, overlay: string(f.parts["overlay.json"]), layout: string(f.parts["schema.json"]), n: ev.Computed.N}
	for i, name := range d.Summary {
		a.summary[name] = dte.Amount(ev.Computed.Summary[i])
	}
	for i, o := range d.LineOutputs {
		a.columns = append(a.columns, schema.Output{Name: o.Name, Set: o.Kind == "set"})
		column := make([]int64, a.n)
		for line := range column {
			column[line] = ev.Computed.Lines[line*len(d.LineOutputs)+i]
		}
		a.lines = append(a.lines, column)
	}
	change(a)
	out := schema.Outputs{Lines: a.columns, Summary: slices.Sorted(maps.Keys(a.summary)), Taxes: d.Taxes}
	answer := schema.Computed{N: a.n, Taxes: ev.Computed.Taxes}
	for _, name := range out.Summary {
		answer.Summary = append(answer.Summary, int64(a.summary[name]))
	}
	for line := range a.n {
		for i := range a.columns {
			answer.Lines = append(answer.Lines, a.lines[i][line])
		}
	}
	filler, err := schema.Compile([]byte(a.layout), []byte(a.overlay), out, f.catalogues)
	if err != nil {
		return nil, err
	}
	if err := filler.Meets(rulestore.Required(f.manifest, c.Type.Effect)); err != nil {
		return nil, err
	}
	document, faults := filler.Fill(nil, a.facts, &answer, schema.FillOptions{})
	if len(faults) > 0 {
		return nil, faults[0]
	}
	return document, nil
}

// rogueAnswer is what a forger changes.
type rogueAnswer struct {
	facts           dte.Value
	summary         map[string]dte.Amount
	columns         []schema.Output
	lines           [][]int64
	n               int
	overlay, layout string
}

// column is what the module answers for a member of the lines; it is new where the honest module answers none.
func (a *rogueAnswer) column(name string) []int64 {
	i := slices.IndexFunc(a.columns, func(o schema.Output) bool { return o.Name == name })
	if i < 0 {
		i = len(a.columns)
		a.columns, a.lines = append(a.columns, schema.Output{Name: name}), append(a.lines, make([]int64, a.n))
	}
	return a.lines[i]
}

// from replaces or adds an overlay's source.
func (a *rogueAnswer) from(path, rest string) {
	var overlay map[string]any
	_ = json.Unmarshal([]byte(a.overlay), &overlay)
	list, _ := overlay["from"].([]any)
	list = slices.DeleteFunc(list, func(e any) bool { return e.(map[string]any)["path"] == path })
	if rest != "" {
		var entry map[string]any
		_ = json.Unmarshal([]byte(`{"reason":"forged",`+rest+`}`), &entry)
		entry["path"] = path
		list = append(list, entry)
	}
	overlay["from"] = list
	text, _ := json.Marshal(overlay)
	a.overlay = string(text)
}

// edit changes the layout and the overlay.
func (a *rogueAnswer) edit(change func(layout, overlay map[string]any)) {
	var layout, overlay map[string]any
	_ = json.Unmarshal([]byte(a.layout), &layout)
	_ = json.Unmarshal([]byte(a.overlay), &overlay)
	change(layout, overlay)
	for of, part := range map[*string]any{&a.layout: layout, &a.overlay: overlay} {
		text, _ := json.Marshal(part)
		*of = string(text)
	}
}

// buyer makes the sale one to a person with this further member.
func (a *rogueAnswer) buyer(name, text string) {
	known := dte.Obj(dte.Member{Name: "tipoDocumento", Value: dte.Str("13")}, dte.Member{Name: "numDocumento", Value: dte.Str("012345678")},
		dte.Member{Name: "nombre", Value: dte.Str("Ana")})
	if name != "" {
		known = known.With(name, dte.Str(text))
	}
	a.facts = a.facts.With("receptor", known)
}

// amount adds an amount to resumen in the layout.
func (a *rogueAnswer) amount(name string) {
	a.edit(func(layout, _ map[string]any) {
		resumen, _ := place(layout, "resumen.totalPagar")
		resumen[name] = map[string]any{"type": "number"}
	})
}

// hide takes a member out of the layout, as if no generation had ever had it.
func (a *rogueAnswer) hide(path string) {
	var layout map[string]any
	_ = json.Unmarshal([]byte(a.layout), &layout)
	at, name := place(layout, path)
	delete(at, name)
	var unneeded func(node any)
	unneeded = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			if list, ok := node["required"].([]any); ok {
				node["required"] = slices.DeleteFunc(list, func(n any) bool { return n == name })
			}
			for _, below := range node {
				unneeded(below)
			}
		case []any:
			for _, below := range node {
				unneeded(below)
			}
		}
	}
	unneeded(layout)
	text, _ := json.Marshal(layout)
	a.layout = string(text)
	var overlay map[string]any
	_ = json.Unmarshal([]byte(a.overlay), &overlay)
	for key, list := range overlay {
		if list, ok := list.([]any); ok {
			overlay[key] = slices.DeleteFunc(list, func(e any) bool {
				of, _ := e.(map[string]any)["path"].(string)
				return of == path || strings.HasPrefix(of, path+".") || strings.HasPrefix(of, path+"[]")
			})
		}
	}
	if taxes, ok := overlay["taxes"].(map[string]any); ok && strings.HasPrefix(taxes["path"].(string), path+".") {
		delete(overlay, "taxes")
	}
	text, _ = json.Marshal(overlay)
	a.overlay = string(text)
}

// say makes the till state an amount in a line.
func (a *rogueAnswer) say(line int, name string, n dte.Amount) {
	lines := slices.Clone(a.facts.Get("cuerpoDocumento").Items())
	lines[line] = lines[line].With(name, dte.Num(n))
	a.facts = a.facts.With("cuerpoDocumento", dte.Arr(lines...))
}

// sayText makes the till state a text in a line.
func (a *rogueAnswer) sayText(line int, name, text string) {
	lines := slices.Clone(a.facts.Get("cuerpoDocumento").Items())
	lines[line] = lines[line].With(name, dte.Str(text))
	a.facts = a.facts.With("cuerpoDocumento", dte.Arr(lines...))
}

// total names another amount as the total, and puts that amount into words.
func (a *rogueAnswer) total(name string) {
	a.edit(func(_, overlay map[string]any) { overlay["total"] = name })
	a.from("resumen.totalLetras", `"words":"`+name+`"`)
}

// fix gives a member of the layout a constant.
func fix(layout map[string]any, path, constant string) {
	at, name := place(layout, path)
	at[name] = map[string]any{"type": "string", "const": constant}
}

// TestForged_Aimed: forgeries that add up, or that no comparison of one value finds, each by an otherwise honest rule.
func TestForged_Aimed(t *testing.T) {
	const one = dte.Amount(dte.Scale)
	forges := make(map[string]*forge)
	raise := func(a *rogueAnswer, by dte.Amount, names ...string) {
		for _, name := range names {
			a.summary[name] += by
		}
	}
	paid := []string{"montoTotalOperacion", "totalPagar"}
	sold := append([]string{"totalGravada", "subTotalVentas", "subTotal"}, paid...)
	for what, c := range map[string]struct {
		bundle string
		change func(*rogueAnswer)
	}{
		"words of another amount": {"dte01/v2", func(a *rogueAnswer) { a.summary["x"] = 9 * one; a.from("resumen.totalLetras", `"words":"x"`) }},
		"constant words":          {"dte01/v2", func(a *rogueAnswer) { a.from("resumen.totalLetras", `"value":"CERO 00/100 USD"`) }},
		"no words":                {"dte01/v2", func(a *rogueAnswer) { a.from("resumen.totalLetras", "") }},
		"words of another amount in a new place": {"dte01/v2", func(a *rogueAnswer) {
			a.edit(func(layout, _ map[string]any) {
				resumen, _ := place(layout, "resumen.totalLetras")
				resumen["totalEnPalabras"] = resumen["totalLetras"]
			})
			a.summary["x"] = 9 * one
			a.from("resumen.totalEnPalabras", `"words":"x"`)
		}},
		"another price": {"dte01/v2", func(a *rogueAnswer) {
			for i := range a.n {
				amount, _ := a.facts.Get("cuerpoDocumento").Index(i).Get("precioUni").Amount()
				a.column("precioUni")[i] = int64(amount)
			}
			quantity, _ := a.facts.Get("cuerpoDocumento").Index(0).Get("cantidad").Amount()
			a.column("precioUni")[0] += int64(one)
			a.column("ventaGravada")[0] += int64(quantity)
			raise(a, quantity, sold...)
		}},
		"a charge that nobody asked for": {"dte01/v2", func(a *rogueAnswer) {
			a.column("noGravado")[0] += int64(one)
			raise(a, one, "totalNoGravado", "totalPagar")
		}},
		"a discount that nobody asked for": {"dte01/v2", func(a *rogueAnswer) {
			a.column("montoDescu")[0] += int64(one)
			a.column("ventaGravada")[0] -= int64(one)
			raise(a, -one, sold...)
		}},
		"a global discount that nobody asked for": {"dte01/v2", func(a *rogueAnswer) {
			raise(a, one, "descuGravada")
			raise(a, -one, append([]string{"subTotal"}, paid...)...)
		}},
		"discounts that the lines do not have": {"dte01/v2", func(a *rogueAnswer) { raise(a, one, "totalDescu") }},
		"a balance beside what is paid":        {"dte01/v2", func(a *rogueAnswer) { raise(a, -one, "saldoFavor") }},
		"a balance that what is paid makes up for": {"dte01/v2", func(a *rogueAnswer) {
			raise(a, -one, "saldoFavor")
			raise(a, one, "totalPagar")
		}},
		"a balance above 0": {"dte01/v2", func(a *rogueAnswer) {
			raise(a, one, "saldoFavor")
			raise(a, -one, "totalPagar")
		}},
		"a charge that hides its line's price": {"dte01/v2", func(a *rogueAnswer) {
			a.say(0, "noGravado", one)
			amount := dte.Amount(a.column("ventaGravada")[0])
			a.column("noGravado")[0], a.column("ventaGravada")[0] = int64(one), 0
			raise(a, -amount, sold...)
			raise(a, one, "totalNoGravado", "totalPagar")
		}},
		"a freight that nobody asked for": {"dte11/v3", func(a *rogueAnswer) { raise(a, one, append([]string{"flete"}, paid...)...) }},
		"a return of a freight that its origin lacks": {"retorno/v1", func(a *rogueAnswer) {
			a.column("flete")[0] += int64(one)
			raise(a, one, append([]string{"totalFlete"}, paid...)...)
		}},
		"a return at a negative discount": {"retorno/v1", func(a *rogueAnswer) {
			a.edit(func(layout, _ map[string]any) {
				lines, _ := place(layout, "cuerpoDocumento[].montoDescu")
				delete(lines["montoDescu"].(map[string]any), "minimum")
			})
			back := a.column("compra")[0]
			a.column("montoDescu")[0], a.column("compra")[0] = -back, 2*back
			raise(a, dte.Amount(back), append([]string{"totalCompraExcluidos", "subTotalVentas"}, paid...)...)
		}},
		"a return that forgets its line's discount": {"retorno/v1", func(a *rogueAnswer) {
			a.say(0, "montoDescuOrigen", 140*one)
			a.say(0, "compraOrigen", 140*one)
			a.facts = a.facts.With("origen", a.facts.Get("origen").With("totalCompra", dte.Num(140*one)))
		}},
		"a return that forgets the global discount": {"retorno/v1", func(a *rogueAnswer) {
			a.facts = a.facts.With("origen", a.facts.Get("origen").With("descu", dte.Num(70*one))).
				With("devuelto", dte.Obj(dte.Member{Name: "compra", Value: dte.Num(105 * one)}))
		}},
		"a return at a discount that nobody gave": {"retorno/v1", func(a *rogueAnswer) {
			off := int64(30 * one)
			a.column("montoDescu")[0] += off
			a.column("compra")[0] -= off
			raise(a, -30*one, append([]string{"totalCompraExcluidos", "subTotalVentas"}, paid...)...)
		}},
		"a return of all of a charge, with half of its line": {"retorno/v1", func(a *rogueAnswer) {
			a.say(0, "noGravadoOrigen", 2*one)
			a.column("noGravado")[0] = int64(2 * one)
			raise(a, 2*one, "totalNoGravado", "totalPagar")
		}},
		"a liquidation of more than was sold": {"dte08/v2", func(a *rogueAnswer) {
			a.column("ventaGravada")[0] += int64(one)
			raise(a, one, "totalGravada", "subTotalVentas", "montoTotalOperacion", "total")
		}},
		"a liquidation of more exports than it lists": {"dte08/v2", func(a *rogueAnswer) {
			raise(a, one, "exportacion", "subTotalVentas", "montoTotalOperacion", "total")
		}},
		"a liquidation of another total": {"dte08/v1", func(a *rogueAnswer) { raise(a, one, "total") }},
		"a settlement of more than was sold": {"dte09/v2", func(a *rogueAnswer) {
			value, _ := a.facts.Get("cuerpoDocumento").Index(0).Get("valorOperaciones").Amount()
			a.column("valorOperaciones")[0] = int64(value + one)
			for _, name := range []string{"subTotal", "iva", "liquidoApagar"} {
				a.column(name)[0] += int64(one)
			}
			raise(a, one, "liquidoApagar")
		}},
		"another commission": {"dte09/v1", func(a *rogueAnswer) {
			a.column("comision")[0] += int64(one)
			a.column("liquidoApagar")[0] -= int64(one)
			raise(a, -one, "liquidoApagar")
		}},
		"a settlement in other words": {"dte09/v2", func(a *rogueAnswer) { raise(a, one, "liquidoApagar") }},
		"a donation of more": {"dte15/v2", func(a *rogueAnswer) {
			a.column("valor")[0] += int64(one)
			raise(a, one, "valorTotal")
		}},
		"less money than was given": {"dte15/v1", func(a *rogueAnswer) {
			raise(a, -one, "efectivo")
			a.from("resumen.pagos[].montoPago", `"amount":"efectivo"`)
		}},
		"a negative retention": {"dte03/v4", func(a *rogueAnswer) {
			a.summary["ivaRete"] -= one
			raise(a, one, "totalPagar")
			a.overlay = strings.Replace(a.overlay, `"from":`, `"drop":[{"path":"resumen.ivaRete","keyword":"minimum","reason":"forged"}],"from":`, 1)
		}},
		"an amount that no equation knows": {"dte01/v2", func(a *rogueAnswer) {
			a.amount("cargo")
			a.summary["cargo"] = one / 100
			raise(a, one, "totalPagar")
		}},
		"a return of more, beside totalNoOnerosas": {"retorno/v1", func(a *rogueAnswer) {
			a.summary["totalNoOnerosas"] = one / 100
			raise(a, one, "totalPagar")
		}},
		"a note that shows another amount than it answers": {"dte05/v4", func(a *rogueAnswer) {
			a.summary["shown"], a.summary["totalGravada"] = a.summary["totalGravada"], 0
			a.from("resumen.totalGravada", `"amount":"shown"`)
		}},
		"a note whose module answers no totalGravada": {"dte05/v4", func(a *rogueAnswer) {
			a.summary["shown"] = a.summary["totalGravada"]
			delete(a.summary, "totalGravada")
			a.from("resumen.totalGravada", `"amount":"shown"`)
		}},
		"a return whose lines show other amounts than it answers": {"retorno/v1", func(a *rogueAnswer) {
			a.from("cuerpoDocumento[].ventaGravada", `"fact":"cuerpoDocumento[].precioUni"`)
		}},
		"sold on credit": {"dte01/v2", func(a *rogueAnswer) { a.from("resumen.condicionOperacion", `"value":2`) }},
		"another receiver of the goods": {"dte01/v1", func(a *rogueAnswer) {
			a.from("extension.docuRecibe", `"value":"01234567-8"`)
			a.from("extension.nombRecibe", `"fact":"emisor.nombre"`)
		}},
		"the seller is the buyer": {"dte14/v1", func(a *rogueAnswer) { a.from("sujetoExcluido", `"fact":"emisor"`) }},
		"the buyer's number as a telephone": {"dte01/v2", func(a *rogueAnswer) {
			a.facts = a.facts.With("receptor", a.facts.Get("receptor").With("telefono", dte.Null()))
			a.from("receptor.telefono", `"fact":"receptor.numDocumento"`)
			a.from("receptor.numDocumento", `"value":null`)
		}},
		"a code with other characters": {"dte01/v2", func(a *rogueAnswer) {
			a.from("identificacion.codigoGeneracion", `"fact":"identificacion.codigoGeneracion","form":"####################################."`)
		}},
		"a layout without prices": {"dte01/v2", func(a *rogueAnswer) {
			a.hide("cuerpoDocumento[].precioUni")
			a.column("ventaGravada")[0] += int64(one)
			raise(a, one, sold...)
		}},
		"a layout without discounts of lines": {"dte01/v2", func(a *rogueAnswer) {
			a.say(0, "montoDescu", one/10)
			a.hide("cuerpoDocumento[].montoDescu")
		}},
		"a layout without charges": {"dte01/v2", func(a *rogueAnswer) {
			a.say(0, "noGravado", one)
			a.hide("cuerpoDocumento[].noGravado")
		}},
		"a layout without a global discount": {"dte01/v2", func(a *rogueAnswer) {
			a.facts = a.facts.With("descuentoGlobal", dte.Obj(dte.Member{Name: "gravada", Value: dte.Num(one)}))
			a.hide("resumen.descuGravada")
		}},
		"a layout without lines": {"dte01/v2", func(a *rogueAnswer) {
			a.hide("cuerpoDocumento")
			raise(a, one, sold...)
		}},
		"a layout without totals": {"dte01/v2", func(a *rogueAnswer) { a.hide("resumen") }},
		"a layout without the totals of its lines": {"dte01/v2", func(a *rogueAnswer) {
			for _, name := range append([]string{"totalNoSuj", "totalExenta", "totalNoGravado"}, sold[:4]...) {
				a.hide("resumen." + name)
			}
			raise(a, one, "totalPagar")
		}},
		"a purchase without the total of its lines": {"dte14/v2", func(a *rogueAnswer) {
			for _, name := range []string{"totalCompra", "subTotal", "montoTotalOperacion"} {
				a.hide("resumen." + name)
			}
			raise(a, one, "totalPagar")
		}},
		"a layout without what its prices make": {"dte01/v2", func(a *rogueAnswer) {
			for _, name := range []string{"ventaNoSuj", "ventaExenta", "ventaGravada"} {
				a.hide("cuerpoDocumento[]." + name)
			}
			raise(a, one, sold...)
		}},
		"a total under another name, by another answer": {"dte07/v1", func(a *rogueAnswer) {
			a.summary["shown"] = a.summary["totalIvaRetenido"]
			raise(a, one, "totalIvaRetenido")
			a.from("resumen.totalIVAretenido", `"amount":"shown"`)
		}},
		"more withheld than was said": {"dte07/v2", func(a *rogueAnswer) {
			withheld, _ := a.facts.Get("cuerpoDocumento").Index(0).Get("ivaRetenido").Amount()
			a.column("ivaRetenido")[0] = int64(withheld + one)
			for i := 1; i < a.n; i++ {
				withheld, _ = a.facts.Get("cuerpoDocumento").Index(i).Get("ivaRetenido").Amount()
				a.column("ivaRetenido")[i] = int64(withheld)
			}
			raise(a, one, "totalIvaRetenido")
		}},
		"the donor and the issuer change places": {"dte15/v1", func(a *rogueAnswer) {
			a.from("donatario", `"fact":"receptor"`)
			a.from("donante", `"fact":"emisor"`)
			for _, name := range []string{"donatario.codEstableMH", "donatario.codPuntoVentaMH", "donante.numDocumento"} {
				a.from(name, "")
			}
		}},
		"an issuer that the request names": {"dte15/v1", func(a *rogueAnswer) {
			a.facts = a.facts.With("donatario", a.facts.Get("receptor"))
			a.from("donatario", "")
			a.from("donante", `"fact":"emisor"`)
			for _, name := range []string{"donatario.codEstableMH", "donatario.codPuntoVentaMH", "donante.numDocumento"} {
				a.from(name, "")
			}
		}},
		"another unit of measure": {"dte01/v2", func(a *rogueAnswer) {
			for i := range a.n {
				a.column("uniMedida")[i] = int64(58 * one)
			}
		}},
		"another unit of measure, as an amount": {"dte01/v2", func(a *rogueAnswer) {
			a.edit(func(layout, _ map[string]any) {
				lines, _ := place(layout, "cuerpoDocumento[].uniMedida")
				lines["uniMedida"] = map[string]any{"type": "number"}
			})
			for i := range a.n {
				a.column("uniMedida")[i] = int64(58 * one)
			}
		}},
		"sold on credit, by the module": {"dte01/v2", func(a *rogueAnswer) {
			a.amount("condicionOperacion")
			a.summary["condicionOperacion"] = 2 * one
		}},
		"a line's number as an amount of the module": {"dte01/v2", func(a *rogueAnswer) {
			a.summary["x"] = 7 * one
			a.from("cuerpoDocumento[].numItem", `"amount":"x"`)
		}},
		"a line's code from elsewhere": {"dte01/v2", func(a *rogueAnswer) {
			lines := a.facts.Get("cuerpoDocumento").Items()
			a.facts = a.facts.With("cuerpoDocumento", dte.Arr(lines[0].With("codigo", dte.Str("SKU")), lines[1]))
			a.from("cuerpoDocumento[].codigo", `"fact":"resumen.pagos[].codigo"`)
		}},
		"taxes in the place of the appendix": {"dte01/v2", func(a *rogueAnswer) {
			remark := dte.Obj(dte.Member{Name: "campo", Value: dte.Str("a")}, dte.Member{Name: "etiqueta", Value: dte.Str("b")},
				dte.Member{Name: "valor", Value: dte.Str("c")})
			a.facts = a.facts.With("apendice", dte.Arr(remark))
			a.edit(func(layout, overlay map[string]any) {
				item, _ := place(layout, "apendice[].campo")
				item["codigo"], item["descripcion"] = item["campo"], item["campo"]
				overlay["taxes"].(map[string]any)["path"] = "apendice"
			})
		}},
		"a receiver hidden, as if it had moved to a list without items": {"dte01/v2", func(a *rogueAnswer) {
			a.facts = a.facts.With("receptor", dte.Obj(dte.Member{Name: "tipoDocumento", Value: dte.Str("13")},
				dte.Member{Name: "numDocumento", Value: dte.Str("012345678")}, dte.Member{Name: "nombre", Value: dte.Str("Ana")}))
			a.edit(func(layout, _ map[string]any) {
				lines, _ := place(layout, "cuerpoDocumento[].descripcion")
				lines["lista"] = map[string]any{"type": []any{"array", "null"}, "items": map[string]any{"type": "object",
					"properties": map[string]any{"receptor": map[string]any{"type": "object"}}}}
			})
			a.from("receptor", `"value":null`)
			a.from("cuerpoDocumento[].lista[].receptor", `"fact":"receptor"`)
		}},
		"two sources of one place": {"dte01/v2", func(a *rogueAnswer) {
			a.facts = a.facts.With("resumen", a.facts.Get("resumen").With("plazo", dte.Str("otra actividad")))
			a.edit(func(_, overlay map[string]any) {
				for _, fact := range []string{"emisor.plazo", "resumen.plazo"} {
					overlay["from"] = append(overlay["from"].([]any),
						map[string]any{"path": "emisor.descActividad", "fact": fact, "reason": "forged"})
				}
			})
		}},
		"the buyer's number as the telephone that nobody gave": {"dte01/v2", func(a *rogueAnswer) {
			a.buyer("", "")
			a.from("receptor.telefono", `"fact":"receptor.numDocumento"`)
		}},
		"a telephone hidden as an activity": {"dte01/v2", func(a *rogueAnswer) {
			a.buyer("telefono", "22223333")
			a.from("receptor.descActividad", `"fact":"receptor.telefono"`)
			a.from("receptor.telefono", `"value":null`)
		}},
		"a line's code that nobody gave":             {"dte01/v2", func(a *rogueAnswer) { a.from("cuerpoDocumento[].codigo", `"value":"SKU"`) }},
		"a line's related document that nobody gave": {"dte01/v2", func(a *rogueAnswer) { a.from("cuerpoDocumento[].numeroDocumento", `"value":"1"`) }},
		"remarks that nobody made": {"dte01/v2", func(a *rogueAnswer) {
			a.from("resumen.observaciones", `"fact":"resumen.nada","value":"PAGADO"`)
		}},
		"remarks of the schema": {"dte01/v2", func(a *rogueAnswer) {
			a.edit(func(layout, _ map[string]any) {
				resumen, _ := place(layout, "resumen.observaciones")
				resumen["observaciones"].(map[string]any)["enum"] = []any{"PAGADO"}
			})
		}},
		"an electronic payment's number in words": {"dte01/v2", func(a *rogueAnswer) { a.from("resumen.numPagoElectronico", `"words":"totalPagar"`) }},
		"constant words of what is withheld":      {"dte07/v1", func(a *rogueAnswer) { a.from("resumen.totalIVAretenidoLetras", `"value":"CERO 00/100 USD"`) }},
		"goods that nobody gave away":             {"dte11/v3", func(a *rogueAnswer) { a.summary["totalNoOnerosas"] = one; a.from("resumen.totalNoOnerosas", "") }},
		"a date of its own for a settled document": {"dte08/v1", func(a *rogueAnswer) {
			a.from("cuerpoDocumento[].fechaGeneracion", `"value":"2020-01-01"`)
			a.from("cuerpoDocumento[].obsItem", `"fact":"cuerpoDocumento[].fechaEmision"`)
		}},
		"the document's date for a settled document": {"dte08/v1", func(a *rogueAnswer) {
			a.from("cuerpoDocumento[].fechaGeneracion", `"fact":"identificacion.fecEmi"`)
			a.from("cuerpoDocumento[].obsItem", `"fact":"cuerpoDocumento[].fechaEmision"`)
		}},
		"another kind of a related document, by the module": {"dte07/v1", func(a *rogueAnswer) {
			a.from("cuerpoDocumento[].tipoDoc", "")
			a.edit(func(layout, _ map[string]any) {
				columns, _ := place(layout, "cuerpoDocumento[].tipoDoc")
				columns["tipoDoc"] = map[string]any{"type": "number"}
			})
			for i := range a.n {
				a.column("tipoDoc")[i] = int64(one)
			}
		}},
		"another kind of a related document, by the layout": {"dte07/v1", func(a *rogueAnswer) {
			a.from("cuerpoDocumento[].tipoDoc", "")
			a.edit(func(layout, _ map[string]any) {
				columns, _ := place(layout, "cuerpoDocumento[].tipoDoc")
				columns["tipoDoc"].(map[string]any)["enum"] = []any{1}
			})
		}},
		"words of an amount that the layout does not show": {"dte07/v2", func(a *rogueAnswer) {
			a.summary["montoTotalOperacion"] = 9 * one
			a.from("resumen.totalLetras", `"words":"montoTotalOperacion"`)
		}},
		"words of an amount that the layout shows by another answer": {"dte01/v2", func(a *rogueAnswer) {
			a.summary["x"], a.summary["montoTotalOperacion"] = a.summary["montoTotalOperacion"], 9*one
			a.from("resumen.montoTotalOperacion", `"amount":"x"`)
			a.from("resumen.totalLetras", `"words":"montoTotalOperacion"`)
		}},
		"a remission's total before taxes":       {"dte04/v4", func(a *rogueAnswer) { a.total("totalGravada") }},
		"a withholding's total of what was sold": {"dte07/v2", func(a *rogueAnswer) { a.total("totalSujetoRetencion") }},
		"a liquidation's total that nothing makes": {"dte08/v2", func(a *rogueAnswer) {
			a.total("montoTotalOperacion")
			raise(a, 900*one, "total")
		}},
		"a percentage of a discount that nobody asked for": {"dte01/v2", func(a *rogueAnswer) { a.summary["porcentajeDescuento"] = 50 * one }},
		"a suggested price that nobody said":               {"dte01/v2", func(a *rogueAnswer) { a.column("psv")[0] = int64(one) }},
		"another currency": {"dte01/v2", func(a *rogueAnswer) {
			a.edit(func(layout, _ map[string]any) { fix(layout, "identificacion.tipoMoneda", "EUR") })
		}},
		"the issuer's number as one of another kind": {"dte15/v2", func(a *rogueAnswer) {
			a.edit(func(layout, _ map[string]any) { fix(layout, "emisor.tipoDocumento", "13") })
		}},
		"a line's remark that nobody made": {"dte08/v1", func(a *rogueAnswer) {
			a.from("cuerpoDocumento[].obsItem", `"fact":"cuerpoDocumento[].observaciones","value":"PAGADO"`)
		}},
		"a line's remark hidden": {"dte08/v1", func(a *rogueAnswer) {
			a.sayText(0, "observaciones", "No pagado")
			a.edit(func(layout, _ map[string]any) {
				lines, _ := place(layout, "cuerpoDocumento[].obsItem")
				lines["obsItem"].(map[string]any)["type"] = []any{"string", "null"}
			})
			a.from("cuerpoDocumento[].obsItem", `"value":null`)
		}},
		"the parties under new names": {"dte01/v2", func(a *rogueAnswer) {
			a.buyer("", "")
			a.edit(func(layout, _ map[string]any) {
				all := layout["properties"].(map[string]any)
				all["vendedor"], all["comprador"] = all["receptor"], all["emisor"]
			})
			a.from("vendedor", `"fact":"receptor"`)
			a.from("comprador", `"fact":"emisor"`)
		}},
		"a line's code with other characters": {"dte01/v2", func(a *rogueAnswer) {
			a.sayText(0, "codigo", "123")
			a.from("cuerpoDocumento[].codigo", `"fact":"cuerpoDocumento[].codigo","form":"#.##"`)
		}},
		"another total in other letters": {"dte01/v2", func(a *rogueAnswer) {
			a.amount("TotalPagar")
			a.summary["TotalPagar"] = one
		}},
		"a unit that the return hides": {"retorno/v1", func(a *rogueAnswer) { a.hide("cuerpoDocumento[].uniMedida") }},
		"a member that is called like the lines": {"dte01/v2", func(a *rogueAnswer) {
			a.edit(func(layout, _ map[string]any) { // the sums would be those of its members, in their order
				columns, _ := place(layout, "cuerpoDocumento[].ventaGravada")
				layout["properties"].(map[string]any)["cuerpoDocumento[]"] = map[string]any{"type": []any{"object", "null"},
					"properties": columns}
			})
		}},
		"a member without a name": {"dte01/v2", func(a *rogueAnswer) {
			a.edit(func(layout, _ map[string]any) {
				layout["properties"].(map[string]any)[""] = map[string]any{"type": "string", "const": "X"}
			})
		}},
	} {
		if forges[c.bundle] == nil {
			forges[c.bundle] = newForge(t, c.bundle)
		}
		document, err := forges[c.bundle].rogue(t, c.change)
		if err == nil {
			t.Errorf("%s: %s", what, document)
		} else if testing.Verbose() {
			t.Logf("%s: %v", what, err)
		}
	}
	recall := newForge(t, "invalidacion/v2")
	for what, from := range map[string]string{"the issuer's address as the buyer's": `{"path":"documento.correo","fact":"emisor.correo","reason":"forged"},`,
		"the issuer as the buyer": `{"path":"documento.nombre","fact":"emisor.nombre","reason":"forged"},`} {
		parts := maps.Clone(recall.parts)
		parts["overlay.json"] = []byte(strings.Replace(string(parts["overlay.json"]), `"from": [`, `"from": [`+from, 1))
		facts := recall.facts[0]
		var known []dte.Member
		for _, m := range facts.Get("documento").Members() {
			if m.Name != "correo" && m.Name != "nombre" {
				known = append(known, m)
			}
		}
		document, faults, err := recall.make(parts, facts.With("documento", dte.Obj(known...)), nil)
		if err == nil && len(faults) == 0 {
			t.Errorf("%s: %s", what, document)
		} else if testing.Verbose() {
			t.Logf("%s: %v %v", what, faults, err)
		}
	}
	credit := newForge(t, "dte01/v2") // cash becomes another payment where the buyer has a credit
	hidden := &rogueAnswer{layout: string(credit.parts["schema.json"]), overlay: string(credit.parts["overlay.json"])}
	hidden.hide("resumen.saldoFavor")
	parts := maps.Clone(credit.parts)
	parts["schema.json"], parts["overlay.json"] = []byte(hidden.layout), []byte(hidden.overlay)
	document, faults, err := credit.make(parts, credit.facts[0], func(c *schema.Computed) {
		c.Summary[slices.Index(credit.module.Module.Description().Summary, "saldoFavor")] = -1
	})
	if v, _ := dte.Parse(document); err != nil || len(faults) > 0 || v.Get("resumen").Get("pagos").Index(0).Get("codigo").Text() != "01" {
		t.Errorf("a sale paid in cash, by a credit that is not shown: %v %v %s", err, faults, document)
	}
	law := newForge(t, "contingencia/v4")
	law.manifest.Params = slices.Clone(law.manifest.Params)
	for i := range law.manifest.Params {
		law.manifest.Params[i].Value = "90000000000" // hours beyond what a time.Duration holds
	}
	if _, _, err := law.make(law.parts, law.facts[0], nil); err == nil {
		t.Error("a law of ten million years is taken")
	}
	if _, err := forges["dte01/v2"].rogue(t, func(*rogueAnswer) {}); err != nil {
		t.Errorf("the honest one: %v", err)
	}
}
