package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/plugins/plugintest"
)

// badLAN is a network between a till and the appliance: each request meets the next of its troubles.
type badLAN struct {
	to string

	mu       sync.Mutex
	troubles []string
	keys     []string // Idempotency-Keys that passed
}

func (l *badLAN) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	trouble := ""
	if len(l.troubles) > 0 {
		trouble, l.troubles = l.troubles[0], l.troubles[1:]
	}
	if r.Method == http.MethodPost {
		l.keys = append(l.keys, r.Header.Get("Idempotency-Key"))
	}
	l.mu.Unlock()
	switch trouble {
	case "cut before":
		panic(http.ErrAbortHandler)
	case "busy":
		w.Header().Set("Retry-After", "1")
		http.Error(w, "no", http.StatusServiceUnavailable)
		return
	case "gone":
		http.Error(w, "no", http.StatusBadGateway)
		return
	}
	var sent bytes.Buffer
	_, _ = sent.ReadFrom(r.Body)
	req, err := http.NewRequest(r.Method, "http://"+l.to+r.URL.String(), &sent)
	if err != nil {
		panic(err)
	}
	req.Header = r.Header.Clone()
	status, body, err := do(client, req)
	if err != nil || trouble == "cut after" {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	if trouble == "half" {
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	if trouble == "late" { // the till has hung up before the answer
		<-time.After(1500 * time.Millisecond)
	}
	_, _ = w.Write(body)
}

// TestClients: the clients of deploy/clients sell exactly once through all troubles of a network and of MH, report
// refusals, and get late results.
func TestClients(t *testing.T) {
	t.Parallel()
	for file, tool := range map[string]string{"dte.sh": "curl", "dte.py": "python3"} {
		t.Run(file, func(t *testing.T) {
			skip.Program(t, tool)
			testClient(t, filepath.Join(plugintest.Root(t), "deploy", "clients", file))
		})
	}
}

func testClient(t *testing.T, program string) {
	b := newBranch(t)
	b.start()
	defer b.stop()
	lan := &badLAN{to: b.api}
	server := httptest.NewServer(lan)
	defer server.Close()
	write := func(name, text string) string { b.write(name, []byte(text)); return filepath.Join(b.dir, name) }
	environment := append(os.Environ(), "DTE_URL="+server.URL, "DTE_TOKEN_FILE="+write("token", testToken+"1\n"),
		"DTE_PAUSA=0.05", "DTE_PLAZO=60",
		"DTE_TIMEOUT=1", "DTE_CURSOR="+filepath.Join(b.dir, "cursor"), "PYTHONDONTWRITEBYTECODE=1")
	run := func(args ...string) (int, map[string]string, string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		var out, trouble bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr = environment, &out, &trouble
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		printed := make(map[string]string)
		for _, line := range strings.Split(out.String(), "\n") {
			if name, value, ok := strings.Cut(line, "="); ok {
				printed[name] = value
			}
		}
		return cmd.ProcessState.ExitCode(), printed, out.String() + trouble.String()
	}
	b.chaos(simulator.Chaos{LostAnswers: 1})
	lan.troubles = []string{"cut before", "busy", "cut after", "late", "half", "gone"}
	sale := write("venta-000123.json", sale01)
	began := time.Now()
	code, first, said := run("emitir", "dte01", sale)
	if code != 0 || first["estado"] != "PROCESSED" || first["selloRecibido"] == "" || first["total"] != "13.90" ||
		first["horEmi"] == "" ||
		first["numeroControl"] != "DTE-01-M001P001-000000000000001" || !strings.HasSuffix(first["consulta"], "&codGen="+
		first["codigoGeneracion"]+"&fechaEmi="+first["fecEmi"]) {
		t.Fatalf("ended with %d: %s", code, said)
	}
	if len(lan.troubles) != 0 || len(lan.keys) != 7 || time.Since(began) < time.Second { // of Retry-After
		t.Errorf("%d tries in %v, %v left", len(lan.keys), time.Since(began), lan.troubles)
	}
	for _, key := range lan.keys {
		if key != "venta-000123" {
			t.Errorf("tried with the key %s", key)
		}
	}
	if kept, err := os.ReadFile(filepath.Join(b.dir, "venta-000123.dte")); err != nil ||
		decode(t, kept).Code != first["codigoGeneracion"] {
		t.Errorf("kept %v %.200s", err, kept)
	}
	if code, again, said := run("emitir", "dte01", sale); code != 0 ||
		again["codigoGeneracion"] != first["codigoGeneracion"] {
		t.Errorf("again: %d %s", code, said)
	}
	if got := b.sim.Received(); got.Documents != 1 || got.Duplicates != 0 {
		t.Errorf("MH received %+v", got)
	}
	// A refusal is reported, once; a rejection by MH ends in its own way.
	lan.keys = nil
	if code, _, said := run("emitir", "dte01", write("mala.json", strings.Replace(sale01, `"cantidad":2`,
		`"cantidad":0`, 1))); code != 2 || !strings.Contains(said, "items[0].cantidad RANGE: ") || len(lan.keys) != 1 {
		t.Errorf("refused: %d %s", code, said)
	}
	b.chaos(simulator.Chaos{Reject: 1})
	if code, printed, said := run("emitir", "dte01", write("rechazada.json", sale01)); code != 3 ||
		printed["estado"] != "REJECTED" || !strings.Contains(said, "Rechazado por Hacienda") {
		t.Errorf("rejected: %d %s", code, said)
	}
	// Without MH the ticket shows that, and its seal comes later, once.
	b.chaos(simulator.Chaos{Outage: true})
	code, alone, said := run("emitir", "dte01", write("venta-000124.json", sale01))
	if code != 0 || alone["estado"] != "CONTINGENCIA" || alone["selloRecibido"] != "" || alone["leyenda"] == "" {
		t.Fatalf("in contingency: %d %s", code, said)
	}
	b.chaos(simulator.Chaos{})
	heard := ""
	soon(t, "the seal is heard of", func() bool {
		lan.mu.Lock()
		lan.troubles = []string{"cut after", "half"}
		lan.mu.Unlock()
		if code, _, heard = run("seguir", "--una-vez"); code != 0 {
			t.Fatalf("following: %d %s", code, heard)
		}
		return heard != ""
	})
	if fields := strings.Fields(heard); len(fields) < 3 || fields[0] != alone["codigoGeneracion"] ||
		fields[1] != "PROCESSED" || len(fields[2]) < 10 {
		t.Errorf("heard %q", heard)
	}
	if _, _, again := run("seguir", "--una-vez"); again != "" {
		t.Errorf("heard again: %q", again)
	}
	if code, _, paper := run("imprimir", alone["codigoGeneracion"]); code != 0 || !strings.HasPrefix(paper, "\x1b@") {
		t.Errorf("printed %d %.60q", code, paper)
	}
	// Nobody answers: the client says that the same command must be repeated.
	environment = append(environment, "DTE_PLAZO=1", "DTE_URL=http://"+cmdtest.Port(t))
	if code, _, said := run("emitir", "dte01", sale); code != 75 || !strings.Contains(said, "no se duplica") {
		t.Errorf("nobody there: %d %s", code, said)
	}
}
