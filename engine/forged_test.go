package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// overlaid puts entries before those of an overlay's from.
func overlaid(entries string) bundletest.Change {
	return func(parts map[string][]byte, _ *bundle.Manifest) {
		parts["overlay.json"] = bytes.Replace(parts["overlay.json"], []byte(`"from": [`), []byte(`"from": [`+entries+
			`,`), 1)
	}
}

// A signed bundle that fixes a value which the box knows is not admitted, and the refusal names the path: of a
// document, and of the event that names the document to invalidate. An event without a case is not admitted either.
func TestForged_Refused(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	all := enginetest.Shipped(t)
	all["invalidacion/v3"] = plugintest.Bundle(t, "invalidacion/v3")
	s := w.Shelf(all)
	for path, entry := range map[string]string{
		"emisor.nit":                   `{"path":"emisor.nit","value":"06140101901019","reason":"r"}`,
		"emisor.nombre":                `{"path":"emisor.nombre","fact":"emisor.nombre","value":"X","reason":"r"}`,
		"identificacion.numeroControl": `{"path":"identificacion.numeroControl","value":"DTE-01-M001P001-000000000000009","reason":"r"}`,
		"identificacion.fecEmi":        `{"path":"identificacion.fecEmi","value":"2020-01-01","reason":"r"}`,
		"receptor.nombre":              `{"path":"receptor.nombre","value":"X","reason":"r"}`,
	} {
		if a := enginetest.Push(t, s, enginetest.Edition(t, "9.0.0", overlaid(entry))); a.Refused == "" ||
			!strings.Contains(a.Error, path) {
			t.Errorf("%s: %+v", path, a)
		}
	}
	const items = `{"name":"items","shape":"list","to":"cuerpoDocumento","members":[`
	for want, c := range map[string][2]string{
		`"cuerpoDocumento[].montoDescu" must not have a default`: {"form",
			items + `{"name":"montoDescu","shape":"number","default":1}]}`},
		`"cuerpoDocumento[].noGravado" must not have a default`: {"form",
			items + `{"name":"noGravado","shape":"integer","default":1,"catalogue":"CAT-014"}]}`},
		`"cuerpoDocumento[].cantidad" must not be filled from what the till calls`: {"form",
			items + `{"name":"precioUni","shape":"number","to":"cantidad"}]}`},
		`"cuerpoDocumento[].cantidadOrigen" is a value that only the box gives`: {"form",
			items + `{"name":"cantidadOrigen","shape":"number"}]}`},
		`"descuentoGlobal.gravada" must not have a default`: {"form",
			`{"name":"descuentoGlobal","shape":"object","members":[{"name":"gravada","shape":"integer","default":1,"catalogue":"CAT-014"}]}`},
		`"receptor.nombre" must not have a default`: {"form",
			`{"name":"receptor","shape":"object","members":[{"name":"nombre","default":"X","catalogue":"CAT-022"}]}`},
		`"receptor.correo" must not have a default`: {"form",
			`{"name":"receptor","shape":"object","person":true,"members":[{"name":"correo","default":"x@example.com"}]}`},
		`"resumen.condicionOperacion" must not have a default`: {"form",
			`{"name":"x","shape":"integer","to":"resumen.condicionOperacion","default":1,"catalogue":"CAT-016"}`},
		`members[1]: "resumen.condicionOperacion" must not have a default`: {"form",
			`{"use":"items"},{"name":"condicionOperacion","shape":"integer","to":"resumen.condicionOperacion","default":2,"catalogue":"CAT-016"}`},
		`"resumen.observaciones" must not have a default`: {"form",
			`{"name":"observaciones","to":"resumen.observaciones","default":"PAGADO"}`},
		`"apendice" must not have a default`: {"form",
			`{"name":"x","to":"apendice","label":"Nota","default":"PAGADO"}`},
		`labels.subTotal: has MH's label`: {"view",
			`{"party":{"paths":["receptor"],"heading":"R"},"final":["totalPagar"],"labels":{"subTotal":"Total a pagar"}}`},
		`fields[0].path: "receptor.correo" has MH's label`: {"view",
			`{"party":{"paths":["receptor"],"heading":"R"},"final":["totalPagar"],"fields":[{"path":"receptor.correo","label":"Vende","in":"party"}]}`},
		`"emisor" is a value that only the box gives`: {"form",
			`{"name":"emisor","shape":"object","members":[{"name":"nit"}]}`},
		`members[0].loose`: {"form",
			`{"name":"receptor","shape":"object","loose":true,"members":[{"name":"nit"}]}`},
		`final[0]: "subTotal" is not the overlay's total`: {"view",
			`{"party":{"paths":["receptor"],"heading":"R"},"final":["subTotal"]}`},
		`party.paths[0]: "emisor" is not the other party`: {"view", `{"party":{"paths":["emisor"],"heading":"R"}}`},
	} {
		forged := func(parts map[string][]byte, _ *bundle.Manifest) {
			if parts[c[0]+".json"] = []byte(c[1]); c[0] == "form" {
				parts["form.json"] = []byte(`{"about":"a","members":[` + c[1] + `]}`)
			}
		}
		if a := enginetest.Push(t, s, enginetest.Edition(t, "9.0.0", forged)); a.Refused == "" ||
			!strings.Contains(a.Error, want) {
			t.Errorf("%s: %+v", want, a)
		}
	}
	target := overlaid(
		`{"path":"documento.codigoGeneracion","value":"11111111-2222-4333-8444-555555555555","reason":"r"}`,
	)
	event := func(changes ...bundletest.Change) *rulestore.Activation {
		return enginetest.Push(
			t,
			s,
			bundletest.Edition(t, "invalidacion/v3", "9.0.0", append(changes, bundletest.In("2026-01-01",
				""))...),
		)
	}
	if a := event(target); a.Refused == "" || !strings.Contains(a.Error, "documento.codigoGeneracion") {
		t.Errorf("%+v", a)
	}
	if a := event(bundletest.Caseless); a.Refused != rules.StepCompiler || !strings.Contains(a.Error, "golden cases") {
		t.Errorf("%+v", a)
	}
	if a := event(); a.State != rulestore.Live {
		t.Errorf("the honest one: %+v", a)
	}
}

// A rule whose cases do not show that it charges a dollar too much: the previous rule computes the sale, or the sale is
// refused with 503. No number is spent on it, and it counts as the rule's failure.
func TestForged_Amounts(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	r, err := w.Engine.RulesInForce().Pick("01", "00", dte.Date(enginetest.Start))
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.Engine.NewDraft(enginetest.Sale("", 1130), enginetest.Start)
	if err != nil {
		t.Fatal(err)
	}
	honest, _, err := r.Evaluate(t.Context(), d.DraftFacts())
	if err != nil {
		t.Fatal(err)
	}
	defer honest.Free()
	for i, name := range r.Description().Summary {
		if name == "totalPagar" || name == "montoTotalOperacion" {
			honest.Out.Summary[i] += dte.Scale
		}
	}
	o := w.ShelfOptions()
	o.OnFailure = map[string]string{rulestore.FailureTrap: rulestore.Refuse}
	strict := rulestore.New(o)
	for _, c := range []struct {
		shelf *rulestore.Store
		sold  bool
	}{{w.Shelf(enginetest.Shipped(t)), true}, {strict, false}} {
		if c.shelf == strict {
			if err := strict.Load(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		} else if a := enginetest.Push(t, c.shelf, enginetest.Edition(t, "9.0.0", bundletest.Constant(t, "dte01/v2",
			&honest.Out))); a.State != rulestore.Live {
			t.Fatalf("%+v", a)
		}
		w.Adopt(c.shelf)
		v, err := w.Engine.Issue(context.Background(), enginetest.Sale("", 1130))
		var refused *refusal.Error
		switch {
		case c.sold && (err != nil || v.Rule.Version == "9.0.0" ||
			v.ControlNumber != "DTE-01-M001P001-000000000000001" || v.Estado != record.EstadoProcessed):
			t.Errorf("%+v, %v", v, err)
		case !c.sold && (!errors.As(err, &refused) || refused.Code != refusal.CodeRuleFailed ||
			!strings.Contains(refused.Error(), "resumen.montoTotalOperacion")):
			t.Errorf("%+v, %v", v, err)
		}
	}
}

// A bundle that refuses what no till can put right, and passes its cases: the rule before computes the sales. The
// layout refuses the box's own facts, or the form of a value that the rule makes; or the module refuses the issuer.
func TestForged_LayoutRefuses(t *testing.T) {
	added := func(path, schema string) bundletest.Change {
		return func(parts map[string][]byte, _ *bundle.Manifest) {
			parts["overlay.json"] = bytes.Replace(parts["overlay.json"], []byte(`"add": [`), []byte(
				`"add": [{"path":"`+path+`","schema":`+schema+`,"reason":"r"},`), 1)
		}
	}
	for path, change := range map[string]bundletest.Change{
		"identificacion.horEmi": added("identificacion.horEmi", `{"pattern":"^(?!10:00)"}`),
		"emisor.correo":         added("emisor.correo", `{"pattern":"^[^a]"}`),
		"resumen.totalLetras":   added("resumen.totalLetras", `{"pattern":"^(?!(MIL|TRES MIL|CINCO MIL) )"}`),
		"emisor.tipoEstablecimiento": bundletest.Small(t, "dte01/v2", bundletest.Trap, abi.Field{
			Name: "emisor.tipoEstablecimiento", Kind: "enum", Values: []string{"04"}}),
	} {
		w := enginetest.NewWorld(t)
		s := w.Shelf(enginetest.Shipped(t))
		if a := enginetest.Push(t, s, enginetest.Edition(t, "9.0.0", change)); a.State != rulestore.Live {
			t.Fatalf("%s: %+v", path, a)
		}
		w.Adopt(s)
		for i := range rulestore.AloneHarms {
			v, err := w.Engine.Issue(t.Context(), enginetest.Sale("", 113000))
			if err != nil || v.Rule.Version == "9.0.0" ||
				v.ControlNumber != fmt.Sprintf("DTE-01-M001P001-%015d", i+1) {
				t.Fatalf("%s: %+v %v", path, v, err)
			}
		}
		w.Close()
	}
}

// A lower version does not silently win on a later day; a push reports the lower versions that still wait for a day,
// earlier or later, and that no till can ask for a type.
func TestActivate_Warns(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	small := bundletest.Small(t, "dte01/v2", bundletest.Trap)
	warned := func(a *rulestore.Activation) string {
		for _, step := range a.Steps {
			if _, warning, found := strings.Cut(step.Detail, "; warning: "); found {
				return warning
			}
		}
		return ""
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.3.0", small, bundletest.In("2027-01-01", ""))); a.State != rulestore.Coming ||
		warned(a) != "" {
		t.Errorf("%+v", a)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.2.9", small, bundletest.In("2027-03-01", ""))); a.Refused != rules.StepVersion ||
		!strings.Contains(a.Error, "2.3.0") {
		t.Errorf("%+v", a)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.2.9", small, bundletest.In("2026-12-01", ""))); a.State != rulestore.Coming ||
		warned(a) != "" {
		t.Errorf("a correction for an earlier day: %+v", a)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.4.0", small, bundletest.In("2026-12-15", ""))); a.State != rulestore.Coming ||
		!strings.Contains(warned(a), "2.3.0 takes over on 2027-01-01") ||
		!strings.Contains(fmt.Sprint(a.Steps), "2.2.9 takes over on 2026-12-01") { // a date that is put off
		t.Errorf("%+v", a)
	}
	export := func(parts map[string][]byte, m *bundle.Manifest) {
		m.Name, m.Document = "dte11", "11"
		for _, part := range bundle.TypeParts {
			delete(parts, part)
		}
		parts["schema.json"] = bytes.Replace(parts["schema.json"], []byte(`"const": "01"`), []byte(`"const": "11"`), 1)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "9.0.0", small, export)); a.State != rulestore.Live ||
		!strings.Contains(warned(a),
			"type 11") {
		t.Errorf("%+v", a)
	}
}

// An amount of the till for which the type has no use is the sale's fault, and not the rule's: a till may copy MH's psv
// from its list of articles, or send every member as a text.
func TestNotCarried(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	w.Adopt(s)
	for name, v := range map[string]dte.Value{"psv": dte.Num(dte.Scale * 3 / 2), "flete": dte.Int(5),
		"seguro": dte.Str("5.00"), "comision": dte.Str("")} {
		r := enginetest.Sale("", 1130)
		r.Facts = r.Facts.With("cuerpoDocumento", dte.Arr(r.Facts.Get("cuerpoDocumento").Index(0).With(name, v)))
		_, err := w.Engine.Issue(t.Context(), r)
		if e, ok := errors.AsType[*refusal.Error](err); !ok || e.Code != refusal.CodeValidation || len(e.Faults) != 1 ||
			e.Faults[0].Path != "cuerpoDocumento[0]."+name || e.Faults[0].Code != dte.FaultCondition {
			t.Errorf("%s: %v", name, err)
		}
	}
}
