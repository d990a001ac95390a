// Package archivetest runs real S3 servers for tests: versitygw, over a folder, and gofakes3, in memory, so that the
// quirks of one make do not pass for S3.
package archivetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
)

// What the server lets in, and the bucket that it has.
const (
	Access = "AKIDBRANCH"
	Secret = "una-clave-secreta.2026"
	Bucket = "documentos"
)

// unreachable is what the go command says when modules are neither cached nor to be had.
var unreachable = regexp.MustCompile(
	`dial tcp|lookup disabled by GOPROXY=off|i/o timeout|no such host|connection refused`)

// program is a server's program, made once per test process. Its modules are none of the product's: they are pinned in
// a .mod and a .sum of its name beside this file. The first build of versitygw takes two minutes of processor time,
// later ones come from the build cache.
type program struct {
	once sync.Once
	path string
	err  error
	skip string
}

var versitygw, gofakes3 program

// build returns the path of a server. If there is no network or no time to build the server, it skips the test.
func (built *program) build(t testing.TB, name string) string {
	t.Helper()
	built.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
			if end, ok := d.Deadline(); ok {
				ctx, cancel = context.WithDeadline(context.Background(), end.Add(-time.Minute))
			}
		}
		defer cancel()
		out, err := run(ctx, "", "go", "list", "-f", "{{.Dir}}", "dtegate/engine/archive/archivetest")
		if err == nil {
			out, err = run(ctx, out, "go", "tool", "-modfile="+name+".mod", "-n", name)
		}
		built.path = out
		switch {
		case ctx.Err() != nil:
			built.skip = "it is not built within the time of this test; the next run goes on from there"
		case err != nil && unreachable.MatchString(err.Error()):
			built.skip = "its modules are not to be had: " + err.Error()
		default:
			built.err = err
		}
	})
	if built.skip != "" {
		skip.Test(t, name, built.skip)
	}
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// run gives what a program prints, or its complaint as the error.
func run(ctx context.Context, folder string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env, c.WaitDelay = folder, append(os.Environ(), "CGO_ENABLED=0"), time.Second
	var complaint strings.Builder
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Program is the path of versitygw, for who runs it himself.
func Program(t testing.TB) string { return versitygw.build(t, "versitygw") }

// Store is a server with one bucket; its folder outlives the process.
type Store struct {
	// Limit is "ulimit -f" of the process: the size of the largest file, in KiB; empty: none.
	Limit string

	// Accounts: the server knows others beside Access, see AddAccount.
	Accounts bool

	folder  string
	socket  string
	process *exec.Cmd
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Store { return (&Store{}).start(t) }

// StartWithAccounts runs a server that can be given accounts.
func StartWithAccounts(t testing.TB) *Store { return (&Store{Accounts: true}).start(t) }

// AddAccount makes an account that owns nothing: a bucket's policy says what it may do.
func (s *Store) AddAccount(t testing.TB, access, secret string) {
	t.Helper()
	if _, err := run(t.Context(), "", Program(t), "admin", "--access", Access, "--secret", Secret, "--endpoint-url",
		s.Endpoint(t), "create-user", "--access", access, "--secret", secret, "--role", "user"); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) start(t testing.TB) *Store {
	t.Helper()
	s.folder = t.TempDir()
	s.socket = filepath.Join(s.folder, "s3.sock")
	for _, d := range []string{"data/" + Bucket, "side", "accounts"} {
		if err := os.MkdirAll(filepath.Join(s.folder, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.Run(t)
	t.Cleanup(s.Kill)
	return s
}

// Run starts the process, also after Kill.
func (s *Store) Run(t testing.TB) {
	t.Helper()
	_ = os.Remove(s.socket)
	script := `exec "$@"`
	if s.Limit != "" {
		script = "ulimit -f " + s.Limit + "; " + script
	}
	args := []string{"-c", script, "bash", Program(t), "--quiet", "--access", Access, "--secret", Secret, "--port",
		s.socket}
	if s.Accounts {
		args = append(args, "--iam-dir", filepath.Join(s.folder, "accounts"))
	}
	s.process = exec.Command("bash", append(args, "posix", "--sidecar", filepath.Join(s.folder, "side"),
		filepath.Join(s.folder, "data"))...)
	var said strings.Builder
	s.process.Stdout, s.process.Stderr = &said, &said
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if c, err := s.Dial(context.Background(), "", ""); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond) // another process: there is nothing to wait on
	}
	s.Kill()
	t.Fatalf("the S3 server does not listen: %s", said.String())
}

// Kill ends the process as a power cut would.
func (s *Store) Kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// Dial connects to the server, whatever the address.
func (s *Store) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", s.socket)
}

// Endpoint is an address of this machine that leads to the server until the test ends.
func (s *Store) Endpoint(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			go s.carry(near)
		}
	}()
	return "http://" + ln.Addr().String()
}

func (s *Store) carry(near net.Conn) {
	defer near.Close()
	far, err := s.Dial(context.Background(), "", "")
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far) // either end may hang up
}

// Path is the file that an object rests in.
func (s *Store) Path(key string) string { return filepath.Join(s.folder, "data", Bucket, key) }

// Held is what rests under a key; nil when nothing does.
func (s *Store) Held(t testing.TB, key string) []byte {
	t.Helper()
	data, err := os.ReadFile(s.Path(key))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}
