package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
)

// operation is an operator at a branch, with dtectl alone.
type operation struct {
	*branch
	who string // as the record names the operator
}

func (b *branch) operated() *operation {
	b.t.Helper()
	host, err := os.Hostname()
	if err != nil {
		b.t.Fatal(err)
	}
	return &operation{branch: b, who: operatorName + "@" + host}
}

// does runs a verb that must succeed and print each of the texts, and returns its whole output.
func (o *operation) does(args string, texts ...string) string {
	o.t.Helper()
	return o.run(true, strings.Fields(args), texts)
}

// refused runs a verb that must fail and print each of the texts.
func (o *operation) refused(args string, texts ...string) {
	o.t.Helper()
	o.run(false, strings.Fields(args), texts)
}

func (o *operation) run(well bool, args, texts []string) string {
	o.t.Helper()
	said, ok := o.dtectl(args...)
	if ok != well {
		o.t.Fatalf("dtectl %s ended well: %v\n%s", strings.Join(args, " "), ok, said)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			o.t.Errorf("dtectl %s does not say %q:\n%s", strings.Join(args, " "), text, said)
		}
	}
	return said
}

// token runs a verb that prints a token and nothing else.
func (o *operation) token(args string) string {
	o.t.Helper()
	said := o.does("token " + args)
	token, about, _ := strings.Cut(said, "\n")
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(token) || !strings.Contains(about, "shown only this once") {
		o.t.Fatalf("dtectl token %s prints %q", args, said)
	}
	return token
}

// live waits for a change that must be live within a second; a busy machine gets ten seconds.
func live(t testing.TB, what string, is func() bool) {
	t.Helper()
	began := time.Now()
	soon(t, what, is)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%s: after %v", what, took)
	}
}

// trusting is a till that trusts an authority and keeps no connection.
func trusting(authority *x509.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	return &http.Client{Timeout: time.Minute,
		Transport: contract.Transport(watched{&http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: roots}}})}
}

// sells issues a document over TLS; an error means that the till does not trust the box.
func (o *operation) sells(c *http.Client, token string) (status int, r record, err error) {
	req, err := http.NewRequest(http.MethodPost, "https://"+o.api+"/dte/dte01", strings.NewReader(sale01))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-api-token", token)
	status, answer, err := do(c, req)
	if err == nil && status == http.StatusCreated {
		r = decode(o.t, answer)
	}
	return status, r, err
}

func (o *operation) asks(c *http.Client, path, token string) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodGet, "https://"+o.api+path, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("x-api-token", token)
	return do(c, req)
}

// TestOperator follows a box in a branch from dtectl init on: a till pins its authority, sells with a token, and
// everything that the operator does takes effect in the running appliance, prints its result, and is in the trail.
func TestOperator(t *testing.T) {
	t.Parallel()
	o := newBranch(t).operated()
	o.reconfigure("rate = 100000", `tls = "on", rate = 100000`)
	o.initialise(t)
	first := o.authority(t)
	caja1, caja2 := o.token("new --point-of-sale 1 --name caja-1"),
		o.token("new --point-of-sale 2 --name caja-2 --permission FACTURA_CONSUMIDOR_FINAL")
	o.start()
	t.Cleanup(o.kill)
	c := trusting(first)
	if status, r, err := o.sells(c, caja1); err != nil || status != 201 || !strings.Contains(r.ControlNumber, "P001") ||
		r.Estado != "PROCESSED" {
		t.Fatalf("caja-1: %d %s %s %v", status, r.ControlNumber, r.Estado, err)
	}
	if status, r, err := o.sells(c, caja2); err != nil || status != 201 || !strings.Contains(r.ControlNumber, "P002") {
		t.Fatalf("caja-2: %d %s %v", status, r.ControlNumber, err)
	}
	caja1 = o.tokens(t, c, caja1, caja2)
	c = o.replaceAuthority(t, c, caja1)
	o.contingency(t, c, caja1)
	o.does("backup "+o.dir+"/backup", "checked    every digest and every row\n")
	o.refused("clock accept", "the appliance must be stopped first")
	o.stop()

	series := regexp.MustCompile(`(00/01/M001/P001/\d{4})  1…3\n`).FindStringSubmatch(o.does("fsck"))
	if series == nil {
		t.Fatal("fsck names no series of P001 with three numbers")
	}
	o.does("recover", "nothing to recover")
	o.does("recover --reason moved --accept-loss "+series[1]+":4-100", series[1]+" continues with number 101")
	o.does("fsck", "given up  "+series[1]+"  4…100", "moved", "no problem found")
	o.trail(t, first)
	o.does("tls new --replace")
	o.start()
	if _, r, err := o.sells(trusting(o.authority(t)), caja1); err != nil || !strings.HasSuffix(r.ControlNumber,
		"000101") {
		t.Errorf("after the reconciliation: %s %v", r.ControlNumber, err)
	}
	o.stop()
	o.does("audit --limit 1", "tls.replace "+certificate.Fingerprint(o.authority(t)), "somebody")
}

// initialise makes the branch anew as an installation does.
func (o *operation) initialise(t *testing.T) {
	t.Helper()
	made := []string{"signing.jwe", "signing.passphrase", "tokens.toml", "tls/ca.key", "tls/ca.pem", "tls/server.pem"}
	for _, name := range append(made, "data", "mark") {
		if err := os.RemoveAll(filepath.Join(o.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	const password = "clave privada"
	for file, nit := range map[string]string{"mh.crt": testNIT, "other.crt": "06140101901019"} {
		crt, err := sign.DemoCertificate(o.key, nit, password, time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		o.write(file, crt)
	}
	o.write("clave", []byte(password+"\n"))
	o.write("wrong", []byte("secreto\n"))
	o.write("broken.pem", []byte("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"))
	with := func(crt, clave string) string {
		return fmt.Sprintf("init --certificate %[1]s/%[2]s --certificate-password %[1]s/%[3]s", o.dir, crt, clave)
	}
	o.refused("init", "--certificate")
	o.refused("init --certificate "+o.dir+"/mh.crt", "--certificate-password")
	o.refused("init --certificate "+o.dir+"/broken.pem", "not a usable RSA private key")
	o.write("wrong.pem", brokenKey(t))
	o.refused("init --certificate "+o.dir+"/wrong.pem", "making a test signature")
	o.refused(with("mh.crt", "wrong"), "the password does not open the private key")
	o.refused(with("other.crt", "clave"), "the certificate belongs to NIT 0614-010190-101-9, the configuration names ")
	for _, name := range append(made, "data", "mark") {
		if _, err := os.Stat(filepath.Join(o.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an init that was refused left %s: %v", name, err)
		}
	}
	said := o.does(with("mh.crt", "clave"))
	if want := fmt.Sprintf("tls      %[1]s/tls/ca.pem, for the tills to trust\npin      %[2]s\nstore    "+
		"%[1]s/data\nkey      %[1]s/signing.jwe (sealed)\n"+
		"tokens   %[1]s/tokens.toml\nnext     dtectl token new --point-of-sale 1 --name caja-1 (every document; add "+
		"--permission …,ANULACION where it invalidates)\n", o.dir,
		certificate.Fingerprint(o.authority(t))); said != want {
		t.Errorf("dtectl init says\n%s\nwant\n%s", said, want)
	}
	was := make(map[string][]byte)
	for _, name := range made {
		info, err := os.Stat(filepath.Join(o.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s is open to others: %v", name, info.Mode())
		}
		was[name], _ = os.ReadFile(filepath.Join(o.dir, name))
	}
	o.refused(with("mh.crt", "clave"), "init never touches a store")
	for name, before := range was {
		if now, err := os.ReadFile(filepath.Join(o.dir, name)); err != nil || !bytes.Equal(now, before) {
			t.Errorf("a repeated init changed %s: %v", name, err)
		}
	}
}

func (o *operation) authority(t *testing.T) *x509.Certificate {
	t.Helper()
	c, err := certificate.Read(filepath.Join(o.dir, "tls", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tokens are made, rotated and revoked; it returns the first point of sale's token.
func (o *operation) tokens(t *testing.T, c *http.Client, caja1, caja2 string) string {
	t.Helper()
	opens := func(token string) bool {
		status, answer, err := o.asks(c, "/dte/information", token)
		if err != nil || !slices.Contains([]int{200, 401, 429}, status) { // 429: wrong tokens too often
			t.Fatalf("%d %s %v", status, answer, err)
		}
		return status == http.StatusOK
	}
	o.refused("token new --point-of-sale 77 --name x", "no point of sale with id 77")
	o.refused("token new --point-of-sale 1 --name x --permission EVERYTHING", `permission "EVERYTHING" is not one of`)
	o.refused("token rotate 77", "no such token: 77")
	o.refused("token rotate 1 --grace 721h", "a grace is 0 to 720h")

	caja3 := o.token("new --point-of-sale 1 --name caja-3")
	live(t, "a token that was made opens", func() bool { return opens(caja3) })
	caja1b := o.token("rotate 1")
	live(t, "a rotated token opens", func() bool { return opens(caja1b) })
	if opens(caja1) {
		t.Error("the one before a rotation without a grace opens")
	}
	caja2b := o.token("rotate 2 --grace 1h")
	live(t, "a token rotated with a grace opens", func() bool { return opens(caja2b) })
	if !opens(caja2) {
		t.Error("the one before does not open in its grace")
	}
	list := o.does("token list", "old token valid until ")
	line := func(id, name, point, permissions, lived string) *regexp.Regexp {
		return regexp.MustCompile(fmt.Sprintf(`(?m)^%s +%s +%s +%s +%s$`, id, name, point, permissions, lived))
	}
	const day = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d -06:00`
	by := " " + regexp.QuoteMeta(o.who)
	all := "FACTURA_CONSUMIDOR_FINAL CREDITO_FISCAL NOTA_CREDITO NOTA_DEBITO SUJETO_EXCLUIDO COMPROBANTE_RETENCION"
	for _, want := range []*regexp.Regexp{
		line("1", "caja-1", "1", all, day+by+", rotated "+day+by),
		line("2", "caja-2", "2", "FACTURA_CONSUMIDOR_FINAL", day+by+", rotated "+day+by+", old token valid until "+
			day),
		line("3", "caja-3", "1", all, day+by),
	} {
		if !want.MatchString(list) {
			t.Errorf("no %s in\n%s", want, list)
		}
	}
	caja2c := o.token("rotate 2 --grace 2s")
	live(t, "a token rotated again opens", func() bool { return opens(caja2c) })
	if opens(caja2) {
		t.Error("a token opens though it was rotated twice")
	}
	soon(t, "the grace is over", func() bool { return !opens(caja2b) })
	if !opens(caja2c) {
		t.Error("the grace took the new token along")
	}
	o.does("token revoke 3", "token 3 (caja-3) is revoked")
	live(t, "a revoked token is dead", func() bool { return !opens(caja3) })
	o.refused("token revoke 3", "no such token: 3")
	if list := o.does("token list"); strings.Contains(list, "caja-3") {
		t.Errorf("a revoked token is listed:\n%s", list)
	}
	if list := o.does("token list --all"); !line("3", "caja-3", "1", all, day+by+", revoked "+day+
		by).MatchString(list) {
		t.Errorf("the revoked token is not listed:\n%s", list)
	}
	return caja1b
}

// replaceAuthority makes another authority, and returns a till that trusts it.
func (o *operation) replaceAuthority(t *testing.T, old *http.Client, token string) *http.Client {
	t.Helper()
	first := o.authority(t)
	o.does("tls show", "pin          "+certificate.Fingerprint(first)+"\n", "localhost", "127.0.0.1",
		"until "+dte.Date(first.NotAfter))
	o.refused("tls new", "there is an authority already")
	said := o.does("tls new --replace")
	second := o.authority(t)
	if strings.Contains(said, certificate.Fingerprint(first)) || !strings.Contains(said, "pin          "+
		certificate.Fingerprint(second)+"\n") {
		t.Errorf("dtectl tls new --replace says\n%s", said)
	}
	if again := o.does("tls show"); again != said {
		t.Errorf("dtectl tls show says\n%s\nand new said\n%s", again, said)
	}
	anew := trusting(second)
	live(t, "a till with the new pin is served", func() bool { _, _, err := o.sells(anew, "none"); return err == nil })
	var unknown x509.UnknownAuthorityError
	if _, _, err := o.sells(old, token); !errors.As(err, &unknown) {
		t.Errorf("a till with the old pin: %v", err)
	}
	if status, _, err := o.sells(anew, token); err != nil || status != http.StatusCreated {
		t.Errorf("a till with the new pin: %d %v", status, err)
	}
	if got := o.metric(`dte_tls_certificate_expiry_timestamp_seconds{certificate="ca"}`); got != float64(
		second.NotAfter.Unix()) {
		t.Errorf("the metrics show an authority that ends at %.0f, not at %d", got, second.NotAfter.Unix())
	}
	if aside, err := filepath.Glob(filepath.Join(o.dir, "tls.replaced-*", "ca.key")); len(aside) != 1 {
		t.Errorf("put aside: %v %v", aside, err)
	}
	return anew
}

// contingency is declared while MH answers, and taken back; it returns the document issued meanwhile.
func (o *operation) contingency(t *testing.T, c *http.Client, token string) record {
	t.Helper()
	o.refused("contingency start --cause 9 --reason x", "the appliance says 400")
	o.does("queue", "nothing waits")
	declared := regexp.MustCompile(
		`(?m)^CONTINGENCY +cause 2 since \d{4}-\d\d-\d\d [\d:]{8} -06:00, declared by operator +mantenimiento$`)
	if said := o.does("contingency start --cause 2 --reason mantenimiento"); !declared.MatchString(said) {
		t.Errorf("dtectl contingency start says\n%s", said)
	}
	_, r, err := o.sells(c, token)
	if err != nil || r.Estado != "CONTINGENCIA" {
		t.Fatalf("in a declared contingency: %s %v", r.Estado, err)
	}
	waits := regexp.MustCompile(`(?m)^report +1 +in contingency, in no event yet$`)
	// it is counted every two seconds
	soon(t, "the queue shows the document", func() bool { return waits.MatchString(o.does("queue")) })
	if said := o.does("queue", "oldest document  "); !declared.MatchString(said) {
		t.Errorf("dtectl queue says\n%s", said)
	}
	o.does("contingency report", "INFORME TÉCNICO DE CONTINGENCIA", "en curso al", "mantenimiento", "P001   1 ")
	o.does("contingency report --sent DGII-1", "CONTINGENCY  ")
	o.does("contingency report", "DGII-1")
	if said := o.does("contingency end"); strings.Contains(said, "declared by operator") {
		t.Errorf("dtectl contingency end says\n%s", said)
	}
	soon(t, "nothing is owed", func() bool { return o.does("queue") == "nothing waits\n" })
	status, answer, err := o.asks(c, "/dte/documento/"+r.Code, token)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	if r = decode(t, answer); r.Estado != "PROCESSED" || r.Sello == nil {
		t.Errorf("after the contingency: %s", r.Estado)
	}
	return r
}

// trail compares what dtectl audit shows of the stopped branch with what the operator did.
func (o *operation) trail(t *testing.T, first *x509.Certificate) {
	t.Helper()
	var lines []string
	var acts []audit.Act
	if err := json.Unmarshal([]byte(o.does("audit --json")), &acts); err != nil {
		t.Fatal(err)
	}
	for _, a := range acts {
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s", a.What, a.Target, a.Who, a.From,
			a.Outcome)), " "))
	}
	slices.Reverse(lines)
	file := " " + o.who + " the token file done"
	want := []string{"token.found the installation the token file, while stopped done",
		"tls.found " + certificate.Fingerprint(first) + " the installation the TLS folder, while stopped done",
		"token.new 3" + file, "token.rotate 1" + file, "token.rotate 2" + file,
		"token.rotate 2" + file, "token.revoke 3" + file, "tls.replace " + certificate.Fingerprint(o.authority(t)) +
			" somebody the TLS folder done", "contingency.declare cause 9 " + o.who + " 127.0.0.1 refused",
		"contingency.declare cause 2 " + o.who + " 127.0.0.1 done",
		"contingency.report technical report " + o.who + " 127.0.0.1 done", "contingency.lift " + o.who +
			" 127.0.0.1 done", "store.backup " + o.dir + "/backup " + o.who + " 127.0.0.1 done",
		"store.reconcile 1 series " + o.who + " dtectl done"}
	if !slices.Equal(lines, want) {
		t.Errorf("the trail is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	o.does("audit --limit 1", "store.reconcile 1 series", "moved")
}
