package books

import (
	"errors"
	"strings"
	"unicode"

	"github.com/shopspring/decimal"

	"dtegate/engine/dte"
)

// errWide: the amount fits no column: "Numérico de 10 caracteres … (Ejemplo: 1000000000.00)" (p. 2).
var errWide = errors.New("an amount of more than 10 digits before the point, which no column of the annexes takes")

var widest = decimal.New(1, 10)

// money writes an amount with two decimals. Further decimals are cut, as MH's system does (p. 2), never rounded.
func money(d decimal.Decimal) string {
	d = d.Truncate(2)
	if d.IsZero() {
		return "0.00" // never -0.00
	}
	return d.StringFixed(2)
}

// day writes yyyy-mm-dd as DD/MM/AAAA (p. 1).
func day(date string) string { return dte.FormatDay(date) }

// plain returns a number without hyphens.
func plain(s string) string { return strings.ReplaceAll(s, "-", "") }

// digits returns only the digits and letters of a person's number, without hyphens and spaces.
func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) || unicode.IsLetter(r) {
			return r
		}
		return -1
	}, s)
}

// text returns a name for a cell: without characters that end a cell or a line or need quotes, and without a start that
// a spreadsheet reads as a formula. Double quotes are dropped: “"La Ceiba", S.A.” becomes La Ceiba, S.A.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == ';':
			return ','
		case r == '"':
			return -1
		case unicode.IsSpace(r), !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, s)
	return strings.TrimLeft(strings.Join(strings.Fields(s), " "), "=+-@＝＋－＠﹦﹢﹣﹫−'–—‘’ ")
}

// cell returns a cell for a file: a number unchanged, any other content through text. Every cell of every file passes
// through cell; the result of text begins no formula in either encoding.
func cell(s string) string {
	if _, err := decimal.NewFromString(s); err == nil {
		return s
	}
	return text(s)
}

// windows1252 encodes text as Excel does; a character that the encoding lacks becomes a question mark.
func windows1252(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		switch {
		case r < 0x80 || r >= 0xA0 && r <= 0xFF:
			b = append(b, byte(r))
		case strings.ContainsRune("‘’", r):
			b = append(b, '\'')
		case strings.ContainsRune("–—", r):
			b = append(b, '-')
		default:
			b = append(b, '?')
		}
	}
	return b
}
