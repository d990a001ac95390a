package books

import (
	"strconv"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
)

// TestCells: what an amount, a name and a number become in a cell.
func TestCells(t *testing.T) {
	for amount, want := range map[string]string{"0": "0.00", "-0.009": "0.00", "0.009": "0.00", "1.005": "1.00",
		"-1.999": "-1.99", "1.5": "1.50", "9999999999.999": "9999999999.99"} {
		if got := money(decimal.RequireFromString(amount)); got != want {
			t.Errorf("%s: %s, want %s", amount, got, want)
		}
	}
	for name, want := range map[string]string{"a;b": "a,b", `"La Ceiba", S.A.`: "La Ceiba, S.A.", "=1": "1",
		"-+@=a-b":   "a-b",
		" a \t b\n": "a b", "a\x1fb": "a b", "a\u200bb": "a b", "＝a": "a", "-": "", "": "", "O'Brien": "O'Brien",
		"'=a": "a"} {
		if got := text(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for content, want := range map[string]string{"-1.50": "-1.50", "0.00": "0.00", "-a": "a", "=1": "1",
		"-1x": "1x", "": ""} {
		if got := cell(content); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
	for s, want := range map[string]string{"añÑ~": "a\xf1\xd1~",
		"\u0080\u009f\u00a0\u00ff\u0100€": "??\xa0\xff??", "‘’–—": "''--"} {
		if got := string(windows1252(s)); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if got := digits("0614-29 07.80/A"); got != "06142907"+"80A" {
		t.Errorf("digits: %s", got)
	}
	for s, want := range map[string]int{"2026-08-31 2026-11-01": 3, "2026-07-31 2026-11-01": 4,
		"2025-12-31 2026-01-01": 1,
		"2026-11-01 2026-11-30": 0, "x 2026-11-01": periods + 1, "2026-11-01 ": periods + 1} {
		from, to, _ := strings.Cut(s, " ")
		if got := monthsBetween(from, to); got != want {
			t.Errorf("%s: %d months", s, got)
		}
	}
	for _, c := range []struct {
		p        party
		nit, dui string
	}{
		{party{}, "", ""}, {party{NIT: "0614-290780-112-3"}, "06142907801123", ""},
		{party{NIT: "01234567-8"}, "", "012345678"},
		{party{NIT: "123"}, "", ""}, {party{DocumentType: "36", Number: "06142907801123"}, "06142907801123", ""},
		{party{DocumentType: "13", Number: "012345678"}, "", "012345678"},
		{party{DocumentType: "37", Number: "012345678"}, "", ""}, {party{Number: "012345678"}, "", ""},
		{party{NIT: "1", DocumentType: "13", Number: "012345678"}, "", ""},
		{party{NIT: "06142907801123", DocumentType: "13", Number: "012345678"}, "06142907801123", ""},
	} {
		if nit, dui := c.p.identity(); nit != c.nit || dui != c.dui {
			t.Errorf("%+v: %q, %q", c.p, nit, dui)
		}
	}
}

func usdOf(cents int64) decimal.Decimal { return decimal.New(cents, -2) }

// TestSettings_Codes: which codes a sale and a purchase get.
func TestSettings_Codes(t *testing.T) {
	s := Settings{SaleCodes: SaleCodes{Income: 5}, Sale: []SaleRule{{Fits{"S001", 2}, SaleCodes{3, 9}},
		{Fits{Establishment: "S001"}, SaleCodes{Operation: 12}}, {Fits{Item: 4}, SaleCodes{Income: 1}}},
		Purchase: []PurchaseRule{{Fits{Item: 3}, PurchaseCodes{Operation: 9}}}}.complete()
	for _, c := range []struct {
		establishment              string
		item                       int
		exempt, nonSubject, taxed  int64
		operation, income, sector  int
		buys, classification, cost int
	}{
		{"S001", 2, 1, 0, 0, 3, 9, 2, 1, 2, 2}, {"S001", 1, 1, 0, 0, 12, 5, 2, 1, 1, 5},
		{"S002", 2, 1, 0, 0, 2, 5, 2, 1, 2, 2},
		{"S002", 4, 0, 0, 1, 1, 1, 2, 1, 1, 5}, {"", 1, 0, 1, 0, 2, 5, 2, 1, 1, 5},
		{"", 1, 0, 1, 1, mixed, 5, 2, 1, 1, 5},
		{"", 1, 1, 0, 1, mixed, 5, 2, 1, 1, 5}, {"", 3, 0, 0, 0, 1, 5, 2, 9, 1, 5},
	} {
		d := &sealed{establishment: c.establishment, item: c.item, exempt: usdOf(c.exempt), nonSubject: usdOf(c.nonSubject),
			taxed: usdOf(c.taxed)}
		if operation, income := s.sale(d); operation != c.operation || income != c.income {
			t.Errorf("%+v: operation %d, income %d", c, operation, income)
		}
		if got := s.purchase(d); got != (PurchaseCodes{c.buys, c.classification, c.sector, c.cost}) {
			t.Errorf("%+v: purchase %+v", c, got)
		}
	}
}

// TestExportColumn: the column of annex 2 and the type of income of an export.
func TestExportColumn(t *testing.T) {
	for _, c := range []struct {
		country string
		exports int
		third   bool
		column  int
		income  int
	}{
		{"US", 1, false, overseas, 7}, {"GT", 1, false, central, 7}, {"9483", 3, false, central, 7},
		{"US", 2, false, service, 9},
		{"GT", 2, false, service, 9}, {"SV", 1, false, freeZone, 7}, {"9300", 2, false, freeZone, 9},
		{"GT", 1, true, others, 7},
		{"SV", 2, true, others, 9}, {"", 1, false, overseas, 7},
	} {
		d := &sealed{Document: Document{Type: "11", Date: "2026-11-05"}, taxed: usdOf(150),
			customer: &party{Country: c.country}}
		d.Emisor.Exports = c.exports
		if c.third {
			d.Third = new(struct {
				Name     string `json:"nombre"`
				Domicile int    `json:"codDomiciliado"`
			})
		}
		s := d.share(new(Settings))
		for column, amount := range s.exports {
			if (column == c.column) != amount.Equal(usdOf(150)) || column != c.column && !amount.IsZero() {
				t.Errorf("%+v: column %d has %s", c, column, amount)
			}
		}
		if s.income != c.income || s.kind != "11" || !s.total().Equal(usdOf(150)) || !s.taxed.IsZero() {
			t.Errorf("%+v: %+v", c, s)
		}
		back := *s
		if back.negate(); !back.total().Equal(usdOf(-150)) || !s.total().Equal(usdOf(150)) ||
			!s.plus(back.sales).total().IsZero() {
			t.Errorf("%+v taken back: %+v", c, back)
		}
	}
}

// TestLimit: an amount that fits no column takes the document out of every file.
func TestLimit(t *testing.T) {
	row := func(l *layout, column int, amount string) *placement {
		cells := make([]string, len(l.Columns))
		cells[column] = amount
		return &placement{rows: []row{{l, cells}}}
	}
	day := func(cents int64) *placement { return &placement{daily: &share{sales: sales{taxed: usdOf(cents)}}} }
	sum := annex01.sums[0]
	for i, c := range []struct {
		p    *placement
		fits bool
	}{
		{new(placement), true}, {row(annex01, sum, "9999999999.99"), true}, {row(annex01, sum, "10000000000.00"), false},
		{row(annex01, sum, "-9999999999.99"), true}, {row(annex01, sum, "-10000000000.00"), false},
		{row(annex01, sum, ""), true}, {row(taxpayers, taxpayers.sums[0], "10000000000.00"), true},
		{row(annex01, 7, "99999999999999"), true}, // a NIT
		{day(999999999999), true}, {day(1000000000000), false}, {day(-1000000000000), false},
	} {
		if got := c.p.limit(); (got == c.p) != c.fits || (got.motive == "") != c.fits || !c.fits && len(got.rows) > 0 {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

// TestCount: the amounts of a document that the rows are made from.
func TestCount(t *testing.T) {
	const members = `"resumen":{"totalGravada":100,"descuGravada":10,"totalExenta":20,"descuExenta":5,"totalNoSuj":7,` +
		`"descuNoSuj":1,` +
		`"tributos":[{"codigo":"20","valor":11.70},{"codigo":"C5","valor":3},` +
		`{"codigo":"D1","valor":2},{"codigo":"59","valor":4}],` +
		`"ivaPerci":1,"ivaPerci1":2,"ivaRete":3,"ivaRete1":4,"reteRenta":8,"totalNoGravado":9,"totalIva":13,` +
		`"subTotal":30,` +
		`"totalCompraExcluidos":40,"seguro":6,"flete":5,"descuento":2}`
	for kind, want := range map[string]string{ // taxed, VAT, withheld, purchase
		"01": "90.00 24.70 7.00 0.00", "03": "90.00 11.70 7.00 0.00", "05": "90.00 11.70 7.00 0.00",
		"06": "90.00 11.70 7.00 0.00",
		"07": "90.00 11.70 10.00 0.00", "11": "99.00 11.70 7.00 0.00", "14": "90.00 11.70 7.00 30.00",
		"18": "90.00 24.70 7.00 40.00",
	} {
		d, err := read(Document{Code: "c", Type: kind, Date: "2026-11-05", Total: "1.00", JSON: []byte(
			`{"identificacion":{` +
				`"codigoGeneracion":"c","fecEmi":"2026-11-05","horEmi":"10:00:5","tipoDte":"` + kind + `"},"cuerpoDocumento":[` +
				`{"tipoItem":2,"ventaGravada":5,"ivaRetenido":1},{"tipoItem":1,"ventaExenta":2,"ventaNoSuj":3,"ivaRetenido":2}],` +
				members + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		got := money(d.taxed) + " " + money(d.vat) + " " + money(d.retained) + " " + money(d.purchase)
		rest := money(d.exempt) + " " + money(d.nonSubject) + " " + money(d.perceived) + " " + money(d.otherTaxes) + " " +
			money(d.incomeTax) + " " + money(d.nonTaxed) + " " + d.hour + " " + strconv.Itoa(d.item)
		if got != want || rest != "15.00 6.00 3.00 6.00 8.00 9.00 10:00:05 1" {
			t.Errorf("%s: %s, want %s; %s", kind, got, want, rest)
		}
	}
}
