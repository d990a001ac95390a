// Package archivetest runs real S3 servers for tests: versitygw, over a folder, and gofakes3, in memory. A test of both
// does not mistake the quirks of one server for S3.
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

// The credentials that the server accepts, and its bucket.
const (
	Access = "AKIDBRANCH"
	Secret = "una-clave-secreta.2026"
	Bucket = "documentos"
)

// unreachable are the go command's messages when modules are neither cached nor available.
var unreachable = regexp.MustCompile(
	`dial tcp|lookup disabled by GOPROXY=off|i/o timeout|no such host|connection refused`)

// program is a server's program, made once per test process. Its modules are not the product's: they are pinned in a
// .mod and a .sum with its name beside this file. The first build of versitygw takes two minutes of processor time,
// later builds come from the build cache.
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

// run returns a program's output, or its error output as the error.
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

// Program returns the path of versitygw, for callers that run it themselves.
func Program(t testing.TB) string { return versitygw.build(t, "versitygw") }

// Store is a server with one bucket; its folder outlives the process.
type Store struct {
	// Limit is "ulimit -f" of the process: the size of the largest file, in KiB; empty: no limit.
	Limit string

	// Accounts: the server knows further accounts, see AddAccount.
	Accounts bool

	folder  string
	socket  string
	process *exec.Cmd
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Store { return (&Store{}).start(t) }

// StartWithAccounts runs a server to which accounts can be added.
func StartWithAccounts(t testing.TB) *Store { return (&Store{Accounts: true}).start(t) }

// AddAccount makes an account that owns nothing: a bucket's policy defines what it may do.
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
		time.Sleep(10 * time.Millisecond) // another process: there is no event to wait for
	}
	s.Kill()
	t.Fatalf("the S3 server does not listen: %s", said.String())
}

// Kill ends the process as a power cut would.
func (s *Store) Kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// Dial connects to the server, whatever address it is given.
func (s *Store) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", s.socket)
}

// Endpoint returns an address of this machine that leads to the server until the test ends.
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

// Path returns the file that holds an object.
func (s *Store) Path(key string) string { return filepath.Join(s.folder, "data", Bucket, key) }

// Held returns the object under a key; nil if there is none.
func (s *Store) Held(t testing.TB, key string) []byte {
	t.Helper()
	data, err := os.ReadFile(s.Path(key))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}
