package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/boxtest"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/sign"
	"dtegate/gateway/apitest"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

const (
	testNIT        = "06141804941035"
	testToken      = "token-of-point-"
	testAdmin      = "admin token of the test, long enough"
	testPassphrase = "passphrase of the test"
)

// binary and operator put dted and dtectl into programs, which TestMain removes.
var (
	binary, operator = program("dted"), program("dtectl")
	programs         = filepath.Join(os.TempDir(), fmt.Sprintf("dted-test-%d", os.Getpid()))
)

func program(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		return filepath.Join(programs, name), cmdtest.Programs("../..", programs, name)
	})
}

// signing is the key of all branches of a test process, sealed.
var signing = sync.OnceValues(func() (*sign.Key, []byte) {
	key, err := sign.Generate(2048)
	if err != nil {
		panic(err)
	}
	sealed, err := sign.DemoSeal(key, []byte(testPassphrase))
	if err != nil {
		panic(err)
	}
	return key, sealed
})

// branch is a whole appliance as a process, with a simulated authority in this one.
type branch struct {
	t        testing.TB
	dir      string
	sim      *simulator.Simulator
	key      *sign.Key
	sealed   []byte
	api, ops string
	mh       string // the authority's address
	log      bytes.Buffer
	under    func(*exec.Cmd) error // how the appliance is started, if not plainly
	// measured is set for an appliance whose memory or speed is measured: it collects its garbage as installed. The
	// others follow GOGC, which make test sets: that saves a third of their processor time.
	measured bool
	own      *apitest.Contract // what ask is compared with, see keeps

	mu  sync.Mutex
	cmd *exec.Cmd
}

// everyday are the rules that most tests need, everyRule the rules of a real branch. Each rule adds some 0.1 s of CPU
// to a start.
var (
	everyday  = []string{"catalogues", "dte01/v2", "contingencia/v4"}
	everyRule = plugins.Names
)

// newBranch makes a branch with eight points of sale and starts its authority, but not its appliance. The branch has
// the everyday rules and the given ones.
func newBranch(t testing.TB, rules ...string) *branch {
	t.Helper()
	b := &branch{t: t, dir: t.TempDir(), api: cmdtest.Port(t), ops: cmdtest.Port(t), measured: *budgets}
	t.Cleanup(func() { // of a test that failed before it stopped the appliance; runs after the test's own cleanups
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.cmd != nil && b.cmd.Process != nil && b.cmd.ProcessState == nil {
			_ = b.cmd.Process.Kill()
			_ = b.cmd.Wait()
		}
	})
	b.key, b.sealed = signing()
	b.sim, b.mh = boxtest.Authority(t, b.key)
	b.fill(b.mh)
	for _, name := range slices.Concat(everyday, rules) {
		b.ship(name)
	}
	return b
}

func (b *branch) write(name string, data []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// ship puts a rule into the folder of the rules that come with dted.
func (b *branch) ship(name string) {
	b.t.Helper()
	b.write("rules/"+strings.ReplaceAll(name, "/", "-")+bundle.Extension, plugintest.Bundle(b.t, name))
}

// fill makes the appliance's folder.
func (b *branch) fill(mh string) {
	b.t.Helper()
	must := func(err error) {
		if err != nil {
			b.t.Helper()
			b.t.Fatal(err)
		}
	}
	public, err := bundle.MarshalPublic(plugintest.Key().Public)
	must(err)
	must(os.Mkdir(filepath.Join(b.dir, "rules"), 0o700))
	secret := bytes.Repeat([]byte{9}, 32)
	tokens := &config.TokenFile{Secret: hex.EncodeToString(secret)}
	text := fmt.Sprintf(`ambiente = "00"
data = "data"
mark = "mark"
tokens = "tokens.toml"
api = {listen = %q, rate = 100000}
ops = {listen = %q, admin_token_file = "admin.token"}
authority = {url = "http://%s", password_file = "authority.password"}
contingency = {responsible = {nombre = "María López", tipo_documento = "13", numero_documento = "012345678"}, hurry = 100}
key = {file = "signing.jwe", passphrase_file = "signing.passphrase"}
issuer = {id = 7, slug = "tienda", nit = %q, nrc = "2390516", nombre = "Tienda", codigo_actividad = "47111", actividad_economica = "Venta en supermercados", telefono = "22571234", correo = "a@example.com", direccion = {departamento = "06", municipio = "23", distrito = "14", complemento = "Calle Arce"}}
branch = {id = 3}
rules = {folder = "rules", cache = %q, key = [{id = "test", file = "rules.pub"}]}
`, b.api, b.ops, mh, testNIT, filepath.Join(plugintest.Root(b.t), "var", "build", "cache"))
	for i := int64(1); i <= 8; i++ {
		text += fmt.Sprintf("[[point_of_sale]]\nid = %d\nestablecimiento = \"M001\"\npunto_venta = \"P%03d\"\n", i, i)
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s%d", testToken, i)
		tokens.Tokens = append(tokens.Tokens, config.Token{ID: 10 + i, Name: "caja",
			Hash: hex.EncodeToString(mac.Sum(nil)), Point: i,
			Permissions: []string{"FACTURA_CONSUMIDOR_FINAL", "CREDITO_FISCAL", "NOTA_CREDITO", "NOTA_DEBITO",
				"SUJETO_EXCLUIDO", "COMPROBANTE_RETENCION", "ANULACION"}})
	}
	b.write("signing.jwe", b.sealed)
	b.write("signing.passphrase", []byte(testPassphrase))
	b.write("authority.password", []byte("secreto-mh.2026\n"))
	b.write("admin.token", []byte(testAdmin+"\n"))
	b.write("rules.pub", public)
	b.write("dted.toml", []byte(text))
	must(tokens.Save(filepath.Join(b.dir, "tokens.toml")))
	must(storage.Create(b.storeOptions()))
}

func (b *branch) storeOptions() storage.Options {
	return storage.Options{Dir: filepath.Join(b.dir, "data"), MarkPath: filepath.Join(b.dir, "mark"), Now: time.Now}
}

// start runs the appliance and waits until it is ready.
func (b *branch) start() {
	b.t.Helper()
	b.launch()
	b.await(http.StatusOK)
}

// launch starts the appliance and waits for nothing.
func (b *branch) launch() {
	b.t.Helper()
	path, err := binary()
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cmd = exec.Command(path, "-config", filepath.Join(b.dir, "dted.toml"))
	b.cmd.Stdout, b.cmd.Stderr = &b.log, &b.log
	if b.measured {
		b.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOGC=") })
	}
	if b.under != nil {
		if err := b.under(b.cmd); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// await waits until /readyz answers with a status, and returns the answer.
func (b *branch) await(status int) string {
	b.t.Helper()
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		resp, err := http.Get("http://" + b.ops + "/readyz")
		if err != nil {
			continue
		}
		said, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == status {
			return string(said)
		}
	}
	b.kill()
	b.t.Fatalf("/readyz does not come to %d:\n%s", status, b.log.String())
	return ""
}

// kill ends the appliance as a power cut would; stop asks it to end and expects status 0.
func (b *branch) kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	seek("log of "+b.t.Name(), b.log.Bytes())
}

func (b *branch) stop() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.cmd.Process.Signal(os.Interrupt)
	if err := b.cmd.Wait(); err != nil {
		b.t.Errorf("stopping the appliance: %v\n%s", err, b.log.String())
	}
	seek("log of "+b.t.Name(), b.log.Bytes())
}

// post sends a sale from a point of sale; an error means that there was no answer.
func (b *branch) post(path string, point int, key, body string) (int, []byte, error) {
	return b.postPreferring(path, point, key, body, "")
}

func (b *branch) postPreferring(path string, point int, key, body, preference string) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+b.api+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-api-token", fmt.Sprintf("%s%d", testToken, point))
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if preference != "" {
		req.Header.Set("Prefer", preference)
	}
	return do(client, req)
}

func (b *branch) get(path string, point int) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+b.api+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", fmt.Sprintf("Bearer %s%d", testToken, point))
	return do(client, req)
}

// sold issues a document at the first point of sale.
func (b *branch) sold(sale string) record {
	b.t.Helper()
	status, answer, err := b.post("/dte/dte01", 1, "", sale)
	if err != nil || status != http.StatusCreated {
		b.t.Fatalf("%d %v %.500s", status, err, answer)
	}
	return decode(b.t, answer)
}

// chaos sets what MH does.
func (b *branch) chaos(c simulator.Chaos) {
	b.t.Helper()
	if err := b.sim.Chaos(c); err != nil {
		b.t.Fatal(err)
	}
}

func do(c *http.Client, req *http.Request) (int, []byte, error) {
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// record is the part of an answer that the tests read.
type record struct {
	Code          string          `json:"codigoGeneracion"`
	ControlNumber string          `json:"numeroControl"`
	Estado        string          `json:"estado"`
	JSON          json.RawMessage `json:"dteJson"`
	JWS           string          `json:"dteFirmado"`
	Sello         *string         `json:"selloRecibido"`
	JSONURL       string          `json:"dteJsonUrl"` // "" for null
	PDFURL        string          `json:"dtePdfUrl"`
}

func decode(t testing.TB, body []byte) record {
	t.Helper()
	var r struct {
		Status string `json:"status"`
		Data   record `json:"data"`
	}
	if err := json.Unmarshal(body, &r); err != nil || r.Status != "success" {
		t.Fatalf("not a success: %v: %s", err, body)
	}
	return r.Data
}
