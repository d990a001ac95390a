package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"dtegate/cmd/cmdtest/boxtest"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dted/config"
	"dtegate/engine/sign"
)

// boxAccount owns the branch's data in these tests; no user of this machine has this number.
const boxAccount = 54321

// typedByRoot runs dtectl as root does, in a process of its own: in a folder that the branch's account cannot enter, from
// which the configuration has a relative path.
func typedByRoot(t *testing.T, b *boxtest.Box, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAccount$")
	cmd.Dir = t.TempDir()
	path, err := filepath.Rel(cmd.Dir, b.Config())
	if err = errors.Join(err, os.Chmod(cmd.Dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "DTECTL_TYPED="+strings.Join(append([]string{"-c", path}, args...), "\n"),
		"SUDO_USER=eva")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Root's dtectl works as the account that owns the data: it leaves no file of root's that dted could not write. It
// knows the operator's name, and reads files that only root may read.
func TestAccount(t *testing.T) {
	if typed := os.Getenv("DTECTL_TYPED"); typed != "" {
		os.Args = append([]string{"dtectl"}, strings.Split(typed, "\n")...)
		main()
		os.Exit(0)
	}
	if os.Getuid() != 0 {
		skip.Test(t, "root", "becomes another account")
	}
	b := boxtest.New(t, "127.0.0.1:1")
	secret := t.TempDir() // of root alone
	key, err := sign.Generate(2048)
	if err != nil {
		t.Fatal(err)
	}
	crt, err := sign.DemoCertificate(key, boxtest.NIT, "clave privada", time.Now().Add(-time.Hour),
		time.Now().AddDate(1, 0, 0))
	for name, data := range map[string][]byte{"mh.crt": crt, "mh.password": []byte("clave privada")} {
		if err == nil {
			err = os.WriteFile(filepath.Join(secret, name), data, 0o600)
		}
	}
	for _, name := range []string{"data", "mark", "signing.jwe", "admin.token"} {
		if err == nil {
			err = os.RemoveAll(b.At(name))
		}
	}
	if err == nil {
		err = os.Chmod(filepath.Dir(b.Dir), 0o711) // testing makes this folder for root alone
	}
	owned := func(check func(path string, uid uint32) error) {
		t.Helper()
		if err := filepath.WalkDir(b.Dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			return check(path, info.Sys().(*syscall.Stat_t).Uid)
		}); err != nil {
			t.Error(err)
		}
	}
	owned(func(path string, _ uint32) error { return os.Lchown(path, boxAccount, boxAccount) })
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{
		{"init", "--certificate", filepath.Join(secret, "mh.crt"), "--certificate-password", filepath.Join(secret,
			"mh.password")},
		{"token", "new", "--point-of-sale", "1", "--name", "caja-1"}, {"token", "admin"}, {"fsck"},
		{"backup", b.At("backup")},
	} {
		if out, err := typedByRoot(t, b, line...); err != nil {
			t.Errorf("dtectl %s: %v\n%s", strings.Join(line, " "), err, out)
		}
	}
	owned(func(path string, uid uint32) error {
		if uid != boxAccount {
			t.Errorf("%s belongs to %d", path, uid)
		}
		return nil
	})
	tokens, err := config.LoadTokens(b.At("tokens.toml"))
	if err != nil || !strings.HasPrefix(tokens.Tokens[len(tokens.Tokens)-1].MadeBy, "eva@") {
		t.Errorf("the token was made by %+v, %v", tokens, err)
	}
	// Doctor finds files that root can read and the account cannot.
	if err := os.Chown(b.At("admin.token"), 0, 0); err != nil {
		t.Fatal(err)
	}
	out, _ := typedByRoot(t, b, "doctor", "--json")
	var list []struct{ Check, What string }
	if err := json.Unmarshal([]byte(out[:strings.LastIndex(out, "]")+1]), &list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !slices.ContainsFunc(list, func(f struct{ Check, What string }) bool {
		return f.Check == "admin token" && strings.Contains(f.What, "permission denied")
	}) {
		t.Errorf("doctor says\n%s", out)
	}
	if out, err := typedByRoot(t, b, "backup", filepath.Join(secret, "backup")); err == nil ||
		!strings.Contains(out, "dtectl works as 54321") {
		t.Errorf("a folder of root's alone: %v\n%s", err, out)
	}
}

// Every verb becomes the account, except those listed here: they touch no box.
func TestAccount_EveryVerb(t *testing.T) {
	var c cli
	k := parser(context.Background(), &c)
	var all []string
	var walk func(n *kong.Node, words []string)
	walk = func(n *kong.Node, words []string) {
		if n.Leaf() {
			all = append(all, strings.Join(words, " "))
		}
		for _, child := range n.Children {
			walk(child, append(slices.Clone(words), child.Name))
		}
	}
	walk(k.Model.Node, nil)
	if len(all) < 40 {
		t.Errorf("only %d verbs: %v", len(all), all)
	}
	for _, name := range authoring {
		if !slices.Contains(all, name) {
			t.Errorf("there is no verb %q", name)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	command, err := k.Parse([]string{"rules", "push", file, file, "--token-file", file})
	if err != nil {
		t.Fatal(err)
	}
	if got := verb(command); got != "rules push" {
		t.Errorf("the verb is %q", got)
	}
	if got := named(command); !slices.Equal(got, []string{file, file, file}) {
		t.Errorf("it names %v", got)
	}
}
