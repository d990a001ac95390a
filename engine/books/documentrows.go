package books

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"dtegate/engine/dte"
)

// placement says where a document is in the books of a month: its rows, and its files.
type placement struct {
	rows   []row
	daily  *share // the document's share of a row in annex 2
	sold   *share // the document's share of a row in the book of consumers
	files  []*layout
	motive string   // why a document of the month is in no file; or ""
	notes  []string // facts about a document in a file that the accountant must know
}

type row struct {
	file  *layout
	cells []string
}

const (
	class         = "4"   // documento tributario electrónico (p. 1)
	notApplicable = "N/A" // because documents are grouped by day (p. 8)
	// periods is how many months back annex 2 accepts invalidated documents (p. 7).
	periods = 3
)

func (p *placement) add(file *layout, cells ...string) {
	p.rows = append(p.rows, row{file, cells})
	p.addFile(file)
}

func (p *placement) addFile(file *layout) {
	if !slices.Contains(p.files, file) {
		p.files = append(p.files, file)
	}
}

// limit returns p or, if an amount is too wide for the annexes' columns, an empty placement with this motive.
func (p *placement) limit() *placement {
	amount := decimal.Zero
	if p.daily != nil {
		amount = p.daily.total().Abs()
	}
	for _, r := range p.rows {
		for _, column := range r.file.sums {
			if cell, err := decimal.NewFromString(r.cells[column]); err == nil && !r.file.header {
				amount = decimal.Max(amount, cell.Abs())
			}
		}
	}
	if amount.LessThan(widest) {
		return p
	}
	return &placement{motive: "lleva " + money(amount) + ", y una columna de los anexos admite hasta 9999999999.99 " +
		"(p. 2): anótelo y declárelo a mano"}
}

func (p *placement) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func place(d *sealed, month string, s *Settings) *placement {
	p := new(placement)
	own := strings.HasPrefix(d.Date, month)
	if len(d.JSON) == 0 {
		p.motive = "el equipo perdió sus datos firmados: pídalos al cliente o a Hacienda, y anótelo a mano"
		return p
	}
	if d.State == invalidated && (strings.HasPrefix(d.Invalidated, month) || d.Invalidated == "" && own) {
		p.cancel(d, own, s)
		return p
	}
	switch {
	case !own: // from another month, and no event of this month invalidated it
	case d.State == processed:
		p.file(d, s)
	case d.State == invalidated && later[d.Type] != "":
		if p.file(d, s); p.motive == "" {
			p.note(later[d.Type], day(d.Invalidated), d.Invalidated[:7])
		}
	case d.State == invalidated:
		p.motive = fmt.Sprintf(
			"invalidado el %s: los anexos no llevan documentos invalidados; consta en anulados.csv "+
				"de %s. Si la declaración de %s ya se presentó, se modifica",
			day(d.Invalidated), d.Invalidated[:7], month)
	case d.State == rejected && d.Deferred:
		p.motive = "Hacienda lo rechazó después de entregado en contingencia: la venta no tiene documento válido: " +
			text(d.Refusal)
	case d.State == rejected:
		p.motive = "Hacienda lo rechazó: " + text(d.Refusal)
	case d.State == contingency:
		p.motive = "emitido en contingencia y todavía sin sello de recepción: los libros se hacen otra vez cuando lo " +
			"tenga"
	default:
		p.motive = "todavía sin respuesta de Hacienda: los libros se hacen otra vez cuando la tenga"
	}
	return p
}

// later has, by type, the note on a document that was invalidated in a later month: where the invalidation is counted.
var later = map[string]string{
	"01": "invalidada el %s: se resta en el anexo02 de %s (art. 111 CT, p. 10)",
	"11": "invalidada el %s: se resta en el libro de consumidores de %s (art. 87)",
	"18": "invalidado el %s: se repone en el libro de consumidores de %s (art. 87)",
}

// elsewhere has, by type, the reason why valid documents are in no file.
var elsewhere = map[string]string{
	"04": "nota de remisión: acompaña bienes y no es una venta; se factura aparte",
	"08": "comprobante de liquidación: a mano se cita en el anexo 4 (casilla 108, p. 20), junto a las ventas del " +
		"mandante, y se anota en el libro de contribuyentes (art. 85 b)",
	"09": "documento contable de liquidación: el anticipo del 2 % se declara a mano en el anexo 11 (casilla 171)",
	"15": "comprobante de donación: no es una venta, y los anexos de ventas (pp. 2 y 8) no lo llevan",
}

func (p *placement) file(d *sealed, s *Settings) {
	switch d.Type {
	case "01":
		p.daily, p.sold = d.share(s), d.share(s)
		p.addFile(annex02)
		p.addFile(consumers)
	case "03", "05", "06":
		p.taxpayer(d, s)
	case "07":
		p.withheld(d)
	case "11":
		p.export(d, s)
	case "14":
		p.placePurchase(d, s)
	case "18":
		p.returned(d, s)
	default:
		p.motive = cmp.Or(elsewhere[d.Type], "ningún anexo de lo emitido lleva el tipo "+d.Type)
		if nit, dui := d.customer.identity(); d.Type == "09" && len(d.Cuerpo) == 1 && nit+dui != "" {
			p.report(d, nit+dui, advance, "2", d.Cuerpo[0].PerceivedBase, d.Cuerpo[0].Perceived)
			p.notes, p.motive = []string{p.motive}, ""
		}
	}
	if p.motive == "" && d.State == processed {
		p.list(d)
	}
}

// list places a document in the files for people, except the VAT books: the extract for the book of purchases, the
// withheld income tax, and the withholding vouchers that customers owe.
func (p *placement) list(d *sealed) {
	nit, dui := d.customer.identity()
	who, nrc := cmp.Or(nit+dui, digits(d.customer.Number)), dte.FormatNRC(d.customer.NRC)
	switch {
	case d.Type == "07":
		var base decimal.Decimal
		for _, l := range d.Cuerpo {
			base = base.Add(l.Base)
		}
		p.add(purchases, "", d.day, "07", d.ControlNumber, d.Code, nrc, who, d.name, "0.00", money(base),
			money(d.retained), "0.00")
	case d.Type == "14":
		p.add(purchases, "", d.day, "14", d.ControlNumber, d.Code, nrc, who, d.name, money(d.purchase), "0.00",
			money(d.retained), money(d.incomeTax))
		if d.incomeTax.IsPositive() {
			p.add(incomeTaxes, "", d.day, who, d.name, d.ControlNumber, d.Code, money(d.purchase), money(d.incomeTax))
		}
	case slices.Contains([]string{"01", "03", "05", "06"}, d.Type) && d.retained.IsPositive():
		taxed, retained := d.taxed, d.retained
		if d.Type == "05" {
			taxed, retained = taxed.Neg(), retained.Neg()
		}
		p.add(expected, "", d.day, d.Type, d.ControlNumber, d.Code, nit+dui, nrc, d.name, money(taxed), money(retained))
	}
}

// El Salvador, and the countries that the manual counts within Central America (p. 9), in both forms of CAT-020.
var (
	here           = []string{"SV", "9300"}
	centralAmerica = []string{"CR", "GT", "HN", "NI", "9411", "9483", "9501", "9615"}
)

// Types of income of an export (p. 10).
const (
	exportedGoods    = 7
	exportedServices = 9
)

// export places an export invoice in the books of consumers and of exports, and in its column of annex 2.
func (p *placement) export(d *sealed, s *Settings) {
	p.sold = d.share(s)
	switch {
	case d.Third != nil && d.Third.Domicile != 2:
		p.note("no está en anexo02: es una venta por cuenta de %s, del anexo 4 (casilla 108, p. 19); se declara a mano",
			text(d.Third.Name))
	case d.Emisor.Exports == 3:
		p.note("no está en anexo02: exporta bienes y servicios en un documento, y cada uno tiene columna (O a Q) y " +
			"tipo de ingreso (7 o 9, p. 10) propios; se declara a mano")
	default:
		p.daily = p.sold
		p.addFile(annex02)
	}
	p.addFile(consumers)
	if d.Third == nil {
		p.add(exported, "", d.day, d.ControlNumber, d.Code, d.name, "", money(d.taxed))
	}
	if carriage := d.Resumen.Insurance.Add(d.Resumen.Freight); carriage.IsPositive() && d.Emisor.Exports != 2 {
		p.note("incluye %s de seguro y flete: Aduanas compara los bienes con la declaración de mercancías (p. 10)",
			money(carriage))
	}
}

func (p *placement) taxpayer(d *sealed, s *Settings) {
	if slices.ContainsFunc(d.Relacionados, func(r related) bool { return r.Type == "07" }) {
		p.motive = "nota sobre un comprobante de retención: se declara a mano en el anexo 10 o 12"
		return
	}
	nit, dui := d.customer.identity()
	number := nit
	if nit == "" && dui == "" {
		number = digits(d.customer.NRC)
	}
	operation, income := s.sale(d)
	total := d.exempt.Add(d.nonSubject).Add(d.taxed).Add(d.vat)
	if number == "" && dui == "" {
		p.note("no cabe en anexo01: el cliente no tiene NIT, NRC ni DUI (columnas H y Q, pp. 2 y 3); se declara a mano")
	} else {
		p.add(annex01, d.day, class, d.Type, d.control, d.Seal, d.code, "", number, d.name, money(d.exempt),
			money(d.nonSubject), money(d.taxed), money(d.vat), "0.00", "0.00", money(total), dui,
			strconv.Itoa(operation), strconv.Itoa(income), "1")
	}
	if d.perceived.IsPositive() {
		if nit == "" && dui == "" {
			p.note("no cabe en anexo09 ni en f930: el cliente no tiene NIT ni DUI (p. 37); se declara a mano")
		} else {
			p.add(annex09, nit, d.day, d.Type, d.control, d.Seal, d.code, money(d.taxed), money(d.perceived), dui, "9")
			kind := map[string]string{"03": "1", "05": "5", "06": "4"}[d.Type]
			p.report(d, nit+dui, perception, kind, d.taxed, d.perceived)
		}
	}
	of := money
	if d.Type == "05" {
		of = func(a decimal.Decimal) string { return money(a.Neg()) }
	}
	kind := map[string]string{"03": "CCF", "05": "NC", "06": "ND"}[d.Type]
	p.add(taxpayers, "", d.day, kind, d.ControlNumber, d.Code, "", d.name, dte.FormatNRC(d.customer.NRC),
		of(d.exempt), of(d.nonSubject), of(d.taxed), of(d.vat), "0.00", "0.00", of(d.perceived), of(total))
}

// Codes of the F-930.
const (
	agent      = "1" // calidad: the agent that perceives or withholds
	perception = "1" // modalidad
	advance    = "2"
	retention  = "3"
)

func (p *placement) report(d *sealed, nit, kind, document string, base, amount decimal.Decimal) {
	p.add(f930, "", nit, d.name, agent, kind, document, d.day, d.Seal, d.code, money(base), money(amount))
}

// withheld places a withholding voucher (07), with the sums of its lines for each code of CAT-006.
func (p *placement) withheld(d *sealed) {
	nit, dui := d.customer.identity()
	if nit == "" && dui == "" {
		p.motive = "el sujeto no tiene NIT ni DUI (columnas A e I, pp. 41 y 47); se declara a mano"
		return
	}
	bases, amounts := d.retentions()
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(bases)) {
		base, amount := bases[code], amounts[code]
		switch code {
		case "22":
			p.add(annex10, nit, d.day, "07", d.control, d.Seal, d.code, money(base), money(amount), dui, "10")
		case "C4":
			p.add(annex12, nit, d.day, "07", d.Seal, d.control, d.code, money(base), money(amount), dui, "12")
		default:
			p.note("retiene %s por otros casos (%s): está en f930, pero ni el anexo 10 ni el 12 los llevan; se "+
				"declara a mano", money(amount), text(code))
		}
		p.report(d, nit+dui, retention, "3", base, amount)
		rate := map[string]string{"22": "1 %", "C4": "13 %"}[code]
		parts = append(parts, strings.TrimSpace(text(code)+" "+rate)+" "+money(amount)+" sobre "+money(base))
	}
	if len(parts) > 1 {
		p.note("retiene por más de un código: una fila de f930 por cada uno, cada una con la base de su tasa: %s",
			strings.Join(parts, "; "))
	}
}

func (p *placement) placePurchase(d *sealed, s *Settings) {
	kind, number := "3", digits(d.customer.Number)
	switch nit, dui := d.customer.identity(); {
	case nit != "":
		kind, number = "1", nit
	case dui != "":
		kind, number = "2", dui
	}
	if number == "" || len(number) > 14 {
		p.motive = fmt.Sprintf("el número del documento del sujeto excluido, %q, no cabe en los 14 caracteres de la "+
			"columna B (p. 23); se declara a mano", text(d.customer.Number))
		return
	}
	c := s.purchase(d)
	p.add(annex05, kind, number, d.name, d.day, d.Seal, d.code, money(d.purchase), money(d.retained),
		strconv.Itoa(c.Operation), strconv.Itoa(c.Classification), strconv.Itoa(c.Sector), strconv.Itoa(c.Cost), "5")
	switch {
	case !d.retained.IsPositive():
	case kind == "3":
		p.note("no cabe en f930: el sujeto excluido no tiene NIT ni DUI; se declara a mano")
	default:
		p.report(d, number, retention, "7", d.purchase, d.retained)
	}
}

// returned places a return (18). The return of an invoice is subtracted from the sales of the return's day (art. 87).
func (p *placement) returned(d *sealed, s *Settings) {
	if !d.returnsInvoice() {
		p.motive = "retorno de una compra a sujeto excluido: el anexo 5 no lleva montos negativos (p. 23); se " +
			"declara a mano"
		return
	}
	back := d.share(s)
	back.negate()
	back.adjust = "Retorno de la factura " + d.Relacionados[0].Code
	if n := len(d.Relacionados); n > 1 {
		back.adjust += fmt.Sprintf(" y %d más", n-1)
	}
	p.adjust(back, s)
}

func (d *sealed) returnsInvoice() bool {
	return len(d.Relacionados) > 0 && d.Relacionados[0].Type == "01"
}

// adjust places the amounts of a return: they lower the sales. The amounts of its invalidation raise the sales again.
func (p *placement) adjust(by *share, s *Settings) {
	if s.Returns == "annex2" {
		p.daily = by
		p.addFile(annex02)
	} else {
		p.note("no está en anexo02, cuya lista de tipos (p. 8) no lleva retornos: se ajusta a mano, o con returns = " +
			"\"annex2\"")
	}
	p.sold = by
	p.addFile(consumers)
}

func (p *placement) cancel(d *sealed, own bool, s *Settings) {
	switch d.Type {
	case "18":
		p.cancelReturn(d, own, s)
		return
	case "15":
		p.motive = "donación invalidada: la lista de tipos de los anulados (p. 56) no lleva el 15"
		return
	}
	control, code := d.ControlNumber, d.Code
	if !*s.CancelledHyphens {
		control, code = plain(control), plain(code)
	}
	if (d.Type == "01" || d.Type == "11") && !own {
		back := d.share(s)
		back.negate()
		back.adjust = "Invalidación de la factura del " + d.day
		switch {
		case monthsBetween(d.Date, d.Invalidated) > periods:
			p.note("su mes es anterior a los tres períodos que el anexo02 admite (p. 7): se ajusta a mano")
		case d.Type == "11" && back.exports[service].IsZero():
			p.note("no está en anexo02: sus columnas O, P, R y S no admiten montos negativos (p. 9); se ajusta a mano")
		default:
			p.daily = back
			p.addFile(annex02)
		}
		sold := *back
		sold.date = d.Invalidated // "en el mes en que ello ocurra" (art. 87)
		p.sold = &sold
	}
	p.add(cancelled, control, class, "0", "0", d.Type, "D", d.Seal, "0", "0", code)
	if p.sold != nil {
		p.addFile(consumers)
	}
}

// cancelReturn places an invalidated return. A return of an earlier month lowered that month's declared sales. Its
// amounts are therefore added to the month of the invalidation (art. 87).
func (p *placement) cancelReturn(d *sealed, own bool, s *Settings) {
	if own || !d.returnsInvoice() {
		p.motive = "retorno invalidado: la lista de tipos de los anulados (p. 56) no lleva el 18"
		return
	}
	back := d.share(s)
	back.date, back.adjust = d.Invalidated, "Invalidación del retorno del "+d.day
	p.adjust(back, s)
}

// monthsBetween returns the number of months between two days, periods+1 if one is unreadable.
func monthsBetween(from, to string) int {
	a, err := time.Parse(time.DateOnly, from)
	b, bad := time.Parse(time.DateOnly, to)
	if err != nil || bad != nil {
		return periods + 1
	}
	return (b.Year()-a.Year())*12 + int(b.Month()) - int(a.Month())
}

// identity returns a NIT of 14 digits or a DUI of 9 digits, never both. The member nit may also contain a DUI.
func (p *party) identity() (nit, dui string) {
	number := digits(p.NIT)
	if number == "" && (p.DocumentType == "36" || p.DocumentType == "13") {
		number = digits(p.Number)
	}
	switch len(number) {
	case 14:
		return number, ""
	case 9:
		return "", number
	}
	return "", ""
}
