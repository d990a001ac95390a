package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
)

// drill is a box that is installed and maintained by the runbook's own orders, typed into a shell as they are written.
// Only the parts of the system that need root or systemd are replaced: runuser and chown do nothing, systemd-creds
// copies, systemctl is this test; deploy/install-test.sh uses the real ones. Folders of the system are below root.
type drill struct {
	*operation
	book  runbook
	typed map[string]bool // section and order
	root  string
	bin   string
	mh    string // where MH is
	asked chan ask
	runs  bool
	last  int // number of a document
}

// ask is a verb of systemctl; it is answered when it is done.
type ask struct {
	verb string
	done chan struct{}
}

func newDrill(t *testing.T) *drill {
	t.Helper()
	for _, tool := range []string{"bash", "curl"} {
		skip.Program(t, tool)
	}
	d := &drill{operation: newBranch(t).operated(), book: readRunbook(t), typed: make(map[string]bool),
		root: t.TempDir(), bin: t.TempDir(), asked: make(chan ask)}
	d.under = func(*exec.Cmd) error { return d.credentials() }
	d.mh = string(regexp.MustCompile(`authority = \{url = "([^"]+)"`).FindSubmatch(d.read(filepath.Join(d.dir,
		"dted.toml")))[1])
	d.branch.dir = d.at("/etc/dted")
	d.tools()
	d.mkdir("/media/dted")
	d.newDisk()
	t.Cleanup(func() {
		if d.runs {
			d.kill()
		}
	})
	return d
}

func (d *drill) at(path string) string { return d.root + path }

func (d *drill) must(err error) {
	if err != nil {
		d.t.Helper()
		d.t.Fatal(err)
	}
}

func (d *drill) read(path string) []byte {
	d.t.Helper()
	b, err := os.ReadFile(path)
	d.must(err)
	return b
}

func (d *drill) mkdir(path string) { d.t.Helper(); d.must(os.MkdirAll(d.at(path), 0o700)) }

// newDisk is a box after steps 1 and 2 of Install: the package's sample, filled in, with the rules and their key in the
// package.
func (d *drill) newDisk() {
	d.t.Helper()
	for _, folder := range []string{"/etc/dted", "/var/lib/dted", "/usr/share/dted/rules",
		"/usr/share/dted/rules-keys"} {
		d.mkdir(folder)
	}
	for _, name := range everyday {
		d.must(os.WriteFile(d.at("/usr/share/dted/rules/"+strings.ReplaceAll(name, "/", "-")+bundle.Extension),
			plugintest.Bundle(d.t, name), 0o600))
	}
	public, err := bundle.MarshalPublic(plugintest.Key().Public)
	d.must(err)
	d.must(os.WriteFile(d.at("/usr/share/dted/rules-keys/package.pub"), public, 0o600))
	text := d.places(string(d.read(filepath.Join(plugintest.Root(d.t), "deploy", "dted.toml"))))
	for name, value := range map[string]string{"ambiente": "00", "url": d.mh, "slug": "tienda", "nit": testNIT,
		"nrc": "2390516", "nombre": "Tienda",
		"nombre_comercial": "Tienda", "codigo_actividad": "47111", "actividad_economica": "Supermercado",
		"telefono": "22571234", "correo": "a@example.com",
		"departamento": "06", "municipio": "23", "distrito": "14", "complemento": "Calle Arce",
		"mark":  d.at("/media/dted/mark"),
		"cache": filepath.Join(plugintest.Root(d.t), "var", "build", "cache")} {
		setting := regexp.MustCompile(`(?m)^` + name + ` = "[^"]*"`)
		if !setting.MatchString(text) {
			d.t.Fatalf("the sample has no %s", name)
		}
		text = setting.ReplaceAllLiteralString(text, fmt.Sprintf("%s = %q", name, value))
	}
	text = strings.NewReplacer(`nombre = "", tipo_documento = "13", numero_documento = ""`,
		`nombre = "María López", tipo_documento = "13", numero_documento = "012345678"`,
		"# second_copy", "second_copy", `id = "package"`, `id = "test"`,
		`listen = "`+d.api+`"`, `listen = "`+d.api+`"`+"\ntls = \"on\"").Replace(text)
	d.write("dted.toml", []byte(text))
}

// credentials gives a service what systemd would give it: its opened secrets, in a folder of its own.
func (d *drill) credentials() error {
	d.mkdir("/run/credentials/dted.service")
	files, err := filepath.Glob(d.at("/etc/dted/*.cred"))
	for _, f := range files {
		to := d.at("/run/credentials/dted.service/" + strings.TrimSuffix(filepath.Base(f), ".cred"))
		err = errors.Join(err, os.WriteFile(to, d.read(f), 0o600))
	}
	return err
}

// tools are programs that the orders find before the system's.
func (d *drill) tools() {
	d.t.Helper()
	socket := filepath.Join(d.bin, "systemd")
	for name, script := range map[string]string{
		"runuser":              `shift 3; exec "$@"`,
		"chown":                `exit 0`,
		"install":              `[ "$2 $3" = "-o dted" ] || exit 1; shift 3; exec /usr/bin/install -d "$@"`,
		"systemd-ask-password": `printf secreto-mh.2026`,
		"systemd-creds":        `[ "$1" = encrypt ] || exit 1; exec cat "$3" >"$4"`,
		"systemctl": `[ "$2" = dted ] && exec curl -sS --fail --max-time 60 --unix-socket ` + socket +
			` "http://systemd/$1"`,
	} {
		d.must(os.WriteFile(filepath.Join(d.bin, name), []byte("#!/bin/bash\n"+script+"\n"), 0o700))
	}
	path, err := operator()
	d.must(err)
	d.must(os.Symlink(path, filepath.Join(d.bin, "dtectl")))
	ln, err := net.Listen("unix", socket)
	d.must(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := ask{strings.TrimPrefix(r.URL.Path, "/"), make(chan struct{})}
		select {
		case d.asked <- a:
			<-a.done
		case <-r.Context().Done():
		}
	})}
	go func() { _ = server.Serve(ln) }()
	d.t.Cleanup(func() { _ = server.Close() })
}

// systemctl does a verb.
func (d *drill) systemctl(verb string) {
	d.t.Helper()
	if (verb == "stop" || verb == "restart") && d.runs {
		d.stop()
		d.runs = false
		d.must(os.RemoveAll(d.at("/run/credentials/dted.service")))
	}
	if (verb == "start" || verb == "restart") && !d.runs {
		d.start()
		d.runs = true
	}
}

// places replaces the system's folders and the box's addresses by the drill's.
func (d *drill) places(text string) string {
	for _, p := range []string{"/etc/dted", "/var/lib/dted", "/media/dted", "/run/credentials", "/usr/share/dted"} {
		text = strings.ReplaceAll(text, p, d.root+p)
	}
	text = strings.ReplaceAll(text, "\"/(var/lib|media)/dted/", "\""+d.root+"/(var/lib|media)/dted/")
	return strings.NewReplacer("0.0.0.0:8080", d.api, "127.0.0.1:8080", d.api, "127.0.0.1:8081", d.ops).Replace(text)
}

// types runs an order, and returns its output; it must succeed.
func (d *drill) types(order string, pairs ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -e -o pipefail\n"+
		d.places(strings.NewReplacer(pairs...).Replace(order)))
	cmd.Dir = d.root
	cmd.Env = append(os.Environ(), "PATH="+d.bin+":"+os.Getenv("PATH"), "DTED_CONFIG="+d.at("/etc/dted/dted.toml"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	for {
		select {
		case a := <-d.asked:
			d.systemctl(a.verb)
			close(a.done)
		case err := <-ended:
			if err != nil {
				d.t.Fatalf("%v:\n%s\nsays\n%s", err, order, out.String())
			}
			return out.String()
		}
	}
}

// line runs an order of a section's sentences; block the nth fenced one. Pairs fill what an operator fills in.
func (d *drill) line(section, order string, pairs ...string) string {
	d.t.Helper()
	s := d.book[section]
	if s == nil || !contains(s.lines, order) {
		d.t.Fatalf("the runbook's section %q has no order %q", section, order)
	}
	d.typed[section+": "+order] = true
	return d.types(order, pairs...)
}

func (d *drill) block(section string, n int, pairs ...string) string {
	d.t.Helper()
	s := d.book[section]
	if s == nil || n > len(s.blocks) {
		d.t.Fatalf("the runbook's section %q has no block %d", section, n)
	}
	d.typed[fmt.Sprintf("%s: block %d", section, n)] = true
	return d.types(s.blocks[n-1], pairs...)
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// counter is a till that trusts the box's authority, with a token of its own.
type counter struct {
	client *http.Client
	token  string
}

func (d *drill) till(token string) counter {
	d.t.Helper()
	token, _, _ = strings.Cut(token, "\n") // its permissions follow it
	if len(token) != 64 {
		d.t.Fatalf("no token: %q", token)
	}
	return counter{trusting(d.trusted()), token}
}

func (d *drill) trusted() *x509.Certificate {
	d.t.Helper()
	c, err := certificate.Read(d.at("/var/lib/dted/tls/ca.pem"))
	d.must(err)
	return c
}

// sale issues a document over TLS; MH must have sealed it.
func (d *drill) sale(x counter) record {
	d.t.Helper()
	status, r, err := d.sells(x.client, x.token)
	soon(d.t, "a token is live", func() bool { // within a second after it was made
		if status == http.StatusUnauthorized {
			status, r, err = d.sells(x.client, x.token)
		}
		return status != http.StatusUnauthorized
	})
	if err != nil || status != http.StatusCreated || r.Estado != "PROCESSED" {
		d.t.Fatalf("%d %s %v\n%s", status, r.Estado, err, d.log.String())
	}
	return r
}

func (d *drill) certificate() []string {
	d.t.Helper()
	const password = "clave privada"
	crt, err := sign.DemoCertificate(d.key, testNIT, password, time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0))
	d.must(err)
	d.must(os.WriteFile(d.at("/mh.crt"), crt, 0o600))
	d.must(os.WriteFile(d.at("/mh.password"), []byte(password+"\n"), 0o600))
	return []string{"--certificate FILE.crt", "--certificate " + d.at("/mh.crt"), "--certificate-password FILE",
		"--certificate-password " + d.at("/mh.password")}
}
