package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/gateway/apitest"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
)

// invented puts an unknown type of document into a folder of its own, as a rule author has it: testdata/prenda and its
// compiled module. It returns the folder.
func invented(t *testing.T) string {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	root, from := plugintest.Root(t), t.TempDir()
	// a checkout, as far as the module needs it
	for _, name := range []string{"rules", "engine", "storage", "plugins/sdk"} {
		must(os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755))
		must(os.Symlink(filepath.Join(root, name), filepath.Join(from, name)))
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		must(err)
		must(os.WriteFile(filepath.Join(from, name), text, 0o600))
	}
	folder := filepath.Join(from, "plugins", "prenda")
	must(os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "prenda"))))
	must(os.Rename(filepath.Join(folder, "rule.go.txt"), filepath.Join(folder, "rule.go")))
	must(os.CopyFS(filepath.Join(from, "plugins", "catalogues"), os.DirFS(filepath.Join(root, "plugins",
		"catalogues"))))
	pawn.Do(func() {
		path := filepath.Join(from, "prenda.wasm")
		must(plugins.Compile(context.Background(), from, "prenda", path))
		var err error
		pawn.module, err = os.ReadFile(path)
		must(err)
	})
	must(os.WriteFile(filepath.Join(from, "prenda.wasm"), pawn.module, 0o600))
	return from
}

// pawn is the compiled module of testdata/prenda, which all tests of this process share.
var pawn struct {
	sync.Once
	module []byte
}

// TestType_Invented brings a type that this program does not know to a running branch: it is proven, pushed, opened,
// permitted, sold with an operation of its own, printed, reported after an outage, invalidated and taken back.
func TestType_Invented(t *testing.T) {
	skip.Short(t)
	t.Parallel()
	from := invented(t)
	b := newBranch(t, "invalidacion/v3")
	b.start()
	o := b.operated()
	private, err := bundle.MarshalPrivate(plugintest.Signer().Private)
	if err != nil {
		t.Fatal(err)
	}
	b.write("rules.key", private)
	o.does("rules new boleta --type 77 --source "+from+" --schema "+from+"/plugins/prenda/v1/schema.json", "form.json",
		"TO SAY")
	o.refused("rules test boleta --update --source "+from, "would pass", "still says", "TO SAY")
	o.refused("rules new boleta --type 77 --source "+from+" --schema "+from+"/plugins/prenda/v1/schema.json", "exists")
	o.refused("rules new otra --type 77 --source "+from, "--schema")
	o.refused("rules build boleta/v1 --source "+from+" --key "+filepath.Join(b.dir, "rules.key"), "still says", "TO SAY")
	o.does("rules test prenda/v1 --source "+from+" --module "+from+"/prenda.wasm", "2 golden cases")
	o.does("rules build prenda/v1 --source " + from + " --module " + from + "/prenda.wasm --out " + b.dir + " --key " +
		filepath.Join(b.dir, "rules.key"))
	o.does("rules push "+b.dir+"/prenda-1.0.0.dterule --reason new", "live", "[types]")
	layout, err := os.ReadFile(from + "/plugins/prenda/v1/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.sim.Enact(simulator.Law{Document: "77", From: "2026-01-01", Layout: layout, Version: 1}); err != nil {
		t.Fatal(err)
	}
	form, err := os.ReadFile(from + "/plugins/prenda/form.json")
	if err != nil {
		t.Fatal(err)
	}
	var described struct {
		Examples struct{ Example json.RawMessage }
	}
	if err := json.Unmarshal(form, &described); err != nil {
		t.Fatal(err)
	}
	loan := string(described.Examples.Example)
	ask := b.ask
	says := func(path string, want int, texts ...string) string {
		t.Helper()
		status, said := ask(http.MethodGet, path, "", "")
		for _, text := range texts {
			if status != want || !strings.Contains(said, text) {
				t.Errorf("%s: %d, no %q in %.2000s", path, status, text, said)
			}
		}
		return said
	}
	issues := func(key string, want int, text string) record {
		t.Helper()
		var status int
		var said string
		soon(t, "the token file is read again", func() bool {
			status, _ = ask(http.MethodPost, "/dte/prenda", "", "{}") // issues nothing
			return (status == http.StatusForbidden) == (want == http.StatusForbidden)
		})
		status, said = ask(http.MethodPost, "/dte/prenda", key, loan)
		if status != want || !strings.Contains(said, text) {
			t.Fatalf("%d, no %q in %s", status, text, said)
		}
		if status != http.StatusCreated {
			return record{}
		}
		return decode(t, []byte(said))
	}

	// A signed bundle opens no door: the branch opens the type, and each token must be granted it.
	issues("loan-1", http.StatusForbidden, "BOLETA_DE_PRENDA")
	o.does("token grant 11 BOLETA_DE_PRENDA", "warning: no type of this program needs BOLETA_DE_PRENDA")
	issues("loan-1", http.StatusConflict, "TYPE_NOT_OPEN")
	if strings.Contains(says("/openapi.json", http.StatusOK, "/dte/dte01"), "prenda") {
		t.Error("the contract shows a type that the branch does not issue")
	}
	b.stop()
	b.section("[types]\nissue = [\"01\", \"77\"]\n")
	b.start()
	says("/openapi.json", http.StatusOK, `"/dte/prenda":{"post":{"operationId":"emitirPrenda"`, `"ClienteDePrenda"`,
		"Rosa Pineda")
	says("/docs?lang=en", http.StatusOK, "Pawn ticket (77)")
	end := b.keeps()
	sold := issues("loan-1", http.StatusCreated, `"estado":"PROCESSED"`)
	if again := issues("loan-1", http.StatusCreated, sold.Code); again.Code != sold.Code {
		t.Errorf("a retry made %s of %s", again.Code, sold.Code)
	}
	if sold.ControlNumber != "DTE-77-M001P001-000000000000001" {
		t.Errorf("the number is %s", sold.ControlNumber)
	}
	status, said := ask(http.MethodPost, "/dte/prenda", "", strings.Replace(loan, "120.5", "300", 1))
	if status != http.StatusBadRequest || !strings.Contains(said, `"path":"prendas[0].prestamo"`) {
		t.Errorf("a loan above the value: %d %s", status, said)
	}
	// The printed version has what the view names. A ticket has no columns: it leaves the heads out.
	for layout, texts := range map[string][]string{
		"": {"PIGNORANTE", "Rosa Pineda", "Meses del préstamo: 3", "Avalúo", "Total prestado",
			"TOTAL A CANCELAR"},
		"&layout=ticket80": {"Rosa Pineda", "Meses del préstamo", "Total prestado", "TOTAL A CANCELAR"},
	} {
		text := printed(t, says("/dte/pdf/"+sold.Code+"?format=base64"+layout, http.StatusOK, "JVBER"))
		for _, want := range texts {
			if !strings.Contains(text, want) || strings.Contains(text, "$3.00") ||
				strings.Contains(text, "préstamo: 3.00") {
				t.Errorf("layout %q does not print %q:\n%s", layout, want, text)
			}
		}
	}
	says("/dte/documentos?tipo=77", http.StatusOK, sold.Code)

	// Without MH it is issued in contingency like any document.
	b.chaos(simulator.Chaos{Outage: true})
	away := issues("loan-2", http.StatusCreated, `"estado":"CONTINGENCIA"`)
	b.chaos(simulator.Chaos{})
	soon(t, "nothing waits for MH", func() bool { return b.waiting() == 0 })
	says("/dte/documento/"+away.Code, http.StatusOK, `"estado":"PROCESSED"`)
	status, said = ask(http.MethodPost, "/dte/invalidacion/"+sold.Code, "", invalidated)
	if status != http.StatusOK || !strings.Contains(said, "INVALIDATED") {
		t.Errorf("%d %s", status, said)
	}

	end()

	// A permission can be taken away alone.
	o.refused("token grant 11 boleta", "not one of", "FACTURA_CONSUMIDOR_FINAL")
	o.refused("token revoke 11 ANULACIÓN", "has no permission")
	o.does("token revoke 11 BOLETA_DE_PRENDA", "may: FACTURA_CONSUMIDOR_FINAL")
	issues("loan-3", http.StatusForbidden, "BOLETA_DE_PRENDA")
	o.does("token grant 11 BOLETA_DE_PRENDA")

	// After it is taken back, nothing new is made; existing documents stay, also after a restart.
	o.refused("rules rollback prenda 1 1.0.0 --reason over", "dtectl rules cancel takes it off")
	o.does("rules cancel prenda 1 1.0.0 --reason over")
	issues("loan-3", http.StatusConflict, "TYPE_NOT_OPEN")
	b.kill()
	b.start()
	issues("loan-3", http.StatusConflict, "TYPE_NOT_OPEN")
	if again := issues("loan-2", http.StatusCreated, `"estado":"PROCESSED"`); again.Code != away.Code {
		t.Errorf("a retry made %s of %s", again.Code, away.Code)
	}
	says("/dte/documento/"+sold.Code, http.StatusOK, `"estado":"INVALIDATED"`, "BOLETA_DE_PRENDA")
	says("/dte/pdf/"+away.Code+"?format=base64", http.StatusOK, "JVBER")
	says("/dte/documentos?tipo=77", http.StatusOK, sold.Code, away.Code)
	if strings.Contains(says("/openapi.json", http.StatusOK, "/dte/dte01"), "emitirPrenda") {
		t.Error("the contract shows a type that the branch does not issue any more")
	}

	// The next generation has another layout and another view. What was issued under the first is printed as before.
	next := func(path string, replace ...string) {
		t.Helper()
		text, err := os.ReadFile(from + "/plugins/prenda/" + path)
		if err == nil {
			err = os.WriteFile(from+"/plugins/prenda/"+path, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(from+"/plugins/prenda/v1", from+"/plugins/prenda/v2"); err != nil {
		t.Fatal(err)
	}
	next("v2/manifest.json", "1.0.0", "2.0.0", `"schema": 1`, `"schema": 2`)
	next("v2/schema.json", `"const": 1`, `"const": 2`, `"meses": {
     "type": "integer",
     "minimum": 1,
     "maximum": 12
    },`, "", `"meses",`, "")
	next("view.json", `{"path": "resumen.meses", "label": "Meses del préstamo", "in": "terms", "as": "count"}`, "")
	o.does("rules test prenda/v2 --update --source "+from+" --module "+from+"/prenda.wasm", "2 golden cases")
	o.does("rules build prenda/v2 --source " + from + " --module " + from + "/prenda.wasm --out " + b.dir + " --key " +
		filepath.Join(b.dir, "rules.key"))
	o.does("rules push "+b.dir+"/prenda-2.0.0.dterule --reason generation", "live")
	for range 2 {
		text := printed(t, says("/dte/pdf/"+away.Code+"?format=base64", http.StatusOK, "JVBER"))
		if !strings.Contains(text, "Meses del préstamo: 3") || strings.Contains(text, "$3.00") {
			t.Errorf("beside another generation it prints\n%s", text)
		}
		b.kill()
		b.start()
	}
	b.stop()
	o.does("fsck")
}

// TestType_Chain: the director rolls an unknown type out to a chain in rings. A branch outside the ring refuses it, the
// chain's settings open it in addition to the rule, and after it is taken back it is refused again.
func TestType_Chain(t *testing.T) {
	skip.Short(t)
	t.Parallel()
	from := invented(t)
	b := newBranch(t, "invalidacion/v3")
	c := b.withFleet(t)
	private, err := bundle.MarshalPrivate(plugintest.Signer().Private)
	if err != nil {
		t.Fatal(err)
	}
	b.write("rules.key", private)
	o := b.operated()
	o.does("rules build prenda/v1 --source " + from + " --module " + from + "/prenda.wasm --out " + b.dir + " --key " +
		filepath.Join(b.dir, "rules.key"))
	file, err := os.ReadFile(filepath.Join(b.dir, "prenda-1.0.0.dterule"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := bundle.Inspect(file)
	if err != nil {
		t.Fatal(err)
	}
	rule := fleetproto.RuleOf(r, file, "00")
	c.create(fleetproto.RuleKey(rule.File), file, nil)
	settings, err := fleetproto.EncodeSettings(fleetproto.Settings{Types: []string{"77"}})
	c.create(fleetproto.SettingsKey(fleetproto.Digest(settings)), settings, err)
	layout, err := os.ReadFile(from + "/plugins/prenda/v1/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.sim.Enact(simulator.Law{Document: "77", From: "2026-01-01", Layout: layout, Version: 1}); err != nil {
		t.Fatal(err)
	}
	now, version, previous := time.Now(), int64(0), ""
	order := func(rollout *fleetproto.Rollout) {
		t.Helper()
		version++
		data, err := testChain.Seal(&fleetproto.Desired{Group: "norte", Version: version, Previous: previous,
			Issued: now, Expires: now.Add(time.Hour), By: "ana", Rollout: rollout}, c.director)
		c.create(fleetproto.DesiredKey("norte", version), data, err)
		previous = fleetproto.Digest(data)
		c.status(func(s *fleetproto.Status) bool { return s.Desired.Version == version })
	}
	ring := fleetproto.Rollout{Name: "prenda", Pilots: []string{"sur"}, Opened: now, State: fleetproto.State{
		Rules: []fleetproto.Rule{rule}, Settings: fleetproto.Digest(settings)}}
	var form struct {
		Examples struct{ Example json.RawMessage }
	}
	if err := json.Unmarshal(r.Parts["form.json"], &form); err != nil {
		t.Fatal(err)
	}
	lends := func(key string, want int, text string) {
		t.Helper()
		status, said := b.ask(http.MethodPost, "/dte/prenda", key, string(form.Examples.Example))
		if status != want || !strings.Contains(said, text) {
			t.Errorf("%s: %d, no %q in %s", key, status, text, said)
		}
	}
	b.launch()
	waits := c.status(func(s *fleetproto.Status) bool { return s.Epoch == 0 })
	c.enrol(1, waits.Key, waits.Points...)
	b.await(http.StatusOK)
	order(&ring)
	lends("loan-1", http.StatusNotFound, "")
	ring.Share = fleetproto.Whole
	order(&ring)
	c.status(func(s *fleetproto.Status) bool {
		return s.Rollout != nil && s.Rollout.Stage == fleetproto.StageLive && s.Settings != ""
	})
	o.does("token grant 11 BOLETA_DE_PRENDA")
	b.stop() // the chain's settings open a type from the next start on
	b.launch()
	b.await(http.StatusOK)
	lends("loan-2", http.StatusCreated, `"estado":"PROCESSED"`)
	order(nil)
	c.status(func(s *fleetproto.Status) bool { return s.Settings == "" })
	lends("loan-3", http.StatusConflict, "TYPE_NOT_OPEN")
	lends("loan-2", http.StatusCreated, `"estado":"PROCESSED"`) // a retry is still answered
	b.stop()
	o.does("fsck")
}

// TestType_Further sells the example of each further type, in a branch that issues all of them, prints it and
// invalidates it.
func TestType_Further(t *testing.T) {
	t.Parallel()
	b := newBranch(t, append(slices.Clone(plugins.Further), "invalidacion/v3")...)
	b.section("[types]\nissue = [\"01\", \"04\", \"08\", \"09\", \"11\", \"15\"]\n")
	o := b.operated()
	var granted []string
	further := slices.DeleteFunc(plugins.Types(), func(k *bundle.Type) bool {
		return slices.Contains(plugins.Issued(),
			k.Document)
	})
	for _, k := range further {
		granted = append(granted, k.Permission)
	}
	o.does("token grant 11 " + strings.Join(granted, " "))
	b.start()
	end := b.keeps()
	for _, k := range further {
		var sale string
		for _, example := range k.Form.Examples {
			sale = string(example)
		}
		if k.Document == "04" || k.Document == "11" { // what gave rise to it has been issued
			status, said := b.ask(http.MethodPost, "/dte/"+k.Path, "", strings.Replace(sale, "{", `{"documentoRelacionado":`+
				`[{"tipoDocumento":"03","tipoGeneracion":1,"numeroDocumento":"123","fechaEmision":"2999-01-01"}],`, 1))
			if status != http.StatusBadRequest || !strings.Contains(said, `"documentoRelacionado[0].fechaEmision"`) {
				t.Errorf("%s under a document of 2999: %d %s", k.Path, status, said)
			}
			// The number of a principal is written as MH wants it, however the till sends it.
			status, said = b.ask(http.MethodPost, "/dte/"+k.Path, "", strings.Replace(sale, "{", `{"ventaTercero":`+
				`{"nit":"0614-020280-102-8","nombre":"Cafetalera del Sur","codDomiciliado":1},`, 1))
			if status != http.StatusCreated || !strings.Contains(said, `"nit":"06140202801028","nombre":"Cafetalera`) {
				t.Errorf("%s for a principal: %d %s", k.Path, status, said)
			}
		}
		status, said := b.ask(http.MethodPost, "/dte/"+k.Path, "", sale)
		if status != http.StatusCreated || !strings.Contains(said, `"estado":"PROCESSED"`) {
			t.Errorf("%s: %d %s", k.Path, status, said)
			continue
		}
		sold := decode(t, []byte(said))
		if status, said := b.ask(http.MethodGet, "/dte/pdf/"+sold.Code+"?format=base64&layout=ticket58", "",
			""); status != http.StatusOK {
			t.Errorf("%s is not printed: %d %s", k.Path, status, said)
		}
		event := invalidated
		switch k.Document {
		case "08": // nothing replaces it, whatever was wrong (MF2 p.13)
			event = strings.Replace(event, `:2`, `:1`, 1)
		case "09":
			_, said = b.ask(http.MethodPost, "/dte/"+k.Path, "", sale)
			event = strings.Replace(event, `:2`, `:1,"codigoGeneracionReemplazo":"`+decode(t, []byte(said)).Code+`"`, 1)
		}
		status, said = b.ask(http.MethodPost, "/dte/invalidacion/"+sold.Code, "", event)
		if status != http.StatusOK || !strings.Contains(said, "INVALIDATED") {
			t.Errorf("%s is not invalidated: %d %s", k.Path, status, said)
		}
		b.ask(http.MethodGet, "/dte/documentos?tipo="+k.Document, "", "")
		if status, said := b.ask(http.MethodPost, "/dte/"+k.Path, "", sale, "Prefer", "validate"); status != http.StatusOK {
			t.Errorf("%s is not valid: %d %s", k.Path, status, said)
		}
	}
	end()
	// dtectl certify sends as many of each as MH wants before it authorises an issuer.
	var numbers, rows []string
	for _, k := range further {
		numbers = append(numbers, k.Document)
		rows = append(rows, fmt.Sprintf("%s %d %d 0 0", k.Document, k.Tests, k.Tests))
	}
	said := o.does("certify --every 1ms --types " + strings.Join(numbers, ","))
	for _, row := range rows {
		if !slices.ContainsFunc(strings.Split(said, "\n"), func(line string) bool {
			return strings.Join(strings.Fields(line), " ") == row
		}) {
			t.Errorf("certify has no line %s:\n%s", row, said)
		}
	}
	// In an outage a type is issued if MH takes it in contingency; otherwise its request is answered when MH is back.
	asks := func(k *bundle.Type, want bool, state string) bool {
		t.Helper()
		status, said := b.ask(http.MethodPost, "/dte/"+k.Path, "away-"+k.Document, string(k.Form.Examples["payload"]))
		return want == (status == http.StatusCreated && strings.Contains(said, `"estado":"`+state+`"`)) &&
			(want || status == http.StatusServiceUnavailable)
	}
	b.chaos(simulator.Chaos{Outage: true})
	for _, k := range slices.Backward(further) {
		if !asks(k, k.Deferrable(), "CONTINGENCIA") {
			t.Errorf("%s in an outage", k.Path)
		}
	}
	b.chaos(simulator.Chaos{})
	for _, k := range further {
		soon(t, k.Path+" is sealed after the outage", func() bool { return asks(k, true, "PROCESSED") })
	}
	b.stop()
	o.does("fsck")
}

// printed returns the text of a PDF in an answer, as another program reads it.
func printed(t *testing.T, answer string) string {
	t.Helper()
	reader := skip.Program(t, "pdftotext")
	encoded := regexp.MustCompile(`JVBER[A-Za-z0-9+/=]+`).FindString(answer)
	pdf, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(reader, "-layout", "-enc", "UTF-8", "-", "-")
	cmd.Stdin = bytes.NewReader(pdf)
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const invalidated = `{"tipoAnulacion":2,"motivo":"Error en el documento",` +
	`"responsable":{"nombre":"Eva Ruiz","tipoDocumento":"13","numDocumento":"012345678"},` +
	`"solicita":{"nombre":"Rosa Pineda","tipoDocumento":"13","numDocumento":"012345678"}}`

// ask sends a till's request for a type that the test's contract does not know. After keeps the exchange is compared
// with the branch's own contract.
func (b *branch) ask(method, path, key, body string, header ...string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequest(method, "http://"+b.api+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-api-token", testToken+"1")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	c := *http.DefaultClient
	if b.own != nil {
		c.Transport = b.own.Transport(http.DefaultTransport)
	}
	status, said, err := do(&c, req)
	if err != nil {
		b.t.Fatal(err)
	}
	return status, string(said)
}

// keeps compares what ask sends and gets with the contract that the branch serves now, until the returned function.
func (b *branch) keeps() (end func()) {
	b.t.Helper()
	_, text := b.ask(http.MethodGet, "/openapi.json", "", "")
	own, err := apitest.Parse([]byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.own = own
	return func() {
		b.t.Helper()
		b.own = nil
		for _, fault := range own.Faults() {
			b.t.Error("the branch breaks its own contract: " + fault)
		}
	}
}
