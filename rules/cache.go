package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private makes sure that a folder is the user's own and nobody else's: what lies in a compilation cache is executed
// without a further check.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder: %w", dir, fs.ErrInvalid)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the owner of a folder cannot be told here")
	}
	if int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to %d that runs this: %w", dir, owner.Uid, os.Geteuid(), fs.ErrPermission)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (%v): remove it, whatever lies in it: %w", dir, mode, fs.ErrPermission)
	} else if mode != 0o700 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}
