package simulator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func formRequest(ctx context.Context) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/seguridad/auth",
		strings.NewReader(url.Values{"user": {nit}, "pwd": {password}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("User-Agent", "test")
	return r
}

// serve runs a simulator on real ports.
func serve(t *testing.T, change ...func(*simulator.Options)) *branch {
	t.Helper()
	b := open(t, change...)
	protocol, manage := listen(t), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.sim.Serve(ctx, protocol, manage) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	b.url, b.admin = "http://"+protocol.Addr().String(), "http://"+manage.Addr().String()
	return b
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// manage sends a request to the management port and decodes its answer.
func (b *branch) manage(method, path, body string, out any) int {
	b.t.Helper()
	req, err := http.NewRequest(method, b.admin+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	status, data := b.read(resp)
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			b.t.Fatalf("%s %s: %s", method, path, data)
		}
	}
	return status
}

func TestServe_Outage(t *testing.T) {
	b := serve(t)
	b.accepted(sample(t, "01", 1)) // leaves a kept-alive connection, which the outage must cut too
	for n := 2; n < 6; n++ {
		var c simulator.Chaos
		if status := b.manage("POST", "/chaos", `{"outage":true}`, &c); status != 200 || !c.Outage {
			t.Fatalf("%d %+v", status, c)
		}
		for range 3 {
			if _, _, err := b.try(sample(t, "01", n)); !errors.Is(err, syscall.ECONNREFUSED) && !isFirstCut(err) {
				t.Fatalf("during the outage: %v", err)
			}
		}
		if conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://")); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dialling during the outage: %v %v", conn, err)
		}
		b.manage("POST", "/chaos", `{"outage":true}`, nil) // twice has the same effect
		if status := b.manage("POST", "/chaos", `{"outage":false}`, &c); status != 200 || c.Outage {
			t.Fatalf("%d %+v", status, c)
		}
		b.manage("POST", "/chaos", `{"outage":false}`, nil)
		b.accepted(sample(t, "01", n)) // same address, same memory, same token
	}
	if got := b.sim.Received().Documents; got != 5 {
		t.Errorf("%d documents", got)
	}
}

// isFirstCut: the first request may still use the old connection, and finds it closed.
func isFirstCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(fmt.Sprint(err), "server closed idle connection")
}

func TestServe_OutageCutsTheSilent(t *testing.T) {
	b := serve(t)
	b.chaos(simulator.Chaos{Silence: true})
	done := make(chan error, 1)
	go func() {
		_, _, err := b.try(sample(t, "01", 1))
		done <- err
	}()
	b.chaos(simulator.Chaos{Silence: true, Outage: true})
	if err := <-done; err == nil {
		t.Error("answered")
	}
}

// Idle connections are cut too, and at once: otherwise a client would notice only at its next sale.
func TestServe_OutageCutsTheIdle(t *testing.T) {
	b := serve(t)
	b.accepted(sample(t, "01", 1))
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /nothing HTTP/1.1\r\nHost: mh\r\nUser-Agent: t\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	b.chaos(simulator.Chaos{Outage: true})
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading during the outage: %v", err)
	}
}

func TestServe_BornInOutage(t *testing.T) {
	s := simulator.New(simulator.Options{Now: (&clock{at: noon}).now, Logger: slog.New(slog.DiscardHandler)})
	if err := s.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	protocol, manage := listen(t), listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, protocol, manage) }()
	b := &branch{t: t, sim: s, admin: "http://" + manage.Addr().String(), http: &http.Client{}}
	b.manage("GET", "/chaos", "", nil) // serving by now
	if _, err := net.Dial("tcp", protocol.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling: %v", err)
	}
	b.manage("POST", "/chaos", `{"outage":false}`, nil)
	conn, err := net.Dial("tcp", protocol.Addr().String())
	if err != nil {
		t.Fatalf("dialling after the outage: %v", err)
	}
	conn.Close()
	b.http.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", protocol.Addr().String()); err == nil {
		t.Error("the port outlived Serve")
	}
}

func TestServe_PortTakenMeanwhile(t *testing.T) {
	taken := errors.New("somebody else has it")
	var mu sync.Mutex
	var fail error = taken
	b := serve(t, func(o *simulator.Options) {
		o.Listen = func(network, address string) (net.Listener, error) {
			mu.Lock()
			defer mu.Unlock()
			if fail != nil {
				return nil, fail
			}
			return net.Listen(network, address)
		}
	})
	b.accepted(sample(t, "01", 1))
	b.chaos(simulator.Chaos{Outage: true})
	if err := b.sim.Chaos(simulator.Chaos{}); !errors.Is(err, taken) {
		t.Errorf("ending the outage: %v", err)
	}
	if status := b.manage("POST", "/chaos", `{"outage":false}`, nil); status != http.StatusInternalServerError {
		t.Error(status)
	}
	if !b.sim.Hostilities().Outage {
		t.Error("an outage that could not be ended does not show")
	}
	mu.Lock()
	fail = nil
	mu.Unlock()
	b.chaos(simulator.Chaos{})
	b.accepted(sample(t, "01", 2))
}

func TestManage_Chaos(t *testing.T) {
	b := open(t)
	var c simulator.Chaos
	if status := b.manage("GET", "/chaos", "", &c); status != 200 || c != (simulator.Chaos{LotMS: 500}) {
		t.Errorf("at the start: %d %+v", status, c)
	}
	all := `{"silence":true,"lost_answers":1,"lost_requests":2,"server_errors":3,"reject":4,"delay_ms":5,"lot_ms":6,
		"lax_origins":true,"half_answers":7,"html":8,"expired_tokens":9}`
	want := simulator.Chaos{Silence: true, LostAnswers: 1, LostRequests: 2, ServerErrors: 3, Reject: 4, DelayMS: 5,
		LotMS:      6,
		LaxOrigins: true, HalfAnswers: 7, HTML: 8, ExpiredTokens: 9}
	if status := b.manage("POST", "/chaos", all, &c); status != 200 || c != want {
		t.Errorf("%d %+v", status, c)
	}
	// Omitted members stay as they are.
	want.Silence, want.Reject = false, 0
	if b.manage("POST", "/chaos", `{"silence":false,"reject":0}`, nil); b.sim.Hostilities() != want {
		t.Errorf("merged: %+v", b.sim.Hostilities())
	}
	want.LaxOrigins = false // strict_origins is the opposite of lax_origins
	if b.manage("POST", "/chaos", `{"strict_origins":true}`, &c); c != want || b.sim.Hostilities() != want {
		t.Errorf("strict origins: %+v", b.sim.Hostilities())
	}
	want.LaxOrigins = true
	if b.manage("POST", "/chaos", `{"strict_origins":false}`, &c); c != want || b.sim.Hostilities() != want {
		t.Errorf("no strict origins: %+v", b.sim.Hostilities())
	}
	for _, bad := range []string{`{"reject":1,"lost_answer":1}`, `{"reject":-1}`, `{"reject":"1"}`, `{"outage":1}`,
		`[]`, ``, `{"reject":1}{}`} {
		if status := b.manage("POST", "/chaos", bad, nil); status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, status)
		}
	}
	if b.sim.Hostilities() != want {
		t.Errorf("a bad request changed something: %+v", b.sim.Hostilities())
	}
}

func TestManage_Observation(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1)
	a := b.accepted(d)
	var counts struct {
		simulator.Counts
		Types map[string]int
	}
	b.manage("GET", "/received", "", &counts)
	if counts.Counts != (simulator.Counts{Documents: 1}) || len(counts.Types) != 1 || counts.Types["01"] != 1 {
		t.Errorf("%v", counts)
	}
	var got struct {
		Attempts int
		Accepted bool
		Sello    *string
		Document map[string]any
	}
	if status := b.manage("GET", "/received/"+code("01", 1), "", &got); status != 200 || got.Attempts != 1 ||
		!got.Accepted ||
		*got.Sello != *a.SelloRecibido || got.Document["resumen"] == nil {
		t.Errorf("%d %+v", status, got)
	}
	var raw json.RawMessage
	if status := b.manage("GET", "/received/"+code("01", 2), "", &raw); status != 200 ||
		strings.TrimSpace(string(raw)) != `{"attempts":0,"accepted":false,"document":null,"sello":null}` {
		t.Errorf("never received: %d %s", status, raw)
	}
	b.send(sample(t, "01", 3).set("resumen.totalPagar", 1))
	got.Sello = nil
	if b.manage("GET", "/received/"+code("01", 3), "", &got); got.Attempts != 1 || got.Accepted || got.Sello != nil ||
		got.Document == nil {
		t.Errorf("refused: %+v", got)
	}

	b.chaos(simulator.Chaos{Reject: 5})
	if status := b.manage("POST", "/reset", "", nil); status != 200 {
		t.Error(status)
	}
	if _, known := b.sim.Document(code("01", 1)); known || b.sim.Received() != (simulator.Counts{}) ||
		b.sim.Hostilities() != (simulator.Chaos{LotMS: 500}) {
		t.Error("something survived the reset")
	}
	b.accepted(d) // numbers are free again, the token still holds
	if status := b.manage("GET", "/nothing", "", nil); status != http.StatusNotFound {
		t.Error(status)
	}
}

// Memory only: another simulator knows nothing of what this one received, seed or no seed.
func TestMemoryOnly(t *testing.T) {
	first, second := open(t), open(t)
	d := sample(t, "01", 1)
	one := first.accepted(d)
	if a := second.lookup("01", code("01", 1)); a.status != 400 {
		t.Error(a)
	}
	if two := second.accepted(d); *one.SelloRecibido != *two.SelloRecibido {
		t.Errorf("same seed, same history, other seal: %s %s", *one.SelloRecibido, *two.SelloRecibido)
	}
}

func TestNew_Mistakes(t *testing.T) {
	now := (&clock{at: noon}).now
	for name, o := range map[string]simulator.Options{
		"no clock":       {},
		"no nit":         {Now: now, Issuers: []simulator.Issuer{{Password: "x", PublicKey: &newKey().PublicKey}}},
		"no password":    {Now: now, Issuers: []simulator.Issuer{{NIT: nit, PublicKey: &newKey().PublicKey}}},
		"no certificate": {Now: now, Issuers: []simulator.Issuer{{NIT: nit, Password: "x"}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: New took it", name)
				}
			}()
			simulator.New(o)
		}()
	}
}

// Many tills at once: every document is accepted exactly once, every number given exactly once.
func TestConcurrency(t *testing.T) {
	b := open(t)
	const tills, codes = 8, 12
	envelopes := make([]map[string]any, codes)
	for i := range envelopes {
		// Two codes compete for each number.
		envelopes[i] = envelope(sample(t, "01", i).set("identificacion.numeroControl",
			fmt.Sprintf("DTE-01-M001P001-%015d", i/2)))
	}
	results := make([]map[string]answer, tills)
	var wg sync.WaitGroup
	for till := range tills {
		results[till] = make(map[string]answer)
		wg.Go(func() {
			for i := range codes {
				e := envelopes[(i+till)%codes]
				status, data, err := b.post("/fesv/recepciondte", e)
				a := answer{status: status}
				if err != nil || json.Unmarshal(data, &a) != nil {
					t.Errorf("%d %s %v", status, data, err)
					return
				}
				results[till][e["codigoGeneracion"].(string)] = a
			}
		})
	}
	for range 50 {
		b.sim.Received()
		b.sim.Document(code("01", 1))
		b.chaos(simulator.Chaos{})
	}
	wg.Wait()
	accepted := make(map[string]int)
	seals := make(map[string]bool)
	for _, byCode := range results {
		for c, a := range byCode {
			if a.Estado == "PROCESADO" {
				accepted[c]++
				seals[*a.SelloRecibido] = true
			} else if a.CodigoMsg != "004" {
				t.Errorf("%v", a)
			}
		}
	}
	got := b.sim.Received()
	if len(accepted) != codes/2 || len(seals) != codes/2 || got.Documents != codes/2 ||
		got.Duplicates != codes/2*(tills-1) {
		t.Errorf("accepted %v, %d seals, counts %+v", accepted, len(seals), got)
	}
	for c, times := range accepted {
		if kept, _ := b.sim.Document(c); times != 1 || kept.Attempts != tills || !kept.Accepted {
			t.Errorf("%s: accepted %d times, kept %+v", c, times, kept)
		}
	}
}
