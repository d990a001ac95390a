package form

import (
	"strings"
	"unicode"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
)

// This file reads who the other party is: the numbers of people and taxpayers as they are printed on their cards, and the
// pairs of which half is no use.

// Kinds of identity documents (CAT-022) whose numbers have a form.
const (
	kindDUI = "13" // 9 digits
	kindNIT = "36" // 14 digits, or the 9 of the DUI that replaced it for persons
)

// identities completes a person's facts: NIT, NRC and DUI become digits alone, whatever hyphens and spaces they came with,
// so that each generation of MH's layouts can write them its own way. A kind of document without a number is refused; a
// number without a kind says by its length what it is. prefix begins the paths of the person's members.
func (d *Filled) identities(p dte.Value, prefix string) dte.Value {
	p = d.mailbox(p, prefix)
	p = d.digits(p, prefix, "nit", "El NIT lleva 14 dígitos, o los 9 del DUI", 9, 14)
	p = d.digits(p, prefix, "nrc", "El NRC lleva de 2 a 8 dígitos", 2, 3, 4, 5, 6, 7, 8)
	kind, number := p.Get("tipoDocumento"), p.Get("numDocumento")
	switch {
	case d.faulty(prefix+"tipoDocumento") || d.faulty(prefix+"numDocumento"):
		return p
	case hasValue(kind) && !hasValue(number):
		d.fault(prefix+"numDocumento", dte.FaultRequired, "Falta el número del documento de identidad")
		return p
	case hasValue(number) && !hasValue(kind):
		switch len(digitsOf(number.Text())) {
		case 9:
			kind = dte.Str(kindDUI)
		case 14:
			kind = dte.Str(kindNIT)
		default:
			d.fault(prefix+"tipoDocumento", dte.FaultRequired, "Falta el tipo del documento de identidad: 13 DUI, 36 NIT, 03 pasaporte, 02 carnet de residente, 37 otro")
			return p
		}
		p = p.With("tipoDocumento", kind)
	}
	switch kind.Text() {
	case kindDUI:
		p = d.digits(p, prefix, "numDocumento", "El DUI lleva 9 dígitos", 9)
	case kindNIT:
		p = d.digits(p, prefix, "numDocumento", "El NIT lleva 14 dígitos, o los 9 del DUI", 9, 14)
	}
	d.onePerson(p, prefix)
	return p
}

// mailbox refuses an address that cannot be mailed while the customer can still say it again.
func (d *Filled) mailbox(p dte.Value, prefix string) dte.Value {
	v := p.Get("correo")
	if !hasValue(v) || v.Kind() != dte.KindString || d.faulty(prefix+"correo") {
		return p
	}
	address := strings.TrimSpace(v.Text())
	if !outbox.Mailable(address) {
		d.fault(prefix+"correo", dte.FaultFormat, "No es una dirección de correo: escríbala como nombre@dominio.com, o deje el campo fuera")
	}
	return p.With("correo", dte.Str(address))
}

// onePerson refuses a taxpayer's NIT beside the number of another one.
func (d *Filled) onePerson(p dte.Value, prefix string) {
	kind, number, nit := p.Get("tipoDocumento").Text(), p.Get("numDocumento").Text(), p.Get("nit").Text()
	comparable := kind == kindNIT || kind == kindDUI && len(nit) == len(number)
	if nit == "" || number == "" || nit == number || !comparable || d.faulty(prefix+"nit") || d.faulty(prefix+"numDocumento") {
		return
	}
	d.fault(prefix+"nit", dte.FaultCondition, "El NIT es de otra persona que el número de documento")
	d.fault(prefix+"numDocumento", dte.FaultCondition, "El número de documento es de otra persona que el NIT")
}

// digits writes a number of a person as digits alone, and refuses one that has not as many as it may.
func (d *Filled) digits(p dte.Value, prefix, name, message string, lengths ...int) dte.Value {
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
	d.fault(prefix+name, dte.FaultPattern, message)
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

// faulty tells that a path has its fault already.
func (d *Filled) faulty(path string) bool {
	for _, f := range d.Faults {
		if f.Path == path {
			return true
		}
	}
	return false
}

// text checks a text that is there: something to read, and nothing that cannot be printed. A blank one is like none where
// that changes nothing, and refused where a code or a name is due.
func (d *Filled) text(v dte.Value, f *field, path string) dte.Value {
	s := v.Text()
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return invisible(r) && !(f.lines && (r == '\n' || r == '\r')) }):
		message := "Lleva un carácter que no se puede imprimir"
		if strings.ContainsAny(s, "\r\n\t") {
			message = "Va en una sola línea y sin tabuladores"
		}
		d.fault(path, dte.FaultPattern, message)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsPrint(r) && r != ' ' }):
		return v
	case f.blank:
		return f.preset
	case f.required:
		d.fault(path, dte.FaultRequired, "Es obligatorio y está vacío")
	default:
		d.fault(path, dte.FaultLength, "Está vacío: escríbalo u omítalo")
	}
	return dte.Value{}
}

// invisible tells a character that cannot be printed: control characters, and format characters such as a space of no
// width. The joiner of emoji is none, nor is any space.
func invisible(r rune) bool {
	const joiner = '\u200d'
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) && r != joiner
}
