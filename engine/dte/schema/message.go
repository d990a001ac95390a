package schema

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"dtegate/engine/dte"
)

// lacksCode returns the message for a code that is not in the list, or not among the codes of its departamento.
func lacksCode(c *dte.CodeList, code string) string {
	words := strings.Fields(c.Name)
	for i, w := range words {
		if w != strings.ToUpper(w) { // an abbreviation such as IVA stays as it is
			words[i] = strings.ToLower(w)
		}
	}
	name := strings.Join(words, " ")
	if parent, own, ok := strings.Cut(code, "/"); ok {
		return "«" + clip(own) + "» no está en el catálogo de Hacienda: " + name + " (" + c.ID + ") del departamento " +
			clip(parent)
	}
	return "«" + clip(code) + "» no está en el catálogo de Hacienda: " + name + " (" + c.ID + ")"
}

// message describes, in Spanish for a cashier, the fault of the value s at a place of the document, and the values that
// the schema x allows. x may be nil if code is REQUIRED.
func (x *schema) message(document, code string, s *slot) string {
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
		n, _ := nounOf(document, x.documents)
		if s.kind == dte.KindNull {
			return "está vacío, y debe ser " + n.named(x.enum)
		}
		if n.name == "" {
			return quote(s) + " no se admite aquí: debe ser " + n.named(x.enum)
		}
		_, bare, _ := strings.Cut(n.name, " ") // the noun without its article
		return quote(s) + " no se admite como " + bare + ": debe ser " + n.named(x.enum)
	case dte.FaultLength:
		n := utf8.RuneCountInString(s.text)
		if n == 0 {
			return "está vacío y debe tener " + span(x.minLength, x.maxLength, "carácter", "caracteres")
		}
		return "tiene " + count(n, "carácter", "caracteres") + " y debe tener " + span(x.minLength, x.maxLength,
			"carácter", "caracteres")
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
		return quote(s) + " no se admite: debe ser " + limits(x.bounds)
	case dte.FaultPrecision:
		if d := decimals(x.multiple); d >= 0 {
			return quote(s) + " debe tener a lo más " + count(d, "decimal", "decimales")
		}
		return quote(s) + " debe ser un múltiplo de " + x.multiple.String()
	case dte.FaultCount:
		return "tiene " + count(int(s.count), "elemento", "elementos") + " y debe tener " + span(x.minItems, x.maxItems,
			"elemento", "elementos")
	}
	if said := x.alternatives(); said != "" {
		return "debe cumplirse solo una de estas condiciones: " + said
	}
	return "estos datos no van juntos como lo pide Hacienda"
}

// missing returns the message for a missing value, with the allowed values if they are not obvious.
func (x *schema) missing(document string) string {
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

// describe describes the permitted values, except absence: "un texto de 1 a 250 caracteres".
func (x *schema) describe(document string) string {
	var parts []string
	add := func(t typeSet, noun string) {
		if x.types&t != 0 {
			parts = append(parts, noun)
		}
	}
	switch {
	case len(x.enum) > 0:
		n, _ := nounOf(document, x.documents)
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

func limits(bounds []bound) string {
	if len(bounds) == 2 && bounds[0].limit == bounds[1].limit {
		return bounds[0].limit.String()
	}
	words := map[bound]string{{}: "al menos ", {upper: true}: "a lo más ", {exclusive: true}: "mayor que ",
		{upper: true, exclusive: true}: "menor que "}
	var all []string
	for _, b := range bounds {
		all = append(all, words[bound{upper: b.upper, exclusive: b.exclusive}]+b.limit.String())
	}
	return strings.Join(all, " y ")
}

// alternatives describes the requirement of each part of a oneOf; "" if a part has no description.
func (x *schema) alternatives() string {
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

// decimals returns how many decimals a multipleOf of 1, 0.1, 0.01 … allows, or -1.
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

// The rest of this file has a cashier's words for what the layouts contain: the forms of texts, the fields that
// conditions depend on, and short lists of codes.

// forms describes the patterns of MH's layouts in plain words. A lookahead at the start of a pattern, which forbids
// line breaks, is removed before the look-up.
var forms = map[string]string{
	`^([0-9]{14}|[0-9]{9})$`: "un NIT: 14 dígitos, o los 9 del DUI, sin guiones",
	`^[0-9]{9}$`:             "un DUI: 9 dígitos, sin guion",
	`^[0-9]{8}-[0-9]$`:       "un DUI: 8 dígitos, guion y 1 dígito",
	`^[0-9]{1,8}$`:           "un NRC: de 1 a 8 dígitos, sin guion",
	`^[0-9]{2,8}$`:           "un NRC: de 2 a 8 dígitos, sin guion",
	`^[0-9]{8}-[0-9]{1}$`:    "un DUI: 8 dígitos, guion y 1 dígito",
	`^[0-9]{2,6}$`:           "un código de actividad económica: de 2 a 6 dígitos",
	`^[0-9]{5,6}$`:           "un código de actividad económica: de 5 a 6 dígitos",
	`^[A-F0-9]{8}-[A-F0-9]{4}-[A-F0-9]{4}-[A-F0-9]{4}-[A-F0-9]{12}$`: "un código de generación: 36 caracteres en " +
		"cinco grupos, con guiones",
	`^(0[0-9]|1[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]?$`: "una hora como 14:05:09",
	`^(0[0-9]|1[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$`:  "una hora como 14:05:09",
	`^0[1-9]|1[0-4]$`:        "el código de un departamento: de 01 a 14",
	`^04$`:                   "04 (nota de remisión)",
	`^[0-9]{2}$`:             "un código de dos dígitos",
	`^(0[1-9]||1[0-4]||99)$`: "una forma de pago: de 01 a 14, o 99",
	`^0[1-3]$`:               "la unidad del plazo: 01 días, 02 meses, 03 años",
	`-[0-9]{15}$`:            "un número de control: termina en guion y 15 dígitos",
	`^[A-Z0-9]{40}$`:         "un sello de Hacienda: 40 letras mayúsculas o dígitos",
	`^[A-Z0-9]{8,30}$`:       "un teléfono: de 8 a 30 dígitos",
	`^[a-zA-Z0-9]{1,20}$`:    "un número de documento: hasta 20 letras o dígitos",
	`^[A-Z0-9]{1,20}$`:       "un número de documento: hasta 20 letras mayúsculas o dígitos",
	`^[A-Za-z0-9-]{1,31}$`:   "un número de documento: hasta 31 letras, dígitos o guiones",
	`^0[0-9]|1[0-5]$`:        "un tipo de documento de dos dígitos, como 01",
	`^0[1-9]|1[0-5]$`:        "un tipo de documento de dos dígitos, como 01",
}

// form describes the texts that match the pattern; ok is false if there is no description.
func (p *pattern) form() (words string, ok bool) {
	source := p.source
	for strings.HasPrefix(source, "^(?!") {
		source = "^" + source[closing(source, 1)+1:]
	}
	if words, ok = forms[source]; ok {
		return words, true
	}
	most, phone := strings.CutPrefix(source, "^[0-9+;]{8,")
	switch {
	case strings.HasPrefix(source, "^DTE-") && strings.HasSuffix(strings.TrimSuffix(source, "$"), "-[0-9]{15}"):
		return "un número de control, como DTE-01-S001P001-000000000000001", true
	case phone && most == "8}$":
		return "un teléfono: 8 dígitos", true
	case phone:
		return "un teléfono: de 8 a " + strings.TrimSuffix(most, "}$") + " dígitos", true
	case strings.HasPrefix(source, "^0[1-9]"): // each departamento has its own pattern
		last := 99
		for !p.match(fmt.Sprintf("%02d", last)) {
			last--
		}
		return fmt.Sprintf("un municipio de ese departamento: de 01 a %02d", last), true
	}
	return "como lo pide Hacienda", false
}

// noun is the everyday word for a field, and the codes of the field if they are few.
type noun struct {
	name  string // with its article
	codes map[string]string
	types bool // the codes are document types; their words are in CAT-002
}

// nouns has the words for fields that are codes, or whose values depend on each other. The key is the last two names of
// a path, or the last name.
var nouns = map[string]noun{
	"tipoDocumento":                       {name: "el tipo de documento de identidad", codes: people},
	"documentoRelacionado.tipoDocumento":  {name: "el tipo del documento relacionado", types: true},
	"cuerpoDocumento.tipoDocumento":       {name: "el tipo del documento relacionado", types: true},
	"documentoRelacionado.tipoGeneracion": {name: "la forma del documento relacionado", codes: papers},
	"tipoGeneracion":                      {name: "la forma del documento relacionado", codes: papers},
	"tipoDte":                             {name: "el tipo de documento", types: true},
	"tipoDoc":                             {name: "el tipo de documento", types: true},
	"tipoEvento":                          {name: "el tipo de evento"},
	"tipDocResponsable":                   {name: "el tipo de documento del responsable", codes: people},
	"tipDocSolicita":                      {name: "el tipo de documento de quien solicita", codes: people},
	"tipoDocResponsable":                  {name: "el tipo de documento del responsable", codes: people},
	"condicionOperacion": {name: "la condición de la operación",
		codes: map[string]string{"1": "contado", "2": "crédito", "3": "otra"}},
	"tipoItem": {name: "el tipo de ítem", codes: map[string]string{"1": "bienes", "2": "servicios",
		"3": "bienes y servicios", "4": "tributo"}},
	"tipoAnulacion": {name: "el tipo de invalidación", codes: map[string]string{"1": "error en los datos",
		"2": "operación anulada", "3": "otro motivo"}},
	"plazo": {name: "la unidad del plazo", codes: map[string]string{"01": "días", "02": "meses", "03": "años"}},
	"tipoContingencia": {name: "la causa de la contingencia", codes: map[string]string{"1": "Hacienda no disponible",
		"2": "falla del emisor", "3": "sin internet",
		"4": "sin energía", "5": "otra"}},
	"tipoModelo":      {name: "el modelo de facturación", codes: map[string]string{"1": "previo", "2": "diferido"}},
	"tipoOperacion":   {name: "el tipo de transmisión", codes: map[string]string{"1": "normal", "2": "contingencia"}},
	"ambiente":        {name: "el ambiente", codes: map[string]string{"00": "pruebas", "01": "producción"}},
	"uniMedida":       {name: "la unidad de medida"},
	"tributos":        {name: "el tributo"},
	"codTributo":      {name: "el tributo de la línea"},
	"codigo":          {name: "el código"},
	"tributos.codigo": {name: "el tributo"},
	"departamento":    {name: "el departamento"}, "municipio": {name: "el municipio"},
	"tipoMoneda": {name: "la moneda"}, "version": {name: "la versión del formato"},
	"tipoEstablecimiento": {name: "el tipo de establecimiento", codes: map[string]string{"01": "sucursal",
		"02": "casa matriz", "04": "bodega", "07": "predio", "20": "otro"}},
	"codDocAsociado": {name: "el documento asociado", codes: map[string]string{"1": "emisor", "2": "receptor",
		"3": "médico", "4": "transporte"}},
	"medico": {name: "el médico"}, "motivoContin": {name: "el motivo de la contingencia"},
	"numDocumento": {name: "el número de documento de identidad"}, "totalGravada": {name: "el total gravado"},
	"totalPagar":          {name: "el total a pagar"},
	"montoTotalOperacion": {name: "el monto total de la operación"}, "ventaGravada": {name: "la venta gravada"},
	"nota": {name: "la nota"},
}

var (
	people = map[string]string{"36": "NIT", "13": "DUI", "02": "carnet de residente", "03": "pasaporte", "37": "otro"}
	papers = map[string]string{"1": "papel", "2": "electrónico"}
)

// nounOf returns the noun for a place of the document; ok is false if there is no noun. types is CAT-002, or nil.
func nounOf(path string, types *dte.CodeList) (n noun, ok bool) {
	names := strings.Split(strings.ReplaceAll(path, "[]", ""), ".")
	last := names[len(names)-1]
	if len(names) > 1 {
		n, ok = nouns[names[len(names)-2]+"."+last]
	}
	if !ok {
		n, ok = nouns[last]
	}
	if n.types && types != nil {
		n.codes = types.Texts
	}
	return n, ok
}

// named lists values with their meanings: "13 (DUI) o 36 (NIT)". If this text is too long, it leaves the meanings out.
// It omits null: null means only that the value may be missing.
func (n noun) named(values []dte.Value) string {
	const long = 85
	if said := n.list(values, true); len(said) <= long {
		return said
	}
	return n.list(values, false)
}

func (n noun) list(values []dte.Value, meanings bool) string {
	const most = 9
	var all []string
	for i := range values {
		v := &values[i]
		if v.IsNull() {
			continue
		}
		var s slot
		s.scalar(v)
		text := strings.Trim(quote(&s), "«»")
		if word := n.codes[text]; word != "" && meanings {
			if n.types { // small letters, in the middle of a sentence
				word = strings.ToLower(word[:1]) + word[1:]
			}
			text += " (" + word + ")"
		}
		all = append(all, text)
	}
	if len(all) > most {
		return strings.Join(all[:most], ", ") + "…"
	}
	last := len(all) - 1
	if last < 1 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:last], ", ") + " o " + all[last]
}

// explain returns when a condition at a place of the document holds: "el tipo de documento de identidad es 13 (DUI)".
// It returns "" if no noun can express the condition.
func (s *schema) explain(at string, types *dte.CodeList) string {
	all, ok := s.reasons(at, types)
	if !ok {
		return ""
	}
	return strings.Join(slices.Compact(all), " y ")
}

func (s *schema) reasons(at string, types *dte.CodeList) (all []string, ok bool) {
	n, known := nounOf(at, types)
	scalar := s.types != 0 && s.types&(typeObject|typeArray) == 0
	if (len(s.enum) > 0 || scalar || len(s.bounds) > 0) && !known || len(s.patterns) > 0 || len(s.formats) > 0 ||
		s.items != nil || len(s.one) > 0 || len(s.choices) > 0 {
		return nil, false
	}
	switch {
	case len(s.enum) > 0:
		all = append(all, n.name+" es "+n.named(s.enum))
	case scalar && s.types == typeNull:
		all = append(all, "no se indica "+n.name)
	case scalar:
		all = append(all, "se indica "+n.name)
	}
	if len(s.bounds) > 0 {
		all = append(all, n.name+" es "+limits(s.bounds))
	}
	for i := range s.properties {
		p := &s.properties[i]
		more, ok := p.schema.reasons(join(at, p.name), types)
		if !ok {
			return nil, false
		}
		all = append(all, more...)
	}
	for _, name := range s.required {
		if slices.ContainsFunc(s.properties, func(p property) bool { return p.name == name }) {
			continue // the condition on the member's value already describes it
		}
		n, known := nounOf(join(at, name), types)
		if !known {
			return nil, false
		}
		all = append(all, "se indica "+n.name)
	}
	for _, x := range s.all {
		more, ok := x.reasons(at, types)
		if !ok {
			return nil, false
		}
		all = append(all, more...)
	}
	return all, len(all) > 0
}
