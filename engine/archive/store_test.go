package archive

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	access = "AKIDBRANCH"
	secret = "una-clave-secreta.2026"
	bucket = "documentos"
)

// versitygw is a real S3 server over a folder. Its modules are none of the product's: they are pinned in
// testdata/versitygw.mod and .sum. The first build takes two minutes of processor time, later ones come from the build
// cache.
var versitygw struct {
	once sync.Once
	path string
	err  error
	skip string
}

// unreachable is what the go command says when modules are neither cached nor to be had.
var unreachable = regexp.MustCompile(`dial tcp|lookup disabled by GOPROXY=off|i/o timeout|no such host|connection refused`)

// build gives the path of the server. Where it cannot be built for want of a network or of time, the test is skipped.
func build(t *testing.T) string {
	t.Helper()
	v := &versitygw
	v.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		if end, ok := t.Deadline(); ok {
			ctx, cancel = context.WithDeadline(context.Background(), end.Add(-time.Minute))
		}
		defer cancel()
		c := exec.CommandContext(ctx, "go", "tool", "-modfile=testdata/versitygw.mod", "-n", "versitygw")
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		c.WaitDelay = time.Second
		var complaint strings.Builder
		c.Stderr = &complaint
		out, err := c.Output()
		v.path = strings.TrimSpace(string(out))
		switch {
		case ctx.Err() != nil:
			v.skip = "it is not built within the time of this test; the next run goes on from there"
		case err != nil && unreachable.MatchString(complaint.String()):
			v.skip = "its modules are not to be had: " + complaint.String()
		case err != nil:
			v.err = errors.New(complaint.String())
		}
	})
	if v.skip != "" {
		t.Skip("no S3 server to test against: ", v.skip)
	}
	if v.err != nil {
		t.Fatal(v.err)
	}
	return v.path
}

// store is an S3 server with one bucket; its folder outlives the process.
type store struct {
	folder  string
	socket  string
	limit   string // "ulimit -f" of the process: the size of the largest file, in KiB; empty: none
	process *exec.Cmd
}

// start runs a server until the test ends.
func start(t *testing.T) *store {
	t.Helper()
	s := &store{folder: t.TempDir()}
	s.socket = filepath.Join(s.folder, "s3.sock")
	for _, d := range []string{"data/" + bucket, "side"} {
		if err := os.MkdirAll(filepath.Join(s.folder, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.run(t)
	t.Cleanup(s.kill)
	return s
}

func (s *store) run(t *testing.T) {
	t.Helper()
	_ = os.Remove(s.socket)
	script := `exec "$@"`
	if s.limit != "" {
		script = "ulimit -f " + s.limit + "; " + script
	}
	s.process = exec.Command("bash", "-c", script, "bash", build(t), "--quiet", "--access", access, "--secret", secret, "--port", s.socket,
		"posix", "--sidecar", filepath.Join(s.folder, "side"), filepath.Join(s.folder, "data"))
	var said strings.Builder
	s.process.Stdout, s.process.Stderr = &said, &said
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if c, err := s.dial(t.Context(), "", ""); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond) // another process: there is nothing to wait on
	}
	s.kill()
	t.Fatalf("the S3 server does not listen: %s", said.String())
}

// kill ends the process as a power cut would.
func (s *store) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

func (s *store) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", s.socket)
}

// archive opens the store's bucket; change may set it up otherwise before.
func (s *store) archive(t *testing.T, change func(*Options)) *Archive {
	t.Helper()
	o := Options{Endpoint: "http://s3.example", Bucket: bucket, AccessKey: access, Secret: secret, PathStyle: true,
		Transport: transport(t, s.dial)}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// transport is one whose connections are closed with the test.
func transport(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	tr := &http.Transport{DialContext: dial}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// held is what rests under a key; nil when nothing does.
func (s *store) held(t *testing.T, key string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.folder, "data", bucket, key))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}
