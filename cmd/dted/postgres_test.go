package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/plugins/plugintest"
)

// postgres is a peer's server, with the tables of deploy/bench/peers, on the same file system as the appliance's store.
// It syncs its commits, as PostgreSQL does by default.
type postgres struct {
	dir, bin string
	pid      int
}

// newPostgres makes and starts a server that ends with the test. It skips if PostgreSQL is missing.
func newPostgres(t *testing.T) *postgres {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		skip.Test(t, "postgresql", "nothing to measure beside (apt-get install postgresql)")
	}
	slices.Sort(found)
	dir, err := os.MkdirTemp("", "dted-peer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &postgres{dir: dir, bin: filepath.Dir(found[len(found)-1])}
	as, err := p.owner()
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	initdb := p.command("initdb", "-D", data, "-U", "peer", "-A", "trust", "-E", "UTF8", "--no-locale")
	initdb.SysProcAttr = as
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := p.command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "shared_buffers=256MB",
		"-c", "default_toast_compression=lz4")
	server.SysProcAttr = as
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = server.Process.Pid
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // its folder goes too
		_ = server.Wait()
	})
	awaited(t, "PostgreSQL", func() error { return p.command("pg_isready", "-q", "-h", dir).Run() })
	tables, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "bench", "peers", "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	p.query(t, string(tables))
	return p
}

// owner gives the folder to the user of Debian's package if this process is root's: PostgreSQL does not run as root.
func (p *postgres) owner() (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, os.Chown(p.dir,
		uid, gid)
}

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	return cmd
}

func (p *postgres) query(t *testing.T, text string) string {
	t.Helper()
	out, err := p.command("psql", "-h", p.dir, "-U", "peer", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c",
		text).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// audit: every document is numbered, sealed and stored.
func (p *postgres) audit(t *testing.T, c *contender) {
	t.Helper()
	got := p.query(t, "SELECT (SELECT count(sello) FROM document), (SELECT sum(last) FROM series), (SELECT "+
		"count(DISTINCT number) FROM document)")
	if want := fmt.Sprintf("%[1]d|%[1]d|%[1]d", c.sold); got != want {
		t.Errorf("%s has %s sealed, numbered and distinct, want %s", c.name, got, want)
	}
}
