// Package form reads the body of a request with tables of its members. The result is the facts for rules and documents,
// or all faults at once. It knows the names in the tills' requests, but no HTTP.
package form

import (
	"slices"
	"strings"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/rules/bundle"
)

const (
	MaxFaults = 50 // the most faults in one answer
	maxItems  = 2000
	maxCodes  = 100 // the most codes in one look-up
)

// Form describes the members of one kind of request.
type Form struct {
	Type     *bundle.Type // the type of document that the request creates; nil: no document
	fields   []field
	receptor []string    // SPEC's requiredFields: if one is missing, the refusal has a special code
	bundle   bundle.Form // the form in the type's bundle; empty without a type
}

// Refusal returns the error that refuses the request. It has a code of its own if receptor lacks a field that SPEC
// requires, or if the type of the original does not allow this note.
func (d *Filled) Refusal() *refusal.Error {
	form := d.form
	e := &refusal.Error{Code: refusal.CodeValidation, Message: "La solicitud no es válida", Faults: d.Faults}
	for _, f := range d.Faults {
		member, inside := strings.CutPrefix(f.Path, "receptor.")
		if f.Code == refusal.CodeOriginType { // the rule of a note refuses the type of the original
			e.Code, e.Message = f.Code, f.Message
		}
		missing := f.Code == dte.FaultRequired && (f.Path == "receptor" || inside && slices.Contains(form.receptor,
			member))
		if missing && len(form.receptor) > 0 {
			e.Code, e.Message, e.RequiredFields = "RECEPTOR_VALIDATION_ERROR",
				"El receptor no lleva los campos que exige el documento", form.receptor
		}
	}
	return e
}

// Filled contains the facts made from a request, and the request's faults, at most MaxFaults.
type Filled struct {
	Facts           dte.Value
	Origin          *engine.Origin // the document to which a note or a return refers
	TestContingency bool
	Warnings        []string // about accepted values that the till may not have meant

	reader  // has the faults
	form    *Form
	body    dte.Value
	entries []string // names of the members that became the first entries of apendice
}

// Fill makes facts from a request. The faults have paths in the request. codes maps a till's payment codes to CAT-017.
func (form *Form) Fill(body dte.Value, codes map[string]string) *Filled {
	d := &Filled{form: form, body: body}
	if body.Kind() != dte.KindObject {
		d.fault("", dte.FaultType, "El cuerpo debe ser un objeto JSON")
		return d
	}
	d.unknown(body, form.fields, "")
	d.alternatives()
	var root, resumen, line []dte.Member
	var entries []dte.Value
	for i := range form.fields {
		f := &form.fields[i]
		v := d.value(body.Get(f.name), f, "")
		if !v.Exists() {
			continue
		}
		name, to := f.factName(), &root
		switch f.place {
		case inResumen:
			to = &resumen
		case inPagos:
			name, v, to = "pagos", dte.Arr(v), &resumen
		case inLine:
			to = &line
		case inApendice:
			entries = append(entries, d.entry(f, v))
			continue
		case nowhere:
			continue
		}
		*to = d.put(*to, name, v, "", f.name)
	}
	d.TestContingency = body.Get("testContingencia").Bool()
	if form.bundle.Pays || body.Get("pagos").Present() {
		resumen = d.payments(body, resumen, codes)
	}
	if len(line) > 0 {
		root = d.put(root, linesFact, dte.Arr(dte.Obj(line...)), "", linesFact)
	}
	d.Facts = dte.Obj(d.put(root, "resumen", dte.Obj(resumen...), "", "resumen")...)
	d.append(entries)
	d.finish()
	return d
}

// payments applies SPEC 2.7: a request has pago or pagos; without them, condicionOperacion 1 is paid in cash.
func (d *Filled) payments(body dte.Value, resumen []dte.Member, codes map[string]string) []dte.Member {
	one, list := body.Get("pago"), body.Get("pagos")
	if !one.Present() && !list.Present() {
		if n, _ := body.Get("condicionOperacion").Int(); n == 2 || n == 3 {
			d.fault("pago", dte.FaultRequired, "Falta la forma de pago: es obligatoria en una venta a crédito o con "+
				"otra condición")
			return resumen
		}
		cash := dte.Obj(dte.Member{Name: "codigo", Value: dte.Str(cash)})
		return d.put(resumen, "pagos", dte.Arr(cash), "", "pagos")
	}
	for i, m := range resumen {
		if m.Name != "pagos" {
			continue
		}
		all := slices.Clone(m.Value.Items())
		for j := range all {
			path := index("pagos", j)
			if one.Present() {
				path = "pago"
			}
			all[j] = d.payment(all[j], path, codes)
		}
		resumen[i].Value = dte.Arr(all...)
	}
	return resumen
}

const cash = "01"

// ambiguousPayments are the payment codes with different meanings in CAT-017 and in this service's specification (2.7).
// The texts are MH's meaning, the specification's meaning, and MH's code for the latter.
var ambiguousPayments = map[string][3]string{
	"03": {"tarjeta de crédito", "cheque", "04"},
	"04": {"cheque", "transferencia", "05"},
}

// payment completes one payment. It removes the reference of a cash payment: MH's layouts forbid it (MF2 p.49). plazo
// and periodo must come together (pp.50-51).
func (d *Filled) payment(p dte.Value, path string, codes map[string]string) dte.Value {
	code := p.Get("codigo").Text()
	if to, ok := codes[code]; ok {
		p = p.With("codigo", dte.Str(to))
	} else if w, differs := ambiguousPayments[code]; differs && len(codes) == 0 && len(d.Warnings) == 0 {
		d.Warnings = append(d.Warnings, "El código de pago "+code+" es "+w[0]+
			" para Hacienda (CAT-017). Si la caja quiere decir "+w[1]+
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
