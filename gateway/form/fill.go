package form

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/rules/near"
)

// Filled is a request turned into facts, with everything that is wrong with it.
type Filled struct {
	Facts           dte.Value
	Origin          *engine.Origin // the document that this one is issued against
	TestContingency bool
	Faults          []dte.Fault
	Warnings        []string // of what is taken, and may not be what the till means

	form    *Form
	body    dte.Value
	entries []string // members that became the first entries of the appendix
}

// Fill turns a request into facts by the endpoint's table. Faults carry the request's own paths.
func (form *Form) Fill(body dte.Value, codes map[string]string) *Filled {
	d := &Filled{form: form, body: body}
	if body.Kind() != dte.KindObject {
		d.fault("", dte.FaultType, "El cuerpo debe ser un objeto JSON")
		return d
	}
	d.unknown(body, form.fields, "")
	d.alternatives()
	var root, resumen []dte.Member
	var entries []dte.Value
	for i := range form.fields {
		f := &form.fields[i]
		v := d.value(body.Get(f.name), f, "")
		if !v.Exists() {
			continue
		}
		switch f.place {
		case inRoot:
			root = append(root, dte.Member{Name: f.factName(), Value: v})
		case inResumen:
			resumen = append(resumen, dte.Member{Name: f.factName(), Value: v})
		case inPagos:
			resumen = append(resumen, dte.Member{Name: "pagos", Value: dte.Arr(v)})
		case inApendice:
			entries = append(entries, d.entry(f, v))
		}
	}
	d.TestContingency = body.Get("testContingencia").Bool()
	if form.pays {
		resumen = d.payments(body, resumen, codes)
	}
	d.Facts = dte.Obj(append(root, dte.Member{Name: "resumen", Value: dte.Obj(resumen...)})...)
	d.append(entries)
	d.shape()
	return d
}

// payments applies SPEC 2.7: a cash payment by default, a payment required otherwise, one or the list and not both.
func (d *Filled) payments(body dte.Value, resumen []dte.Member, codes map[string]string) []dte.Member {
	one, list := body.Get("pago"), body.Get("pagos")
	if hasValue(one) && hasValue(list) {
		d.fault("pago", dte.FaultCondition, "Indique pago o pagos, no los dos")
		d.fault("pagos", dte.FaultCondition, "Indique pago o pagos, no los dos")
		return resumen
	}
	if !hasValue(one) && !hasValue(list) {
		if n, ok := body.Get("condicionOperacion").Int(); ok && n > 1 {
			d.fault("pago", dte.FaultRequired, "Falta la forma de pago: es obligatoria en una venta a crédito o con otra condición")
			return resumen
		}
		cash := dte.Obj(dte.Member{Name: "codigo", Value: dte.Str(cash)})
		return append(resumen, dte.Member{Name: "pagos", Value: dte.Arr(cash)})
	}
	for i, m := range resumen {
		if m.Name != "pagos" {
			continue
		}
		all := make([]dte.Value, m.Value.Len())
		for j := range all {
			path := index("pagos", j)
			if hasValue(one) {
				path = "pago"
			}
			all[j] = d.payment(m.Value.Index(j), path, codes)
		}
		resumen[i].Value = dte.Arr(all...)
	}
	return resumen
}

// cash is CAT-017's code of notes and coins.
const cash = "01"

// ambiguousPayments are the codes that this service's specification (2.7) and MH's catalogue (CAT-017) name differently:
// what MH takes the code for, what the specification says, and MH's code of that.
var ambiguousPayments = map[string][3]string{
	"03": {"tarjeta de crédito", "cheque", "04"},
	"04": {"cheque", "transferencia", "05"},
}

// payment completes one payment. Cash has no reference in MH's layouts (MF2 p.49), and a till's own is dropped; a term and
// its number of periods come together (pp.50-51).
func (d *Filled) payment(p dte.Value, path string, codes map[string]string) dte.Value {
	code := p.Get("codigo").Text()
	if to, ok := codes[code]; ok {
		p = p.With("codigo", dte.Str(to))
	} else if w, differs := ambiguousPayments[code]; differs && len(codes) == 0 && len(d.Warnings) == 0 {
		d.Warnings = append(d.Warnings, "El código de pago "+code+" es "+w[0]+" para Hacienda (CAT-017). Si la caja quiere decir "+w[1]+
			", envíe "+w[2]+" o configure payment_codes en el equipo")
	}
	if p.Get("codigo").Text() == cash && p.Get("referencia").Exists() {
		p = p.With("referencia", dte.Null())
	}
	switch term, periods := p.Get("plazo").Exists(), p.Get("periodo").Exists(); {
	case d.faulty(path+".plazo") || d.faulty(path+".periodo"):
	case term && !periods:
		d.fault(path+".periodo", dte.FaultRequired, "Falta cuántos días, meses o años dura el plazo")
	case periods && !term:
		d.fault(path+".plazo", dte.FaultRequired, "Falta la unidad del plazo: 01 días, 02 meses, 03 años")
	}
	return p
}

// hasValue tells that a member is there and not null: null is SPEC's way to leave an optional member out.
func hasValue(v dte.Value) bool { return v.Exists() && !v.IsNull() }

// value checks one member, whose path is prefix and its name, and returns its fact, absent if it has none.
func (d *Filled) value(v dte.Value, f *field, prefix string) dte.Value {
	if !hasValue(v) {
		if f.required {
			d.fault(prefix+f.name, dte.FaultRequired, "Es obligatorio")
		}
		return f.preset
	}
	switch f.shape {
	case isText:
		if v.Kind() != dte.KindString {
			return d.wrong(prefix+f.name, "Debe ser un texto")
		}
		return d.text(v, f, prefix+f.name)
	case isFlag:
		if v.Kind() != dte.KindBool {
			return d.wrong(prefix+f.name, "Debe ser true o false")
		}
	case isNumber, isInteger:
		return d.number(v, f, prefix)
	case isObject:
		if v.Kind() != dte.KindObject {
			return d.wrong(prefix+f.name, "Debe ser un grupo de datos, no un solo valor")
		}
		o := d.object(v, f, prefix+f.name+".", nil)
		if f.person {
			o = d.identities(o, prefix+f.name+".")
		}
		return o
	case isList:
		return d.list(v, f, prefix+f.name)
	case isTexts:
		if v.Kind() != dte.KindArray || v.Len() > f.limit {
			return d.wrong(prefix+f.name, "Debe ser una lista de a lo sumo "+strconv.Itoa(f.limit)+" textos")
		}
		for i := range v.Len() {
			if v.Index(i).Kind() != dte.KindString {
				return d.wrong(index(prefix+f.name, i), "Debe ser un texto")
			}
		}
	}
	return v
}

func (d *Filled) number(v dte.Value, f *field, prefix string) dte.Value {
	if v.Kind() != dte.KindNumber {
		return d.wrong(prefix+f.name, "Debe ser un número")
	}
	a, err := v.Amount()
	switch {
	case errors.Is(err, dte.ErrPrecision):
		d.fault(prefix+f.name, dte.FaultPrecision, "Lleva a lo sumo 8 decimales")
		return dte.Value{}
	case err != nil:
		d.fault(prefix+f.name, dte.FaultRange, "Debe estar por debajo de 92,000,000,000")
		return dte.Value{}
	}
	if _, whole := v.Int(); f.shape == isInteger && !whole {
		return d.wrong(prefix+f.name, "Debe ser un número entero")
	}
	switch {
	case f.min != nil && f.above && a <= *f.min:
		d.fault(prefix+f.name, dte.FaultRange, "Debe ser mayor que "+f.min.String())
	case f.min != nil && a < *f.min, f.max != nil && a > *f.max:
		d.fault(prefix+f.name, dte.FaultRange, f.bounds())
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

// object checks the members of an object, whose paths begin with prefix; first come before them in the fact.
func (d *Filled) object(v dte.Value, f *field, prefix string, first []dte.Member) dte.Value {
	if !f.loose {
		d.unknown(v, f.members, prefix)
	}
	const presets = 2 // most that an object has
	members := make([]dte.Member, 0, len(first)+min(len(f.members), v.Len()+presets))
	members = append(members, first...)
	for i := range f.members {
		m := &f.members[i]
		if x := d.value(v.Get(m.name), m, prefix); x.Exists() {
			members = append(members, dte.Member{Name: m.factName(), Value: x})
		}
	}
	return dte.Obj(members...)
}

func (d *Filled) list(v dte.Value, f *field, path string) dte.Value {
	if v.Kind() != dte.KindArray {
		return d.wrong(path, "Debe ser una lista")
	}
	if v.Len() == 0 || v.Len() > f.limit {
		d.fault(path, dte.FaultCount, fmt.Sprintf("Lleva de 1 a %d elementos, trae %d", f.limit, v.Len()))
		return dte.Value{}
	}
	items := make([]dte.Value, 0, v.Len())
	for i := range v.Len() {
		if d.full() {
			break
		}
		if v.Index(i).Kind() != dte.KindObject {
			d.wrong(index(path, i), "Debe ser un grupo de datos, no un solo valor")
			items = append(items, dte.Obj()) // so that those behind it keep their places
			continue
		}
		var first []dte.Member
		if f.numbered {
			first = []dte.Member{{Name: "numItem", Value: dte.Int(int64(i + 1))}}
		}
		items = append(items, d.object(v.Index(i), f, index(path, i)+".", first))
	}
	return dte.Arr(items...)
}

// full tells that no further fault will be listed: looking for more would cost time and change nothing.
func (d *Filled) full() bool { return len(d.Faults) >= MaxFaults }

// MergeMore adds what find finds wrong beside the faults, unless no more will be listed. unread are the facts that the faults
// left out.
func (d *Filled) MergeMore(find func(unread []string) []dte.Fault) {
	if !d.full() {
		d.Merge(find(d.unread()))
	}
}

// unknown refuses members that the table does not have: a misspelt isRetenIva must not change a tax.
func (d *Filled) unknown(v dte.Value, fields []field, prefix string) {
	for _, m := range v.Members() {
		if d.full() {
			return
		}
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == m.Name }) {
			d.fault(prefix+m.Name, dte.FaultUnknown, "No se conoce este campo"+hint(m.Name, fields))
		}
	}
}

// hint names the field that a misspelt name is nearest to, if any is near.
func hint(name string, fields []field) string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	if i, letters := near.Of(name, names); i >= 0 && letters < 3 {
		return "; ¿quiso decir " + names[i] + "?"
	}
	return ""
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func (d *Filled) wrong(path, message string) dte.Value {
	d.fault(path, dte.FaultType, message)
	return dte.Value{}
}

func (d *Filled) fault(path, code, message string) {
	if !d.full() {
		d.Faults = append(d.Faults, dte.Fault{Path: path, Code: code, Message: message})
	}
}

// Merge adds faults of facts, at the request's own paths, less those that are told already at or above their path.
func (d *Filled) Merge(found []dte.Fault) {
next:
	for _, f := range found {
		if d.full() {
			return
		}
		if name, ok := strings.CutPrefix(f.Path, "resumen."); ok && d.fieldOf(inResumen, name) == nil {
			f.Message = totalName(name) + " " + f.Message
		}
		f.Message = Sentence(f.Message)
		f.Path = d.requestPath(f.Path)
		for _, have := range d.Faults {
			if have.Path == f.Path || strings.HasPrefix(f.Path, have.Path+".") || strings.HasPrefix(f.Path, have.Path+"[") {
				continue next
			}
		}
		d.fault(f.Path, f.Code, f.Message)
	}
}

// Sentence begins a message with a capital letter, as all those of a request do.
func Sentence(message string) string {
	first, size := utf8.DecodeRuneInString(message)
	return string(unicode.ToUpper(first)) + message[size:]
}

// totalName is what people call a total that the rule computes.
func totalName(field string) string {
	switch field {
	case "montoTotalOperacion":
		return "El monto total de la operación"
	case "totalPagar":
		return "El total a pagar"
	case "subTotal", "subTotalVentas":
		return "El subtotal"
	}
	return "El total calculado (" + field + ")"
}
