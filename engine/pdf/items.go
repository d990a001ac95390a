package pdf

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"dtegate/engine/dte"
)

// show is the condition on which a column of the lines is printed.
type show uint8

const (
	ifPresent show = iota // a line has the member, not null
	ifUsed                // a line has the member, not zero
	ifSale                // as ifPresent, unless the document is only a purchase
)

type spec struct {
	head  string
	names []string
	when  show
	as    func(b *builder, v dte.Value) string
	col   Col
	own   bool // the column is of the type's view
}

// columns are the columns of all types of documents. A column is printed if the lines have its member: no type needs a
// list of its own. A renamed member is listed under all its names.
var columns = []spec{
	{head: "N.º", names: []string{"numItem"}, as: plainText, col: Col{Numeric: true}},
	{head: "Cantidad", names: []string{"cantidad"}, as: count, col: Col{Numeric: true}},
	{head: "Unidad", names: []string{"uniMedida"}, as: listed("CAT-014")},
	{head: "Tipo de documento", names: []string{"tipoDte"}, as: listed("CAT-002")},
	{head: "Generación", names: []string{"tipoGeneracion", "tipoDoc"}, as: listed("CAT-007")},
	{head: "Número de documento", names: retained, as: plainText},
	{head: "Fecha", names: []string{"fechaEmision"}, as: dated},
	{head: "Descripción", names: []string{"descripcion"}, as: plainText, col: Col{Flex: true}},
	{head: "Precio unitario", names: []string{"precioUni", "valorUni"}, as: money, col: Col{Numeric: true}},
	{head: "Descuento", names: []string{"montoDescu"}, when: ifUsed, as: money, col: Col{Numeric: true}},
	{head: "Otros montos no afectos", names: []string{"noGravado"}, when: ifUsed, as: money, col: Col{Numeric: true}},
	{head: "Ventas no sujetas", names: []string{"ventaNoSuj"}, when: ifSale, as: money, col: Col{Numeric: true}},
	{head: "Ventas exentas", names: []string{"ventaExenta"}, when: ifSale, as: money, col: Col{Numeric: true}},
	{head: "Ventas gravadas", names: []string{"ventaGravada"}, when: ifSale, as: money, col: Col{Numeric: true}},
	{head: "Compra", names: []string{"compra", "valor"}, when: ifUsed, as: money, col: Col{Numeric: true}},
	{head: "Retención", names: []string{"codigoRetencionMH"}, as: listed("CAT-006")},
	{head: "Monto sujeto", names: []string{"montoSujetoGrav"}, as: money, col: Col{Numeric: true}},
	{head: "IVA retenido", names: []string{"ivaRetenido"}, as: money, col: Col{Numeric: true}},
}

var (
	retained      = []string{"numeroDocumento", "numDocumento"}
	relatedNumber = []string{"numeroDocumento", "codigoGeneracion"}
	sales         = []string{"ventaGravada", "ventaExenta", "ventaNoSuj"}

	// silent are the members that MF2 excludes from the printed version.
	silent = []string{"ivaItem", "totalIva", "psv"}
)

func count(b *builder, v dte.Value) string     { return b.number(v, 0) }
func money(b *builder, v dte.Value) string     { return b.number(v, 2) }
func plainText(b *builder, v dte.Value) string { return b.fonts.Clean(v.Text()) }
func dated(b *builder, v dte.Value) string     { return b.date(v.Text()) }
func listed(catalogue string) func(*builder, dte.Value) string {
	return func(b *builder, v dte.Value) string { return b.word(catalogue, v.Text()) }
}

func (b *builder) number(v dte.Value, decimals int) string {
	if v.Kind() != dte.KindNumber {
		return b.fonts.Clean(v.Text())
	}
	return Printed(v.Text(), decimals)
}

// columns returns the columns of the lines. The type's view may print a member in a column of its own instead.
func (b *builder) columns() []spec {
	all := slices.Clone(columns)
	for _, c := range b.own.Columns {
		s := spec{head: b.fonts.Clean(c.Head), names: c.Paths, as: plainText, own: true}
		switch {
		case c.Catalogue != "":
			s.as = listed(c.Catalogue)
		case c.As == "money":
			s.as, s.when, s.col.Numeric = money, ifUsed, true
		case c.As == "count":
			s.as, s.col.Numeric = count, true
		case c.As == "date":
			s.as = dated
		}
		at := len(all)
		for i, have := range all {
			names := slices.DeleteFunc(slices.Clone(have.names), func(n string) bool {
				return slices.Contains(c.Paths, n)
			})
			if len(names) < len(have.names) {
				all[i].names, at = names, min(at, i)
			}
		}
		all = slices.Insert(all, at, s)
	}
	return all
}

// items returns the table of the lines. It calls pause after each line.
func (b *builder) items(pause func()) Table {
	lines := b.doc.Get("cuerpoDocumento").Items()
	present, used := map[string]bool{}, map[string]bool{}
	for _, line := range lines {
		for _, m := range line.Members() {
			if m.Value.Present() {
				present[m.Name] = true
				used[m.Name] = used[m.Name] || m.Value.Kind() != dte.KindNumber || !isZero(m.Value.Text())
			}
		}
	}
	related := present["montoSujetoGrav"] // the lines are documents: their numbers are a column, not notes
	purchase := used["compra"] && !slices.ContainsFunc(sales, func(s string) bool { return used[s] })
	var t Table
	var chosen []spec
	for _, s := range b.columns() {
		has := func(in map[string]bool) bool {
			return slices.ContainsFunc(s.names, func(n string) bool { return in[n] })
		}
		ok := has(present)
		switch {
		case s.when == ifUsed:
			ok = has(used)
		case s.when == ifSale:
			ok = ok && !purchase
		case !related && len(b.own.Columns) == 0 && (s.names[0] == "numeroDocumento" ||
			s.names[0] == "codigoRetencionMH"):
			ok = false
		}
		if ok || s.col.Flex {
			s.col.Head = s.head
			chosen = append(chosen, s)
			t.Cols = append(t.Cols, s.col)
		}
	}
	for _, line := range lines {
		t.Rows = append(t.Rows, b.item(line, chosen, related))
		pause()
	}
	return t
}

func (b *builder) item(v dte.Value, chosen []spec, related bool) Row {
	var r Row
	var about []string
	shown := map[string]bool{}
	for _, s := range chosen {
		cell := ""
		for _, n := range s.names {
			shown[n] = true
		}
		if m := pick(v, s.names...); m.Exists() {
			cell = s.as(b, m)
			if s.own && cell != "" && !(m.Kind() == dte.KindNumber && isZero(m.Text())) && !slices.ContainsFunc(s.names,
				func(n string) bool { return slices.Contains(ofSale, n) }) {
				about = append(about, s.head+": "+cell)
			}
		}
		r.Cells = append(r.Cells, cell)
	}
	r.Notes = b.notes(v, shown, related)
	r.Sale = b.sale(v, related)
	r.Sale.About = append(r.Sale.About, about...)
	return r
}

func (b *builder) notes(v dte.Value, shown map[string]bool, related bool) []string {
	var out []string
	add := func(label, value string) {
		if value != "" {
			out = append(out, label+": "+value)
		}
	}
	add("Código", b.text(v, "codigo"))
	if !related {
		if n := b.text(v, relatedNumber...); n != b.lone {
			add("Documento relacionado", n)
		}
		add("Retención", b.coded(v, "CAT-006", "codigoRetencionMH"))
	}
	add("Tributo", b.coded(v, "CAT-015", "codTributo"))
	var taxes []string
	for _, tax := range v.Get("tributos").Items() {
		if code := tax.Text(); code != "" && code != dte.VAT {
			taxes = append(taxes, b.word("CAT-015", code))
		}
	}
	add("Tributos", strings.Join(taxes, ", "))
	for _, m := range v.Members() {
		if m.Value.Kind() == dte.KindNumber && !shown[m.Name] && !slices.Contains(silent, m.Name) &&
			!strings.HasPrefix(m.Name, "tipo") && !isZero(m.Value.Text()) {
			add(b.label(m.Name), b.number(m.Value, 2))
		}
	}
	return out
}

// rounded returns a line's amount for a ticket, rounded to a multiple of step. An amount below step keeps its digits.
func (b *builder) rounded(v dte.Value, step dte.Amount) string {
	a, err := v.Amount()
	if err != nil || max(a, -a) < step {
		return b.number(v, 2)
	}
	half := step / 2
	if a < 0 {
		half = -half
	}
	return Printed(((a + half) / step * step).String(), 2)
}

// ofSale are the members of a line that the methods sale and notes already show on a ticket.
var ofSale = []string{"numeroDocumento", "descripcion", "cantidad", "uniMedida", "precioUni", "valorUni", "montoDescu",
	"ventaGravada", "ventaExenta", "ventaNoSuj", "exportaciones", "compra", "valor", "noGravado"}

// sale returns the line for a ticket: the text, the quantity and the price, and the line's amount.
func (b *builder) sale(v dte.Value, related bool) Sale {
	s := Sale{Text: b.text(v, "descripcion")}
	if related {
		s.About = full([]string{b.coded(v, "CAT-002", "tipoDte"), b.coded(v, "CAT-007", "tipoGeneracion", "tipoDoc"),
			b.text(v, retained...), b.date(v.Get("fechaEmision").Text())})
		s.More = append(s.More, Field{"Monto sujeto", b.number(v.Get("montoSujetoGrav"), 2)})
		s.Sum = b.coded(v, "CAT-006", "codigoRetencionMH")
		s.Amount = b.number(v.Get("ivaRetenido"), 2)
		return s
	}
	s.Sum = b.number(v.Get("cantidad"), 0)
	if unit := b.coded(v, "CAT-014", "uniMedida"); unit != "" && unit != "Unidad" && unit != "Otra" {
		s.Sum += " " + unit
	}
	if price := pick(v, "precioUni", "valorUni"); price.Exists() {
		s.Sum += " × " + b.rounded(price, dte.Scale/10_000)
	}
	for _, c := range []struct{ name, label, mark string }{
		{"montoDescu", "Descuento", ""}, {"ventaGravada", "Gravado", " G"}, {"ventaExenta", "Exento", " E"},
		{"ventaNoSuj", "No sujeto", " N"}, {"exportaciones", "Exportaciones", ""}, {"compra", "Compra", ""}, {"valor",
			"Valor", ""}, {"noGravado", "No afecto", " A"},
	} {
		a := v.Get(c.name)
		switch {
		case a.Kind() != dte.KindNumber || isZero(a.Text()):
		case s.Amount == "" && c.name != "montoDescu":
			s.Amount = b.rounded(a, dte.Scale/100) + c.mark
		default:
			s.More = append(s.More, Field{c.label, b.rounded(a, dte.Scale/100) + c.mark})
		}
	}
	s.Amount = cmp.Or(s.Amount, "0.00")
	return s
}

// label returns the label of a member, or words made of its name: totalOtrosCargos becomes "Total otros cargos".
func (b *builder) label(name string) string {
	if l := cmp.Or(b.fonts.Clean(b.own.Labels[name]), labels[name]); l != "" {
		return l
	}
	var out strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			out.WriteRune(unicode.ToUpper(r))
		case unicode.IsUpper(r):
			out.WriteByte(' ')
			out.WriteRune(unicode.ToLower(r))
		default:
			out.WriteRune(r)
		}
	}
	return b.fonts.Clean(out.String())
}
