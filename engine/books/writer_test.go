package books

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/shopspring/decimal"

	"dtegate/engine/pdf"
)

func number(t *testing.T, s string) decimal.Decimal {
	t.Helper()
	d, err := decimal.NewFromString(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPlaces: every document of the month is in the files that Explain names, or in resumen.json with the reason; and
// in no other file.
func TestPlaces(t *testing.T) {
	list := newWorld(t, 3, "2026-11").documents(500)
	amount := regexp.MustCompile(`"totalGravada":[0-9.]+`)
	for i, d := range list {
		if d.Type == "03" && d.State == processed && amount.Match(d.JSON) { // too much for a column
			list[i].JSON = amount.ReplaceAll(d.JSON, []byte(`"totalGravada":10000000000.00`))
			break
		}
	}
	dir, _ := madeBooks(t, "2026-11", Settings{}, list)
	files := make(map[string]string)
	for _, l := range layouts {
		text, err := os.ReadFile(filepath.Join(dir, l.Name))
		if err != nil {
			t.Fatal(err)
		}
		files[l.Name] = strings.ReplaceAll(string(text), "-", "")
	}
	s := summaryOf(t, dir)
	for _, d := range list {
		e, err := Explain(d, "2026-11", Settings{})
		if err != nil {
			t.Fatal(err)
		}
		named := slices.ContainsFunc(s.Nowhere, func(n named) bool { return n.Code == d.Code })
		if (len(e.Places) > 0) == (e.Motive != "") || named != (e.Motive != "") {
			t.Errorf("%s %s %s: %d places, motive %q, named %v", d.Type, d.State, d.Code, len(e.Places), e.Motive,
				named)
		}
		if says := map[string]string{contingency: "todavía sin sello", rejected: "Hacienda lo rechazó",
			"": "sin respuesta"}[d.State]; !strings.Contains(e.Motive, says) {
			t.Errorf("%s %s: %q", d.Type, d.State, e.Motive)
		}
		places := make(map[string]bool)
		for _, p := range e.Places {
			places[p.File] = true
		}
		// rows of one document
		for _, l := range []*layout{annex01, annex05, annex09, annex10, annex12, cancelled, taxpayers, f930} {
			if in := strings.Contains(files[l.Name], plain(d.Code)); in != places[l.Name] {
				t.Errorf("%s %s %s: in %s %v, explained %v", d.Type, d.State, d.Code, l.Name, in, places[l.Name])
			}
		}
	}
}

// TestSummary: the summary has the added documents by type and state, their amounts add up to what was paid, and a
// file's sums are the sums of its rows.
func TestSummary(t *testing.T) {
	list := newWorld(t, 4, "2026-11").documents(500)
	dir, b := madeBooks(t, "2026-11", Settings{}, list)
	s := summaryOf(t, dir)
	counts, totals := make(map[string]int), make(map[string]decimal.Decimal)
	for _, d := range list {
		key := fmt.Sprint(d.Type, d.State, strings.HasPrefix(d.Date, "2026-11"))
		counts[key]++
		totals[key] = totals[key].Add(number(t, d.Total))
	}
	for i, groups := range [][]group{s.Documents, s.Earlier} {
		for _, g := range groups {
			key := fmt.Sprint(g.Type, g.State, i == 0)
			if g.Count != counts[key] || money(g.Total.Decimal) != money(totals[key]) {
				t.Errorf("%s: %d %s, went in: %d %s", key, g.Count, g.Total, counts[key], totals[key])
			}
			delete(counts, key)
			if slices.Contains([]string{"07", "08", "09", "15"}, g.Type) { // no sales of the taxpayer's
				continue
			}
			of := func(s sum) decimal.Decimal { return s.Decimal }
			sum := of(g.Exempt).Add(of(g.NonSubject)).Add(of(g.Taxed)).Add(of(g.OtherTaxes)).Add(of(g.Perceived)).Sub(
				of(g.Retained)).Sub(of(g.IncomeTax)).Add(of(g.NonTaxed)).Add(of(g.Purchases))
			if g.Type != "01" && g.Type != "18" {
				sum = sum.Add(of(g.VAT))
			}
			if money(sum) != money(g.Total.Decimal) {
				t.Errorf("%s: its parts add up to %s, what is paid to %s", key, sum, g.Total)
			}
		}
	}
	if len(counts) > 0 {
		t.Errorf("missing: %v", counts)
	}
	for _, l := range layouts {
		if l.header {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, l.Name))
		if err != nil {
			t.Fatal(err)
		}
		sums, net := make([]decimal.Decimal, len(l.sums)), make([]decimal.Decimal, len(l.sums))
		for _, row := range rowsOf(string(text)) {
			for i, column := range l.sums {
				amount := number(t, row[column])
				if sums[i] = sums[i].Add(amount); (l == annex01 || l == annex09) && row[2] == "05" {
					amount = amount.Neg()
				}
				net[i] = net[i].Add(amount)
			}
		}
		filed := s.Files[slices.IndexFunc(s.Files, func(f FileSum) bool { return f.Name == l.Name })]
		for i, column := range l.sums {
			name := l.Columns[column].Letter + " " + l.Columns[column].Name
			if shown, has := filed.Net[name]; has != (l == annex01 || l == annex09) || has && shown != money(net[i]) ||
				filed.Sums[name] != money(sums[i]) {
				t.Errorf("%s, %s: filed %s, net %q; the rows: %s, net %s", l.Name, name, filed.Sums[name], shown,
					sums[i], net[i])
			}
		}
		for i := range sums {
			if !sums[i].Equal(b.files[l].sums[i]) {
				t.Errorf("%s column %s: %s, resumen.json says %s", l.Name, l.Columns[l.sums[i]].Letter, sums[i],
					b.files[l].sums[i])
			}
		}
	}
}

// TestBook_Refuses: books are of one taxpayer, one ambiente, and each document once.
func TestBook_Refuses(t *testing.T) {
	list := newWorld(t, 5, "2026-11").documents(3)
	change := func(d Document, old, text string) Document {
		d.JSON = []byte(strings.Replace(string(d.JSON), old, text, 1))
		return d
	}
	for name, c := range map[string]struct {
		list []Document
		want string
	}{
		"twice": {append(list, list[1]), "appears twice"},
		"other taxpayer": {append(list, change(newWorld(t, 6, "2026-11").document(), "06141804941035",
			"06141804941036")), "one taxpayer"},
		"other ambiente": {append(list, change(newWorld(t, 6, "2026-11").document(), `"ambiente":"01"`,
			`"ambiente":"00"`)), "ambiente"},
		"other date":       {[]Document{change(list[0], list[0].Date, "2026-11-31")}, "its signed bytes"},
		"no JSON":          {[]Document{{Code: list[0].Code, JSON: []byte("{")}}, list[0].Code},
		"no amount at all": {[]Document{func() Document { d := list[0]; d.Total = "x"; return d }()}, "total"},
	} {
		b, err := New(Options{Month: "2026-11", Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range c.list {
			if err = b.Add(d); err != nil {
				break
			}
		}
		if err == nil {
			err = b.Finish()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []Options{{Month: "2026-13"}, {Month: "11/2026"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestBook_Empty: a month without documents has every file, and each is empty.
func TestBook_Empty(t *testing.T) {
	dir, _ := madeBooks(t, "2026-11", Settings{}, nil)
	for _, l := range layouts {
		text, err := os.ReadFile(filepath.Join(dir, l.Name))
		if err != nil || !l.header && len(text) > 0 {
			t.Errorf("%s: %q, %v", l.Name, text, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(layouts)+1 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if !IsFile(e.Name()) {
			t.Errorf("%s is not a file of books", e.Name())
		}
	}
}

// TestBook_Volumes: a long book is printed in volumes, its folios continue, and its totals appear once.
func TestBook_Volumes(t *testing.T) {
	w := newWorld(t, 9, "2026-11")
	var printed []pdf.Book
	dir := t.TempDir()
	b, err := New(Options{Month: "2026-11", Dir: dir, Volume: 40, Print: func(_ io.Writer,
		t pdf.Book) (int, error) {
		t.Rows = slices.Clone(t.Rows)
		printed = append(printed, t)
		return 3, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range w.documents(700) {
		if err := b.Add(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Finish(); err != nil {
		t.Fatal(err)
	}
	rows, folio := 0, 1
	var of []pdf.Book
	for _, p := range printed {
		if p.Title == taxpayers.title {
			of = append(of, p)
		}
	}
	for i, p := range of {
		if rows += len(p.Rows); p.Folio != folio || (p.Total != nil) != (i == len(of)-1) {
			t.Errorf("volume %d: folio %d, totals %v", i+1, p.Folio, p.Total != nil)
		}
		folio += 3
	}
	if rows != b.files[taxpayers].rows || len(of) < 3 {
		t.Errorf("%d volumes with %d rows of %d", len(of), rows, b.files[taxpayers].rows)
	}
	if _, err := os.Stat(filepath.Join(dir, "libro_contribuyentes_2.pdf")); err != nil {
		t.Error(err)
	}

	full := errors.New("no room")
	b.o.Print = func(io.Writer, pdf.Book) (int, error) { return 0, full }
	if err := b.print(); !errors.Is(err, full) {
		t.Errorf("a PDF that is not written: %v", err)
	}
}

// TestText: no name ends a cell or a line, wants quotes, or is a formula to a spreadsheet.
func TestText(t *testing.T) {
	for in, want := range map[string]string{"A;B": "A,B", `"A" S.A.`: "A S.A.", "=1+1": "1+1", "  +x": "x",
		"a\r\nb\tc": "a b c", "-": "", "Ñandú": "Ñandú", "a\x1fb": "a b", "\u202eabc": "abc"} {
		if got := text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := string(windows1252("Ñandú – 日’s")); got != "\xd1and\xfa - ?'s" {
		t.Errorf("%q", got)
	}
}

// TestCell: whatever characters a text begins with or contains, in either encoding its cell is one cell of one line and
// no formula.
func TestCell(t *testing.T) {
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if r > 0x3000 && r < 0xF900 {
			continue // Han and Hangul
		}
		for _, s := range []string{string(r) + "1+1", "-" + string(r) + "=1+1"} {
			c := cell(s)
			for _, written := range []string{c, string(windows1252(c))} {
				if strings.ContainsAny(written, ";\"\r\n\t") || strings.ContainsAny(written[:min(1, len(written))],
					"=+-@'") {
					if _, err := decimal.NewFromString(written); err != nil {
						t.Fatalf("%q (%U) is written %q", s, r, written)
					}
				}
			}
		}
	}
	for _, s := range []string{"-12.00", "0.00", "N/A", "0614-280290-102-3", "01/11/2026"} {
		if cell(s) != s {
			t.Errorf("%q is written %q", s, cell(s))
		}
	}
}

// TestWide: an amount that fits no column does not stop the month: its document is named and left out, the others are
// written; and a day whose sum is too wide has two lines.
func TestWide(t *testing.T) {
	dir := t.TempDir()
	b, err := New(Options{Month: "2026-11", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i, total := range []string{"10000000000.00", "6000000000.00", "6000000000.00", "5.00"} {
		code := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i+1)
		raw := fmt.Sprintf(`{"identificacion":{"ambiente":"01","tipoDte":"01","numeroControl":"DTE-01-M001P001-%015d","codigoGeneracion":%q,"fecEmi":"2026-11-05","horEmi":"10:00:0%d"},"emisor":{"nit":"06141804941035","nrc":"2390516","nombre":"Abarrotes La Ceiba"},"cuerpoDocumento":[{"tipoItem":1,"ventaGravada":%s}],"resumen":{"totalGravada":%s,"totalPagar":%s}}`,
			i+1, code, i, total, total, total)
		if err := b.Add(Document{Code: code, ControlNumber: fmt.Sprintf("DTE-01-M001P001-%015d", i+1), Type: "01",
			State: processed, Date: "2026-11-05", Total: total, Seal: strings.Repeat("2", 40), Branch: 1,
			JSON: []byte(raw)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Finish(); err != nil {
		t.Fatal(err)
	}
	annex, err := os.ReadFile(filepath.Join(dir, "anexo02.csv"))
	if err != nil || strings.Count(string(annex), "\n") != 2 || !strings.Contains(string(annex), ";6000000005.00;") &&
		!strings.Contains(string(annex), ";6000000000.00;") {
		t.Errorf("annex 2 is %s, %v", annex, err)
	}
	summary, err := os.ReadFile(filepath.Join(dir, SummaryName))
	if n, _ := b.Nowhere(); n != 1 || err != nil || !strings.Contains(string(summary), "00000001-0000") ||
		!strings.Contains(string(summary), "10000000000.00") {
		t.Errorf("%d documents are nowhere: %s, %v", n, summary, err)
	}
}
