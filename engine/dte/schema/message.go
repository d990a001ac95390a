package schema

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"dtegate/engine/dte"
)

// lacksCode says that a code is not in the list: of a code that repeats within each departamento, in that one.
func lacksCode(c *dte.CodeList, code string) string {
	words := strings.Fields(c.Name)
	for i, w := range words {
		if w != strings.ToUpper(w) { // IVA stays as it is
			words[i] = strings.ToLower(w)
		}
	}
	name := strings.Join(words, " ")
	if parent, own, ok := strings.Cut(code, "/"); ok {
		return "«" + clip(own) + "» no está en el catálogo de Hacienda: " + name + " (" + c.ID + ") del departamento " + clip(parent)
	}
	return "«" + clip(code) + "» no está en el catálogo de Hacienda: " + name + " (" + c.ID + ")"
}

// message says to a cashier, in Spanish, what is wrong with s at a place of the document, and what x allows. X may be nil
// for REQUIRED.
func (x *rule) message(document, code string, s *slot) string {
	switch code {
	case dte.FaultRequired:
		return x.missing(document)
	case dte.FaultType:
		switch {
		case x.types == typeNull:
			return "no debe llevar ningún dato"
		case x.types&^typeNull == typeObject && s.kind == dte.KindNull:
			return "faltan sus datos"
		case x.types&^typeNull == typeObject:
			return "debe llevar sus datos por separado, y vino " + kindNoun(s)
		case s.kind == dte.KindNull:
			return x.missing(document)
		}
		return "debe ser " + x.describe(document) + ", y vino " + kindNoun(s)
	case dte.FaultEnum:
		n, _ := nounOf(document)
		if s.kind == dte.KindNull {
			return "está vacío, y debe ser " + n.named(x.enum)
		}
		if n.name == "" {
			return quote(s) + " no se admite aquí: debe ser " + n.named(x.enum)
		}
		return quote(s) + " no se admite como " + bare(n.name) + ": debe ser " + n.named(x.enum)
	case dte.FaultLength:
		n := utf8.RuneCountInString(s.text)
		if n == 0 {
			return "está vacío y debe tener " + span(x.minLength, x.maxLength, "carácter", "caracteres")
		}
		return "tiene " + count(n, "carácter", "caracteres") + " y debe tener " + span(x.minLength, x.maxLength, "carácter", "caracteres")
	case dte.FaultPattern:
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
	case dte.FaultFormat:
		var nouns []string
		for _, f := range x.formats {
			nouns = append(nouns, f.noun)
		}
		return quote(s) + " no es " + strings.Join(nouns, " y ")
	case dte.FaultRange:
		return quote(s) + " no se admite: debe ser " + x.limits()
	case dte.FaultPrecision:
		if d := decimals(x.multiple); d >= 0 {
			return quote(s) + " debe tener a lo más " + count(d, "decimal", "decimales")
		}
		return quote(s) + " debe ser un múltiplo de " + x.multiple.String()
	case dte.FaultCount:
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
	case dte.KindNull:
		return "vacío"
	case dte.KindBool:
		return quote(s)
	case dte.KindNumber:
		return "el número " + quote(s)
	case dte.KindString:
		return "el texto " + quote(s)
	case dte.KindArray:
		return "una lista"
	}
	return "un grupo de datos"
}

func quote(s *slot) string {
	switch s.kind {
	case dte.KindString:
		return "«" + clip(s.text) + "»"
	case dte.KindNumber:
		if s.exact {
			return s.num.String()
		}
		return clip(s.text)
	case dte.KindNull:
		return "vacío"
	case dte.KindArray, dte.KindObject:
		return kindNoun(s)
	}
	return strconv.FormatBool(s.num != 0)
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
func decimals(m dte.Amount) int {
	d := 8
	for ; m > 1 && m%10 == 0; m /= 10 {
		d--
	}
	if m != 1 || d < 0 {
		return -1
	}
	return d
}
