package pdf

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBook: a book has as many pages as its rows need, the same bytes each time, and nothing beyond the edge of a page,
// however long a name is.
func TestBook(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := Book{Title: "Libro de ventas", Heading: []string{"La Ceiba", "NRC 239051-6", "noviembre de 2026"},
		Columns: []string{"No.", "Número de control", "Código de generación", "Cliente", "Ventas gravadas"},
		Right:   []bool{false, false, false, false, true}, Total: []string{"Totales", "", "", "", "1000000000.00"},
		Folio: 7, At: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		Summary: [][]string{{""}, {"Resumen", "Exentas"}, {"A contribuyentes", "0.00"}, {"Firma", ""}}}
	for i := range 150 {
		b.Rows = append(b.Rows, []string{fmt.Sprint(i + 1), "DTE-03-M001P001-000000000000001",
			"A1226071-78BB-4DB9-922B-C82397635393", strings.Repeat("Comercial El Roble, S.A. de C.V. ", 1+i%9),
			"1000000000.00"})
	}
	var first, second bytes.Buffer
	pages, err := p.Book(&first, b)
	if err != nil || pages < 3 {
		t.Fatalf("%d pages, %v", pages, err)
	}
	if _, err := p.Book(&second, b); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("the same book gives other bytes: %v", err)
	}
	drawn := make(map[string]int)
	for n, pg := range p.book(&b) {
		for i, o := range pg.Ops {
			for _, other := range pg.Ops[:i] { // a text that stands on another cannot be read
				if o.Text != "" && other.Text != "" && o.Y < other.Y+4 && other.Y < o.Y+4 && o.X < other.X+other.W &&
					other.X < o.X+o.W {
					t.Errorf("page %d: %q lies on %q", n+1, o.Text, other.Text)
				}
			}
			drawn[o.Text]++
			if o.X < bookMargin-0.01 || o.X+o.W > bookW-bookMargin+0.01 || o.Y > bookH-bookMargin+1 {
				t.Errorf("page %d: %q lies at %.1f, %.1f, %.1f wide", n+1, o.Text, o.X, o.Y, o.W)
			}
		}
	}
	if drawn["1,000,000,000.00"] != len(b.Rows)+1 {
		t.Errorf("%d amounts with their thousands apart", drawn["1,000,000,000.00"])
	}
	b.Rows = b.Rows[:1]
	if pages, err := p.Book(&second, b); err != nil || pages != 1 {
		t.Errorf("a book of one row: %d pages, %v", pages, err)
	}
	b.Rows, b.Total = nil, nil
	if pages, err := p.Book(&second, b); err != nil || pages != 1 {
		t.Errorf("an empty book: %d pages, %v", pages, err)
	}
}
