package books

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shopspring/decimal"
)

// manual is MH's manual: the content of each column of an annex, in their order.
var manual = map[*layout][]string{
	annex01: {date, `4`, `0[356]`, plainControl, seal, plainCode, ``, nitOrNRC, name, amount, amount, amount, amount,
		zero, zero, amount, duiOrNothing, operation, income, `1`},
	annex02: {date, `4`, `01|11`, `N/A`, `N/A`, `N/A`, `N/A`, dayCode, dayCode, ``, signed, zero, signed, signed,
		amount, amount, signed, amount, amount, signed, operation, income, `2`},
	annex05: {`[123]`, `[0-9A-Z]{1,14}`, name, date, seal, plainCode, amount, amount, `[123489]`, `[1289]`, `[123489]`,
		`[1-9]`, `5`},
	annex09: {nitOrNothing, date, `0[356]`, plainControl, seal, plainCode, amount, amount, duiOrNothing, `9`},
	annex10: {nitOrNothing, date, `0[567]`, plainControl, seal, plainCode, amount, amount, duiOrNothing, `10`},
	annex12: {nitOrNothing, date, `0[567]`, seal, plainControl, plainCode, amount, amount, duiOrNothing, `12`},
	cancelled: {`[-0-9A-Z]{1,100}`, `4`, `0`, `0`, `01|03|04|05|06|07|08|09|11|14`, `D`, `[0-9A-Z]{40}`, `0`, `0`,
		`[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}|[0-9A-F]{32}`},
}

const (
	date         = `(0[1-9]|[12][0-9]|3[01])/(0[1-9]|1[0-2])/20[0-9]{2}` // DD/MM/AAAA
	plainControl = `DTE[0-9]{2}[MBSP][0-9]{3}P[0-9]{3}[0-9]{15}`
	seal         = `[0-9A-Z]{40}`
	plainCode    = `[0-9A-F]{32}`
	dayCode      = `[0-9A-F]{32}|[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}`
	nitOrNRC     = `([0-9]{14}|[0-9]{1,8})?`
	nitOrNothing = `([0-9]{14})?`
	duiOrNothing = `([0-9]{9})?`
	name         = `[^;"\r\n]*`
	amount       = `[0-9]{1,10}\.[0-9]{2}`
	signed       = `-?[0-9]{1,10}\.[0-9]{2}`
	zero         = `0\.00`
	operation    = `1|2|3|4|12|13`
	income       = `[1-9]|10|12|13`
)

// TestManual compares the annexes with the manual's own rules, from the files alone: columns and lengths, names of
// files, days of the month, NIT or DUI and never both, semicolons, no heading, no quotes; totals and percentages;
// negative rows of annex 2; no document twice, none that was invalidated.
func TestManual(t *testing.T) {
	for seed, s := range []Settings{Settings{}, {SaleCodes: SaleCodes{0, 12},
		Purchase: []PurchaseRule{{PurchaseCodes: PurchaseCodes{9, 9, 9, 9}}}, Returns: "annex2", DayHyphens: true,
		CancelledHyphens: new(bool), ConsumerRows: "establishment"}} {
		dir, b := madeBooks(t, "2026-11", s, newWorld(t, uint64(20+seed), "2026-11").documents(500))
		files := make(map[*layout][][]string)
		for l, columns := range manual {
			text, err := os.ReadFile(filepath.Join(dir, l.Name))
			if err != nil {
				t.Fatal(err)
			}
			if faults := breaches(string(text), l, columns, "11/2026"); len(faults) > 0 {
				t.Errorf("%s breaks the manual: %s", l.Name, strings.Join(faults[:min(5, len(faults))], "\n"))
			}
			rows := rowsOf(string(text))
			files[l] = rows
			if len(rows) != b.files[l].rows || len(rows) < 2 {
				t.Errorf("%s: %d rows, resumen.json says %d", l.Name, len(rows), b.files[l].rows)
			}
		}
		if faults := contradictions(files); len(faults) > 0 {
			t.Errorf("the files break the manual together: %s", strings.Join(faults[:min(5, len(faults))], "\n"))
		}
	}
}

// contradictions returns what the files together do against the manual: a document is in a file once, and an
// invalidated document is in no annex of valid documents ("sin incluir anulados", pp. 4, 38, 42, 48).
func contradictions(files map[*layout][][]string) (faults []string) {
	gone := make(map[string]bool)
	for _, row := range files[cancelled] {
		gone[plain(row[9])] = true
	}
	for l, column := range map[*layout]int{annex01: 5, annex05: 5, annex09: 5, annex10: 5, annex12: 5, cancelled: 9} {
		seen := make(map[string]bool)
		for _, row := range files[l] {
			code := plain(row[column])
			if seen[code] {
				faults = append(faults, l.Name+": twice "+code)
			}
			if seen[code] = true; l != cancelled && gone[code] {
				faults = append(faults, l.Name+": invalidated "+code)
			}
		}
	}
	return faults
}

// TestManual_Bites: the checker finds what the manual forbids.
func TestManual_Bites(t *testing.T) {
	good := "02/11/2026;4;03;DTE03M001P001000000000000001;2026884E690FE69740C794428B4E04689422SIMU;A122607178BB4DB9922BC82397635393;;06140202801028;A;0.00;0.00;160.00;20.80;0.00;0.00;180.80;;1;3;1\r\n"
	if f := breaches(good, annex01, manual[annex01], "11/2026"); len(f) > 0 {
		t.Fatal(f)
	}
	for _, change := range [][2]string{{"02/11", "02/10"}, {"02/11/2026", "2026-11-02"}, {"160.00", "160.005"},
		{"160.00", "-160.00"}, {"160.00", "1,600.00"}, {"160.00", "12345678901.00"},
		{";1\r\n", ";1\n"}, {";1\r\n", "\r\n"}, {"180.80;;", "180.80;012345678;"}, {";A;", ";\"A\";"},
		{"2026884E690FE69740C794428B4E04689422SIMU", ""}, {"06140202801028", "0614-020280-102-8"},
		{"06140202801028", ""}, {"DTE03", "DTE-03-"}, {"02/11/2026", "Fecha"}} {
		if f := breaches(strings.Replace(good, change[0], change[1], 1), annex01, manual[annex01],
			"11/2026"); len(f) == 0 {
			t.Errorf("%q for %q is not found", change[1], change[0])
		}
	}
	day := "02/11/2026;4;01;N/A;N/A;N/A;N/A;A122607178BB4DB9922BC82397635393;B122607178BB4DB9922BC82397635393;;1.00;0.00;2.00;3.00;0.00;0.00;0.00;0.00;0.00;6.00;4;3;2\r\n"
	back := "02/08/2026;4;01;N/A;N/A;N/A;N/A;A122607178BB4DB9922BC82397635393;A122607178BB4DB9922BC82397635393;;-1.00;0.00;-2.00;-3.00;0.00;0.00;0.00;0.00;0.00;-6.00;4;3;2\r\n"
	held := "06140202801028;02/11/2026;07;DTE07M001P001000000000000001;2026884E690FE69740C794428B4E04689422SIMU;A122607178BB4DB9922BC82397635393;160.00;1.60;;10\r\n"
	for _, c := range []struct {
		l              *layout
		good, old, new string
	}{{annex01, good, ";180.80;", ";180.81;"}, {annex02, day, "6.00", "6.02"}, {annex02, day, "02/11/2026",
		"02/10/2026"}, {annex02, day, "1.00", "-1.00"}, {annex02, back, "02/08", "02/07"},
		{annex02, back, "02/08", "02/12"}, {annex02, back, ";A122607178BB4DB9922BC82397635393;;",
			";B122607178BB4DB9922BC82397635393;;"}, {annex02, day, "6.00;4", "6.00;1"}, {annex10, held, "1.60", "16.00"},
		{annex10, held, "DTE07", "DTE05"}} {
		if f := breaches(c.good, c.l, manual[c.l], "11/2026"); len(f) > 0 {
			t.Fatal(f)
		}
		if f := breaches(strings.Replace(c.good, c.old, c.new, 1), c.l, manual[c.l], "11/2026"); len(f) == 0 {
			t.Errorf("%s: %q for %q is not found", c.l.Name, c.new, c.old)
		}
	}
	row := rowsOf(good)[0]
	if f := contradictions(map[*layout][][]string{annex01: {row, row}, cancelled: {{9: row[5]}}}); len(f) != 3 {
		t.Errorf("twice and invalidated: %v", f)
	}
}

// breaches returns what a file does against the manual.
func breaches(text string, l *layout, columns []string, month string) (faults []string) {
	if utf8.RuneCountInString(l.Name) > 25 || !strings.HasSuffix(l.Name, ".csv") {
		faults = append(faults, "the name "+l.Name)
	}
	for n, line := range strings.SplitAfter(text, "\n") {
		if line == "" {
			continue
		}
		before := len(faults)
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("row %d: ", n+1)+fmt.Sprintf(format, args...)+": "+line)
		}
		if !strings.HasSuffix(line, "\r\n") {
			fault("its end")
		}
		cells := strings.Split(strings.TrimSuffix(line, "\r\n"), ";")
		if len(cells) != len(columns) {
			fault("%d cells, not %d", len(cells), len(columns))
			continue
		}
		for i, rule := range columns {
			if !regexp.MustCompile("^(?:" + rule + ")$").MatchString(cells[i]) {
				fault("column %s: %q", l.Columns[i].Letter, cells[i])
			}
			if rule == date && !strings.HasSuffix(cells[i], month) && !(l == annex02 && takesBack(cells, month)) {
				fault("column %s: %q is not of the month", l.Columns[i].Letter, cells[i])
			}
		}
		if len(faults) > before {
			continue // the following checks compute with the cells
		}
		either := func(a, b int) {
			if (cells[a] == "") == (cells[b] == "") {
				fault("columns %s and %s: one, and not both", l.Columns[a].Letter, l.Columns[b].Letter)
			}
		}
		// A percentage differs from the percentage of the sum by the parts cut from each line.
		near := func(column int, want decimal.Decimal, cents int64) {
			if off := amountOf(cells[column]).Sub(want).Abs(); off.GreaterThan(decimal.New(cents, -2)) {
				fault("column %s: %s, calculated %s", l.Columns[column].Letter, cells[column], want)
			}
		}
		sum := func(from, to int) (s decimal.Decimal) {
			for _, c := range cells[from : to+1] {
				s = s.Add(amountOf(c))
			}
			return s
		}
		switch l {
		case annex01:
			either(7, 16)
			near(15, sum(9, 14), 0)
			ofType(2, 3, cells, fault)
		case annex02:
			near(19, sum(10, 18), 0)
			minus := strings.Count(line, ";-")
			if minus > 0 && (cells[7] != cells[8] || minus != 1+nonZero(cells[10:19])) {
				fault("what takes back is one document, and all of it")
			}
			// A row of one document is mixed if the document is (p. 9).
			free, taxed := nonZero(cells[10:13]) > 0, nonZero(cells[13:14]) > 0
			if u := cells[20]; u == "1" && free || u == "2" && taxed || u == "4" && cells[7] == cells[8] &&
				!(free && taxed) {
				fault("column U")
			}
		case annex09, annex10, annex12:
			either(0, 8)
			rate, control := decimal.New(1, -2), 3
			if l == annex12 {
				rate, control = decimal.New(13, -2), 4
			}
			near(7, amountOf(cells[6]).Mul(rate), 5)
			ofType(2, control, cells, fault)
		case annex05:
			if want := map[string]int{"1": 14, "2": 9}[cells[0]]; want > 0 && len(cells[1]) != want {
				fault("column B: %q of kind %s", cells[1], cells[0])
			}
		}
	}
	return faults
}

func amountOf(cell string) decimal.Decimal { return decimal.RequireFromString(cell) }

func nonZero(cells []string) (n int) {
	for _, c := range cells {
		if c != "0.00" {
			n++
		}
	}
	return n
}

// ofType reports a control number of another type than its column requires.
func ofType(kind, control int, cells []string, fault func(string, ...any)) {
	if !strings.HasPrefix(cells[control], "DTE"+cells[kind]) {
		fault("a document of type %s", cells[kind])
	}
}

// takesBack reports whether a row of annex 2 is an invalidated invoice of the three previous periods (pp. 7 and 10).
func takesBack(cells []string, month string) bool {
	at, err := time.Parse("02/01/2006", cells[0])
	of, bad := time.Parse("01/2006", month)
	if err != nil || bad != nil || !strings.HasPrefix(cells[19], "-") {
		return false
	}
	months := (of.Year()-at.Year())*12 + int(of.Month()-at.Month())
	return months > 0 && months <= 3
}

// TestMoney: decimals are cut, never rounded (p. 2).
func TestMoney(t *testing.T) {
	for in, want := range map[string]string{"1.999": "1.99", "-1.999": "-1.99", "0.009": "0.00", "-0.009": "0.00",
		"1000000000": "1000000000.00", "1e2": "100.00", "33.33333333": "33.33"} {
		if got := money(number(t, in)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// written returns document n, with these members.
func written(n int, kind, day, emisor, receptor, resumen, total string) Document {
	d := Document{Code: fmt.Sprintf("%08X-0000-4000-8000-000000000000", n), Type: kind, State: processed, Branch: 1,
		Date: day, Total: total,
		ControlNumber: fmt.Sprintf("DTE-%s-M001P001-%015d", kind, n), Seal: strings.Repeat("A", 40)}
	d.JSON = fmt.Appendf(nil,
		`{"identificacion":{"ambiente":"01","tipoDte":%q,"numeroControl":%q,"codigoGeneracion":%q,"fecEmi":%q,"horEmi":"10:00:%02d"},`+
			`"emisor":{"nit":"06141804941035","nrc":"2390516","nombre":"La Ceiba"%s},"receptor":{"nombre":"Norte"%s},"resumen":{%s}}`,
		kind, d.ControlNumber, d.Code, day, n, emisor, receptor, resumen)
	return d
}

// TestExport: export invoices are in annex 2 by day, region and kind of income, apart from invoices, and in the book of
// consumers. Every amount here was written by hand.
func TestExport(t *testing.T) {
	n := 0
	made := func(kind, day, emisor, receptor, resumen, total string) Document {
		n++
		return written(n, kind, day, emisor, receptor, resumen, total)
	}
	goods, services, guatemala := `,"tipoItemExpor":1`, `,"tipoItemExpor":2`, `,"codPais":"GT"`
	list := []Document{
		made("01", "2026-12-02", "", "", `"totalGravada":113,"totalIva":13`, "113"),
		made("11", "2026-12-02", goods, guatemala,
			`"totalGravada":1499.98,"descuGravada":100,"seguro":12.5,"flete":180.25`, "1592.73"),
		// the previous generation
		made("11", "2026-12-02", goods, `,"codPais":"9483"`, `"totalGravada":1000.50,"descuento":0.50`, "1000"),
		made("11", "2026-12-02", goods, `,"codPais":"US"`, `"totalGravada":200,"tributos":[{"codigo":"D1","valor":20}]`,
			"220"),
		made("11", "2026-12-02", services, guatemala, `"totalGravada":2200,"totalNoGravado":15.4`, "2215.4"),
		made("11", "2026-12-02", `,"tipoItemExpor":3`, guatemala, `"totalGravada":50`, "50"),
		made("08", "2026-12-02", "", "", `"totalGravada":9`, "9"),
		made("15", "2026-12-02", "", "", `"valorTotal":9`, "9"),
		made("15", "2026-12-02", "", "", `"valorTotal":9`, "9"),
	}
	// A donee is named like a person, and by its role in the generation before.
	for i, part := range []string{"emisor", "donatario"} {
		d := &list[len(list)-2+i]
		d.JSON = []byte(strings.NewReplacer(`"nit"`, `"tipoDocumento":"36","numDocumento"`, `"emisor"`,
			`"`+part+`"`).Replace(string(d.JSON)))
	}
	dir, _ := madeBooks(t, "2026-12", Settings{}, list)
	for file, want := range map[string]string{
		"anexo02.csv": `02/12/2026;4;01;N/A;N/A;N/A;N/A;1;1;;0.00;0.00;0.00;113.00;0.00;0.00;0.00;0.00;0.00;113.00;1;3;2
02/12/2026;4;11;N/A;N/A;N/A;N/A;2;4;;0.00;0.00;0.00;0.00;2592.73;200.00;0.00;0.00;0.00;2792.73;1;7;2
02/12/2026;4;11;N/A;N/A;N/A;N/A;5;5;;0.00;0.00;0.00;0.00;0.00;0.00;2200.00;0.00;0.00;2200.00;1;9;2
`,
		"libro_consumidores.csv": `02/12/2026;M001;DTE-01-1;DTE-01-1;;0.00;0.00;113.00;0.00;113.00;0.00;1;
02/12/2026;M001;DTE-11-2;DTE-11-6;;0.00;0.00;0.00;5042.73;5042.73;0.00;5;
`,
	} {
		if got := shortened(t, dir, file); !strings.Contains("\n"+got, "\n"+want) {
			t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
		}
	}
	s := summaryOf(t, dir)
	if len(s.Nowhere) != 3 || !strings.Contains(s.Nowhere[0].Motive, "casilla 108") {
		t.Errorf("in no file: %+v", s.Nowhere)
	}
	notes := fmt.Sprint(s.Notes)
	for _, want := range []string{"incluye 192.75 de seguro y flete", "exporta bienes y servicios"} {
		if strings.Count(notes, want) != 1 {
			t.Errorf("not once %q in %s", want, notes)
		}
	}
}

// TestCancelled_NoDay: an invalidated document whose record has no day of the event is listed in its own month.
func TestCancelled_NoDay(t *testing.T) {
	d := written(1, "03", "2026-12-02", "", `,"nit":"06142802901023"`, `"totalGravada":10`, "1")
	d.State = invalidated
	for month, rows := range map[string]int{"2026-12": 1, "2027-01": 0} {
		dir, _ := madeBooks(t, month, Settings{}, []Document{d})
		if got := shortened(t, dir, cancelled.Name); strings.Count(got, "\n") != rows {
			t.Errorf("%s: %q", month, got)
		}
	}
}

// TestExport_Apart: what is sold to a free zone or for somebody else, and what is invalidated in a later month, are no
// exports of the month. Every amount here was written by hand.
func TestExport_Apart(t *testing.T) {
	n := 0
	made := func(kind, day, emisor, receptor, resumen, later string) Document {
		n++
		d := written(n, kind, day, emisor, receptor, resumen, "1")
		if later != "" {
			d.State, d.Invalidated = invalidated, later
		}
		return d
	}
	goods, services, guatemala, zone := `,"tipoItemExpor":1`, `,"tipoItemExpor":2`, `,"codPais":"GT"`, `,"codPais":"SV"`
	abroad := `},"ventaTercero":{"nombre":"Otro","codDomiciliado":2`
	list := []Document{
		made("11", "2026-12-02", goods, guatemala, `"totalGravada":10`, "2027-01-09"),
		made("11", "2026-12-02", goods, zone, `"totalGravada":200`, ""),
		made("11", "2026-12-02", goods, guatemala, `"totalGravada":4000`+abroad, ""),
		made("11", "2026-12-02", goods, guatemala, `"totalGravada":30000`+strings.Replace(abroad, "2", "1", 1), ""),
		made("11", "2026-11-05", services, guatemala, `"totalGravada":7`, "2026-12-06"),
		made("11", "2026-11-05", goods, guatemala, `"totalGravada":8`, "2026-12-06"),
		made("11", "2026-08-05", services, guatemala, `"totalGravada":9`, "2026-12-07"),
		made("09", "2026-12-03", "", `,"nit":"06142802901023"`,
			`"x":0},"cuerpoDocumento":{"montoSujetoPercepcion":1000.50,"ivaPercibido":20.01`, ""),
	}
	dir, _ := madeBooks(t, "2026-12", Settings{}, list)
	for file, want := range map[string]string{
		// p. 9, columns O to S; p. 10: negative for an invalidated document, where the column allows it
		"anexo02.csv": `05/11/2026;4;11;N/A;N/A;N/A;N/A;5;5;;0.00;0.00;0.00;0.00;0.00;0.00;-7.00;0.00;0.00;-7.00;1;9;2
02/12/2026;4;11;N/A;N/A;N/A;N/A;1;3;;0.00;0.00;0.00;0.00;10.00;0.00;0.00;200.00;4000.00;4210.00;1;7;2
`,
		// art. 83 h: sales for others are no part of the day's total; art. 87
		"libro_consumidores.csv": `02/12/2026;M001;DTE-11-1;DTE-11-4;;0.00;0.00;0.00;210.00;210.00;34000.00;4;
06/12/2026;M001;DTE-11-5;DTE-11-5;;0.00;0.00;0.00;-7.00;-7.00;0.00;1;Invalidación de la factura del 05/11/2026
06/12/2026;M001;DTE-11-6;DTE-11-6;;0.00;0.00;0.00;-8.00;-8.00;0.00;1;Invalidación de la factura del 05/11/2026
07/12/2026;M001;DTE-11-7;DTE-11-7;;0.00;0.00;0.00;-9.00;-9.00;0.00;1;Invalidación de la factura del 05/08/2026
Totales;;;;;0.00;0.00;0.00;186.00;186.00;34000.00;;
`,
		// FACTS: modality 2 is the advance, document 2 the 09
		"f930.csv": "1;06142802901023;Norte;1;2;2;03/12/2026;" + strings.Repeat("A", 40) + ";8;1000.50;20.01\n",
	} {
		if got := shortened(t, dir, file); !strings.Contains("\n"+got, "\n"+want) {
			t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
		}
	}
	notes := fmt.Sprint(summaryOf(t, dir).Notes)
	for _, want := range []string{"se resta en el libro de consumidores de 2027-01", "venta por cuenta de Otro, del anexo 4",
		"O, P, R y S no admiten montos negativos", "los tres períodos", "anexo 11 (casilla 171)"} {
		if strings.Count(notes, want) != 1 {
			t.Errorf("not once %q in %s", want, notes)
		}
	}
}

// shortened returns a file with codes and control numbers cut to their last digit.
func shortened(t *testing.T, dir, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`0000000(\d)0{4}40{3}80{15}|M001P001-0{14}(\d)`).ReplaceAllString(strings.ReplaceAll(
		string(raw), "\r", ""), "$1$2")
}

// TestWithheld_Rates: a voucher of several rates has a row of the F-930 for each rate, with its own base; the summary
// notes it.
func TestWithheld_Rates(t *testing.T) {
	d := Document{Code: "00000001-0000-4000-8000-000000000000", Type: "07", State: processed, Date: "2026-12-02",
		Total:         "17",
		ControlNumber: "DTE-07-M001P001-000000000000001", Seal: strings.Repeat("A", 40)}
	d.JSON = []byte(`{"identificacion":{"ambiente":"01","tipoDte":"07","numeroControl":"` + d.ControlNumber +
		`","codigoGeneracion":"` + d.Code + `","fecEmi":"2026-12-02","horEmi":"10:00:00"},
		"emisor":{"nit":"06141804941035"},"receptor":{"tipoDocumento":"36","numDocumento":"06142802901023"},"cuerpoDocumento":[
		{"montoSujetoGrav":100,"codigoRetencionMH":"C4","ivaRetenido":13},{"montoSujetoGrav":250,"codigoRetencionMH":"22","ivaRetenido":2.5},
		{"montoSujetoGrav":150,"codigoRetencionMH":"22","ivaRetenido":1.5}]}`)
	dir, b := madeBooks(t, "2026-12", Settings{}, []Document{d})
	raw, err := os.ReadFile(filepath.Join(dir, f930.Name))
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(string(raw))
	if len(rows) != 2 || strings.Join(rows[0][9:], " ") != "400.00 4.00" || strings.Join(rows[1][9:],
		" ") != "100.00 13.00" || rows[1][0] != "2" {
		t.Errorf("%q", rows)
	}
	if b.files[f930].documents != 1 {
		t.Errorf("%d documents", b.files[f930].documents)
	}
	if notes := fmt.Sprint(summaryOf(t, dir).Notes); !strings.Contains(notes,
		"22 1 % 4.00 sobre 400.00; C4 13 % 13.00 sobre 100.00") {
		t.Error(notes)
	}
}
