package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"dtegate/cmd/cmdtest/skip"
)

// TestSealed: the memory of the running program belongs to root, whatever account runs it: no other process of that
// account can read it or attach. The program waits for a configuration that nobody writes.
func TestSealed(t *testing.T) {
	t.Parallel()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sealed") // a folder of t.TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	at, settings := filepath.Join(dir, "dted"), filepath.Join(dir, "dted.toml")
	if err := os.Link(program, at); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{syscall.Mkfifo(settings, 0o666), os.Chmod(settings, 0o666), os.Chmod(dir, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(at, "-config", settings)
	account := os.Getuid()
	if account == 0 { // root's memory needs no test
		account = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(account),
			Gid: uint32(account)}}
	}
	if err := cmd.Start(); err != nil {
		skip.Test(t, "root", err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	soon(t, "the memory is root's", func() bool {
		info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid))
		return err == nil && info.Sys().(*syscall.Stat_t).Uid == 0
	})
	status, err := os.Stat(fmt.Sprintf("/proc/%d", cmd.Process.Pid)) // of the process, not of its memory
	if err != nil || int(status.Sys().(*syscall.Stat_t).Uid) != account {
		skip.Test(t, "proc", err)
	}
}
