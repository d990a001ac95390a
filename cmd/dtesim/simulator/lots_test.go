package simulator_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

// A lot that was sent before the event comes too early, although MH processes it later.
func TestLot_BeforeItsEvent(t *testing.T) {
	b := open(t)
	d := deferred(sample(t, "01", 1), 1)
	lot := b.lot(d)
	b.reported(eventOf(t, "contingencia", 1, 1, d))
	if v := b.done(lot); len(v.Rechazados) != 1 || v.Rechazados[0].CodigoMsg != "014" {
		t.Error(v)
	}
	b.audited("was sent before its event was received")
	if v := b.done(b.lot(d)); len(v.Procesados) != 1 {
		t.Error(v)
	}
}

func TestLot_HalfRefused(t *testing.T) {
	b := open(t)
	var docs []*tree
	for i := range 6 {
		docs = append(docs, deferred(sample(t, "01", i+1), 1))
	}
	b.reported(eventOf(t, "contingencia", 1, 1, docs[:5]...)) // the last is not in it
	docs[1].set("resumen.totalPagar", n("1"))
	docs[2].set("emisor.telefono", "1")
	e := lotEnvelope(docs...)
	signed := e["documentos"].([]string)
	signed[3] = signed[3][:len(signed[3])-8] + "AAAAAAAA"
	signed = append(signed, "nada", signed[0])
	e["documentos"] = signed
	v := b.done(b.sendLot(e).CodigoLote)
	if len(v.Procesados) != 2 || *v.Procesados[0].CodigoGeneracion != code("01", 1) ||
		*v.Procesados[1].CodigoGeneracion != code("01", 5) {
		t.Errorf("%v", v.Procesados)
	}
	var got []string
	for _, r := range v.Rechazados {
		if r.SelloRecibido != nil || r.Estado != "RECHAZADO" {
			t.Errorf("%v", r)
		}
		c := "null"
		if r.CodigoGeneracion != nil {
			c = (*r.CodigoGeneracion)[:8]
		}
		got = append(got, c+" "+r.CodigoMsg)
	}
	// In the order of the lot: arithmetic, schema, signature, no event, nothing at all, and the first again.
	if want := "00000002 020,00000003 096,00000004 802,00000006 014,null 802,00000001 004"; strings.Join(got,
		",") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, ","), want)
	}
	if got := b.sim.Received(); got != (simulator.Counts{Documents: 2, Events: 1, Lots: 1, Duplicates: 1}) {
		t.Errorf("%+v", got)
	}
	// The refused documents, corrected, are sent again under the same code.
	again := []*tree{deferred(sample(t, "01", 2), 1), deferred(sample(t, "01", 3), 1), docs[3]}
	if v := b.done(b.lot(again...)); len(v.Procesados) != 3 {
		t.Error(v)
	}
}

// A note must follow its original's seal; they cannot be in one lot.
func TestLot_NoteWithItsOriginal(t *testing.T) {
	b := open(t)
	original, note := deferred(sample(t, "03", 1), 1), deferred(sample(t, "05", 2), 1)
	b.reported(eventOf(t, "contingencia", 1, 1, original, note))
	v := b.done(b.lot(original, note))
	if len(v.Procesados) != 1 || len(v.Rechazados) != 1 ||
		v.Rechazados[0].DescripcionMsg != "[documentoRelacionado.numeroDocumento] NO EXISTE UN REGISTRO CON ESTE DATO" {
		t.Error(v)
	}
	b.audited("was sent before " + code("03", 1) + " was sealed")
	if v := b.done(b.lot(note)); len(v.Procesados) != 1 {
		t.Error(v)
	}
}

func TestLot_Refused(t *testing.T) {
	b := open(t)
	d := deferred(sample(t, "01", 1), 1)
	for name, c := range map[string]struct {
		path string
		v    any
		code string
	}{
		"no documents":      {"documentos", []string{}, "094"},
		"no documentos":     {"documentos", nil, "094"},
		"documents not in":  {"documentos", "x", "094"},
		"a hundred and one": {"documentos", slices.Repeat([]string{"a.b.c"}, 101), "007"},
		"no idEnvio":        {"idEnvio", nil, "094"},
		"idEnvio counts":    {"idEnvio", 1, "094"},
		"idEnvio small":     {"idEnvio", "91512b3d-2534-4009-817b-2522b8154993", "006"},
		"idEnvio v1":        {"idEnvio", "91512B3D-2534-1009-817B-2522B8154993", "006"},
		"version":           {"version", 3, "007"},
		"another's":         {"nitEmisor", "06142202970017", "008"},
		"production":        {"ambiente", "01", "007"},
	} {
		e := lotEnvelope(d)
		e[c.path] = c.v
		if a := b.sendLot(e); a.status != 400 || a.Estado != "RECHAZADO" || a.CodigoMsg != c.code ||
			a.CodigoLote != "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	b.audited("a lot of 101 documents")
	if status, _ := b.verdicts("43308218-7CEE-4C66-9BC0-F7A6DAE61ABD"); status != 400 {
		t.Errorf("an unknown lot: %d", status)
	}
	if got := b.sim.Received(); got != (simulator.Counts{}) {
		t.Errorf("%+v", got)
	}
}

func TestLot_OfAnotherIssuer(t *testing.T) {
	const other = "06142202970017"
	b := open(t, func(o *simulator.Options) {
		o.Issuers = append(o.Issuers, simulator.Issuer{NIT: other, Password: password, PublicKey: &newKey().PublicKey})
	})
	lot := b.lot(sample(t, "01", 1))
	b.login(other)
	b.clock.set(noon.Add(time.Hour))
	if status, _ := b.verdicts(lot); status != 400 {
		t.Error(status)
	}
	b.login(nit)
	if status, _ := b.verdicts(lot); status != 200 {
		t.Error(status)
	}
}

// Lots of cyclic billing have fixed hours, contingency lots have none.
func TestLot_Hours(t *testing.T) {
	for ambiente, hours := range map[string]map[int]bool{
		"00": {7: false, 8: true, 16: true, 17: false}, "01": {4: true, 5: false, 21: false, 22: true},
	} {
		for hour, open := range hours {
			b := openAt(t, time.Date(2026, 12, 15, 6+hour, 59, 0, 0, time.UTC))
			e := lotEnvelope(sample(t, "01", 1).set("identificacion.ambiente", ambiente))
			e["ambiente"] = ambiente
			if v := b.done(b.sendLot(e).CodigoLote); (len(v.Procesados) == 1) != open {
				t.Errorf("%s at %d: %v", ambiente, hour, v)
			}
		}
	}
}

// A quick lot is done before a slow lot that came first, and each seal has its own time.
func TestLot_Order(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{LotMS: 120_000})
	slow := b.lot(sample(t, "01", 1))
	b.chaos(simulator.Chaos{LotMS: 60_000})
	quick := b.lot(sample(t, "01", 2), sample(t, "01", 1))
	b.clock.set(noon.Add(60 * time.Second))
	if status, _ := b.verdicts(slow); status != http.StatusNoContent {
		t.Error(status)
	}
	b.clock.set(noon.Add(10 * time.Minute)) // nobody asked meanwhile
	_, s := b.verdicts(slow)
	_, q := b.verdicts(quick)
	if len(q.Procesados) != 2 || *q.Procesados[0].FhProcesamiento != "15/12/2026 12:01:00" || len(s.Rechazados) != 1 ||
		*s.Rechazados[0].FhProcesamiento != "15/12/2026 12:02:00" {
		t.Errorf("quick %v, slow %v", q, s)
	}
}

// openAt opens a simulator at another time than noon, also for production.
func openAt(t *testing.T, at time.Time) *branch {
	t.Helper()
	b := open(t, func(o *simulator.Options) { o.AllowProduction = true })
	b.clock.set(at)
	b.login(nit)
	return b
}

// Every repetition of an accepted code, in whatever way it comes, is one more duplicate.
func TestDuplicates_ByAnyWay(t *testing.T) {
	b := open(t)
	d := deferred(sample(t, "01", 1), 1)
	b.reported(eventOf(t, "contingencia", 1, 1, d))
	one, two := b.lot(d), b.lot(d) // neither is done when the other comes
	if got := b.sim.Received().Duplicates; got != 0 {
		t.Errorf("%d while in process", got)
	}
	b.done(one)
	if v := b.done(two); len(v.Rechazados) != 1 || v.Rechazados[0].CodigoMsg != "004" {
		t.Error(v)
	}
	b.lot(d)
	b.send(d)
	b.send(sample(t, "01", 1)) // its normal form: another document
	if got := b.sim.Received(); got != (simulator.Counts{Documents: 1, Events: 1, Lots: 3, Duplicates: 4}) {
		t.Errorf("%+v", got)
	}
	if kept, _ := b.sim.Document(code("01", 1)); kept.Attempts != 5 {
		t.Errorf("%d attempts", kept.Attempts)
	}
	b.audited("another document came under its code")
}
