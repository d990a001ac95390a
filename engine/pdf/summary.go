package pdf

import (
	"cmp"
	"slices"
	"strings"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
)

// sums are the amounts below the lines, in the order in which they are added up, with the words of MF2's layouts. An
// amount that is not listed here is printed after them, under its own name.
var sums = []struct{ name, label string }{
	{"totalNoSuj", "Suma de ventas no sujetas"},
	{"totalExenta", "Suma de ventas exentas"},
	{"totalGravada", "Suma de ventas gravadas"},
	{"totalCompra", "Suma de compras"},
	{"totalCompraExcluidos", "Compras a sujetos excluidos"},
	{"subTotalVentas", "Suma total de operaciones"},
	{"descuNoSuj", "Descuento global a ventas no sujetas"},
	{"descuExenta", "Descuento global a ventas exentas"},
	{"descuGravada", "Descuento global a ventas gravadas"},
	{"descu", "Descuento global"},
	{"porcentajeDescuento", "Porcentaje de descuento"},
	{"totalDescu", "Total de descuentos"},
	{"subTotal", "Subtotal"},
	{taxRows, ""},
	{"seguro", "Seguro"},
	{"totalSeguro", "Seguro"},
	{"flete", "Flete"},
	{"totalFlete", "Flete"},
	{"ivaPerci", "IVA percibido"},
	{"ivaPerci1", "IVA percibido"},
	{"ivaRete", "IVA retenido"},
	{"ivaRete1", "IVA retenido"},
	{"reteRenta", "Retención de renta"},
	{"montoTotalOperacion", "Monto total de la operación"},
	{"totalNoGravado", "Total otros montos no afectos"},
	{"totalNoOnerosas", "Operaciones no onerosas"},
	{"saldoFavor", "Saldo a favor"},
	{"totalSujetoRetencion", "Total sujeto a retención"},
	{"totalIvaRetenido", "Total IVA retenido"},
	{"totalIVAretenido", "Total IVA retenido"},
	{"totalPagar", "Total a pagar"},
	{"valorTotal", "Valor total"},
	{"total", "Total"},
}

var labels = func() map[string]string {
	m := make(map[string]string)
	for _, s := range sums {
		m[s.name] = s.label
	}
	return m
}()

const taxRows = "tributos"

// finals are the possible names of the final amount, after those of the type's view. The first in the summary is used.
var finals = []string{"totalPagar", "totalIvaRetenido", "totalIVAretenido", "montoTotalOperacion", "valorTotal",
	"total"}

// summary sets the parts of the view that are printed below the lines.
func (b *builder) summary(v *View) {
	s := b.doc.Get("resumen")
	if s.Kind() == dte.KindArray { // a list in the export invoice's schema
		s = s.Index(0)
	}
	final := ""
	for _, name := range slices.Concat(b.own.Final, finals) {
		if s.Get(name).Kind() == dte.KindNumber {
			final = name
			v.Total = Field{b.label(name), b.dollars(s.Get(name))}
			if name == "totalPagar" && b.doc.Get("identificacion").Get("tipoEvento").Exists() {
				v.Total.Label = "Total devuelto" // the customer gets the amount back
			}
			break
		}
	}
	row := func(name string) {
		a := s.Get(name)
		if name == final || a.Kind() != dte.KindNumber || isZero(a.Text()) {
			return
		}
		amount := b.dollars(a)
		if name == "porcentajeDescuento" {
			amount = b.number(a, 2) + " %"
		}
		v.Totals = append(v.Totals, Field{b.label(name), amount})
	}
	for _, sum := range sums {
		if sum.name == taxRows {
			b.taxes(v, s.Get(taxRows))
			continue
		}
		row(sum.name)
	}
	for _, m := range s.Members() {
		// named: the type's view prints this member, and the member need not be an amount
		named := func(f bundle.ViewField) bool { return f.Path == "resumen."+m.Name }
		if _, known := labels[m.Name]; !known && !slices.Contains(silent, m.Name) && m.Name != "condicionOperacion" &&
			!slices.ContainsFunc(b.own.Fields, named) {
			row(m.Name)
		}
	}
	v.Words = b.text(s, "totalLetras", "totalIVAretenidoLetras")
	b.settlement(v, s)

	extra := b.doc.Get("extension")
	for _, from := range []dte.Value{s, extra, b.doc} {
		v.Observations = append(v.Observations, b.fonts.Paragraphs(pick(from, "observaciones").Text())...)
	}
	for _, f := range []struct{ label, name string }{
		{"Entrega", "nombEntrega"}, {"Documento de quien entrega", "docuEntrega"}, {"Recibe", "nombRecibe"},
		{"Documento de quien recibe", "docuRecibe"}, {"Placa del vehículo", "placaVehiculo"},
		{"Responsable", "codEmpleado"},
	} {
		value := b.text(extra, f.name)
		if strings.HasPrefix(f.name, "docu") {
			value = dte.FormatDocument("", value)
		}
		v.Delivery.add(f.label, value)
	}
	notes := b.doc.Get("apendice")
	for _, n := range notes.Items() {
		v.Appendix.add(cmp.Or(b.text(n, "etiqueta", "campo"), "Dato"), b.text(n, "valor"))
	}
}

func (b *builder) dollars(v dte.Value) string {
	s, negative := strings.CutPrefix(b.number(v, 2), "-")
	if negative {
		return "-$" + s
	}
	return "$" + s
}

func (b *builder) taxes(v *View, list dte.Value) {
	for _, t := range list.Items() {
		label := cmp.Or(b.text(t, "descripcion"), b.coded(t, "CAT-015", "codigo"))
		if amount := t.Get("valor"); amount.Kind() == dte.KindNumber {
			v.Totals = append(v.Totals, Field{label, b.dollars(amount)})
		}
	}
}

func (b *builder) settlement(v *View, s dte.Value) {
	v.Terms.add("Condición de la operación", b.coded(s, "CAT-016", "condicionOperacion"))
	v.Terms.add("Retención", b.coded(s, "CAT-006", "codigoRetencionMH"))
	v.Terms.add("Número de pago electrónico", b.text(s, "numPagoElectronico"))
	v.Terms.add("Incoterms", b.text(s, "descIncoterms", "codIncoterms"))
	list := s.Get("pagos")
	t := Table{Title: "Pagos", Cols: []Col{{Head: "Forma de pago", Flex: true}, {Head: "Referencia"}, {Head: "Plazo"},
		{Head: "Monto", Numeric: true}}}
	for _, p := range list.Items() {
		term := b.coded(p, "CAT-018", "plazo")
		if n := p.Get("periodo"); n.Kind() == dte.KindNumber {
			term = b.number(n, 0) + " " + term
		}
		amount := ""
		if a := p.Get("montoPago"); a.Kind() == dte.KindNumber {
			amount = b.dollars(a)
		}
		t.Rows = append(t.Rows, Row{Cells: []string{b.coded(p, "CAT-017", "codigo"), b.text(p, "referencia"), term,
			amount}})
	}
	v.Payments = t.trim()
}

func (b *builder) groups() []Table {
	var out []Table
	for _, third := range []struct{ name, title string }{
		{"ventaTercero", "Venta a cuenta de terceros"}, {"compraTercero", "Compra a cuenta de terceros"},
	} {
		if p := b.doc.Get(third.name); p.Kind() == dte.KindObject {
			t := Table{Title: third.title, Cols: []Col{{Head: "NIT o documento"}, {Head: "Nombre", Flex: true},
				{Head: "Domicilio"}}}
			t.Rows = []Row{{Cells: []string{b.identifier(p, "numDocumento"), b.text(p, "nombre"), b.coded(p, "CAT-032",
				"codDomiciliado")}}}
			out = append(out, t.trim())
		}
	}
	t := Table{Title: "Documentos relacionados", Cols: []Col{{Head: "Tipo de documento"}, {Head: "Generación"},
		{Head: "Número de documento", Flex: true}, {Head: "Fecha"}}}
	for _, r := range list(b.doc.Get("documentoRelacionado")) {
		t.Rows = append(t.Rows, Row{Cells: []string{
			b.coded(r, "CAT-002", "tipoDocumento"), b.coded(r, "CAT-007", "tipoGeneracion"),
			b.text(r, relatedNumber...), b.date(r.Get("fechaEmision").Text()),
		}})
	}
	out = append(out, t.trim())
	t = Table{Title: "Otros documentos asociados", Cols: []Col{{Head: "Tipo"}, {Head: "Identificación"},
		{Head: "Descripción", Flex: true}}}
	for _, o := range list(b.doc.Get("otrosDocumentos")) {
		doctor := o.Get("medico")
		t.Rows = append(t.Rows, Row{Cells: []string{
			b.coded(o, "CAT-021", "codDocAsociado"),
			b.text(o, "descDocumento") + b.identifier(doctor, "docIdentificacion"),
			b.text(o, "detalleDocumento") + b.text(doctor, "nombre"),
		}})
	}
	return slices.DeleteFunc(append(out, t.trim()), func(t Table) bool { return len(t.Rows) == 0 })
}

// identifier returns a person's formatted NIT, or else the formatted number from the member named other.
func (b *builder) identifier(v dte.Value, other string) string {
	if nit := b.text(v, "nit"); nit != "" {
		return dte.FormatNIT(nit)
	}
	return dte.FormatDocument(v.Get("tipoDocumento").Text(), b.text(v, other))
}

// list returns the items of an array, or a single object as the only item.
func list(v dte.Value) []dte.Value {
	if v.Kind() == dte.KindObject {
		return []dte.Value{v}
	}
	return v.Items()
}

func (t Table) trim() Table {
	out := Table{Title: t.Title}
	for i, c := range t.Cols {
		if !c.Flex && !slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Cells[i] != "" }) {
			continue
		}
		out.Cols = append(out.Cols, c)
	}
	for _, r := range t.Rows {
		var cells []string
		for i, c := range r.Cells {
			if slices.Contains(out.Cols, t.Cols[i]) {
				cells = append(cells, c)
			}
		}
		out.Rows = append(out.Rows, Row{Cells: cells})
	}
	return out
}

// maxShift is the most places by which an exponent moves the point. Beyond it, a number is printed unchanged.
const maxShift = 40

// Printed returns a JSON number in the form for people: no exponent, at least the given number of decimals, commas
// between thousands. The value stays exactly the same.
func Printed(literal string, decimals int) string {
	digits, negative := strings.CutPrefix(literal, "-")
	whole, fraction, ok := plain(digits)
	if !ok {
		return literal
	}
	fraction += strings.Repeat("0", max(0, decimals-len(fraction)))
	var b strings.Builder
	if negative {
		b.WriteByte('-')
	}
	for i, d := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	if fraction != "" {
		b.WriteString("." + fraction)
	}
	return b.String()
}

// plain splits an unsigned literal at its point after applying the exponent: 1.4381E-4 gives 0 and 00014381.
func plain(s string) (whole, fraction string, ok bool) {
	mantissa, exponent, shifted := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ = strings.Cut(mantissa, ".")
	if !allDigits(whole) || (fraction != "" && !allDigits(fraction)) {
		return "", "", false
	}
	if shifted {
		shift, negative := 0, strings.HasPrefix(exponent, "-")
		for _, d := range strings.TrimLeft(exponent, "+-") {
			if shift = shift*10 + int(d-'0'); shift > maxShift {
				return "", "", false
			}
		}
		if negative {
			whole = strings.Repeat("0", shift) + whole
			cut := len(whole) - shift
			whole, fraction = whole[:cut], whole[cut:]+fraction
		} else {
			fraction += strings.Repeat("0", max(0, shift-len(fraction)))
			whole, fraction = whole+fraction[:shift], fraction[shift:]
		}
	}
	return cmp.Or(strings.TrimLeft(whole, "0"), "0"), fraction, true
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isZero(literal string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
	return strings.Trim(mantissa, "-0.") == ""
}
