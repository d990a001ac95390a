package simulator_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtesim/simulator"
)

// invalidationOf invalidates an accepted document: a rescission, at the branch's time.
func invalidationOf(t testing.TB, b *branch, i int, tipo, code_ string, a answer, d *tree) *tree {
	t.Helper()
	name := "anulacion"
	e := sample(t, name, i).set("identificacion.codigoGeneracion", code("A1", i)).
		set("documento.tipoDte", tipo).set("documento.codigoGeneracion", code_).set("documento.selloRecibido",
		*a.SelloRecibido).
		set("documento.numeroControl", d.get("identificacion.numeroControl")).set("documento.fecEmi",
		d.get("identificacion.fecEmi")).
		set("identificacion.fecEmi", b.clock.now().Add(-6*time.Hour).Format(time.DateOnly))
	for _, name := range []string{"receptor", "sujetoExcluido", "documento"} {
		party, ok := d.root[name].(map[string]any)
		if !ok {
			continue
		}
		kind, number := party["tipoDocumento"], party["numDocumento"]
		if party["nit"] != nil {
			kind, number = "36", party["nit"]
		}
		e.set("documento.tipoDocumento", kind).set("documento.numDocumento", number)
		for _, field := range []string{"nombre", "telefono", "correo"} {
			e.set("documento."+field, party[field])
		}
		return e
	}
	for _, field := range []string{"tipoDocumento", "numDocumento", "nombre", "telefono", "correo"} {
		e.set("documento."+field, nil)
	}
	return e
}

// before turns an invalidation into one of the previous generation.
func before(t testing.TB, e *tree) *tree {
	t.Helper()
	old := sample(t, "anulacion-v2", 1)
	old.set("identificacion.codigoGeneracion", e.get("identificacion.codigoGeneracion")).set("identificacion.fecAnula",
		e.get("identificacion.fecEmi"))
	doc := e.get("documento").(map[string]any)
	doc["montoIva"] = nil
	return old.set("documento", doc).set("motivo", e.get("motivo"))
}

func (b *branch) invalidate(e *tree) answer {
	b.t.Helper()
	return b.ask("/fesv/anulardte", map[string]any{"ambiente": e.get("identificacion.ambiente"), "idEnvio": 1,
		"version": e.get("identificacion.version"), "documento": sign(e.bytes())})
}

func (b *branch) invalidated(e *tree) answer {
	b.t.Helper()
	a := b.invalidate(e)
	if a.status != 200 || a.Estado != "PROCESADO" || a.SelloRecibido == nil {
		b.t.Fatalf("not invalidated: %v", a)
	}
	return a
}

func (b *branch) kept(e *tree, code, text string) answer {
	b.t.Helper()
	a := b.invalidate(e)
	if a.status != 400 || a.Estado != "RECHAZADO" || a.CodigoMsg != code || a.DescripcionMsg != text {
		b.t.Fatalf("got %v, want %s %q", a, code, text)
	}
	return a
}

// Every type can be invalidated, by either generation of the event.
func TestInvalidation_EveryType(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "01", 1))
	b.accepted(sample(t, "03", 1))
	for i, name := range generations {
		d := sample(t, name, 10+i)
		tipo, _, _ := strings.Cut(name, "-")
		a := b.accepted(d)
		e := invalidationOf(t, b, 10+i, tipo, code(tipo, 10+i), a, d)
		if strings.Contains(name, "-v") {
			e = before(t, e)
		}
		got := b.invalidated(e)
		if got.CodigoMsg != "001" || got.DescripcionMsg != "Invalidación Recibida y Procesada" ||
			got.ClasificaMsg != nil ||
			*got.CodigoGeneracion != code("A1", 10+i) || *got.SelloRecibido == *a.SelloRecibido {
			t.Errorf("%s: %v", name, got)
		}
		if kept, _ := b.sim.Document(code(tipo, 10+i)); !kept.Invalidated || !kept.Accepted {
			t.Errorf("%s: %+v", name, kept)
		}
		// Once only, under this code and under another.
		b.kept(e, "004", "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR")
		b.kept(e.set("identificacion.codigoGeneracion", code("A1", 100+i)), "004",
			"[documento.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR")
	}
	if got := b.sim.Received(); got.Invalidations != len(generations) || got.Duplicates != 0 {
		t.Errorf("%+v", got)
	}
}

func TestInvalidation_Refused(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1)
	a := b.accepted(d)
	foreign := sample(t, "03", 1)
	b.accepted(foreign)
	for i, c := range []change{
		{path: "documento.codigoGeneracion", value: code("01", 9), code: "014",
			text: "[documento] NO EXISTE UN REGISTRO CON ESTE DATO"},
		{path: "documento.tipoDte", value: "03", code: "007", text: "[documento.tipoDte" + banned},
		{path: "documento.selloRecibido", value: strings.Repeat("0", 40), code: "007",
			text: "[documento.selloRecibido" + banned},
		{path: "documento.numeroControl", value: "DTE-01-M001P001-000000000000009", code: "007",
			text: "[documento.numeroControl" + banned},
		{path: "documento.numeroControl", value: nil, code: "007", text: "[documento.numeroControl" + banned},
		{path: "documento.fecEmi", value: "2026-12-14", code: "007", text: "[documento.fecEmi" + banned},
		{path: "documento.nombre", value: nil, code: "007", text: "[documento.nombre" + banned},
		{path: "documento.telefono", value: "22222222", code: "007", text: "[documento.telefono" + banned},
		{path: "documento.numDocumento", value: "041234568", code: "007", text: "[documento.numDocumento" + banned},
		{path: "motivo.tipoAnulacion", value: 4, code: "007", text: "[motivo.tipoAnulacion" + banned},
		{path: "motivo.tipoAnulacion", value: 1, code: "003", text: "[documento.codigoGeneracionR" + missing},
		{path: "motivo.tipDocResponsable", value: "99", code: "007", text: "[motivo.tipDocResponsable" + banned},
		{path: "motivo.numDocSolicita", value: "0412", code: "006", text: "[motivo.numDocSolicita] FORMATO NO VÁLIDO"},
		{path: "documento.codigoGeneracionR", value: code("01", 1), code: "007", text: "[documento.codigoGeneracionR" +
			banned},
		{path: "identificacion.fecEmi", value: "2026-12-14", code: "007", text: "[identificacion.fecEmi" + banned},
		{path: "identificacion.fecEmi", value: "2026-12-16", code: "007", text: "[identificacion.fecEmi" + banned},
		{path: "emisor.nit", value: "06142202970017", code: "008", text: "[emisor.nit] NO CORRESPONDE A CONTRIBUYENTE"},
		{path: "documento.correo", value: gone, code: "096", text: "DOCUMENTO NO CUMPLE ESQUEMA JSON"},
		{path: "identificacion.version", value: 4, code: "096", text: "DOCUMENTO NO CUMPLE ESQUEMA JSON"},
	} {
		b.kept(invalidationOf(t, b, 10+i, "01", code("01", 1), a, d).set(c.path, c.value), c.code, c.text)
	}
	good := invalidationOf(t, b, 1, "01", code("01", 1), a, d)
	if a := b.ask("/fesv/anulardte", map[string]any{"ambiente": "00", "idEnvio": 1, "version": 3,
		"documento": "a.b.c"}); a.CodigoMsg != "802" {
		t.Error(a)
	}
	if a := b.ask("/fesv/anulardte", map[string]any{"ambiente": "00", "version": 3,
		"documento": sign(good.bytes())}); a.CodigoMsg != "094" {
		t.Error(a)
	}
	// An event is not a document.
	b.reported(eventOf(t, "contingencia", 1, 1, deferred(sample(t, "01", 7), 1)))
	b.kept(invalidationOf(t, b, 2, "01", code("C0", 1), a, d), "014", "[documento] NO EXISTE UN REGISTRO CON ESTE DATO")
	b.chaos(simulator.Chaos{RejectEvents: 1})
	b.kept(good, "007", "[motivo.motivoAnulacion"+banned)
	b.invalidated(good)
}

// Errors require a replacement that is sealed, of the same type and valid; rescissions, credit notes and retornos
// require none.
func TestInvalidation_Replacement(t *testing.T) {
	b := open(t)
	var sealed []answer
	for i := range 4 {
		sealed = append(sealed, b.accepted(sample(t, "01", i+1)))
	}
	b.accepted(sample(t, "03", 1))
	of := func(i int, by any) *tree {
		return invalidationOf(t, b, 10*i, "01", code("01", i), sealed[i-1], sample(t, "01",
			i)).set("motivo.tipoAnulacion", 1).set("documento.codigoGeneracionR", by)
	}
	b.kept(of(1, code("01", 9)), "014", "[documento.codigoGeneracionR] NO EXISTE UN REGISTRO CON ESTE DATO")
	b.kept(of(1, code("01", 1)), "007", "[documento.codigoGeneracionR"+banned)
	b.kept(of(1, code("03", 1)), "007", "[documento.codigoGeneracionR"+banned)
	b.kept(of(1, code("01", 2)).set("motivo.tipoAnulacion", 2), "007", "[documento.codigoGeneracionR"+banned)
	b.kept(of(1, code("01", 2)).set("motivo.tipoAnulacion", 3).set("motivo.motivoAnulacion", nil), "003",
		"[motivo.motivoAnulacion"+missing)
	b.invalidated(of(1, code("01", 2)))
	b.kept(of(3, code("01", 1)), "007", "[documento.codigoGeneracionR"+banned) // itself invalidated
	b.invalidated(of(3, code("01", 2)).set("motivo.tipoAnulacion", 3))

	note := noteFor(t, "05", 1, "10", "03", code("03", 1))
	a := b.accepted(note)
	b.accepted(noteFor(t, "05", 2, "10", "03", code("03", 1)))
	e := invalidationOf(t, b, 90, "05", code("05", 1), a, note).set("motivo.tipoAnulacion", 1)
	b.kept(parse(t, e.bytes()).set("documento.codigoGeneracionR", code("05", 2)), "007", "[documento.codigoGeneracionR"+
		banned)
	b.invalidated(e)
}

// A document with a note or retorno in force stays; if they are invalidated the last first, all go.
func TestInvalidation_Blocked(t *testing.T) {
	b := open(t)
	for _, c := range []struct{ origin, by *tree }{
		{sample(t, "03", 1), sample(t, "05", 1)}, {sample(t, "03", 2), noteFor(t, "06", 2, "5", "03", code("03", 2))},
		{sample(t, "01", 1), returnOf(t, 1, 1)},
	} {
		event := func(i int, d *tree, a answer) *tree {
			v := envelope(d)
			return invalidationOf(t, b, i, v["tipoDte"].(string), v["codigoGeneracion"].(string), a, d)
		}
		i := b.sim.Received().Documents * 10
		origin, by := b.accepted(c.origin), b.accepted(c.by)
		b.kept(event(i, c.origin, origin), "007", "[documento.codigoGeneracion"+banned)
		b.invalidated(event(i+1, c.by, by))
		b.invalidated(event(i, c.origin, origin))
	}
}

// Windows count from the seal: the tenth business day of the month after, or three months (MF2 pp.9-17).
func TestInvalidation_Windows(t *testing.T) {
	sealed := noon // Tuesday, 15 December 2026
	for name, last := range map[string]time.Time{
		"01": time.Date(2027, 3, 15, 23, 59, 59, 0, time.UTC), "14": time.Date(2027, 3, 15, 23, 59, 59, 0, time.UTC),
		// 1 January is a Friday and a holiday: the tenth business day is Friday 15.
		"03": time.Date(2027, 1, 15, 23, 59, 59, 0, time.UTC), "07": time.Date(2027, 1, 15, 23, 59, 59, 0, time.UTC),
		"18": time.Date(2027, 1, 15, 23, 59, 59, 0, time.UTC),
	} {
		for _, late := range []time.Duration{time.Second, 0} {
			b := openAt(t, sealed)
			b.accepted(sample(t, "01", 1))
			d := sample(t, name, 5)
			a := b.accepted(d)
			b.clock.set(last.Add(6 * time.Hour).Add(late))
			b.login(nit)
			e := invalidationOf(t, b, 1, name, code(name, 5), a, d)
			if late > 0 { // whatever its date is
				b.chaos(simulator.Chaos{LaxDates: true})
				b.kept(parse(t, e.bytes()), "007", "[identificacion.fecEmi"+banned)
			}
			if name != "01" && name != "14" {
				e.set("identificacion.fecEmi", "2026-12-15") // the document's own
			}
			if got := b.invalidate(e); (got.Estado == "PROCESADO") != (late == 0) {
				t.Errorf("%s, %v after its window: %v", name, late, got)
			}
		}
	}
	// MH's manual requires the document's own date in the event, except for invoices and purchases.
	b := open(t)
	d, inv := sample(t, "03", 1), sample(t, "01", 1)
	a, ai := b.accepted(d), b.accepted(inv)
	b.clock.set(noon.Add(24 * time.Hour))
	b.kept(invalidationOf(t, b, 1, "03", code("03", 1), a, d), "007", "[identificacion.fecEmi"+banned)
	b.invalidated(invalidationOf(t, b, 2, "01", code("01", 1), ai, inv))
	b.invalidated(invalidationOf(t, b, 1, "03", code("03", 1), a, d).set("identificacion.fecEmi", "2026-12-15"))
	// The sealed events of the previous generation have the date on which they were made; so do those of some branches
	// with DTE 2.0.
	second, third := sample(t, "03", 2), sample(t, "03", 3)
	a2, a3 := b.acceptedOn("2026-12-16", second), b.acceptedOn("2026-12-16", third)
	b.clock.set(noon.Add(48 * time.Hour))
	b.login(nit)
	b.invalidated(before(t, invalidationOf(t, b, 3, "03", code("03", 2), a2, second)))
	b.chaos(simulator.Chaos{LaxDates: true})
	b.invalidated(invalidationOf(t, b, 4, "03", code("03", 3), a3, third))
}

// The invalidations of the oracle, with the seals that were given here.
func TestOracle_Invalidations(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(skip.Folder(t), "examples", "invalidacion", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[any]*tree)
	for _, name := range examples(t) {
		d := example(t, name)
		all[d.get("identificacion.codigoGeneracion")] = d
	}
	done := 0
	for _, f := range files {
		e := example(t, "invalidacion/"+filepath.Base(f))
		d := all[e.get("documento.codigoGeneracion")]
		if d == nil || strings.Contains(f, ".response.") {
			continue
		}
		done++
		b := branchOf(t, d)
		a := b.accepted(d)
		if by, replaced := e.get("documento.codigoGeneracionR").(string); replaced {
			b.accepted(parse(t, d.bytes()).set("identificacion.codigoGeneracion",
				by).set("identificacion.numeroControl", "DTE-03-M001P001-000000000000999"))
		}
		e.set("documento.selloRecibido", *a.SelloRecibido).set("documento.numeroControl",
			d.get("identificacion.numeroControl"))
		b.clock.set(b.clock.now().Add(20 * time.Hour))
		if got := b.invalidate(e); got.Estado != "PROCESADO" {
			t.Errorf("%s: %v", f, got)
		}
	}
	if done < 4 {
		t.Errorf("%d invalidations tried", done)
	}
	// MH's refusals whose text gives the reason without the document.
	var mh struct {
		Body struct{ CodigoMsg, DescripcionMsg string }
	}
	data, err := json.Marshal(example(t, "_responses/anulardte_400_014.json").root)
	if err != nil || json.Unmarshal(data, &mh) != nil {
		t.Fatal(err)
	}
	b := open(t)
	b.kept(sample(t, "anulacion", 1).set("identificacion.codigoGeneracion", code("A1", 1)), mh.Body.CodigoMsg,
		mh.Body.DescripcionMsg)
}
