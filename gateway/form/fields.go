package form

import "dtegate/engine/dte"

// shape is what a member of a request must be.
type shape uint8

const (
	isText shape = iota
	isNumber
	isInteger
	isFlag
	isObject
	isList  // of objects
	isTexts // a list of texts
)

// field is one member of a request: its name there, the fact that it becomes, and what it must be.
type field struct {
	name     string
	fact     string // "" for the same name
	shape    shape
	required bool
	min, max *dte.Amount // bounds of numbers and integers, inclusive
	above    bool        // min is exclusive
	preset   dte.Value   // the fact when the member is absent
	members  []field     // of an object, or of each object of a list
	loose    bool        // members that are not known are dropped, not refused (any receptor)
	limit    int         // most items of a list
	numbered bool        // each item gets numItem
	place    place       // where the fact goes
	label    string      // of an entry of the appendix
	person   bool        // an object that holds a person's identity numbers
	blank    bool        // a text that is like none when it is blank
	lines    bool        // a text that may have several lines
}

// place is the object of the facts that a top-level member belongs to.
type place uint8

const (
	inRoot place = iota
	inResumen
	inPagos    // one object, the only one of resumen.pagos
	inApendice // a text or a number, as one entry of the appendix under its label
	nowhere    // read by the gateway itself
)

func (f *field) factName() string {
	if f.fact != "" {
		return f.fact
	}
	return f.name
}

func amount(n int64) *dte.Amount { a := dte.Amount(n) * dte.Scale; return &a }

// plain are texts that may be there.
func plain(names ...string) []field {
	fs := make([]field, len(names))
	for i, n := range names {
		fs[i] = field{name: n}
	}
	return fs
}

// required are texts that must be there.
func required(names ...string) []field {
	fs := plain(names...)
	for i := range fs {
		fs[i].required = true
	}
	return fs
}

var direccion = field{name: "direccion", shape: isObject, loose: true, members: plain("departamento", "municipio", "distrito", "complemento")}

// item is SPEC 2.6 with the extensions: tributos, codTributo, noGravado.
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
	{name: "codigo", required: true}, {name: "plazo"}, {name: "periodo", shape: isInteger, min: amount(1)}, {name: "referencia", blank: true},
}
