package simulator_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/dtesim/simulator"
)

func TestEvent_Refused(t *testing.T) {
	b := open(t)
	known := sample(t, "01", 50)
	b.accepted(known)
	other := deferred(sample(t, "01", 51), 1)
	b.reported(eventOf(t, "contingencia", 50, 1, other))
	for i, c := range []struct {
		path string
		v    any
		want string
	}{
		{"motivo.fFin", "2026-12-14", "[motivo.fFin/motivo.hFin" + banned},
		{"motivo.hFin", "07:59:59", "[motivo.fFin/motivo.hFin" + banned},
		{"motivo.hFin", "12:20:00", "[motivo.fFin/motivo.hFin" + banned}, // not over yet
		{"motivo.hFin", "mediodía", "[motivo.hFin] FORMATO NO VÁLIDO"},
		{"motivo.hInicio", "25:00:00", "[motivo.hInicio] FORMATO NO VÁLIDO"},
		{"motivo.fInicio", "2026-02-30", "Campo #/motivo/fInicio no cumple el formato requerido"},
		{"motivo.tipoContingencia", 6, "[motivo.tipoContingencia" + banned},
		{"motivo.tipoContingencia", 0, "[motivo.tipoContingencia" + banned},
		{"motivo.tipoContingencia", 5, "[motivo.motivoContingencia" + missing},
		{"motivo.motivoContingencia", strings.Repeat("x", 501),
			"Campo #/motivo/motivoContingencia no cumple el tamaño máximo permitido"},
		{"identificacion.fTransmision", "2026-12-16", "[identificacion.fTransmision/identificacion.hTransmision" +
			banned},
		{"identificacion.hTransmision", "11:29:59", "[identificacion.fTransmision/identificacion.hTransmision" +
			banned},
		{"identificacion.version", 3, "Campo #/emisor/codPuntoVentaMH no está permitido"},
		{"identificacion.version", 5, "Campo #/identificacion/version contiene un valor inválido"},
		{"identificacion.ambiente", "01", "[ambiente" + banned},
		{"identificacion.ambiente", "02", "[ambiente" + banned},
		{"identificacion.ambiente", gone, "Campo #/identificacion/ambiente es requerido"},
		{"identificacion.codigoGeneracion", code("C0", 50), "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO " +
			"CON ESE VALOR"},
		{"identificacion.codigoGeneracion", code("01", 50), "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO " +
			"CON ESE VALOR"},
		{"identificacion.codigoGeneracion", "x", "Campo #/identificacion/codigoGeneracion no cumple el formato " +
			"requerido"},
		{"emisor.nit", "06142202970017", "[emisor.nit] NO CORRESPONDE A CONTRIBUYENTE"},
		{"emisor.tipoEstablecimiento", "03", "[emisor.tipoEstablecimiento" + banned},
		{"emisor.tipoDocResponsable", "99", "[emisor.tipoDocResponsable" + banned},
		{"emisor.numeroDocResponsable", "05234567", "[emisor.numeroDocResponsable] FORMATO NO VÁLIDO"},
		{"detalleDTE", []any{}, "Campo #/detalleDTE contiene un valor inválido"},
		{"detalleDTE.0.tipoDoc", "08", "[detalleDTE.tipoDoc" + banned},
		{"detalleDTE.0.codigoGeneracion", strings.ToLower(code("AB", 9)),
			"[detalleDTE.codigoGeneracion] FORMATO NO VÁLIDO"},
		{"detalleDTE.1.codigoGeneracion", code("01", 1), "[detalleDTE.codigoGeneracion" + banned},
		{"detalleDTE.1.noItem", 1, "[detalleDTE.noItem" + banned},
		{"detalleDTE.1.codigoGeneracion", code("01", 50), "detalleDTE.item.2: codigoGeneracion " + code("01", 50) +
			" YA EXISTE"},
		{"detalleDTE.1.codigoGeneracion", code("01", 51), "detalleDTE.item.2: codigoGeneracion " + code("01", 51) +
			" YA EXISTE"},
	} {
		e := eventOf(t, "contingencia", 100+i, 1, deferred(sample(t, "01", 1), 1), deferred(sample(t, "03", 2),
			1)).set(c.path, c.v)
		a := b.report(e)
		if a.Estado != "RECHAZADO" || a.SelloRecibido != nil || a.Mensaje != "Validaciones no superadas" ||
			!slices.Contains(a.Observaciones, c.want) {
			t.Errorf("%s = %v: %+v, want %q", c.path, c.v, a, c.want)
		}
	}
	// In the previous generation 07 cannot be issued in contingency.
	if a := b.report(eventOf(t, "contingencia-v3", 90, 1, deferred(sample(t, "07", 1), 1))); a.Estado != "RECHAZADO" {
		t.Errorf("%+v", a)
	}
	for name, body := range map[string]map[string]any{
		"[nit] NO CORRESPONDE A CONTRIBUYENTE": {"nit": "06142202970017", "documento": sign(eventOf(t, "contingencia",
			91, 1, other).bytes())},
		"Firma no válida":           {"nit": nit, "documento": "a.b.c"},
		"PARAMETROS NO SON VALIDOS": {"nit": nit},
	} {
		status, data, err := b.post("/fesv/contingencia", body)
		var a eventAnswer
		if err != nil || status != 200 || json.Unmarshal(data, &a) != nil || a.Estado != "RECHAZADO" ||
			a.Observaciones[0] != name {
			t.Errorf("%s: %d %s", name, status, data)
		}
	}
	if got := b.sim.Received(); got != (simulator.Counts{Documents: 1, Events: 1}) {
		t.Errorf("%+v", got)
	}
	if first := b.sim.Audit()[0]; !strings.Contains(first, "another document came under its code") {
		t.Error(first)
	}
}

// A thousand documents in an event, and no more.
func TestEvent_Size(t *testing.T) {
	b := open(t)
	list := func(n int) []any {
		var all []any
		for i := range n {
			all = append(all, map[string]any{"noItem": i + 1, "codigoGeneracion": code("01", i), "tipoDoc": "01"})
		}
		return all
	}
	for _, name := range []string{"contingencia", "contingencia-v3"} {
		if a := b.report(eventOf(t, name, 1, 1).set("detalleDTE", list(1001))); a.Estado != "RECHAZADO" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	b.reported(eventOf(t, "contingencia", 1, 1).set("detalleDTE", list(1000)))
}

// An event may be sent again, because MH has no query for events: it is refused by its own code, and is no duplicate.
func TestEvent_Again(t *testing.T) {
	b := open(t)
	d := deferred(sample(t, "01", 1), 1)
	e := eventOf(t, "contingencia", 1, 1, d)
	b.chaos(simulator.Chaos{LostAnswers: 1})
	if status, _, err := b.tryEvent(e); err == nil {
		t.Fatalf("answered %d", status)
	}
	if a := b.report(e); a.Estado != "RECHAZADO" || a.Observaciones[0] != "[identificacion.codigoGeneracion] YA "+
		"EXISTE UN REGISTRO CON ESE VALOR" {
		t.Errorf("%+v", a)
	}
	if kept, _ := b.sim.Document(code("C0", 1)); kept.Attempts != 2 || !kept.Accepted {
		t.Errorf("%+v", kept)
	}
	b.accepted(d)
	if got := b.sim.Received(); got != (simulator.Counts{Documents: 1, Events: 1}) {
		t.Errorf("%+v", got)
	}
	b.audited() // the refusal gave the branch what it needed
}

// A document that comes before anybody can know the event's seal: MH accepts it, the audit does not.
func TestEvent_SealNotAwaited(t *testing.T) {
	b := open(t)
	docs := []*tree{deferred(sample(t, "01", 1), 1), deferred(sample(t, "01", 2), 1)}
	b.chaos(simulator.Chaos{LostAnswers: 1, HalfAnswers: 1, Only: "events"})
	for range 2 {
		if _, body, err := b.tryEvent(eventOf(t, "contingencia", 1, 1, docs...)); err == nil {
			t.Fatalf("answered %s", body)
		}
	}
	b.accepted(docs[0])
	b.audited(code("01", 1) + " was sent before the seal of its event was answered")
	b.report(eventOf(t, "contingencia", 1, 1, docs...))
	b.accepted(docs[1])
	b.audited(code("01", 1) + " was sent before the seal of its event was answered")
}
