package demo

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/dted/config"
	"dtegate/engine/sign"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestGolden: what the demonstrations write for people and for programs: each box's configuration, the centre's, the
// files of a box, and the greetings.
func TestGolden(t *testing.T) {
	for _, name := range []string{chainAddresses, "DTESIM_ADDR", "DTESIM_MANAGE_ADDR", "DTESIM_SMTP_ADDR", "DTED_API_ADDR",
		"DTED_OPS_ADDR"} {
		t.Setenv(name, "")
	}
	dir := filepath.Join(t.TempDir(), "demo")
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range Branches {
		must(os.MkdirAll(filepath.Join(dir, name, "rules"), 0o700))
	}
	must(os.WriteFile(filepath.Join(dir, "fleet.toml"), nil, 0o600))
	said := cmdtest.Capture(t, func() {
		d, err := newChain(t.Context(), dir)
		must(err, d.greet())
	})
	// The box of the second branch, two days ahead.
	key, err := sign.Generate(2048)
	must(err)
	crt, err := sign.DemoCertificate(key, demoNIT, "clave", time.Now(), time.Now().AddDate(1, 0, 0))
	norte := filepath.Join(dir, "norte")
	must(err, os.WriteFile(filepath.Join(norte, "certificate.crt"), crt, 0o600), os.WriteFile(filepath.Join(norte,
		"certificate.password"), []byte("clave\n"), 0o600))
	box := newDemo(norte, 2, "127.0.0.1:1", "127.0.0.1:2")
	must(box.makeBox(norte))
	var shop bytes.Buffer
	box.greet(&shop)
	box.ahead = 48 * time.Hour
	day := time.Now().Add(box.ahead).In(time.FixedZone("", -6*3600)).Format(time.DateOnly)
	box.greet(&shop)
	said += shop.String()
	must(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil || strings.HasPrefix(name, "norte/data/") {
			return err
		}
		info, err := d.Info()
		said += fmt.Sprintf("%s %v\n", name, info.Mode())
		if filepath.Ext(path) == ".toml" && filepath.Base(path) != "tokens.toml" {
			text, err := os.ReadFile(path)
			must(err)
			said += string(text)
		}
		return err
	}))
	tokens, err := config.LoadTokens(filepath.Join(norte, "tokens.toml"))
	must(err)
	for _, k := range tokens.Tokens {
		said += fmt.Sprintf("%d %s %d %s\n", k.ID, k.Name, k.Point, strings.Join(k.Permissions, " "))
	}
	here, err := filepath.Abs(".")
	must(err)
	said = strings.NewReplacer(dir, "DIR", here, "HERE", day, "TODAY+2").Replace(said)
	cmdtest.Golden(t, "demo.txt", said, *update)
}

// TestNewChain_Refused: a folder that is something else is not touched, and the addresses must be complete.
func TestNewChain_Refused(t *testing.T) {
	dir := t.TempDir()
	if _, err := newChain(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "not a chain's demonstration") {
		t.Error(err)
	}
	if _, err := New(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), "is not a demo") {
		t.Error(err)
	}
	t.Setenv(chainAddresses, "127.0.0.1:1,127.0.0.1:2")
	if _, err := newChain(t.Context(), dir); err == nil || !strings.Contains(err.Error(), chainAddresses) {
		t.Error(err)
	}
	if err := (&Command{Chain: true, Dir: dir}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--store") {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
}

// TestMakeFolder: a folder appears complete or not at all, and what an earlier attempt left is removed.
func TestMakeFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	wrong := errors.New("wrong")
	for _, result := range []error{wrong, nil} {
		err := makeFolder(dir, func(aside string) error {
			if _, err := os.Stat(filepath.Join(aside, "old")); err == nil {
				t.Error("an earlier attempt is mixed in")
			}
			return errors.Join(os.MkdirAll(aside, 0o700), os.WriteFile(filepath.Join(aside, "old"), nil, 0o600), result)
		})
		_, there := os.Stat(filepath.Join(dir, "old"))
		if !errors.Is(err, result) || (there == nil) != (result == nil) {
			t.Errorf("%v, %v", err, there)
		}
	}
}

// TestSupervise: a process that ends is started again, after ever longer pauses; while it is told to stop, it is not.
// When the demonstration ends, the process ends, and its pid file goes.
func TestSupervise(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "box.pid")
	begun := func(within time.Duration, script string) int {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		starts, began := 0, time.Now()
		cmdtest.Capture(t, func() {
			if err := supervise(ctx, pid, func() *exec.Cmd {
				starts++
				return exec.Command("sh", "-c", script)
			}); err != nil {
				t.Error(err)
			}
		})
		if _, err := os.Stat(pid); err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("%s: the pid file is left, %v; it took %v", script, err, time.Since(began))
		}
		return starts
	}
	if n := begun(time.Second, "test -s "+pid); n < 2 || n > 4 {
		t.Errorf("it was started %d times", n)
	}
	if n := begun(300*time.Millisecond, "exec sleep 60"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	if err := os.WriteFile(strings.TrimSuffix(pid, "pid")+"stop", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := begun(100*time.Millisecond, "true"); n != 0 {
		t.Errorf("it was started %d times", n)
	}
	if ended(context.Canceled) != nil || ended(os.ErrExist) == nil {
		t.Error("an operator's end is an error, or an error is none")
	}
}
