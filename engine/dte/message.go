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

// unsaid is the cause of a condition that no sentence says.
const unsaid = "-"

// breach tells that the slot at si breaks the rule, unless r is quiet. What depends on another value has the code
// CONDITION, and is left out where a plain fault was told already.
func (r *run) breach(fi int, si int32, x *rule, code string) verdict {
	if r.quiet > 0 || r.full() {
		return fail
	}
	f := r.fields[fi].fault(x, code, &r.slots[si], r.cause)
	f.Path = r.path(&r.fields[fi])
	if r.cause != "" {
		for i := range r.faults {
			if r.faults[i].Path == f.Path {
				return fail
			}
		}
	}
	r.fail(f)
	return fail
}

// fault is what breaking a rule at the field tells, for a cause if there is one; the path is the caller's.
func (f *field) fault(x *rule, code string, s *slot, cause string) Fault {
	told := Fault{Code: code, Message: x.message(f.document, code, s)}
	if cause != "" {
		told.Code = FaultCondition
		if cause != unsaid {
			told.Message += ", " + cause
		}
	}
	return told
}

// breachNumber tells that a number is no Amount. The layout meets every number before any condition does.
func (r *run) breachNumber(fi int, s *slot) verdict {
	if r.quiet == 0 && r.cause == "" {
		f := Fault{r.path(&r.fields[fi]), FaultPrecision, quote(s) + " tiene más de 8 decimales"}
		if _, err := ParseAmount(s.text); err == ErrRange {
			f.Code, f.Message = FaultRange, quote(s)+" no está por debajo de 92,000,000,000"
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
	r.fail(Fault{r.path(&r.fields[fi]), FaultCatalogue, r.fields[fi].list.lacks(code)})
}

// lacks says that a code is not in the list: of a code that repeats within each departamento, in that one.
func (c *catalogue) lacks(code string) string {
	words := strings.Fields(c.name)
	for i, w := range words {
		if w != strings.ToUpper(w) { // IVA stays as it is
			words[i] = strings.ToLower(w)
		}
	}
	name := strings.Join(words, " ")
	if parent, own, ok := strings.Cut(code, "/"); ok {
		return "«" + clip(own) + "» no está en el catálogo de Hacienda: " + name + " (" + c.id + ") del departamento " + clip(parent)
	}
	return "«" + clip(code) + "» no está en el catálogo de Hacienda: " + name + " (" + c.id + ")"
}

// message says to a cashier, in Spanish, what is wrong with s at a place of the document, and what x allows. X may be nil
// for REQUIRED.
func (x *rule) message(document, code string, s *slot) string {
	switch code {
	case FaultRequired:
		return x.missing(document)
	case FaultType:
		switch {
		case x.types == typeNull:
			return "no debe llevar ningún dato"
		case x.types&^typeNull == typeObject && s.kind == KindNull:
			return "faltan sus datos"
		case x.types&^typeNull == typeObject:
			return "debe llevar sus datos por separado, y vino " + kindNoun(s)
		case s.kind == KindNull:
			return x.missing(document)
		}
		return "debe ser " + x.describe(document) + ", y vino " + kindNoun(s)
	case FaultEnum:
		n, _ := nounOf(document)
		if s.kind == KindNull {
			return "está vacío, y debe ser " + n.named(x.enum)
		}
		if n.name == "" {
			return quote(s) + " no se admite aquí: debe ser " + n.named(x.enum)
		}
		return quote(s) + " no se admite como " + bare(n.name) + ": debe ser " + n.named(x.enum)
	case FaultLength:
		n := utf8.RuneCountInString(s.text)
		if n == 0 {
			return "está vacío y debe tener " + span(x.minLength, x.maxLength, "carácter", "caracteres")
		}
		return "tiene " + count(n, "carácter", "caracteres") + " y debe tener " + span(x.minLength, x.maxLength, "carácter", "caracteres")
	case FaultPattern:
		for _, p := range x.patterns {
			if !p.match(s.text) {
				words, ok := p.form()
				if !ok {
					return quote(s) + " no está escrito " + words
				}
				return quote(s) + " no es " + words
			}
		}
		return quote(s) + " no está escrito como lo pide Hacienda"
	case FaultFormat:
		var nouns []string
		for _, f := range x.formats {
			nouns = append(nouns, f.noun)
		}
		return quote(s) + " no es " + strings.Join(nouns, " y ")
	case FaultRange:
		return quote(s) + " no se admite: debe ser " + x.limits()
	case FaultPrecision:
		if d := decimals(x.multiple); d >= 0 {
			return quote(s) + " debe tener a lo más " + count(d, "decimal", "decimales")
		}
		return quote(s) + " debe ser un múltiplo de " + x.multiple.String()
	case FaultCount:
		return "tiene " + count(int(s.count), "elemento", "elementos") + " y debe tener " + span(x.minItems, x.maxItems, "elemento", "elementos")
	}
	if said := x.alternatives(); said != "" {
		return "debe cumplirse solo una de estas condiciones: " + said
	}
	return "estos datos no van juntos como lo pide Hacienda"
}

// missing says that a value is due; what it must be is said where that helps.
func (x *rule) missing(document string) string {
	if x == nil || x.types&^(typeNull|typeObject|typeArray) == 0 {
		return "es obligatorio"
	}
	switch what := x.describe(document); what {
	case "un dato", "un texto", "un número":
		return "es obligatorio"
	default:
		return "es obligatorio: debe ser " + what
	}
}

// bare is a noun without its article.
func bare(name string) string {
	_, name, _ = strings.Cut(name, " ")
	return name
}

// describe says what a value may be: "un texto de 1 a 250 caracteres". That it may be missing is not said.
func (x *rule) describe(document string) string {
	var parts []string
	add := func(t typeSet, noun string) {
		if x.types&t != 0 {
			parts = append(parts, noun)
		}
	}
	switch {
	case x.hasEnum:
		n, _ := nounOf(document)
		return n.named(x.enum)
	case len(x.formats) > 0:
		add(typeString, x.formats[0].noun)
	case len(x.patterns) > 0:
		words, ok := x.patterns[0].form()
		if !ok {
			words = "un texto"
		}
		add(typeString, words)
	case x.minLength > 0 || x.maxLength < math.MaxInt:
		length := span(x.minLength, x.maxLength, "carácter", "caracteres")
		if !strings.HasPrefix(length, "de ") {
			length = "de " + length
		}
		add(typeString, "un texto "+length)
	default:
		add(typeString, "un texto")
	}
	add(typeInteger, "un número entero")
	add(typeNumber, "un número")
	add(typeBool, "true o false")
	add(typeArray, "una lista")
	add(typeObject, "un grupo de datos")
	if len(parts) == 0 {
		return "un dato"
	}
	return strings.Join(parts, " o ")
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

// alternatives says what each part of a oneOf asks for, "" where one of them cannot be said.
func (x *rule) alternatives() string {
	var all []string
	for _, y := range x.one {
		if y.reason == "" {
			return ""
		}
		all = append(all, y.reason)
	}
	return strings.Join(all, "; ")
}

func kindNoun(s *slot) string {
	switch s.kind {
	case KindNull:
		return "vacío"
	case KindBool:
		return quote(s)
	case KindNumber:
		return "el número " + quote(s)
	case KindString:
		return "el texto " + quote(s)
	case KindArray:
		return "una lista"
	}
	return "un grupo de datos"
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
		return "vacío"
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
