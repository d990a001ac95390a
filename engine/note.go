package engine

import (
	"strconv"

	"dtegate/engine/dte"
)

// noteFacts completes a note with what its original says: the reference, what the till leaves out of the receptor, and the
// flags, which must be the original's (SPEC 4.4). It adds to the faults what the note says otherwise.
func noteFacts(f dte.Value, o *origin, faults []dte.Fault) (dte.Value, []dte.Fault) {
	for _, flag := range [...]string{"isRetenIva", "isPerciIva"} {
		was := o.facts.Get(flag).Bool()
		if said := f.Get(flag); said.Exists() && said.Bool() != was {
			faults = append(faults, dte.Fault{Path: flag, Code: dte.FaultCondition, Message: "Debe ser " + strconv.FormatBool(was) + ", como en el documento original"})
		}
		f = f.With(flag, dte.Bool(was))
	}
	receptor := f.Get("receptor")
	if present(receptor) {
		faults = append(faults, sameTaxpayer(receptor, o)...)
		receptor = completeReceptor(receptor, o.facts.Get("receptor"))
	} else {
		receptor = o.facts.Get("receptor")
	}
	code := dte.Str(dte.Code(o.entry.Code).String())
	lines := f.Get("cuerpoDocumento")
	items := make([]dte.Value, lines.Len())
	for i := range items {
		items[i] = lines.Index(i).With("numeroDocumento", code)
	}
	related := dte.Obj(
		dte.Member{Name: "tipoDocumento", Value: dte.Str(o.head.Document)},
		dte.Member{Name: "tipoGeneracion", Value: dte.Int(2)}, // CAT-007: electronic
		dte.Member{Name: "numeroDocumento", Value: code},
		dte.Member{Name: "fechaEmision", Value: dte.Str(o.head.Date)})
	if receptor.Exists() {
		f = f.With("receptor", identified(receptor))
	}
	return f.With("cuerpoDocumento", dte.Arr(items...)).
		With("documentoRelacionado", dte.Arr(related)).
		With("origen", dte.Obj(dte.Member{Name: "tipoDte", Value: dte.Str(o.head.Document)})), faults
}

// receptorPairs are the members of a receptor that mean something together only: an activity's code and its words.
var receptorPairs = [...][2]string{{"codActividad", "descActividad"}, {"tipoDocumento", "numDocumento"}}

// completeReceptor gives a receptor of a note what it leaves out, from the original's. An address is one thing, and so is a
// pair: of these nothing is mixed.
func completeReceptor(said, was dte.Value) dte.Value {
	said = identified(said)
	complete := said
	for _, m := range was.Members() {
		if present(said.Get(m.Name)) || !present(m.Value) {
			continue
		}
		half := false
		for _, p := range receptorPairs {
			half = half || m.Name == p[0] && present(said.Get(p[1])) || m.Name == p[1] && present(said.Get(p[0]))
		}
		if !half {
			complete = complete.With(m.Name, m.Value)
		}
	}
	return complete
}

// present reports whether a fact is there and not null.
func present(v dte.Value) bool { return v.Exists() && !v.IsNull() }

// identified gives a receptor both of its names: a NIT is a document of type 36 (CAT-022), and one generation of a
// schema asks for the one, another for the other.
func identified(r dte.Value) dte.Value {
	given := func(name string) bool { v := r.Get(name); return v.Exists() && !v.IsNull() }
	switch {
	case r.Kind() != dte.KindObject:
	case !given("nit") && r.Get("tipoDocumento").Text() == "36" && given("numDocumento"):
		return r.With("nit", r.Get("numDocumento"))
	case given("nit") && !given("numDocumento") && !given("tipoDocumento"):
		return r.With("tipoDocumento", dte.Str("36")).With("numDocumento", r.Get("nit"))
	}
	return r
}

// creditable is what notes may take of an original, by the names of creditable: its totals less its global discounts,
// and of a consumer invoice, whose prices include VAT, less the VAT. Notes are written without it.
func (o *origin) creditable() [len(creditable)]dte.Amount {
	s := o.document.Get("resumen")
	gravada := amount(s, "totalGravada") - amount(s, "descuGravada")
	switch o.head.Document {
	case "01":
		gravada -= amount(s, "totalIva")
	case "07":
		gravada = amount(s, "totalSujetoRetencion")
	}
	return [...]dte.Amount{gravada, amount(s, "totalExenta") - amount(s, "descuExenta"), amount(s, "totalNoSuj") - amount(s, "descuNoSuj")}
}
