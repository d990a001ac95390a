package cmdtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Programs builds the named programs of the module in the folder root, without cgo, as they are packaged, and copies
// them into dir.
//
// Linking a program takes seconds. Therefore each program is linked once, into var/build/bin: the toolchain does not
// link a program again that is up to date. Builds of different processes take turns.
func Programs(root, dir string, names ...string) error {
	root, err := filepath.Abs(root) // the build runs in it
	if err != nil {
		return err
	}
	shared := filepath.Join(root, "var", "build", "bin")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(root, "var", "build", "bin.lock"))
	if err != nil {
		return err
	}
	defer lock.Close() // and with it the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	args := []string{"build", "-o", shared + "/"}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	build := exec.Command("go", args...)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %v: %w\n%s", names, err, out)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		// A process of its own copies: while this one writes a program, one that it forks elsewhere would hold the file
		// open for writing.
		if out, err := exec.Command("cp", filepath.Join(shared, name), dir).CombinedOutput(); err != nil {
			return fmt.Errorf("copying %s: %w\n%s", name, err, out)
		}
	}
	return nil
}
