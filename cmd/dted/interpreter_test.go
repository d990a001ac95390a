package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"dtegate/plugins/plugintest"
)

// prctl(2) calls this MDWE: memory that was writable, or not executable, can never become executable. A program that is
// executed inherits it. Linux 6.3.
const (
	prSetMDWE        = 65
	prGetMDWE        = 66
	mdweNoExecGained = 1

	// names the program that this test's own binary becomes once it has denied itself such memory
	deniedProgram = "DTED_TEST_DENIED"
)

func init() {
	if path := os.Getenv(deniedProgram); path != "" {
		if err := prctl(prSetMDWE, mdweNoExecGained); err != nil {
			panic(err)
		}
		panic(syscall.Exec(path, os.Args, os.Environ()))
	}
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// denied makes a program start as systemd does with deploy/interpreter.conf.
func denied(cmd *exec.Cmd) error {
	self, err := os.Executable()
	cmd.Path, cmd.Env = self, append(os.Environ(), deniedProgram+"="+cmd.Path)
	return err
}

// TestInterpreter: a branch whose rules are interpreted issues where executable memory is denied, and computes the same
// bytes as a compiling branch, and vice versa. There the compiler reports that it is the wrong engine.
func TestInterpreter(t *testing.T) {
	t.Parallel()
	conf, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "interpreter.conf"))
	if err != nil {
		t.Fatal(err)
	}
	directives := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(conf)), "\n"),
		func(l string) bool { return strings.HasPrefix(l, "#") })
	if !slices.Equal(directives, []string{"[Service]", "MemoryDenyWriteExecute=yes"}) || !strings.Contains(string(conf),
		`[rules] engine = "interpreter"`) {
		t.Errorf("this test plays another interpreter.conf:\n%s", conf)
	}
	b := newBranch(t, "dte03/v4") // two modules and contingency's: each takes the interpreter a second to start
	sold := 0
	trade := func(engine string) {
		t.Helper()
		b.start()
		t.Cleanup(b.kill)
		if status, said := b.getOps("/status"); status != http.StatusOK || object(t, said)["rules_engine"] != engine {
			t.Errorf("%d %s, want the %s", status, said, engine)
		}
		for path, body := range map[string]string{"/dte/dte01": sale01, "/dte/dte03": sale03} {
			status, answer, err := b.post(path, 1, "", body)
			if err != nil || status != http.StatusCreated || decode(t, answer).Estado != "PROCESSED" {
				t.Errorf("%s: %d %v %s", path, status, err, answer)
			}
			sold++
		}
		if said, ok := b.dtectl("rules", "replay", "--from", "2000-01-01"); !ok ||
			said != map[int]string{2: "2 identical\n", 4: "4 identical\n", 6: "6 identical\n"}[sold] {
			t.Errorf("replayed by the %s: %s", engine, said)
		}
		b.stop()
	}
	trade("compiler")
	b.reconfigure("rules = {", `rules = {engine = "interpreter", `)
	mdwe := prctl(prGetMDWE, 0) == nil
	if mdwe {
		b.under = denied
	} else {
		t.Log("this kernel denies no executable memory (PR_SET_MDWE): interpreted with it allowed")
	}
	trade("interpreter")
	b.reconfigure(`engine = "interpreter"`, `engine = "compiler"`)
	if mdwe {
		b.launch()
		err := b.cmd.Wait()
		if said := b.log.String(); err == nil || !strings.Contains(said, "where executable memory is denied, choose "+
			"the interpreter") {
			t.Errorf("the compiler without executable memory: %v\n%s", err, said)
		}
		b.under = nil
	}
	trade("compiler")
}
