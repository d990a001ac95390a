// Package form reads the body of a request. Tables describe its members. The result is the facts for rules and
// documents, or all faults at once. Package form knows the tills' names of members and no HTTP.
package form

import (
	"net/http"
	"slices"
	"strings"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
	"dtegate/rules/bundle"
)

// Limits of a request.
const (
	MaxFaults = 50 // one answer lists at most this many
	maxItems  = 2000
	maxCodes  = 100 // most codes of one look-up
)

// Form is the table of the members of one request.
type Form struct {
	Type     *bundle.Type // the type of document that the request makes; nil: no document
	fields   []field
	receptor []string    // SPEC's requiredFields; if one is missing, the refusal has a special code
	bundle   bundle.Form // the form as the type's bundle has it; empty if there is no type
}

// Refusal returns why the request is refused. A receptor without SPEC's required fields has a special code.
func (d *Filled) Refusal() *problem.Problem {
	form := d.form
	p := &problem.Problem{Status: http.StatusBadRequest, Type: refusal.CodeValidation,
		Message: "La solicitud no es válida", Faults: d.Faults}
	for _, f := range d.Faults {
		member, inside := strings.CutPrefix(f.Path, "receptor.")
		if f.Code == refusal.CodeOriginType { // a note's rule refuses the original
			p.Type, p.Message = f.Code, f.Message
		}
		missing := f.Code == dte.FaultRequired && (f.Path == "receptor" || inside && slices.Contains(form.receptor,
			member))
		if missing && len(form.receptor) > 0 {
			p.Type, p.Message, p.RequiredFields = "RECEPTOR_VALIDATION_ERROR",
				"El receptor no lleva los campos que exige el documento", form.receptor
		}
	}
	return p
}

// Filled holds the facts that a request was turned into, and all faults of the request.
type Filled struct {
	Facts           dte.Value
	Origin          *engine.Origin // the document against which the new document is issued
	TestContingency bool
	Warnings        []string // about accepted values that may not be what the till means

	reader  // holds the Faults
	form    *Form
	body    dte.Value
	entries []string // members that became the first entries of the appendix
}

// Fill turns a request into facts. Its faults name the request's paths. codes maps a till's payment codes to CAT-017.
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
		switch f.place {
		case inRoot:
			root = append(root, dte.Member{Name: f.factName(), Value: v})
		case inResumen:
			resumen = append(resumen, dte.Member{Name: f.factName(), Value: v})
		case inPagos:
			resumen = append(resumen, dte.Member{Name: "pagos", Value: dte.Arr(v)})
		case inLine:
			line = append(line, dte.Member{Name: f.factName(), Value: v})
		case inApendice:
			entries = append(entries, d.entry(f, v))
		}
	}
	d.TestContingency = body.Get("testContingencia").Bool()
	if form.bundle.Pays {
		resumen = d.payments(body, resumen, codes)
	}
	if len(line) > 0 {
		root = append(root, dte.Member{Name: linesFact, Value: dte.Arr(dte.Obj(line...))})
	}
	d.Facts = dte.Obj(append(root, dte.Member{Name: "resumen", Value: dte.Obj(resumen...)})...)
	d.append(entries)
	d.finish()
	return d
}

// payments applies SPEC 2.7: pago or pagos, not both. If both are missing, a cash sale gets a cash payment.
func (d *Filled) payments(body dte.Value, resumen []dte.Member, codes map[string]string) []dte.Member {
	one, list := body.Get("pago"), body.Get("pagos")
	if hasValue(one) && hasValue(list) {
		d.fault("pago", dte.FaultCondition, "Indique pago o pagos, no los dos")
		d.fault("pagos", dte.FaultCondition, "Indique pago o pagos, no los dos")
		return resumen
	}
	if !hasValue(one) && !hasValue(list) {
		if n, ok := body.Get("condicionOperacion").Int(); ok && n > 1 {
			d.fault("pago", dte.FaultRequired, "Falta la forma de pago: es obligatoria en una venta a crédito o con "+
				"otra condición")
			return resumen
		}
		cash := dte.Obj(dte.Member{Name: "codigo", Value: dte.Str(cash)})
		return append(resumen, dte.Member{Name: "pagos", Value: dte.Arr(cash)})
	}
	for i, m := range resumen {
		if m.Name != "pagos" {
			continue
		}
		all := slices.Clone(m.Value.Items())
		for j := range all {
			path := index("pagos", j)
			if hasValue(one) {
				path = "pago"
			}
			all[j] = d.payment(all[j], path, codes)
		}
		resumen[i].Value = dte.Arr(all...)
	}
	return resumen
}

// cash is the CAT-017 code of cash.
const cash = "01"

// ambiguousPayments are the codes with one name in this service's specification (2.7) and another in MH's catalogue
// (CAT-017). Each entry is MH's name of the code, the specification's name, and MH's code for the latter.
var ambiguousPayments = map[string][3]string{
	"03": {"tarjeta de crédito", "cheque", "04"},
	"04": {"cheque", "transferencia", "05"},
}

// payment completes one payment. Cash has no reference in MH's layouts (MF2 p.49), therefore a till's reference is
// dropped. A term and its number of periods are given together or not at all (pp.50-51).
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
