package books

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// rules are what the manual says of each column of an annex, by letter. N is an amount, -N one that may be negative.
var manual = map[*layout][]string{
	annex01: {date, `4`, `0[356]`, plainControl, seal, plainCode, ``, nitOrNRC, name, amount, amount, amount, amount, zero, zero, amount, duiOrNothing, operation, income, `1`},
	annex02: {date, `4`, `01`, `N/A`, `N/A`, `N/A`, `N/A`, dayCode, dayCode, ``, signed, zero, signed, signed, zero, zero, zero, zero, zero, signed, operation, income, `2`},
	annex05: {`[123]`, `[0-9A-Z]{1,14}`, name, date, seal, plainCode, amount, amount, `[123489]`, `[1289]`, `[123489]`, `[1-9]`, `5`},
	annex09: {nitOrNothing, date, `0[356]`, plainControl, seal, plainCode, amount, amount, duiOrNothing, `9`},
	annex10: {nitOrNothing, date, `0[567]`, plainControl, seal, plainCode, amount, amount, duiOrNothing, `10`},
	annex12: {nitOrNothing, date, `0[567]`, seal, plainControl, plainCode, amount, amount, duiOrNothing, `12`},
	cancelled: {`[-0-9A-Z]{1,100}`, `4`, `0`, `0`, `01|03|05|06|07|14`, `D`, `[0-9A-Z]{40}`, `0`, `0`,
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

// TestManual holds the annexes against the manual's own rules: columns and lengths, names of files, days of the month, NIT or
// DUI and never both, semicolons, no heading, no quotes.
func TestManual(t *testing.T) {
	for seed, s := range []Settings{Defaults(), {Sale: SaleCodes{4, 12}, Purchase: PurchaseCodes{9, 9, 9, 9}, ReturnsInAnnex: true, DayHyphens: true, PlainCancelled: true, ByEstablishment: true}} {
		dir, b := madeBooks(t, "2026-11", s, newWorld(t, uint64(20+seed), "2026-11").documents(500))
		for l, columns := range manual {
			text, err := os.ReadFile(filepath.Join(dir, l.Name))
			if err != nil {
				t.Fatal(err)
			}
			if faults := breaches(string(text), l, columns, "11/2026"); len(faults) > 0 {
				t.Errorf("%s breaks the manual: %s", l.Name, strings.Join(faults[:min(5, len(faults))], "\n"))
			}
			if rows := rowsOf(string(text)); len(rows) != b.files[l].rows || len(rows) < 2 {
				t.Errorf("%s: %d rows, resumen.json says %d", l.Name, len(rows), b.files[l].rows)
			}
		}
	}
}

// TestManual_Bites: the checker finds what the manual forbids.
func TestManual_Bites(t *testing.T) {
	good := "02/11/2026;4;03;DTE03M001P001000000000000001;2026884E690FE69740C794428B4E04689422SIMU;A122607178BB4DB9922BC82397635393;;06140202801028;A;0.00;0.00;160.00;20.80;0.00;0.00;180.80;;1;3;1\r\n"
	if f := breaches(good, annex01, manual[annex01], "11/2026"); len(f) > 0 {
		t.Fatal(f)
	}
	for _, change := range [][2]string{{"02/11", "02/10"}, {"02/11/2026", "2026-11-02"}, {"160.00", "160.005"}, {"160.00", "-160.00"}, {"160.00", "1,600.00"}, {"160.00", "12345678901.00"},
		{";1\r\n", ";1\n"}, {";1\r\n", "\r\n"}, {"180.80;;", "180.80;012345678;"}, {";A;", ";\"A\";"}, {"2026884E690FE69740C794428B4E04689422SIMU", ""}, {"06140202801028", "0614-020280-102-8"},
		{"06140202801028", ""}, {"DTE03", "DTE-03-"}, {"02/11/2026", "Fecha"}} {
		if f := breaches(strings.Replace(good, change[0], change[1], 1), annex01, manual[annex01], "11/2026"); len(f) == 0 {
			t.Errorf("%q for %q is not found", change[1], change[0])
		}
	}
}

// breaches are what a file does against the manual.
func breaches(text string, l *layout, columns []string, month string) (faults []string) {
	if utf8.RuneCountInString(l.Name) > 25 || !strings.HasSuffix(l.Name, ".csv") {
		faults = append(faults, "the name "+l.Name)
	}
	for n, line := range strings.SplitAfter(text, "\n") {
		if line == "" {
			continue
		}
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
			if rule == date && !strings.HasSuffix(cells[i], month) && !(l == annex02 && strings.HasPrefix(cells[19], "-")) {
				fault("column %s: %q is not of the month", l.Columns[i].Letter, cells[i])
			}
		}
		either := func(a, b int) {
			if (cells[a] == "") == (cells[b] == "") {
				fault("columns %s and %s: one, and not both", l.Columns[a].Letter, l.Columns[b].Letter)
			}
		}
		switch l {
		case annex01:
			either(7, 16)
		case annex09, annex10, annex12:
			either(0, 8)
		case annex05:
			if want := map[string]int{"1": 14, "2": 9}[cells[0]]; want > 0 && len(cells[1]) != want {
				fault("column B: %q of kind %s", cells[1], cells[0])
			}
		}
	}
	return faults
}

// TestMoney: decimals are cut, never rounded (p. 2).
func TestMoney(t *testing.T) {
	for in, want := range map[string]string{"1.999": "1.99", "-1.999": "-1.99", "0.009": "0.00", "-0.009": "0.00", "1000000000": "1000000000.00", "1e2": "100.00", "33.33333333": "33.33"} {
		if got := money(number(t, in)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
