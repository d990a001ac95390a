package dte

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// full tells that enough faults are known.
func (r *run) full() bool { return len(r.faults) >= r.limit }

func (r *run) fail(f Fault) {
	if !r.full() {
		r.faults = append(r.faults, f)
	}
}

// breach tells that the slot at si breaks the rule, unless r is quiet. What depends on another value has the code
// CONDITION, and is left out where a plain fault was told already.
func (r *run) breach(fi int, si int32, x *rule, code string) verdict {
	if r.quiet > 0 || r.full() {
		return fail
	}
	f := Fault{Path: r.path(&r.fields[fi]), Code: code, Message: x.message(code, &r.slots[si])}
	if r.cause != "" {
		for i := range r.faults {
			if r.faults[i].Path == f.Path {
				return fail
			}
		}
		f.Code = FaultCondition
		f.Message += ", " + r.cause
	}
	r.fail(f)
	return fail
}

// breachNumber tells that a number is no Amount. The layout meets every number before any condition does.
func (r *run) breachNumber(fi int, s *slot) verdict {
	if r.quiet == 0 && r.cause == "" {
		f := Fault{r.path(&r.fields[fi]), FaultPrecision, quote(s) + " tiene más de 8 decimales"}
		if _, err := ParseAmount(s.text); err == ErrRange {
			f.Code, f.Message = FaultRange, quote(s)+" está fuera de ±92,000,000,000"
		}
		for i := range r.faults {
			if r.faults[i].Path == f.Path {
				return fail
			}
		}
		r.fail(f)
	}
	return fail
}

func (r *run) breachRepeat(fi int, first int32) verdict {
	if r.quiet == 0 {
		r.fail(Fault{r.path(&r.fields[fi]), FaultDuplicate, "repite el elemento " + strconv.Itoa(int(first))})
	}
	return fail
}

func (r *run) breachCode(fi int, code string) {
	list := r.fields[fi].list
	r.fail(Fault{r.path(&r.fields[fi]), FaultCatalogue, "«" + clip(code) + "» no está en " + list.id + " (" + list.name + ")"})
}

// message says in Spanish what is wrong with s and what x allows. X may be nil for REQUIRED.
func (x *rule) message(code string, s *slot) string {
	switch code {
	case FaultRequired:
		if x == nil {
			return "es obligatorio"
		}
		return "es obligatorio: se espera " + x.describe()
	case FaultType:
		return "se espera " + x.describe() + " y vino " + kindNoun(s)
	case FaultEnum:
		if len(x.enum) == 1 {
			return "debe ser " + list(x.enum, "") + " y vino " + quote(s)
		}
		return quote(s) + " no es uno de los valores permitidos: " + list(x.enum, " o ")
	case FaultLength:
		n := utf8.RuneCountInString(s.text)
		if n == 0 {
			return "está vacío y debe tener " + span(x.minLength, x.maxLength, "carácter", "caracteres")
		}
		return "tiene " + count(n, "carácter", "caracteres") + " y debe tener " + span(x.minLength, x.maxLength, "carácter", "caracteres")
	case FaultPattern:
		return quote(s) + " no tiene la forma " + x.forms()
	case FaultFormat:
		var nouns []string
		for _, f := range x.formats {
			nouns = append(nouns, f.noun)
		}
		return quote(s) + " no es " + strings.Join(nouns, " y ")
	case FaultRange:
		return quote(s) + " está fuera de rango: debe ser " + x.limits()
	case FaultPrecision:
		if d := decimals(x.multiple); d >= 0 {
			return quote(s) + " debe tener a lo más " + count(d, "decimal", "decimales")
		}
		return quote(s) + " no es múltiplo de " + x.multiple.String()
	case FaultCount:
		return "tiene " + count(int(s.count), "elemento", "elementos") + " y debe tener " + span(x.minItems, x.maxItems, "elemento", "elementos")
	}
	return "debe cumplir exactamente una de las alternativas: " + x.alternatives()
}

// describe says what a value may be: "texto de 1 a 250 caracteres o null".
func (x *rule) describe() string {
	var parts []string
	add := func(t typeSet, noun string) {
		if x.types&t != 0 {
			parts = append(parts, noun)
		}
	}
	switch {
	case x.hasEnum:
		return list(x.enum, " o ")
	case x.minLength > 0 || x.maxLength < math.MaxInt:
		length := span(x.minLength, x.maxLength, "carácter", "caracteres")
		if !strings.HasPrefix(length, "de ") {
			length = "de " + length
		}
		add(typeString, "texto "+length)
	case len(x.formats) > 0:
		add(typeString, x.formats[0].noun)
	default:
		add(typeString, "texto")
	}
	add(typeInteger, "un número entero")
	add(typeNumber, "un número")
	add(typeBool, "true o false")
	add(typeArray, "una lista")
	add(typeObject, "un objeto")
	add(typeNull, "null")
	if len(parts) == 0 {
		return "un valor"
	}
	return strings.Join(parts, " o ")
}

func (x *rule) forms() string {
	var all []string
	for _, p := range x.patterns {
		all = append(all, strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(p.source))
	}
	return strings.Join(all, " y ")
}

func (x *rule) limits() string {
	var all []string
	for _, b := range x.bounds {
		all = append(all, b.words())
	}
	return strings.Join(all, " y ")
}

func (b bound) words() string {
	word := "al menos "
	switch {
	case b.upper && b.exclusive:
		word = "menor que "
	case b.upper:
		word = "a lo más "
	case b.exclusive:
		word = "mayor que "
	}
	return word + b.limit.String()
}

func (x *rule) alternatives() string {
	var all []string
	for _, y := range x.one {
		all = append(all, y.reason)
	}
	return strings.Join(all, "; ")
}

// explain says in Spanish when a condition holds: "tipoDocumento es «13»".
func (s *schema) explain(at string) string {
	var all []string
	name := at
	if name == "" {
		name = "el valor"
	}
	if s.hasEnum {
		all = append(all, name+" es "+list(s.enum, " o "))
	} else if s.types != 0 && (len(s.properties) == 0 || s.types&typeObject == 0) {
		all = append(all, name+" es "+(&rule{types: s.types, maxLength: math.MaxInt}).describe())
	}
	for _, b := range s.bounds {
		all = append(all, name+" es "+b.words())
	}
	for _, p := range s.patterns {
		all = append(all, name+" tiene la forma "+p.source)
	}
	for _, n := range s.required {
		all = append(all, "hay "+join(at, n))
	}
	for i := range s.properties {
		p := &s.properties[i]
		all = append(all, p.explain(join(at, p.name)))
	}
	for _, x := range s.all {
		all = append(all, x.explain(at))
	}
	if len(all) == 0 {
		return "se cumple otra condición sobre " + name
	}
	return strings.Join(all, " y ")
}

func kindNoun(s *slot) string {
	switch s.kind {
	case KindNull:
		return "null"
	case KindBool:
		return quote(s)
	case KindNumber:
		return "el número " + quote(s)
	case KindString:
		return "el texto " + quote(s)
	case KindArray:
		return "una lista"
	}
	return "un objeto"
}

func quote(s *slot) string {
	v := Value{kind: s.kind, exact: s.exact, num: s.num, text: s.text}
	switch s.kind {
	case KindString:
		return "«" + clip(s.text) + "»"
	case KindNumber:
		if s.exact {
			return s.num.String()
		}
		return clip(s.text)
	case KindNull:
		return "null"
	case KindArray, KindObject:
		return kindNoun(s)
	}
	return v.Text()
}

// clip keeps a message readable whatever was sent.
func clip(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

func list(values []Value, last string) string {
	const most = 12
	var b strings.Builder
	for i := range values {
		switch {
		case i == most:
			return b.String() + "…"
		case i == 0:
		case i == len(values)-1:
			b.WriteString(last)
		default:
			b.WriteString(", ")
		}
		s := slot{}
		s.scalar(&values[i])
		b.WriteString(quote(&s))
	}
	return b.String()
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func span(low, high int, one, many string) string {
	switch {
	case low == high:
		return "exactamente " + count(low, one, many)
	case high == math.MaxInt:
		return "al menos " + count(low, one, many)
	case low == 0:
		return "a lo más " + count(high, one, many)
	}
	return "de " + strconv.Itoa(low) + " a " + count(high, one, many)
}

// decimals is how many decimals a multipleOf of 1, 0.1, 0.01 … allows, or -1.
func decimals(m Amount) int {
	d := 8
	for ; m > 1 && m%10 == 0; m /= 10 {
		d--
	}
	if m != 1 || d < 0 {
		return -1
	}
	return d
}
