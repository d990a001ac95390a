package demo

import (
	"cmp"
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dtegate/cmd/dtectl/setup"
	"dtegate/cmd/dtectl/workshop"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/sign"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// Demo holds the addresses and the folder of a demonstration.
type Demo struct {
	Config, shown                      string
	API, Ops, authority, manage, inbox string
	ahead                              time.Duration // how far the clocks are ahead
	branch                             int64         // from 1; its establishment is M001, M002 …
	fleet                              string        // the configuration's section [fleet]; empty: no chain
	copied                             string        // the configuration's line second_copy; empty: no copy
}

func newDemo(dir string, branch int64, api, ops string) *Demo {
	return &Demo{Config: filepath.Join(dir, "dted.toml"), shown: shown(dir), branch: branch, API: api, Ops: ops,
		authority: cmp.Or(os.Getenv("DTESIM_ADDR"), "127.0.0.1:8082"),
		manage:    cmp.Or(os.Getenv("DTESIM_MANAGE_ADDR"), "127.0.0.1:8083"),
		inbox:     cmp.Or(os.Getenv("DTESIM_SMTP_ADDR"), "127.0.0.1:8025")}
}

// shown returns a folder's path, relative to the working folder if the folder is inside it.
func shown(dir string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, dir); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return dir
}

// New makes the demo's folder on first use: a key and certificate that MH does not know, rule bundles built from this
// checkout and signed with the demo's own key, a store, tokens. The folder appears complete or not at all. Each call
// writes the configuration again, so that addresses can change.
func New(ctx context.Context, dir, day string) (*Demo, error) {
	d := newDemo(dir, 1, cmp.Or(os.Getenv("DTED_API_ADDR"), "127.0.0.1:8080"),
		cmp.Or(os.Getenv("DTED_OPS_ADDR"), "127.0.0.1:8081"))
	var err error
	if d.ahead, err = ahead(filepath.Join(dir, "ahead"), day, time.Now()); err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err == nil {
		if _, err := os.Stat(filepath.Join(dir, "data")); err != nil {
			return nil, fmt.Errorf("%s exists and is not a demo: remove it or choose another folder", dir)
		}
		if err := config.WriteFile(filepath.Join(dir, "ahead"), []byte(d.ahead.String()+"\n")); err != nil {
			return nil, err
		}
		return d, d.writeConfig(d.Config)
	}
	term.Printf("making a demonstration branch in %s (once; the rules are compiled)\n", d.shown)
	return d, makeFolder(dir, func(aside string) error {
		if _, err := makeTaxpayer(ctx, aside); err != nil {
			return err
		}
		return d.makeBox(aside)
	})
}

// makeFolder makes a folder completely or not at all: fill makes it under the name aside, and makeFolder renames it.
func makeFolder(dir string, fill func(aside string) error) error {
	aside := dir + ".new"
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := fill(aside); err != nil {
		return err
	}
	if err := os.Rename(aside, dir); err != nil {
		return err
	}
	return config.SyncFolder(filepath.Dir(dir))
}

// makeTaxpayer makes what all branches of a demonstration share: certificate, passwords, rules, and the rules' key.
func makeTaxpayer(ctx context.Context, dir string) (signer bundle.Signer, err error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.MkdirAll(at("rules"), 0o700); err != nil {
		return signer, err
	}
	// Every secret of the demo is random: a leaked folder reveals no other secret. MH's API requires letters, digits
	// and other characters in its password.
	password, certificate := config.Secret()[:18]+"-Aa1", config.Secret()[:20]
	key, err := sign.Generate(2048)
	if err != nil {
		return signer, err
	}
	crt, err := sign.DemoCertificate(key, demoNIT, certificate, time.Now(), time.Now().AddDate(5, 0, 0))
	if err != nil {
		return signer, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return signer, err
	}
	issuers, err := json.MarshalIndent([]map[string]string{{"nit": demoNIT, "password": password,
		"publicKey": "signing.pub.pem", "nrc": demoNRC}}, "", "  ")
	if err != nil {
		return signer, err
	}
	for name, data := range map[string][]byte{
		"certificate.crt": crt, "certificate.password": []byte(certificate + "\n"),
		"authority.password": []byte(password + "\n"),
		"signing.pub.pem":    pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"issuers.json":       issuers,
	} {
		if err := config.WriteFile(at(name), data); err != nil {
			return signer, err
		}
	}
	signer.ID = "demo"
	if signer.Private, err = workshop.NewKey(at("rules.key")); err != nil {
		return signer, err
	}
	for _, name := range plugins.Names {
		file, data, err := build(ctx, name, 0, signer)
		if err == nil {
			err = config.WriteFile(at(filepath.Join("rules", file)), data)
		}
		if err != nil {
			return signer, err
		}
	}
	return signer, nil
}

// build makes a bundle from this checkout, with its minor version raised by a number (later). It runs no golden cases.
func build(ctx context.Context, name string, later int, signer bundle.Signer) (file string, data []byte, err error) {
	folder := filepath.Join("var", "build")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", nil, fmt.Errorf("preparing build folder: %w", err)
	}
	parts, m, err := plugins.Source{Root: ".", Build: folder}.Parts(ctx, name)
	if err != nil {
		return "", nil, err
	}
	if later > 0 {
		var major, minor, patch int
		if _, err := fmt.Sscanf(m.Version, "%d.%d.%d", &major, &minor, &patch); err != nil {
			return "", nil, fmt.Errorf("version %q: %w", m.Version, err)
		}
		m.Version = fmt.Sprintf("%d.%d.0", major, minor+later)
	}
	data, err = bundle.Write(parts, m, signer)
	return m.Name + "-" + m.Version + bundle.Extension, data, err
}

// makeBox makes the box of one branch: configuration, sealed key, store, tokens.
func (d *Demo) makeBox(dir string) error {
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"admin.token": config.Secret(), "ahead": d.ahead.String()} {
		if err := config.WriteFile(at(name), []byte(text+"\n")); err != nil {
			return err
		}
	}
	if err := d.writeConfig(at("dted.toml")); err != nil {
		return err
	}
	cfg, err := config.Load(at("dted.toml"))
	if err != nil {
		return err
	}
	opened, _, err := setup.ReadKey(at("certificate.crt"), at("certificate.password"))
	if err != nil {
		return err
	}
	if err := setup.Prepare(cfg, opened, true); err != nil {
		return err
	}
	for _, p := range cfg.Points {
		_, token, err := setup.NewToken(cfg, p.ID, "caja "+p.PointOfSale, config.Permissions)
		if err != nil {
			return err
		}
		name := "pos.token"
		if p.ID != 1 {
			name = fmt.Sprintf("pos%d.token", p.ID)
		}
		if err := config.WriteFile(at(name), []byte(token+"\n")); err != nil {
			return err
		}
	}
	return nil
}

// ahead returns how far the clocks of a demonstration are ahead of now: without a day, the duration in the file; with a
// day, the duration from today to that day. The clocks are never set back, because documents are numbered in order of
// time.
func ahead(file, day string, now time.Time) (time.Duration, error) {
	var before time.Duration
	if b, err := os.ReadFile(file); err == nil {
		if before, err = time.ParseDuration(strings.TrimSpace(string(b))); err != nil {
			return 0, fmt.Errorf("reading %s: %w", file, err)
		}
	}
	if day == "" {
		return before, nil
	}
	wanted, err := time.ParseInLocation(time.DateOnly, day, dte.Zone)
	if err != nil {
		return 0, fmt.Errorf("--day: %q is not a day (yyyy-mm-dd)", day)
	}
	is, err := time.ParseInLocation(time.DateOnly, dte.Date(now.Add(before)), dte.Zone)
	if err != nil {
		return 0, err
	}
	if wanted.Before(is) {
		return 0, fmt.Errorf("--day: %s is before %s, which it is in this demonstration; remove its folder, or choose "+
			"another one with DTED_DEMO_DIR", day, is.Format(time.DateOnly))
	}
	return before + wanted.Sub(is), nil
}

const (
	demoNIT = "06141804941035"
	demoNRC = "2390516"
)

// writeConfig writes the demo's configuration, which is also the sample that people copy.
func (d *Demo) writeConfig(path string) error {
	var points strings.Builder
	for i := 1; i <= 8; i++ {
		points.WriteString(fmt.Sprintf("\n[[point_of_sale]]\nid = %d\nestablecimiento = \"M%03d\"\npunto_venta = "+
			"\"P%03d\"\n", i, d.branch, i))
	}
	host, port, err := net.SplitHostPort(d.inbox)
	if err != nil {
		return fmt.Errorf("DTESIM_SMTP_ADDR: %w", err)
	}
	compiled, err := filepath.Abs(filepath.Join("var", "build", "cache"))
	if err != nil {
		return err
	}
	text := fmt.Sprintf(configText, d.copied, d.API, d.Ops, d.authority, d.ahead, host, port, compiled, demoNIT,
		demoNRC, d.branch, points.String(), d.fleet)
	return config.WriteFile(path, []byte(text))
}

// configText is a format of fmt, see writeConfig.
//
//go:embed dted.toml.format
var configText string
