package view

import "strings"

// maxShift bounds how far an exponent moves the point; beyond it a number is printed as it was written.
const maxShift = 40

// Printed is the literal of a JSON number as people read it: no exponent, at least this many decimals, thousands
// separated by commas. It moves digits about and never computes, so every digit is that of the document.
func Printed(literal string, decimals int) string {
	sign := ""
	digits := literal
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	whole, fraction, ok := plain(digits)
	if !ok {
		return literal
	}
	for len(fraction) < decimals {
		fraction += "0"
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, d := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	if fraction != "" {
		b.WriteByte('.')
		b.WriteString(fraction)
	}
	return b.String()
}

// plain splits an unsigned literal at its point, the exponent worked in: 1.4381E-4 is 0 and 00014381.
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
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	return whole, fraction, true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isZero is true for the literal of a zero, however written.
func isZero(literal string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
	return strings.Trim(mantissa, "-0.") == ""
}
