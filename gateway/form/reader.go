package form

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/rules/suggest"
)

// reader checks the members of a request with the tables, and makes their facts. Its faults have paths in the request.
type reader struct{ Faults []dte.Fault }

// value checks one member and returns its fact, or an absent value if the member makes no fact. The member's path is
// prefix + f.name.
func (r *reader) value(v dte.Value, f *field, prefix string) dte.Value {
	if !v.Present() {
		if f.required {
			r.fault(prefix+f.name, dte.FaultRequired, "Es obligatorio")
		}
		return f.preset
	}
	switch f.shape {
	case isText:
		if v.Kind() != dte.KindString {
			return r.wrong(prefix+f.name, "Debe ser un texto")
		}
		return r.text(v, f, prefix)
	case isFlag:
		if v.Kind() != dte.KindBool {
			return r.wrong(prefix+f.name, "Debe ser true o false")
		}
	case isNumber, isInteger:
		return r.number(v, f, prefix)
	case isObject:
		if v.Kind() != dte.KindObject {
			return r.wrong(prefix+f.name, "Debe ser un grupo de datos, no un solo valor")
		}
		o := r.object(v, f, prefix+f.name+".", nil)
		if f.person {
			o = r.identities(o, prefix+f.name+".")
		}
		return o
	case isList:
		return r.list(v, f, prefix+f.name)
	case isTexts:
		if v.Kind() != dte.KindArray || v.Len() > f.limit {
			return r.wrong(prefix+f.name, "Debe ser una lista de a lo sumo "+strconv.Itoa(f.limit)+" textos")
		}
		for i, text := range v.Items() {
			if text.Kind() != dte.KindString {
				return r.wrong(index(prefix+f.name, i), "Debe ser un texto")
			}
		}
	}
	return v
}

func (r *reader) number(v dte.Value, f *field, prefix string) dte.Value {
	if v.Kind() != dte.KindNumber {
		return r.wrong(prefix+f.name, "Debe ser un número")
	}
	a, err := v.Amount()
	switch {
	case errors.Is(err, dte.ErrPrecision):
		r.fault(prefix+f.name, dte.FaultPrecision, "Lleva a lo sumo 8 decimales")
		return dte.Value{}
	case err != nil, a == dte.MaxAmount:
		r.fault(prefix+f.name, dte.FaultRange, "Debe estar por debajo de 92,000,000,000")
		return dte.Value{}
	}
	if _, whole := v.Int(); f.shape == isInteger && !whole {
		return r.wrong(prefix+f.name, "Debe ser un número entero")
	}
	switch {
	case f.min != nil && f.above && a <= *f.min:
		r.fault(prefix+f.name, dte.FaultRange, "Debe ser mayor que "+f.min.String())
	case f.min != nil && a < *f.min, f.max != nil && a > *f.max:
		r.fault(prefix+f.name, dte.FaultRange, f.bounds())
	default:
		return v
	}
	return dte.Value{}
}

func (f *field) bounds() string {
	if f.max == nil {
		return "No puede ser menor que " + f.min.String()
	}
	return "Debe estar entre " + f.min.String() + " y " + f.max.String()
}

// object checks the members of an object and returns the object's fact, which begins with the members in first. The
// paths of the request's members begin with prefix.
func (r *reader) object(v dte.Value, f *field, prefix string, first []dte.Member) dte.Value {
	if !f.loose {
		r.unknown(v, f.members, prefix)
	}
	const presets = 2 // the most presets that an object has
	members := make([]dte.Member, 0, len(first)+min(len(f.members), v.Len()+presets))
	members = append(members, first...)
	for i := range f.members {
		m := &f.members[i]
		if x := r.value(v.Get(m.name), m, prefix); x.Exists() {
			members = r.put(members, m.factName(), x, prefix, m.name)
		}
	}
	return dte.Obj(members...)
}

// put adds a fact to an object's members. Two members of a request may make the same fact; their values must be equal.
// The fact is added once: stored facts with a repeated name could not be read again. prefix and member are the path in
// the request, joined only for a fault.
func (r *reader) put(members []dte.Member, name string, v dte.Value, prefix, member string) []dte.Member {
	for i := range members {
		if members[i].Name != name {
			continue
		}
		if path := prefix + member; !r.faulty(path) && !bytes.Equal(members[i].Value.Append(nil), v.Append(nil)) {
			r.fault(path, dte.FaultCondition, "Contradice a otro campo del mismo dato")
		}
		return members
	}
	return append(members, dte.Member{Name: name, Value: v})
}

func (r *reader) list(v dte.Value, f *field, path string) dte.Value {
	if v.Kind() != dte.KindArray {
		return r.wrong(path, "Debe ser una lista")
	}
	if v.Len() == 0 || v.Len() > f.limit {
		r.fault(path, dte.FaultCount, fmt.Sprintf("Lleva de 1 a %d elementos, trae %d", f.limit, v.Len()))
		return dte.Value{}
	}
	items := make([]dte.Value, 0, v.Len())
	for i := range v.Len() {
		if r.full() {
			break
		}
		if v.Index(i).Kind() != dte.KindObject {
			r.wrong(index(path, i), "Debe ser un grupo de datos, no un solo valor")
			items = append(items, dte.Obj()) // empty, because later items must keep their numbers
			continue
		}
		var first []dte.Member
		if f.numbered {
			first = []dte.Member{{Name: "numItem", Value: dte.Int(int64(i + 1))}}
		}
		items = append(items, r.object(v.Index(i), f, index(path, i)+".", first))
	}
	return dte.Arr(items...)
}

// unknown refuses members that are not in the table: if isRetenIva were misspelt and ignored, a tax would change.
func (r *reader) unknown(v dte.Value, fields []field, prefix string) {
	for _, m := range v.Members() {
		if r.full() {
			return
		}
		if !knows(fields, m.Name) {
			r.fault(prefix+m.Name, dte.FaultUnknown, "No se conoce este campo"+hint(m.Name, fields))
		}
	}
}

func knows(fields []field, name string) bool {
	for i := range fields { // a field is too large to copy for each comparison
		if fields[i].name == name {
			return true
		}
	}
	return false
}

// hint proposes the field whose name resembles a misspelt name, or returns "".
func hint(name string, fields []field) string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	if i, letters := suggest.Of(name, names); i >= 0 && letters < 3 {
		return "; ¿quiso decir " + names[i] + "?"
	}
	return ""
}

// text checks a text: it must contain a visible character and no unprintable character. If f.blank is set, a text
// without a visible character counts as absent.
func (r *reader) text(v dte.Value, f *field, prefix string) dte.Value {
	s := v.Text()
	switch {
	case strings.ContainsFunc(s, func(c rune) bool { return invisible(c) && !(f.lines && (c == '\n' || c == '\r')) }):
		message := "Lleva un carácter que no se puede imprimir"
		if strings.ContainsAny(s, "\r\n\t") {
			message = "Va en una sola línea y sin tabuladores"
		}
		r.fault(prefix+f.name, dte.FaultPattern, message)
	case f.equals != "" && s != f.equals:
		r.fault(prefix+f.name, dte.FaultCondition, "En esta dirección solo puede ser "+f.equals)
	case strings.ContainsFunc(s, printed):
		return v
	case f.blank:
		return f.preset
	case f.required:
		r.fault(prefix+f.name, dte.FaultRequired, "Es obligatorio y está vacío")
	default:
		r.fault(prefix+f.name, dte.FaultLength, "Está vacío: escríbalo u omítalo")
	}
	return dte.Value{}
}

// invisible reports whether a character cannot be printed: control characters, and format characters such as a
// zero-width space. Neither the emoji joiner nor a space counts as invisible.
func invisible(r rune) bool {
	const joiner = '\u200d'
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) && r != joiner
}

// printed reports whether a character is visible in print. Spaces and some letters and marks are not: the Hangul
// fillers, the empty Braille cell, the null notehead, and variation selectors.
func printed(r rune) bool {
	return unicode.IsPrint(r) && !strings.ContainsRune(" \u2800\U0001D159", r) &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// code reads a codigoGeneracion. If it is missing or of another type, the reader has already reported the fault.
func (r *reader) code(v dte.Value, path string) dte.Code {
	if v.Kind() != dte.KindString {
		return dte.Code{}
	}
	c, err := dte.ParseCode(v.Text())
	if err != nil {
		r.fault(path, dte.FaultPattern, "No es un código de generación: son 36 caracteres en cinco grupos, con guiones")
	}
	return c
}

type shape uint8

const (
	isText shape = iota // in the order of bundle.Shapes
	isNumber
	isInteger
	isFlag
	isObject
	isList  // a list of objects
	isTexts // a list of texts
)

// field describes one member of a request: its name, the fact made from it, and its conditions.
type field struct {
	name     string
	fact     string // the fact's name; "": the same name
	shape    shape
	required bool
	min, max *dte.Amount // bounds of numbers and integers, inclusive
	above    bool        // min is exclusive
	preset   dte.Value   // the fact if the member is absent
	members  []field     // of the object, or of each object in the list
	loose    bool        // unknown members are ignored, not refused; set for every receptor and address
	limit    int         // the most items in a list
	numbered bool        // each item gets the member numItem, from 1
	place    place       // the object of the facts that receives the fact
	equals   string      // the only allowed text; "": any
	label    string      // label of the member's entry in apendice
	person   bool        // an object with a person's identity numbers
	blank    bool        // a blank text counts as absent
	lines    bool        // a text that may have several lines
}

// place is the object of the facts that receives a top-level member.
type place uint8

const (
	inRoot place = iota
	inResumen
	inLine     // the only line of cuerpoDocumento
	inPagos    // the only item of resumen.pagos
	inApendice // an entry of apendice
	nowhere    // no fact: the gateway itself reads the member
)

func (f *field) factName() string { return cmp.Or(f.fact, f.name) }

func amount(n int64) *dte.Amount { a := dte.Amount(n) * dte.Scale; return &a }

func plain(names ...string) []field {
	fs := make([]field, len(names))
	for i, n := range names {
		fs[i] = field{name: n}
	}
	return fs
}

func required(names ...string) []field {
	fs := plain(names...)
	for i := range fs {
		fs[i].required = true
	}
	return fs
}

var direccion = field{name: "direccion", shape: isObject, loose: true, members: plain("departamento", "municipio",
	"distrito", "complemento")}

// item is the line of SPEC 2.6 with three extensions: tributos, codTributo, noGravado.
var item = []field{
	{name: "descripcion", required: true},
	{name: "cantidad", shape: isNumber, required: true, min: amount(0), above: true},
	{name: "precioUnitario", fact: "precioUni", shape: isNumber, required: true, min: amount(0)},
	{name: "codigo", blank: true},
	{name: "montoDescu", shape: isNumber, min: amount(0)},
	{name: "tipoImpuesto"},
	{name: "uniMedida", shape: isInteger, min: amount(1), max: amount(99), preset: dte.Int(59)},
	{name: "tipoItem", shape: isInteger, min: amount(1), max: amount(4), preset: dte.Int(1)},
	{name: "tributos", shape: isTexts, limit: 20},
	{name: "codTributo", blank: true},
	{name: "noGravado", shape: isNumber},
}

var payment = []field{
	{name: "codigo", required: true}, {name: "plazo"}, {name: "periodo", shape: isInteger, min: amount(1)},
	{name: "referencia", blank: true},
}

// full reports whether MaxFaults faults are known, the most that an answer lists.
func (r *reader) full() bool { return len(r.Faults) >= MaxFaults }

func (r *reader) wrong(path, message string) dte.Value {
	r.fault(path, dte.FaultType, message)
	return dte.Value{}
}

func (r *reader) fault(path, code, message string) {
	if !r.full() {
		r.Faults = append(r.Faults, dte.Fault{Path: path, Code: code, Message: message})
	}
}

func (r *reader) contradict(a, b string) {
	r.fault(a, dte.FaultCondition, "Contradice a "+b)
	r.fault(b, dte.FaultCondition, "Contradice a "+a)
}

func (r *reader) faulty(path string) bool {
	return slices.ContainsFunc(r.Faults, func(f dte.Fault) bool { return f.Path == path })
}

// Kinds of identity documents (CAT-022) whose digits are counted.
const (
	kindDUI = "13" // 9 digits
	kindNIT = "36" // 14 digits, or the 9 digits of the DUI, which replaced the NIT of persons
)

// identities completes a person's facts. It reduces NIT, NRC and DUI to their digits, because MH's layouts write them
// differently. It refuses tipoDocumento without numDocumento. If tipoDocumento is missing, the length of numDocumento
// determines it. prefix is the beginning of the paths of the person's members.
func (r *reader) identities(p dte.Value, prefix string) dte.Value {
	p = r.mailbox(p, prefix)
	p = r.digits(p, prefix, "nit", "El NIT lleva 14 dígitos, o los 9 del DUI", 9, 14)
	p = r.digits(p, prefix, "nrc", "El NRC lleva de 2 a 8 dígitos", 2, 3, 4, 5, 6, 7, 8)
	kind, number := p.Get("tipoDocumento"), p.Get("numDocumento")
	switch {
	case r.faulty(prefix+"tipoDocumento") || r.faulty(prefix+"numDocumento"):
		return p
	case kind.Present() && !number.Present():
		r.fault(prefix+"numDocumento", dte.FaultRequired, "Falta el número del documento de identidad")
		return p
	case number.Present() && !kind.Present():
		switch len(dte.Digits(number.Text())) {
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

// mailbox refuses an invalid mail address while the customer is still present to correct it.
func (r *reader) mailbox(p dte.Value, prefix string) dte.Value {
	v := p.Get("correo")
	if v.Kind() != dte.KindString {
		return p
	}
	address := strings.TrimSpace(v.Text())
	if !outbox.Mailable(address) {
		r.fault(prefix+"correo", dte.FaultFormat, "No es una dirección de correo: escríbala como nombre@dominio.com, "+
			"o deje el campo fuera")
	}
	return p.With("correo", dte.Str(address))
}

// onePerson refuses a NIT and a document number of two different persons.
func (r *reader) onePerson(p dte.Value, prefix string) {
	kind, number, nit := p.Get("tipoDocumento").Text(), p.Get("numDocumento").Text(), p.Get("nit").Text()
	comparable := kind == kindNIT || kind == kindDUI && len(nit) == len(number)
	if nit == "" || nit == number || !comparable || r.faulty(prefix+"nit") || r.faulty(prefix+"numDocumento") {
		return
	}
	r.fault(prefix+"nit", dte.FaultCondition, "El NIT es de otra persona que el número de documento")
	r.fault(prefix+"numDocumento", dte.FaultCondition, "El número de documento es de otra persona que el NIT")
}

// digits reduces a person's number to its digits, and refuses a number whose length is not in lengths.
func (r *reader) digits(p dte.Value, prefix, name, message string, lengths ...int) dte.Value {
	v := p.Get(name)
	if v.Kind() != dte.KindString {
		return p
	}
	text := dte.Digits(v.Text())
	if slices.Contains(lengths, len(text)) {
		return p.With(name, dte.Str(text))
	}
	r.fault(prefix+name, dte.FaultPattern, message)
	return p
}
