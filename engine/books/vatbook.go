package books

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"dtegate/engine/dte"
	"dtegate/engine/pdf"
)

var monthNames = [...]string{"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
	"octubre", "noviembre", "diciembre"}

// monthName returns the month in words, "noviembre de 2026".
func (b *Book) monthName() string {
	return fmt.Sprintf("%s de %d", monthNames[b.month.Month()-1], b.month.Year())
}

// heading writes the heading that article 82 requires for a book: name, title, NRC, month.
func (b *Book) heading(l *layout, put func([]string) error) error {
	var names []string
	for _, c := range l.Columns {
		names = append(names, c.Name)
	}
	for _, line := range [][]string{{l.title}, {"Contribuyente", text(b.issuer.Name)},
		{"NRC", dte.FormatNRC(b.issuer.NRC)},
		{"NIT", dte.FormatNIT(b.issuer.NIT)}, {"Mes", b.monthName()}, {""}, names} {
		if err := put(line); err != nil {
			return err
		}
	}
	return nil
}

func (b *Book) totals(l *layout) []string {
	cells := make([]string, len(l.Columns))
	cells[0] = "Totales"
	for i, column := range l.sums {
		cells[column] = money(b.files[l].sums[i])
	}
	return cells
}

// total returns the sum of a file's column, named by its letter; 0 if the column is not added up.
func (b *Book) total(l *layout, letter byte) decimal.Decimal {
	if i := slices.Index(l.sums, int(letter-'A')); i >= 0 {
		return b.files[l].sums[i]
	}
	return decimal.Zero
}

// rateWithin is the part of VAT in a price that includes VAT: 13/113 (Ley de IVA, art. 54).
var rateWithin = decimal.NewFromInt(13).DivRound(decimal.NewFromInt(113), 16)

// reckoning returns the summary of a book: the VAT of sales to consumers (art. 83), or of all sales (art. 85).
func (b *Book) reckoning(l *layout) [][]string {
	if l != taxpayers && l != consumers {
		return nil
	}
	taxed := b.total(consumers, 'H')
	vat := taxed.Mul(rateWithin).Round(2)
	lines := [][]string{{""}, {"Resumen del débito fiscal de ventas a consumidores"},
		{"Ventas gravadas con IVA", money(taxed)}, {"Ventas gravadas sin IVA", money(taxed.Sub(vat))},
		{"Débito fiscal (13 de 113)", money(vat)}, {"IVA que dicen los documentos", money(b.sum.vat)}}
	if l == taxpayers {
		lines = append(lines, []string{""},
			[]string{"Resumen de ventas", "Exentas", "No sujetas", "Gravadas sin IVA", "Débito fiscal"})
		first := len(lines)
		lines = append(lines, []string{"A contribuyentes"}, []string{"A consumidores finales"}, []string{"Total"})
		consumed := []decimal.Decimal{b.total(consumers, 'F'), b.total(consumers, 'G'), taxed.Sub(vat), vat}
		for i, other := range consumed {
			own := b.total(taxpayers, byte('I'+i))
			for k, amount := range []decimal.Decimal{own, other, own.Add(other)} {
				lines[first+k] = append(lines[first+k], money(amount))
			}
		}
		third := money(b.total(consumers, 'K'))
		lines = append(lines, []string{"Por cuenta de terceros", "0.00", "0.00", third, "0.00"})
	}
	return append(lines, []string{""}, []string{"Nombre y firma del contador o del contribuyente", ""})
}

// print draws the books as PDF, in volumes. The folios are numbered across the volumes.
func (b *Book) print() error {
	if b.o.Print == nil {
		return nil
	}
	for _, l := range []*layout{taxpayers, consumers} {
		t := pdf.Book{
			Title: l.title,
			Heading: []string{b.issuer.Name, "NRC " + dte.FormatNRC(b.issuer.NRC), "NIT " + dte.FormatNIT(b.issuer.NIT),
				b.monthName()},
			Right: make([]bool, len(l.Columns)),
			Folio: 1,
			At:    b.month.AddDate(0, 1, 0), // not the present time: the same books give the same bytes
		}
		for i, c := range l.Columns {
			t.Columns, t.Right[i] = append(t.Columns, c.Name), c.Name == documentsColumn
		}
		for _, i := range l.sums {
			t.Right[i] = true
		}
		var rows [][]string
		volumes := 0
		flush := func(last bool) error {
			if !last && len(rows) < b.o.Volume {
				return nil
			}
			if last {
				t.Total, t.Summary = b.totals(l), b.reckoning(l)
			}
			volumes++
			name := strings.TrimSuffix(l.Name, ".csv")
			if volumes > 1 {
				name = fmt.Sprintf("%s_%d", name, volumes)
			}
			t.Rows, rows = rows, nil
			return b.create(name+".pdf", func(out *bufio.Writer) error {
				pages, err := b.o.Print(out, t)
				t.Folio += pages
				return err
			})
		}
		err := b.eachRow(l, func(cells []string) error {
			rows = append(rows, cells)
			return flush(false)
		})
		if err == nil {
			err = flush(true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// IsFile reports whether a file of this name belongs to the books.
func IsFile(name string) bool {
	return name == SummaryName || slices.ContainsFunc(slices.Concat(layouts, receivedLayouts), func(l *layout) bool {
		return name == l.Name || l.header && strings.HasPrefix(name, strings.TrimSuffix(l.Name, ".csv")) &&
			strings.HasSuffix(name, ".pdf")
	})
}
