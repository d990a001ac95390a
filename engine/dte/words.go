package dte

// AppendWords appends an amount in Spanish capitals with its cents as a fraction, the form of MF2's examples:
// "QUINIENTOS OCHENTA 50/100 USD". It rounds to the cent first and takes up to 92,000,000,000 either side of zero.
func AppendWords(dst []byte, a Amount) []byte {
	a = a.Round2()
	u := uint64(a)
	if a < 0 {
		dst = append(dst, "MENOS "...)
		u = -u
	}
	whole, cents := u/Scale, u%Scale/(Scale/100)
	dst = appendCardinal(dst, whole, false)
	return append(dst, ' ', byte('0'+cents/10), byte('0'+cents%10), '/', '1', '0', '0', ' ', 'U', 'S', 'D')
}

var (
	units = [...]string{
		"CERO", "UNO", "DOS", "TRES", "CUATRO", "CINCO", "SEIS", "SIETE", "OCHO", "NUEVE", "DIEZ", "ONCE", "DOCE",
		"TRECE", "CATORCE", "QUINCE", "DIECISÉIS", "DIECISIETE", "DIECIOCHO", "DIECINUEVE", "VEINTE", "VEINTIUNO",
		"VEINTIDÓS", "VEINTITRÉS", "VEINTICUATRO", "VEINTICINCO", "VEINTISÉIS", "VEINTISIETE", "VEINTIOCHO",
		"VEINTINUEVE",
	}
	tens     = [...]string{3: "TREINTA", "CUARENTA", "CINCUENTA", "SESENTA", "SETENTA", "OCHENTA", "NOVENTA"}
	hundreds = [...]string{
		1: "CIENTO", "DOSCIENTOS", "TRESCIENTOS", "CUATROCIENTOS", "QUINIENTOS", "SEISCIENTOS", "SETECIENTOS",
		"OCHOCIENTOS", "NOVECIENTOS",
	}
)

// appendCardinal writes n. Spanish counts in thousands and in millions: 92,000,000,000 is ninety-two thousand
// millions. Short means that a noun follows (mil, millones), before which UNO loses its end.
func appendCardinal(dst []byte, n uint64, short bool) []byte {
	switch {
	case n >= 1_000_000:
		if n/1_000_000 == 1 {
			dst = append(dst, "UN MILLÓN"...)
		} else {
			dst = append(appendCardinal(dst, n/1_000_000, true), " MILLONES"...)
		}
		n %= 1_000_000
	case n >= 1000:
		if n/1000 > 1 {
			dst = append(appendCardinal(dst, n/1000, true), ' ')
		}
		dst = append(dst, "MIL"...)
		n %= 1000
	case n == 100:
		return append(dst, "CIEN"...)
	case n > 100:
		dst = append(dst, hundreds[n/100]...)
		n %= 100
	case n >= 30:
		dst = append(dst, tens[n/10]...)
		if n %= 10; n > 0 {
			dst = append(dst, " Y"...)
		}
	case short && n == 1:
		return append(dst, "UN"...)
	case short && n == 21:
		return append(dst, "VEINTIÚN"...)
	default:
		return append(dst, units[n]...)
	}
	if n == 0 {
		return dst
	}
	return appendCardinal(append(dst, ' '), n, short)
}
