package simulator_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

const (
	nit      = "06141804941035"
	password = "una-clave.2026"
)

// noon is noon, in El Salvador, of the date of the documents in testdata.
var noon = time.Date(2026, 12, 15, 18, 0, 0, 0, time.UTC)

// newKey makes a key of MH's size, once a process: it takes up to a second.
var newKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// branch is a client of a simulator, as simple as a client can be.
type branch struct {
	t     testing.TB
	sim   *simulator.Simulator
	clock *clock
	url   string // of the protocol
	admin string // of the management
	nit   string // logged in
	token string
	http  *http.Client
}

// open starts a simulator on two ports of httptest and logs in.
func open(t testing.TB, change ...func(*simulator.Options)) *branch {
	t.Helper()
	c := &clock{at: noon}
	o := simulator.Options{
		Seed: 7, Now: c.now, Logger: slog.New(slog.DiscardHandler),
		Issuers: []simulator.Issuer{{NIT: nit, Password: password, PublicKey: &newKey().PublicKey}},
	}
	for _, f := range change {
		f(&o)
	}
	sim := simulator.New(o)
	protocol, manage := httptest.NewServer(sim.Protocol()), httptest.NewServer(sim.Manage())
	b := &branch{t: t, sim: sim, clock: c, url: protocol.URL, admin: manage.URL,
		http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		b.http.CloseIdleConnections()
		if err := sim.Reset(); err != nil { // ends a silence, so that the servers can close
			t.Errorf("resetting: %v", err)
		}
		protocol.Close()
		manage.Close()
	})
	b.login(o.Issuers[0].NIT)
	return b
}

func (b *branch) login(user string) {
	b.t.Helper()
	var out struct{ Body struct{ Token string } }
	status, body := b.form(url.Values{"user": {user}, "pwd": {password}})
	if err := json.Unmarshal(body, &out); err != nil || out.Body.Token == "" {
		b.t.Fatalf("login: %d %s", status, body)
	}
	b.nit, b.token = user, out.Body.Token
}

func (b *branch) form(v url.Values) (int, []byte) {
	b.t.Helper()
	resp, err := b.http.PostForm(b.url+"/seguridad/auth", v)
	if err != nil {
		b.t.Fatalf("login: %v", err)
	}
	return b.read(resp)
}

func (b *branch) read(resp *http.Response) (int, []byte) {
	b.t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("reading answer: %v", err)
	}
	if resp.Header.Get("X-Simulated") != "true" {
		b.t.Errorf("%s %s: answer without X-Simulated", resp.Request.Method, resp.Request.URL)
	}
	return resp.StatusCode, body
}

// answer is MH's body; it distinguishes null from an empty string.
type answer struct {
	Version, VersionApp                       int
	Ambiente, CodigoGeneracion, SelloRecibido *string
	Estado, CodigoMsg, DescripcionMsg         string
	FhProcesamiento, ClasificaMsg             *string
	Observaciones                             []string
	status                                    int
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s %s %q %q", a.status, a.Estado, a.CodigoMsg, a.DescripcionMsg, a.Observaciones)
}

// post sends a request with the token and returns the answer, or the transport's error.
func (b *branch) post(path string, body any) (int, []byte, error) {
	b.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, b.url+path, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", b.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, out, err
}

func (b *branch) ask(path string, body any) answer {
	b.t.Helper()
	status, data, err := b.post(path, body)
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	a := answer{status: status}
	if err := json.Unmarshal(data, &a); err != nil {
		b.t.Fatalf("%s: %d %s", path, status, data)
	}
	return a
}

// tree is a document that a test can change by path.
type tree struct{ root map[string]any }

func parse(t testing.TB, data []byte) *tree {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	d := &tree{}
	if err := dec.Decode(&d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

// sample returns a document of testdata, "01" or "01-v1", with its own code and number.
func sample(t testing.TB, name string, n int) *tree {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	d := parse(t, data)
	tipo, _, _ := strings.Cut(name, "-")
	d.set("identificacion.codigoGeneracion", code(tipo, n))
	if d.get("identificacion.numeroControl") != nil {
		d.set("identificacion.numeroControl", fmt.Sprintf("DTE-%s-M001P001-%015d", tipo, n))
	}
	return d
}

func code(tipo string, n int) string { return fmt.Sprintf("%08X-00%s-4000-8000-%012X", n, tipo, n) }

// set changes one member; path steps are names and indexes. A json.Number keeps its literal.
func (d *tree) set(path string, v any) *tree {
	steps := strings.Split(path, ".")
	var at any = d.root
	for _, step := range steps[:len(steps)-1] {
		at = child(at, step)
	}
	last := steps[len(steps)-1]
	switch at := at.(type) {
	case map[string]any:
		if v == gone {
			delete(at, last)
		} else {
			at[last] = v
		}
	case []any:
		i, _ := strconv.Atoi(last)
		at[i] = v
	default:
		panic("no such path: " + path)
	}
	return d
}

// gone removes a member.
var gone any = struct{ gone bool }{true}

func child(v any, step string) any {
	switch v := v.(type) {
	case map[string]any:
		return v[step]
	case []any:
		i, _ := strconv.Atoi(step)
		return v[i]
	}
	return nil
}

func (d *tree) get(path string) any {
	var at any = d.root
	for _, step := range strings.Split(path, ".") {
		at = child(at, step)
	}
	return at
}

func (d *tree) bytes() []byte {
	data, err := json.Marshal(d.root)
	if err != nil {
		panic(err)
	}
	return data
}

// jws signs under a header.
func jws(header string, payload []byte, key *rsa.PrivateKey) string {
	enc := base64.RawURLEncoding
	input := enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString(payload)
	sum := sha512.Sum512([]byte(input))
	sig, err := rsa.SignPKCS1v15(nil, key, crypto.SHA512, sum[:])
	if err != nil {
		panic(err)
	}
	return input + "." + enc.EncodeToString(sig)
}

func sign(payload []byte) string { return jws(`{"alg":"RS512"}`, payload, newKey()) }

// envelope wraps a document as recepciondte requires.
func envelope(d *tree) map[string]any {
	tipo := d.get("identificacion.tipoDte")
	if tipo == nil {
		tipo = d.get("identificacion.tipoEvento")
	}
	return map[string]any{
		"ambiente": d.get("identificacion.ambiente"), "idEnvio": 1, "version": d.get("identificacion.version"),
		"tipoDte": tipo, "documento": sign(d.bytes()),
		"codigoGeneracion": d.get("identificacion.codigoGeneracion"),
	}
}

func (b *branch) send(d *tree) answer {
	b.t.Helper()
	return b.ask("/fesv/recepciondte", envelope(d))
}

// try sends a document over a connection that may be cut.
func (b *branch) try(d *tree) (int, []byte, error) {
	b.t.Helper()
	return b.post("/fesv/recepciondte", envelope(d))
}

func (b *branch) lookup(tipo, code string) answer {
	b.t.Helper()
	return b.lookupOf(nit, tipo, code)
}

func (b *branch) lookupOf(nit, tipo, code string) answer {
	b.t.Helper()
	return b.ask("/fesv/recepcion/consultadte/", map[string]any{"nitEmisor": nit, "tdte": tipo,
		"codigoGeneracion": code})
}

func (b *branch) accepted(d *tree) answer {
	b.t.Helper()
	a := b.send(d)
	if a.status != http.StatusOK || a.Estado != "PROCESADO" {
		b.t.Fatalf("not accepted: %v", a)
	}
	return a
}

// acceptedOn sets the clock to noon of a day, the document's date.
func (b *branch) acceptedOn(day string, d *tree) answer {
	b.t.Helper()
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		b.t.Fatal(err)
	}
	b.clock.set(at.Add(18 * time.Hour))
	return b.accepted(d.set("identificacion.fecEmi", day))
}

func (b *branch) refused(d *tree, code, text string) answer {
	b.t.Helper()
	a := b.send(d)
	if a.status != http.StatusBadRequest || a.Estado != "RECHAZADO" || a.CodigoMsg != code ||
		a.DescripcionMsg != text || a.SelloRecibido != nil {
		b.t.Fatalf("got %v, want 400 RECHAZADO %s %q", a, code, text)
	}
	return a
}

// chaos sets hostilities through the Go API.
func (b *branch) chaos(c simulator.Chaos) {
	b.t.Helper()
	if err := b.sim.Chaos(c); err != nil {
		b.t.Fatalf("chaos: %v", err)
	}
}
