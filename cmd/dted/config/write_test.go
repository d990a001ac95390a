package config

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"dtegate/cmd/cmdtest/skip"
)

// noSyncs makes the kernel answer every fsync of this thread with EIO (seccomp(2)), as a sick medium does.
func noSyncs() error {
	type instruction struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	const loadNumber, ifEqual, answer = 0x20, 0x15, 0x06
	filter := []instruction{
		{loadNumber, 0, 0, 0},
		{ifEqual, 0, 1, syscall.SYS_FSYNC},
		{answer, 0, 0, 0x00050000 | uint32(syscall.EIO)},
		{answer, 0, 0, 0x7fff0000}, // allowed
	}
	program := struct {
		length uint16
		filter *instruction
	}{uint16(len(filter)), &filter[0]}
	const noNewPrivileges, setSeccomp, modeFilter = 38, 22, 2
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, noNewPrivileges, 1, 0); errno != 0 {
		return errno
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setSeccomp, modeFilter, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	return nil
}

// After a failed sync the file has its old content, no half-written new file is left, and the caller gets the error:
// for tokens, the sealed key, certificates and everything else that this function writes.
func TestWriteFile_FailedSync(t *testing.T) {
	if folder := os.Getenv("DTE_CONFIG_CHILD"); folder != "" {
		runtime.LockOSThread()
		if err := noSyncs(); err != nil {
			skip.Test(t, "seccomp", err)
		}
		if err := WriteFile(filepath.Join(folder, "tokens.toml"), []byte("new")); !errors.Is(err, syscall.EIO) {
			t.Errorf("the failed sync is not reported: %v", err)
		}
		return
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "tokens.toml")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestWriteFile_FailedSync$", "-test.v")
	child.Env = append(os.Environ(), "DTE_CONFIG_CHILD="+folder)
	out, err := child.CombinedOutput()
	if strings.Contains(string(out), "SKIP") {
		skip.Test(t, "seccomp", string(out))
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if err := WriteFile(path, []byte("new")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
