package form

import (
	"strings"
	"unicode"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
)

// This file reads who the other party is: the numbers of people and taxpayers as they are printed on their cards, and
// the pairs of which half is no use.

// Kinds of identity documents (CAT-022) whose numbers have a form.
const (
	kindDUI = "13" // 9 digits
	kindNIT = "36" // 14 digits, or the 9 of the DUI that replaced it for persons
)

// identities completes a person's facts: NIT, NRC and DUI become digits alone, whatever hyphens and spaces they came
// with, so that each generation of MH's layouts can write them its own way. A kind of document without a number is
// refused; a number without a kind says by its length what it is. prefix begins the paths of the person's members.
func (r *reader) identities(p dte.Value, prefix string) dte.Value {
	p = r.mailbox(p, prefix)
	p = r.digits(p, prefix, "nit", "El NIT lleva 14 dígitos, o los 9 del DUI", 9, 14)
	p = r.digits(p, prefix, "nrc", "El NRC lleva de 2 a 8 dígitos", 2, 3, 4, 5, 6, 7, 8)
	kind, number := p.Get("tipoDocumento"), p.Get("numDocumento")
	switch {
	case r.faulty(prefix+"tipoDocumento") || r.faulty(prefix+"numDocumento"):
		return p
	case hasValue(kind) && !hasValue(number):
		r.fault(prefix+"numDocumento", dte.FaultRequired, "Falta el número del documento de identidad")
		return p
	case hasValue(number) && !hasValue(kind):
		switch len(digitsOf(number.Text())) {
		case 9:
			kind = dte.Str(kindDUI)
		case 14:
			kind = dte.Str(kindNIT)
		default:
			r.fault(prefix+"tipoDocumento", dte.FaultRequired,
				"Falta el tipo del documento de identidad: 13 DUI, 36 NIT, 03 pasaporte, 02 carnet de residente, 37 "+
					"otro")
			return p
		}
		p = p.With("tipoDocumento", kind)
	}
	switch kind.Text() {
	case kindDUI:
		p = r.digits(p, prefix, "numDocumento", "El DUI lleva 9 dígitos", 9)
	case kindNIT:
		p = r.digits(p, prefix, "numDocumento", "El NIT lleva 14 dígitos, o los 9 del DUI", 9, 14)
	}
	r.onePerson(p, prefix)
	return p
}

// mailbox refuses an address that cannot be mailed while the customer can still say it again.
func (r *reader) mailbox(p dte.Value, prefix string) dte.Value {
	v := p.Get("correo")
	if !hasValue(v) || v.Kind() != dte.KindString || r.faulty(prefix+"correo") {
		return p
	}
	address := strings.TrimSpace(v.Text())
	if !outbox.Mailable(address) {
		r.fault(prefix+"correo", dte.FaultFormat, "No es una dirección de correo: escríbala como nombre@dominio.com, "+
			"o deje el campo fuera")
	}
	return p.With("correo", dte.Str(address))
}

// onePerson refuses a taxpayer's NIT beside the number of another one.
func (r *reader) onePerson(p dte.Value, prefix string) {
	kind, number, nit := p.Get("tipoDocumento").Text(), p.Get("numDocumento").Text(), p.Get("nit").Text()
	comparable := kind == kindNIT || kind == kindDUI && len(nit) == len(number)
	if nit == "" || number == "" || nit == number || !comparable || r.faulty(prefix+"nit") ||
		r.faulty(prefix+"numDocumento") {
		return
	}
	r.fault(prefix+"nit", dte.FaultCondition, "El NIT es de otra persona que el número de documento")
	r.fault(prefix+"numDocumento", dte.FaultCondition, "El número de documento es de otra persona que el NIT")
}

// digits writes a number of a person as digits alone, and refuses one that has not as many as it may.
func (r *reader) digits(p dte.Value, prefix, name, message string, lengths ...int) dte.Value {
	v := p.Get(name)
	if !hasValue(v) || v.Kind() != dte.KindString {
		return p
	}
	text := digitsOf(v.Text())
	for _, n := range lengths {
		if len(text) == n {
			return p.With(name, dte.Str(text))
		}
	}
	r.fault(prefix+name, dte.FaultPattern, message)
	return p
}

// digitsOf are the digits of a number that is written with hyphens and spaces; "" if it holds anything else.
func digitsOf(s string) string {
	plain := strings.Map(func(r rune) rune {
		if r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
	if strings.ContainsFunc(plain, func(r rune) bool { return r < '0' || r > '9' }) {
		return ""
	}
	return plain
}
