package doctor

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/setup"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// patient is a faultless box, and MH's Date header.
type patient struct {
	*barebox.Box
	date time.Time
	now  time.Time

	opened *sign.Key
}

// patientsKey is the key of all patients of a process.
var patientsKey = sync.OnceValues(func() (*sign.Key, error) { return sign.Generate(2048) })

func newPatient(t *testing.T) *patient {
	p := &patient{now: time.Now().UTC().Truncate(time.Second)}
	p.date = p.now
	mh := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", p.date.Format(http.TimeFormat))
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(mh.Close)
	p.Box = barebox.New(t, strings.TrimPrefix(mh.URL, "http://"))
	key, err := patientsKey()
	p.Must(err)
	p.Must(os.RemoveAll(p.Config.Data), os.Remove(p.Config.Mark), setup.Prepare(p.Config, key, true))
	crt, err := sign.DemoCertificate(key, p.Config.Issuer.NIT, "pwd", p.now.AddDate(-1, 0, 0), p.now.AddDate(1, 0, 0))
	p.Must(err)
	_, _, err = setup.NewToken(p.Config, 1, "caja", []string{"ANULACION"})
	p.Must(err)
	p.rule("dte01", "01", bundle.Window{From: p.day(-300)})
	p.signed(bundle.Manifest{Name: "catalogues", Version: "1.0.0", Kind: "catalogue", Document: "catalogues", Schema: 1,
		ABI: 1, Validity: map[string]bundle.Window{"00": {From: p.day(-300)}}},
		map[string][]byte{"catalogues.json": []byte("{}")})
	p.opened, _, err = sign.ParseCertificate(crt, "pwd")
	p.Must(err)
	return p
}

// day is that many days from now.
func (p *patient) day(n int) string { return dte.Date(p.now.AddDate(0, 0, n)) }

func (p *patient) rule(name, document string, w bundle.Window) {
	p.T.Helper()
	m := bundle.Manifest{Name: name, Version: "1.0.0", Kind: "document", Document: document, Schema: 2, ABI: 1,
		Validity: map[string]bundle.Window{"00": w}}
	p.signed(m, map[string][]byte{"schema.json": []byte("{}"), "overlay.json": []byte("{}"),
		"module.wasm": []byte("wasm")})
}

// signed puts a bundle with the pinned key's signature into the folder.
func (p *patient) signed(m bundle.Manifest, parts map[string][]byte) {
	p.T.Helper()
	b, err := os.ReadFile(p.At("rules.key"))
	p.Must(err)
	private, err := bundle.ParsePrivate(b)
	p.Must(err)
	data, err := bundle.Write(parts, m, bundle.Signer{ID: "central-it", Private: private})
	p.Must(err, config.WriteFile(p.At("rules/"+m.Name+bundle.Extension), data))
}

func (p *patient) examine() *doctor {
	d := &doctor{now: func() time.Time { return p.now }}
	d.openKey = func(sealed, passphrase []byte) (*sign.Key, error) { // the real function takes half a second
		if len(passphrase) == 64 {
			return p.opened, nil
		}
		return sign.Open(sealed, passphrase)
	}
	d.examine(context.Background(), p.Options.Config)
	return d
}

// Each fault is found under its own name, and causes no other finding.
func TestDoctor(t *testing.T) {
	p := newPatient(t)
	well := p.examine()
	for _, f := range well.findings {
		if f.Status == statusFail || f.Status == statusWarn && f.Check != "mark" && f.Check != "disk" {
			t.Errorf("a box of which nothing is wrong: %+v", f)
		}
	}
	for name, trouble := range map[string]struct {
		do            func()
		status, check string
		says          string
	}{
		"secret readable by others": {func() { p.Must(os.Chmod(p.Config.Key.PassphraseFile, 0o640)) }, statusFail,
			"secrets", "mode 0640"},
		"secret missing": {func() { p.Must(os.Remove(p.Config.Authority.PasswordFile)) }, statusFail,
			"authority", "authority.password_file: open "},
		"no token": {func() {
			p.Must((&config.TokenFile{Secret: config.Secret()}).Save(
				p.Config.Tokens))
		}, statusWarn, "tokens", "no active token"},
		"token file garbled": {func() { p.Must(config.WriteFile(p.Config.Tokens, []byte("?"))) }, statusFail,
			"tokens", ""},
		"wrong passphrase": {func() { p.Must(config.WriteFile(p.Config.Key.PassphraseFile, []byte("x"))) },
			statusFail, "key", "password"},
		"certificate ends soon": {func() { p.now = p.now.AddDate(0, 11, 0); p.date = p.now }, statusWarn,
			"certificate", "ends on"},
		"key without a certificate": {func() { p.opened, _ = sign.Generate(2048) }, statusWarn, "certificate",
			"not known"},
		"certificate ended": {func() { p.now = p.now.AddDate(2, 0, 0); p.date = p.now }, statusFail,
			"certificate", "ended"},
		"clock off": {func() { p.date = p.now.Add(time.Hour) }, statusFail, "clock",
			"by -1h0m0s"},
		"clock a little off": {func() { p.date = p.now.Add(-2 * time.Minute) }, statusWarn, "clock",
			"by 2m0s"},
		"rule altered": {func() { p.Must(os.WriteFile(p.At("rules/x.dterule"), []byte("?"), 0o600)) },
			statusFail, "rules", "x.dterule"},
		"rule not yet valid": {func() { p.rule("dte01", "01", bundle.Window{From: p.day(10)}) }, statusFail,
			"rules", "no rule is valid today"},
		"no rules": {func() { p.Must(os.Remove(p.At("rules/dte01.dterule"))) }, statusFail,
			"rules", "no bundle"},
		"TLS without a certificate": {func() { p.configure("listen = \"127.0.0.1:0\"", "listen = \"0.0.0.0:0\"") },
			statusFail, "tls", "no certificate for a listener"},
		"TLS":           {func() { p.tls(0) }, statusOK, "tls", "api: until "},
		"TLS ends soon": {func() { p.tls(390 * 24 * time.Hour) }, statusWarn, "tls", "ends on"},
		"no store": {func() { p.Must(os.RemoveAll(p.Config.Data)) }, statusFail, "store",
			"no store"},
		"no mark": {func() { p.Must(os.Remove(p.Config.Mark)) }, statusFail, "store", "no mark"},
		"configuration with a slip": {func() {
			p.Must(os.WriteFile(p.Options.Config, []byte("ambient = 1"),
				0o600))
		}, statusFail, "configuration", "ambient"},
		"authority's address a slip": {func() { p.configure("http://127", "http://nowhere.invalid:1/127") },
			statusFail, "authority", "name"},
		"production in plain HTTP": {func() {
			p.configure("ambiente = \"00\"", "ambiente = \"01\"")
			p.configure("http://127.0.0.1", "http://127.0.0.1.example.com")
		}, statusFail, "configuration", "authority.url: is plain HTTP to \"127.0.0.1.example.com\""},
		"authority refuses": {func() {
			p.configure("url = \"http://127.0.0.1",
				"url = \"http://127.0.0.1:1/x")
		}, statusFail, "authority", "connection"},
		"connect_timeout out of range": {func() {
			p.configure("url = \"http",
				"connect_timeout = \"1h\", url = \"http")
		}, statusFail, "configuration",
			"authority.connect_timeout: is 1h0m0s, must be from 1s to 1m0s"},
		"authority answers": {func() {}, statusOK, "authority",
			"connecting may take 10s (authority.connect_timeout)"},
		"authority without a Date": {func() { p.date = time.Time{} }, statusOK, "authority", "answers"},
		"store not reconciled":     {func() { p.restore() }, statusFail, "store", "not settled"},
		"clock behind the last issue": {func() { p.issue(); p.now = p.now.Add(-time.Hour); p.date = p.now },
			statusFail, "clock", "set back"},
	} {
		t.Run(name, func(t *testing.T) {
			saved, kept := *p, p.keep(t)
			defer func() { kept(); *p = saved }()
			trouble.do()
			found := false
			for _, f := range p.examine().findings {
				found = found || f.Status == trouble.status && f.Check == trouble.check && strings.Contains(f.What,
					trouble.says) && (f.Do != "" || f.Status == statusOK)
				if f.Status == statusFail && f.Check != trouble.check && !strings.HasPrefix(name, "secret") &&
					!strings.HasPrefix(name, "token file") && trouble.check != "configuration" {
					t.Errorf("also found %+v", f)
				}
			}
			if !found {
				t.Errorf("not found in %+v", p.examine().findings)
			}
		})
	}
}

func TestDoctor_Output(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	text, err := barebox.Output(t, func() error { return (&Command{}).Run(context.Background(), b.Options) })
	if err == nil || !strings.Contains(text, "fail  key") || !strings.Contains(text, "→ ") || !strings.HasPrefix(text,
		"ok    configuration") {
		t.Errorf("%s, %v", text, err)
	}
	text, err = barebox.Output(t, func() error { return (&Command{JSON: true}).Run(context.Background(), b.Options) })
	var findings []term.Finding
	if err == nil || json.Unmarshal([]byte(text), &findings) != nil || len(findings) < 8 {
		t.Errorf("%s, %v", text, err)
	}
	s := b.Store()
	text, _ = barebox.Output(t, func() error { return (&Command{}).Run(context.Background(), b.Options) })
	if !strings.Contains(text, "open in the appliance") && !strings.Contains(text, "lock held by current process") {
		t.Errorf("a running appliance: %s", text)
	}
	b.Must(s.Close())
}

// keep saves the folder's files, and returns a function that puts them back.
func (p *patient) keep(t *testing.T) func() {
	copied := filepath.Join(t.TempDir(), "box")
	p.Must(copyTree(p.Dir, copied))
	return func() { p.Must(os.RemoveAll(p.Dir), copyTree(copied, p.Dir)) }
}

// copyTree copies the modes too.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), info.Mode().Perm())
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, info.Mode().Perm())
	})
}

func (p *patient) configure(old, with string) {
	p.T.Helper()
	b, err := os.ReadFile(p.Options.Config)
	p.Must(err)
	if !strings.Contains(string(b), old) {
		p.T.Fatalf("the configuration has no %q", old)
	}
	p.Must(os.WriteFile(p.Options.Config, []byte(strings.Replace(string(b), old, with, 1)), 0o600))
}

// tls encrypts the tills' listener with a certificate of that age.
func (p *patient) tls(ago time.Duration) {
	p.configure("listen = \"127.0.0.1:0\"", "tls = \"on\", listen = \"127.0.0.1:0\"")
	own := p.Config.BoxAuthority()
	own.Now = func() time.Time { return p.now.Add(-ago) }
	p.Must(own.Create())
}

func (p *patient) issue() {
	s := p.Store()
	p.Fill(s, "2026-11-01", 1)
	p.Must(s.Close())
}

func (p *patient) restore() {
	ctx := context.Background()
	s := p.Store()
	_, err := s.Backup(ctx, p.At("backup"), nil)
	p.Must(err, s.Close(), os.RemoveAll(p.Config.Data))
	_, err = storage.Assemble(ctx, storage.Sources{Backups: []string{p.At("backup")}},
		storage.Options{Dir: p.Config.Data, MarkPath: p.Config.Mark, Now: time.Now}, nil)
	p.Must(err)
}

// TestDoctor_MovedMark: dted ran in its own folder, and the configuration names another place for the mark since: from
// any folder doctor finds the mark where dted had it.
func TestDoctor_MovedMark(t *testing.T) {
	p := newPatient(t)
	t.Chdir(p.Dir)
	cfg, err := config.Load("dted.toml")
	p.Must(err)
	s, err := storage.Open(cfg.Store(slog.New(slog.DiscardHandler)))
	p.Must(err, s.Close())
	text, err := os.ReadFile("dted.toml")
	p.Must(err, os.Mkdir("medium", 0o700), config.WriteFile("dted.toml", []byte(strings.Replace(string(text),
		`mark = "mark"`, `mark = "medium/mark"`, 1))))
	t.Chdir(t.TempDir())
	want := "the store's mark is " + p.At("mark") + ": dtectl recover moves it here"
	for _, f := range p.examine().findings {
		if f.Check == "store" && f.Do == want {
			return
		}
	}
	t.Errorf("doctor does not say that %s", want)
}
