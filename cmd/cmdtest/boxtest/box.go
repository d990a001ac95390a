// Package boxtest makes a faultless box, and breaks it in forty ways. dtectl doctor must name each fault. If dted
// refuses to start because of a fault, it must use the same words.
package boxtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// NIT is the issuer's NIT, Passphrase the passphrase of the sealed key.
const (
	NIT        = "06141804941035"
	Passphrase = "passphrase of the box"
)

const text = `ambiente = "00"
data = "data"
mark = "mark"
tokens = "tokens.toml"

[api]
listen = "127.0.0.1:0"

[ops]
listen = "127.0.0.1:0"
admin_token_file = "admin.token"

[authority]
url = "http://%s"
password_file = "authority.password"

[contingency]
responsible = {nombre = "María López", tipo_documento = "13", numero_documento = "012345678"}

[key]
file = "signing.jwe"
passphrase_file = "signing.passphrase"

[rules]
folder = "rules"
cache = %q
threshold = 1

[[rules.key]]
id = "test"
file = "rules.pub"

[issuer]
id = 1
slug = "la-ceiba"
nit = "06141804941035"
nrc = "2390516"
nombre = "La Ceiba"
codigo_actividad = "47111"
actividad_economica = "Venta en supermercados"
tipo_establecimiento = "01"
telefono = "22571234"
correo = "dte@example.com"
color_principal = "#1f5f8b"

[issuer.direccion]
departamento = "06"
municipio = "23"
distrito = "14"
complemento = "Calle Arce 1020"

[branch]
id = 1

[[point_of_sale]]
id = 1
establecimiento = "S001"
punto_venta = "P001"

[mail]
host = "127.0.0.1"
user = "dte"
password_file = "mail.password"
from = "dte@example.com"

[archive]
endpoint = "http://127.0.0.1:9000"
bucket = "dte"
access_key = "dte"
secret_file = "archive.secret"
path_style = true
`

// Box is a branch's folder.
type Box struct {
	t   testing.TB
	Dir string
	Key *sign.Key // that signs its documents
}

// Authority serves an MH that knows the issuer by its key, until the test ends; address is that of its protocol.
func Authority(t testing.TB, key *sign.Key) (mh *simulator.Simulator, address string) {
	t.Helper()
	mh = simulator.New(simulator.Options{Seed: 1, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Issuers: []simulator.Issuer{{NIT: NIT, Password: "secreto-mh.2026", PublicKey: key.Public()}}})
	protocol, manage := cmdtest.Listen(t), cmdtest.Listen(t)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- mh.Serve(ctx, protocol, manage) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return mh, protocol.Addr().String()
}

// New makes a faultless box, before its first start; mh is the address of its authority. The box's key did not come in
// a certificate of MH.
func New(t testing.TB, mh string) *Box {
	t.Helper()
	key, err := sign.Generate(2048)
	b := &Box{t, t.TempDir(), key}
	b.must(err)
	sealed, err := sign.DemoSeal(key, []byte(Passphrase))
	b.must(err)
	public, err := bundle.MarshalPublic(plugintest.Key().Public)
	b.must(err, os.Mkdir(b.At("rules"), 0o700))
	for _, name := range []string{"catalogues", "dte01/v2"} {
		b.Write("rules/"+strings.ReplaceAll(name, "/", "-")+bundle.Extension, plugintest.Bundle(t, name))
	}
	b.Write("dted.toml", fmt.Appendf(nil, text, mh, filepath.Join(plugintest.Root(t), "var", "build", "cache")))
	b.Write("signing.jwe", sealed)
	b.Write("rules.pub", public)
	for name, secret := range map[string]string{"signing.passphrase": Passphrase,
		"authority.password": "secreto-mh.2026", "mail.password": "x", "archive.secret": "x",
		"admin.token": strings.Repeat("a", 64)} {
		b.Write(name, []byte(secret+"\n"))
	}
	secret := hex.EncodeToString(bytes.Repeat([]byte{9}, 32))
	b.must((&config.TokenFile{Secret: secret, Tokens: []config.Token{{ID: 1, Name: "caja", Hash: secret, Point: 1,
		Permissions: []string{"FACTURA_CONSUMIDOR_FINAL"}}}}).Save(b.At("tokens.toml")),
		storage.Create(storage.Options{Dir: b.At("data"), MarkPath: b.At("mark"), Now: time.Now}))
	return b
}

// Config is the path of the configuration.
func (b *Box) Config() string { return b.At("dted.toml") }

// At is the path of a file of the box.
func (b *Box) At(name string) string { return filepath.Join(b.Dir, name) }

// Write writes a file that only its owner may read.
func (b *Box) Write(name string, data []byte) {
	b.t.Helper()
	b.must(os.WriteFile(b.At(name), data, 0o600))
}

// Copy is a box of the same content.
func (b *Box) Copy(t testing.TB) *Box {
	t.Helper()
	c := &Box{t, filepath.Join(t.TempDir(), "box"), b.Key}
	c.must(filepath.WalkDir(b.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(b.Dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(c.At(rel), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(c.At(rel), data, 0o600)
	}))
	return c
}

// Set replaces a piece of the configuration; the piece must occur exactly once.
func (b *Box) Set(old, with string) {
	b.t.Helper()
	data, err := os.ReadFile(b.Config())
	b.must(err)
	if strings.Count(string(data), old) != 1 {
		b.t.Fatalf("the configuration has %q %d times", old, strings.Count(string(data), old))
	}
	b.Write("dted.toml", []byte(strings.Replace(string(data), old, with, 1)))
}

// Remove takes a file or a folder away.
func (b *Box) Remove(name string) {
	b.t.Helper()
	_, err := os.Lstat(b.At(name))
	b.must(err, os.RemoveAll(b.At(name)))
}

func (b *Box) must(errs ...error) {
	b.t.Helper()
	for _, err := range errs {
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// Authority makes a certificate authority of the box's own for the tills' listener, which it encrypts.
func (b *Box) Authority() *certificate.Own {
	b.t.Helper()
	b.Set("[api]\nlisten = \"127.0.0.1:0\"", "[api]\ntls = \"on\"\nlisten = \"127.0.0.1:0\"")
	own := &certificate.Own{Folder: b.At("tls"), Now: time.Now, Write: config.WriteFile}
	b.must(own.Create())
	return own
}
