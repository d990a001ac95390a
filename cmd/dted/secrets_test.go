package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dtegate/engine/sign"
)

// secrets are texts that no answer, metric or log of any test of this package may contain.
var secrets = map[string]string{"a till's token": testToken, "the admin token": testAdmin,
	"the passphrase": testPassphrase, "MH's password": "secreto-mh.2026",
	"a private key": "PRIVATE KEY", "the sealed key": "eyJhbGciOiJQQkVTMi",
	"the secret of the tokens": strings.Repeat("09", 32)}

// leaks are the secrets that got out, and where.
var leaks struct {
	sync.Mutex
	found []string
}

func seek(where string, text []byte) {
	for name, secret := range secrets {
		if bytes.Contains(text, []byte(secret)) {
			leaks.Lock()
			leaks.found = append(leaks.found, fmt.Sprintf("%s: %s", where, name))
			leaks.Unlock()
		}
	}
}

// watched looks for secrets in answers.
type watched struct{ http.RoundTripper }

func (w watched) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(req)
	if err == nil {
		where := req.Method + " " + req.URL.Path
		seek(where, fmt.Append(nil, resp.Header))
		resp.Body = &watchedBody{ReadCloser: resp.Body, where: where}
	}
	return resp, err
}

// watchedBody checks each piece together with the end of the previous one.
type watchedBody struct {
	io.ReadCloser
	where string
	tail  []byte
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.tail = append(b.tail, p[:n]...)
	seek(b.where, b.tail)
	b.tail = append(b.tail[:0], b.tail[max(0, len(b.tail)-64):]...)
	return n, err
}

// TestFiles_Umask: the files that init, a start, a backup, books and certify create are private to the account and
// usable by it, whatever umask they inherit.
func TestFiles_Umask(t *testing.T) {
	for _, mask := range []int{0o000, 0o277} {
		t.Run(fmt.Sprintf("%03o", mask), func(t *testing.T) {
			b := newBranch(t)
			given := make(map[string]bool)
			walk := func(visit func(name string, info fs.FileInfo)) {
				err := filepath.WalkDir(b.dir, func(name string, d fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					info, err := d.Info()
					if err == nil {
						visit(name, info)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, made := range []string{"data", "mark", "tokens.toml"} { // init makes them below
				if err := os.RemoveAll(filepath.Join(b.dir, made)); err != nil {
					t.Fatal(err)
				}
			}
			for _, made := range []string{"signing.jwe", "signing.passphrase"} {
				if err := os.Remove(filepath.Join(b.dir, made)); err != nil {
					t.Fatal(err)
				}
			}
			certificate, err := sign.DemoCertificate(b.key, testNIT, "clave", time.Now().Add(-time.Hour),
				time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			b.write("mh.crt", certificate)
			b.write("mh.password", []byte("clave"))
			walk(func(name string, _ fs.FileInfo) { given[name] = true })
			old := syscall.Umask(mask)
			defer syscall.Umask(old)
			do := func(args ...string) {
				if said, ok := b.dtectl(args...); !ok {
					t.Fatalf("dtectl %s: %s", strings.Join(args, " "), said)
				}
			}
			do("init", "--certificate", filepath.Join(b.dir, "mh.crt"), "--certificate-password", filepath.Join(b.dir,
				"mh.password"))
			do("token", "new", "--point-of-sale", "1", "--name", "caja")
			b.start()
			do("backup", filepath.Join(b.dir, "backup"))
			do("books", "--month", "2026-11", "--out", filepath.Join(b.dir, "made", "books"))
			do("certify", "--types", "01", "--plan", "--report", filepath.Join(b.dir, "report.json"))
			b.stop()
			files := 0
			walk(func(name string, info fs.FileInfo) {
				if given[name] {
					return
				}
				files++
				if info.Mode().Perm()&0o077 != 0 || info.Mode().Perm()&0o600 != 0o600 {
					t.Errorf("%s has mode %v", name, info.Mode())
				}
			})
			if files < 20 {
				t.Errorf("only %d files are looked at", files)
			}
		})
	}
}
