package simulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

// A hostility that strikes documents also strikes events, lots and invalidations, unless it is aimed.
func TestChaos_StrikesWhateverIsHandedIn(t *testing.T) {
	b := open(t)
	d := deferred(sample(t, "01", 1), 1)
	e, lot := eventOf(t, "contingencia", 1, 1, d), lotEnvelope(d)
	annul := map[string]any{"ambiente": "00", "idEnvio": 1, "version": 3, "documento": sign(sample(t, "anulacion",
		1).bytes())}
	send := map[string]func() (int, []byte, error){
		"events":        func() (int, []byte, error) { return b.tryEvent(e) },
		"lots":          func() (int, []byte, error) { return b.post("/fesv/recepcionlote/", lot) },
		"invalidations": func() (int, []byte, error) { return b.post("/fesv/anulardte", annul) },
		"documents":     func() (int, []byte, error) { return b.try(sample(t, "01", 9)) },
		"queries": func() (int, []byte, error) {
			return b.post("/fesv/recepcion/consultadte/", map[string]any{"nitEmisor": nit, "tdte": "01",
				"codigoGeneracion": code("01", 7)})
		},
	}
	for kind, try := range send {
		for _, c := range []simulator.Chaos{{LostRequests: 1}, {LostAnswers: 1}, {HalfAnswers: 1}, {ServerErrors: 1},
			{HTML: 1}} {
			for _, only := range []string{"", kind, "queries"} {
				c.Only = only
				b.chaos(c)
				status, body, err := try()
				struck := err != nil || status == 500 || strings.Contains(string(body), "<html>")
				if want := only == kind || only == "" && kind != "queries"; struck != want {
					t.Errorf("%s, %+v: %d %s %v", kind, c, status, body, err)
				}
				if left := b.sim.Hostilities(); (left == simulator.Chaos{Only: only}) != struck {
					t.Errorf("%s, %+v: left %+v", kind, c, left)
				}
			}
		}
	}
}

func TestChaos_RefusedEventsAndLots(t *testing.T) {
	b := open(t)
	d := deferred(sample(t, "01", 1), 1)
	e := eventOf(t, "contingencia", 1, 1, d)
	b.chaos(simulator.Chaos{RejectEvents: 2, RejectLots: 1, Reject: 1})
	for range 2 {
		if a := b.report(e); a.Estado != "RECHAZADO" || len(a.Observaciones) != 2 {
			t.Errorf("%+v", a)
		}
	}
	b.reported(e) // the same event, corrected
	if a := b.sendLot(lotEnvelope(d)); a.status != 400 || a.Estado != "RECHAZADO" {
		t.Errorf("%+v", a)
	}
	if v := b.done(b.lot(d)); len(v.Rechazados) != 1 || v.Rechazados[0].CodigoMsg != "007" {
		t.Error(v)
	}
	if v := b.done(b.lot(d)); len(v.Procesados) != 1 {
		t.Error(v)
	}
	b.audited()
}

func TestChaos_LostAndStuckLots(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{LoseLots: 1, StuckLots: 1})
	d := sample(t, "01", 1)
	lost, stuck, good := b.lot(d), b.lot(d), b.lot(d)
	b.clock.set(noon.Add(30 * time.Hour))
	for lot, want := range map[string]int{lost: 400, stuck: 204, good: 200} {
		if status, _ := b.verdicts(lot); status != want {
			t.Errorf("%d, want %d", status, want)
		}
	}
	if kept, _ := b.sim.Document(code("01", 1)); kept.Attempts != 1 || !kept.Accepted {
		t.Errorf("%+v", kept)
	}
}

func TestChaos_Poison(t *testing.T) {
	b := open(t)
	bad, good := sample(t, "01", 0xA0), sample(t, "01", 1)
	b.chaos(simulator.Chaos{Poison: "000000A"})
	if a := b.send(bad); a.status != 500 {
		t.Error(a)
	}
	if a := b.sendLot(lotEnvelope(good, bad)); a.status != 500 {
		t.Errorf("%+v", a)
	}
	if _, known := b.sim.Document(code("01", 0xA0)); known {
		t.Error("processed")
	}
	if v := b.done(b.lot(good)); len(v.Procesados) != 1 {
		t.Error(v)
	}
	b.chaos(simulator.Chaos{})
	b.accepted(bad)
}

// A request that the branch believes lost is processed later: a query in between does not find it.
func TestChaos_LateRequest(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{LateRequests: 1, LateMS: 20_000})
	if status, _, err := b.try(sample(t, "01", 1)); err == nil {
		t.Fatalf("answered %d", status)
	}
	b.clock.set(noon.Add(19_999 * time.Millisecond))
	if a := b.lookup("01", code("01", 1)); a.status != 400 {
		t.Error(a)
	}
	b.clock.set(noon.Add(20 * time.Second))
	if a := b.lookup("01", code("01", 1)); a.Estado != "PROCESADO" || *a.FhProcesamiento != "15/12/2026 12:00:20" {
		t.Error(a)
	}
}

func TestChaos_Clock(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{ClockMS: -24 * 3_600_000})
	b.refused(sample(t, "01", 1), "007", "[identificacion.fecEmi"+banned)
	b.chaos(simulator.Chaos{ClockMS: 24 * 3_600_000})
	if a := b.accepted(sample(t, "01", 1)); a.CodigoMsg != "002" || *a.FhProcesamiento != "16/12/2026 12:00:00" {
		t.Error(a)
	}
	resp, err := b.http.Get(b.url + "/seguridad/auth")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if date := resp.Header.Get("Date"); date != "Wed, 16 Dec 2026 18:00:00 GMT" {
		t.Errorf("the answer is of %s", date)
	}
	b.chaos(simulator.Chaos{})
	if a := b.accepted(sample(t, "01", 2)); a.CodigoMsg != "001" {
		t.Error(a)
	}
}

// fakeBranch serves a simulator over pipes. Within synctest everything, lots and outages included, takes fake time.
func fakeBranch(t *testing.T) (*branch, func()) {
	p := &pipes{open: make(map[string]*pipeListener)}
	offset := time.Until(noon)
	sim := simulator.New(simulator.Options{
		Seed: 7, Now: func() time.Time { return time.Now().Add(offset) }, Listen: p.listen,
		Logger:  slog.New(slog.DiscardHandler),
		Issuers: []simulator.Issuer{{NIT: nit, Password: password, PublicKey: &newKey().PublicKey}},
	})
	protocol, _ := p.listen("", "mh:80")
	manage, _ := p.listen("", "manage:80")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sim.Serve(ctx, protocol, manage) }()
	b := &branch{t: t, sim: sim, url: "http://mh:80", admin: "http://manage:80",
		http: &http.Client{Timeout: 8 * time.Second, Transport: &http.Transport{DialContext: p.dial}}}
	synctest.Wait()
	return b, func() {
		b.http.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Outage, contingency, event and lot over a network in memory and in fake time; at the end nothing runs.
func TestServe_FakeTime(t *testing.T) {
	newKey()
	synctest.Test(t, func(t *testing.T) {
		b, stop := fakeBranch(t)
		defer stop()
		b.login(nit)
		b.accepted(sample(t, "01", 1))

		b.chaos(simulator.Chaos{Outage: true})
		if _, _, err := b.try(sample(t, "01", 2)); err == nil || strings.Contains(err.Error(), "Timeout") {
			t.Errorf("outage: %v", err)
		}
		b.chaos(simulator.Chaos{Silence: true})
		start := time.Now()
		if _, _, err := b.try(sample(t, "01", 2)); err == nil || time.Since(start) != 8*time.Second {
			t.Errorf("silence: %v after %v", err, time.Since(start))
		}

		b.chaos(simulator.Chaos{LotMS: 180_000, DelayMS: 1000})
		d := deferred(sample(t, "01", 2), 1)
		start = time.Now()
		b.reported(eventOf(t, "contingencia", 1, 1, d))
		lot := b.lot(d)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("two answers took %v", took)
		}
		polls := 0
		for status := http.StatusNoContent; status == http.StatusNoContent; polls++ {
			time.Sleep(30 * time.Second)
			status, _ = b.verdicts(lot)
		}
		if polls != 6 {
			t.Errorf("%d polls", polls)
		}
		if got := b.sim.Received(); got != (simulator.Counts{Documents: 2, Events: 1, Lots: 1}) {
			t.Errorf("%+v", got)
		}
		b.audited()
	})
}

func TestSchedule(t *testing.T) {
	newKey()
	synctest.Test(t, func(t *testing.T) {
		b, stop := fakeBranch(t)
		defer stop()
		b.chaos(simulator.Chaos{Reject: 3})
		out := func() bool { return b.sim.Hostilities().Outage }
		post := func(body string) int {
			resp, err := b.http.Post(b.admin+"/schedule", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			status, _ := b.read(resp)
			return status
		}
		for _, bad := range []string{
			`{"steps":[{"after_ms":1,"chaos":{"outages":true}}]}`,
			`{"steps":[{"after_ms":-1,"chaos":{"outage":true}}]}`,
			`{"steps":[{"after_ms":1,"chaos":{"reject":-1}}]}`,
			`{"every_ms":10,"steps":[{"after_ms":10,"chaos":{"outage":true}}]}`,
			`{"every_ms":-1,"steps":[{"after_ms":10,"chaos":{"outage":true}}]}`, `{"steps":[{"after_ms":1}]}`,
			`{"step":[]}`, ``,
		} {
			if status := post(bad); status != http.StatusBadRequest {
				t.Errorf("%s: %d", bad, status)
			}
		}
		// Out for ten seconds of every minute, starting at the tenth second.
		if status := post(`{"every_ms":60000,"steps":[{"after_ms":20000,"chaos":{"outage":false}},{"after_ms":10000,"chaos":{"outage":true}}]}`); status != 200 {
			t.Fatal(status)
		}
		for second := range 180 {
			time.Sleep(time.Second - time.Millisecond)
			synctest.Wait()
			if s := second % 60; out() != (s >= 10 && s < 20) {
				t.Fatalf("second %d: %t", second, out())
			}
			time.Sleep(time.Millisecond)
		}
		if got := b.sim.Hostilities().Reject; got != 3 {
			t.Errorf("what a step does not name changed: %d", got)
		}
		if err := b.sim.Reset(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if out() {
			t.Error("the schedule survived a reset")
		}
		if err := b.sim.Schedule(0, simulator.Step{After: time.Minute,
			Change: func(c *simulator.Chaos) { c.Silence = true }}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if !b.sim.Hostilities().Silence {
			t.Error("a step in Go did not happen")
		}
	})
}

// A branch's request body that arrives slowly must delay nobody else.
func TestManage_SlowClient(t *testing.T) {
	newKey()
	synctest.Test(t, func(t *testing.T) {
		b, stop := fakeBranch(t)
		defer stop()
		b.login(nit)
		body, feed := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			req, _ := http.NewRequest(http.MethodPost, b.admin+"/chaos", body)
			resp, err := b.http.Do(req)
			if err == nil {
				resp.Body.Close()
			}
		}()
		_, _ = feed.Write([]byte(`{"reject":`))
		b.accepted(sample(t, "01", 1))
		_, _ = feed.Write([]byte(`1}`))
		feed.Close()
		<-done
		b.refused(sample(t, "01", 2), "007", "[resumen.totalPagar"+banned)
	})
}

func TestManage_Audit(t *testing.T) {
	b := open(t)
	read := func() []string {
		var out struct{ Breaches []string }
		if status := b.manage("GET", "/audit", "", &out); status != 200 || out.Breaches == nil {
			t.Errorf("%d %v", status, out)
		}
		return out.Breaches
	}
	if got := read(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	b.send(deferred(sample(t, "01", 1), 1))
	b.accepted(sample(t, "01", 2))
	b.send(sample(t, "01", 3).set("identificacion.numeroControl", "DTE-01-M001P001-000000000000002"))
	got := read()
	if len(got) != 2 || got[0] != "2026-12-15 12:00:00 "+code("01", 1)+" was sent before its event was received" ||
		!strings.HasSuffix(got[1], code("01", 3)+" bears the number of "+code("01", 2)) {
		t.Errorf("%q", got)
	}
	b.send(sample(t, "05", 4))
	if got := read(); !strings.HasSuffix(got[2], code("05", 4)+" was sent before "+code("03", 1)+" was sealed") {
		t.Errorf("%q", got)
	}
}

func TestAccepted(t *testing.T) {
	b := open(t)
	want := []string{}
	for i := range 4 {
		b.accepted(sample(t, "01", 4-i))
		want = append(want, code("01", 4-i))
	}
	i := 0
	for c, a := range b.sim.Accepted() {
		if kept, _ := b.sim.Document(c); c != want[i] || !a.Accepted || a.Sello != kept.Sello ||
			!bytes.Equal(a.Document, kept.Document) || !a.At.Equal(noon) || a.Attempts != 1 {
			t.Errorf("%s %+v", c, a)
		}
		b.sim.Received() // nothing is held meanwhile
		if i++; i == 3 {
			break
		}
	}
	var out map[string]json.RawMessage
	if b.manage("GET", "/received", "", &out); len(out) != 6 {
		t.Errorf("%v", out)
	}
}
