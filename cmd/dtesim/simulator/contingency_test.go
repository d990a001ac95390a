package simulator_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

// deferred turns a sample into a document issued in contingency.
func deferred(d *tree, kind int) *tree {
	d.set("identificacion.tipoModelo", 2).set("identificacion.tipoOperacion", 2).set("identificacion.tipoContingencia",
		kind)
	if kind == 5 {
		d.set("identificacion.motivoContin", "Inundación del local")
	}
	return d
}

// eventOf is the sample event, "contingencia" or "contingencia-v3", for some documents.
func eventOf(t testing.TB, name string, n, kind int, docs ...*tree) *tree {
	t.Helper()
	e := sample(t, name, n).set("identificacion.codigoGeneracion", code("C0", n)).set("motivo.tipoContingencia", kind)
	if kind == 5 {
		e.set("motivo.motivoContingencia", "Inundación del local")
	}
	list := []any{}
	for i, d := range docs {
		v := envelope(d)
		list = append(list, map[string]any{"noItem": i + 1, "codigoGeneracion": v["codigoGeneracion"],
			"tipoDoc": v["tipoDte"]})
	}
	return e.set("detalleDTE", list)
}

// eventAnswer is the body of contingencia.
type eventAnswer struct {
	Estado, FechaHora, Mensaje string
	SelloRecibido              *string
	Observaciones              []string
}

func (b *branch) tryEvent(e *tree) (int, []byte, error) {
	b.t.Helper()
	return b.post("/fesv/contingencia", map[string]any{"nit": b.nit, "documento": sign(e.bytes())})
}

func (b *branch) report(e *tree) eventAnswer {
	b.t.Helper()
	status, data, err := b.tryEvent(e)
	var a eventAnswer
	if err != nil || status != http.StatusOK || json.Unmarshal(data, &a) != nil {
		b.t.Fatalf("event: %d %s %v", status, data, err)
	}
	return a
}

func (b *branch) reported(e *tree) eventAnswer {
	b.t.Helper()
	a := b.report(e)
	if a.Estado != "RECIBIDO" || a.SelloRecibido == nil {
		b.t.Fatalf("not received: %+v", a)
	}
	return a
}

// lotAnswer is the body of recepcionlote.
type lotAnswer struct {
	Version, VersionApp                                                             int
	Ambiente, Estado, IDEnvio, FhProcesamiento, CodigoLote, CodigoMsg, ClasificaMsg string
	DescripcionMsg                                                                  string
	status                                                                          int
}

func lotEnvelope(docs ...*tree) map[string]any {
	signed := []string{}
	for _, d := range docs {
		signed = append(signed, sign(d.bytes()))
	}
	return map[string]any{"ambiente": "00", "idEnvio": "91512B3D-2534-4009-817B-2522B8154993", "version": 2,
		"nitEmisor": nit, "documentos": signed}
}

func (b *branch) sendLot(envelope map[string]any) lotAnswer {
	b.t.Helper()
	status, data, err := b.post("/fesv/recepcionlote/", envelope)
	a := lotAnswer{status: status}
	if err != nil || json.Unmarshal(data, &a) != nil {
		b.t.Fatalf("lot: %d %s %v", status, data, err)
	}
	return a
}

// lot sends a lot, which must be received, and returns its code.
func (b *branch) lot(docs ...*tree) string {
	b.t.Helper()
	a := b.sendLot(lotEnvelope(docs...))
	if a.status != http.StatusOK || a.Estado != "RECIBIDO" || a.CodigoLote == "" {
		b.t.Fatalf("lot: %+v", a)
	}
	return a.CodigoLote
}

type verdicts struct{ Procesados, Rechazados []answer }

func (b *branch) verdicts(lot string) (int, verdicts) {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodGet, b.url+"/fesv/recepcion/consultadtelote/"+lot, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", b.token)
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	status, data := b.read(resp)
	var v verdicts
	if status == http.StatusOK {
		if err := json.Unmarshal(data, &v); err != nil {
			b.t.Fatalf("%s", data)
		}
	} else if status == http.StatusNoContent && len(data) > 0 {
		b.t.Errorf("204 with %s", data)
	}
	return status, v
}

// done lets the time of a lot pass and returns its verdicts.
func (b *branch) done(lot string) verdicts {
	b.t.Helper()
	b.clock.set(b.clock.now().Add(time.Minute))
	status, v := b.verdicts(lot)
	if status != http.StatusOK {
		b.t.Fatalf("lot after its time: %d", status)
	}
	return v
}

// audited expects exactly these breaches, in order, each by a part of its text.
func (b *branch) audited(want ...string) {
	b.t.Helper()
	got := b.sim.Audit()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.Contains(got[i], want[i])
	}
	if !ok {
		b.t.Errorf("breaches %q, want %q", got, want)
	}
}

// Every type that may be issued in contingency, in both generations, reported and sent in one lot.
func TestContingency_WholeWay(t *testing.T) {
	for name, types := range map[string][]string{
		"contingencia":    {"01", "03", "05", "06", "07", "14", "18"},
		"contingencia-v3": {"01-v1", "03-v3", "05-v3", "06-v3", "14-v1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.accepted(sample(t, types[0], 1)) // the document that the notes and the retorno refer to
			b.accepted(sample(t, types[1], 1))
			var docs []*tree
			for i, tipo := range types {
				docs = append(docs, deferred(sample(t, tipo, 10+i), 3))
			}
			e := eventOf(t, name, 1, 3, docs...)
			a := b.reported(e)
			if a.FechaHora != "15/12/2026 12:00:00" || a.Mensaje != "Documento recibido" || len(a.Observaciones) != 0 ||
				!sello.MatchString(*a.SelloRecibido) {
				t.Errorf("%+v", a)
			}
			lot := b.sendLot(lotEnvelope(docs...))
			want := lotAnswer{Version: 1, VersionApp: 1, Ambiente: "00", Estado: "RECIBIDO",
				IDEnvio:         "91512B3D-2534-4009-817B-2522B8154993",
				FhProcesamiento: "15/12/2026 12:00:00", CodigoLote: lot.CodigoLote, CodigoMsg: "001",
				ClasificaMsg:   "10",
				DescripcionMsg: "LOTE RECIBIDO", status: 200}
			if lot != want {
				t.Errorf("%+v", lot)
			}
			b.clock.set(noon.Add(499 * time.Millisecond))
			if status, _ := b.verdicts(lot.CodigoLote); status != http.StatusNoContent {
				t.Errorf("in process: %d", status)
			}
			if status := b.lookup("01", code("01", 10)).status; status != 400 {
				t.Errorf("queried while in process: %d", status)
			}
			b.clock.set(noon.Add(500 * time.Millisecond))
			status, v := b.verdicts(lot.CodigoLote)
			if status != 200 || len(v.Procesados) != len(types) || len(v.Rechazados) != 0 {
				t.Fatalf("%d %v", status, v)
			}
			for i, p := range v.Procesados {
				if *p.CodigoGeneracion != docs[i].get("identificacion.codigoGeneracion") ||
					p.DescripcionMsg != "RECIBIDO Y PROCESADO" ||
					p.CodigoMsg != "001" || *p.FhProcesamiento != "15/12/2026 12:00:00" || p.Estado != "PROCESADO" ||
					!sello.MatchString(*p.SelloRecibido) {
					t.Errorf("%v", p)
				}
				tipo, _, _ := strings.Cut(types[i], "-")
				if q := b.lookup(tipo, *p.CodigoGeneracion); q.Estado != "PROCESADO" ||
					*q.SelloRecibido != *p.SelloRecibido {
					t.Errorf("queried: %v", q)
				}
				if kept, _ := b.sim.Document(*p.CodigoGeneracion); kept.Attempts != 1 ||
					string(kept.Document) != string(docs[i].bytes()) {
					t.Errorf("%s: %d attempts", *p.CodigoGeneracion, kept.Attempts)
				}
			}
			if got := b.sim.Received(); got != (simulator.Counts{Documents: 2 + len(types), Events: 1, Lots: 1}) {
				t.Errorf("%+v", got)
			}
			events := b.sim.Events()
			if len(events) != 1 || events[0].Code != code("C0", 1) || events[0].Kind != 3 ||
				events[0].Ended.Hour() != 11 ||
				len(events[0].Documents) != len(types) || events[0].Sello != *a.SelloRecibido {
				t.Errorf("%+v", events)
			}
			b.audited()
		})
	}
}

var sello = regexp.MustCompile(`^2026[0-9A-F]{12}4[0-9A-F]{3}[89AB][0-9A-F]{15}SIMU$`)

// The members of the answers, as the manual prints them.
func TestContingency_Shapes(t *testing.T) {
	b := open(t)
	d := deferred(sample(t, "01", 1), 1)
	_, event, _ := b.tryEvent(eventOf(t, "contingencia", 1, 1, d))
	_, refused, _ := b.tryEvent(eventOf(t, "contingencia", 1, 1, d))
	_, lot, _ := b.post("/fesv/recepcionlote", lotEnvelope(d))
	for what, c := range map[string]struct {
		body []byte
		want string
	}{
		"event":   {event, "estado fechaHora mensaje observaciones selloRecibido"},
		"refused": {refused, "estado fechaHora mensaje observaciones selloRecibido"},
		"lot": {lot, "ambiente clasificaMsg codigoLote codigoMsg descripcionMsg estado fhProcesamiento idEnvio " +
			"version versionApp"},
	} {
		var members map[string]any
		if err := json.Unmarshal(c.body, &members); err != nil {
			t.Fatalf("%s: %s", what, c.body)
		}
		var names []string
		for name := range members {
			names = append(names, name)
		}
		if slices.Sort(names); strings.Join(names, " ") != c.want {
			t.Errorf("%s: %v", what, names)
		}
	}
}

func TestContingency_OneByOne(t *testing.T) {
	b := open(t)
	d := deferred(sample(t, "01", 1), 5)
	b.refused(d, "014", "[identificacion.tipoContingencia] NO EXISTE UN REGISTRO CON ESTE DATO")
	b.audited("was sent before its event was received")
	b.reported(eventOf(t, "contingencia", 1, 5, d))
	// Issued on an earlier day: no observation, because the contingency explains it.
	b.clock.set(noon.Add(30 * time.Hour))
	if a := b.accepted(d); a.CodigoMsg != "001" {
		t.Error(a)
	}
	b.refused(d, "004", "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR")
	if got := b.sim.Received(); got != (simulator.Counts{Documents: 1, Events: 1, Duplicates: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestContingency_DocumentAgainstEvent(t *testing.T) {
	b := open(t)
	docs := []*tree{deferred(sample(t, "01", 1), 3), deferred(sample(t, "14", 2), 5)}
	b.reported(eventOf(t, "contingencia", 1, 3, docs[0]))
	b.reported(eventOf(t, "contingencia", 2, 5, docs[1]))
	as := func(d *tree, path string, v any) *tree { return parse(t, d.bytes()).set("identificacion."+path, v) }
	b.refused(as(docs[0], "tipoContingencia", 2), "007", "[identificacion.tipoContingencia"+banned)
	b.refused(as(docs[0], "motivoContin", "Otra cosa"), "007", "[identificacion.motivoContin"+banned)
	b.refused(as(docs[1], "motivoContin", "Otra cosa"), "007", "[identificacion.motivoContin"+banned)
	b.refused(deferred(sample(t, "03", 7), 3), "014",
		"[identificacion.tipoContingencia] NO EXISTE UN REGISTRO CON ESTE DATO")
	// Another type under a listed code.
	b.refused(deferred(sample(t, "03", 7), 3).set("identificacion.codigoGeneracion", code("01", 1)), "007",
		"[identificacion.tipoDte"+banned)
	b.refused(deferred(sample(t, "18", 7), 3).set("identificacion.codigoGeneracion", code("01", 1)), "007",
		"[identificacion.tipoEvento"+banned)
	b.audited("differs from its event in tipoContingencia", "in motivoContin", "in motivoContin",
		"before its event was received", "in tipoDte", "in tipoEvento")
	// The normal form of a listed document is not in contingency: nothing to compare.
	b.accepted(as(as(as(docs[0], "tipoModelo", 1), "tipoOperacion", 1), "tipoContingencia", nil))
	b.accepted(docs[1])
}

// An event covers only its own issuer and ambiente.
func TestContingency_AnothersEvent(t *testing.T) {
	const other = "06142202970017"
	b := open(t, func(o *simulator.Options) {
		o.AllowProduction = true
		o.Issuers = append(o.Issuers, simulator.Issuer{NIT: other, Password: password, PublicKey: &newKey().PublicKey})
	})
	d := deferred(sample(t, "01", 1), 1)
	b.reported(eventOf(t, "contingencia", 1, 1, d))
	absent := "[identificacion.tipoContingencia] NO EXISTE UN REGISTRO CON ESTE DATO"
	b.refused(parse(t, d.bytes()).set("identificacion.ambiente", "01"), "014", absent)
	b.login(other)
	b.refused(parse(t, d.bytes()).set("emisor.nit", other), "014", absent)
}

func TestContingency_Deadlines(t *testing.T) {
	ended := time.Date(2026, 12, 15, 17, 30, 0, 0, time.UTC) // 11:30 in El Salvador
	t.Run("event", func(t *testing.T) {
		for _, late := range []bool{false, true} {
			b := open(t)
			d := deferred(sample(t, "01", 1), 1)
			b.clock.set(ended.Add(24 * time.Hour))
			if late {
				b.clock.set(ended.Add(24*time.Hour + time.Second))
			}
			if a := b.report(eventOf(t, "contingencia", 1, 1, d)); (a.Estado == "RECHAZADO") != late {
				t.Errorf("late %t: %+v", late, a)
			}
			if len(b.sim.Audit()) > 0 != late {
				t.Errorf("late %t: %q", late, b.sim.Audit())
			}
		}
	})
	t.Run("correction", func(t *testing.T) {
		b := open(t)
		d := deferred(sample(t, "01", 1), 1)
		b.clock.set(ended.Add(23 * time.Hour))
		wrong := eventOf(t, "contingencia", 1, 1, d).set("emisor.tipoEstablecimiento", "09")
		if a := b.report(wrong); a.Estado != "RECHAZADO" || a.Observaciones[0] != "[emisor.tipoEstablecimiento"+banned {
			t.Fatalf("%+v", a)
		}
		b.clock.set(ended.Add(46 * time.Hour))
		if a := b.report(wrong); a.Estado != "RECHAZADO" { // the correction's day runs from the first refusal
			t.Fatalf("%+v", a)
		}
		b.clock.set(ended.Add(47*time.Hour + time.Second))
		if a := b.report(eventOf(t, "contingencia", 1, 1, d)); a.Estado != "RECHAZADO" {
			t.Errorf("a day and a second after the refusal: %+v", a)
		}
		b.clock.set(ended.Add(47 * time.Hour))
		if a := b.report(eventOf(t, "contingencia", 2, 1, d)); a.Estado != "RECHAZADO" {
			t.Errorf("another event: %+v", a)
		}
		b.reported(eventOf(t, "contingencia", 1, 1, d))
	})
	t.Run("documents", func(t *testing.T) {
		b := open(t)
		docs := []*tree{deferred(sample(t, "01", 1), 1), deferred(sample(t, "01", 2), 1)}
		b.reported(eventOf(t, "contingencia", 1, 1, docs...))
		b.clock.set(noon.Add(72*time.Hour + time.Second))
		b.login(nit)
		b.refused(docs[1], "007", "[identificacion.fecEmi"+banned)
		b.audited("came after 2026-12-18 12:00:00")
		b.clock.set(noon.Add(72 * time.Hour))
		b.accepted(docs[0])
		// The time of sending counts, not the time when its lot is done.
		v := b.done(b.lot(docs[1]))
		if len(v.Procesados) != 1 {
			t.Error(v)
		}
	})
}
