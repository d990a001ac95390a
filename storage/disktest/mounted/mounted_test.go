package mounted

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/storage/disktest"
)

// mount shows a new disk, or skips where this machine does not allow it.
func mount(t *testing.T, rules disktest.Rules) (*disktest.Disk, string) {
	t.Helper()
	disk, at := disktest.New(rules), t.TempDir()
	unmount, err := Mount(disk, at)
	if err != nil {
		skip.Test(t, "mount", err)
	}
	t.Cleanup(func() {
		if err := unmount(); err != nil {
			t.Error(err)
		}
	})
	return disk, at
}

// TestMount: what a program does to files through the kernel is on the disk, and a power cut leaves what was synced.
func TestMount(t *testing.T) {
	disk, at := mount(t, disktest.Strict)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	name := func(s string) string { return filepath.Join(at, s) }
	check(os.MkdirAll(name("a/b"), 0o700))
	f, err := os.OpenFile(name("a/b/new"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	check(err)
	_, err = f.WriteString("hello world")
	check(err)
	check(f.Truncate(5))
	_, err = f.Seek(0, io.SeekEnd)
	check(err)
	_, err = f.WriteString(" you")
	check(err)
	check(f.Sync())
	check(os.Rename(name("a/b/new"), name("a/b/file")))
	check(os.Link(name("a/b/file"), name("a/other")))
	for _, folder := range []string{"", "a", "a/b"} {
		d, err := os.Open(name(folder))
		check(err)
		check(d.Sync())
		check(d.Close())
	}
	_, err = f.WriteString(", unsynced")
	check(err)
	check(os.WriteFile(name("a/lost"), []byte("x"), 0o600))
	check(os.Remove(name("a/other")))
	if b, err := os.ReadFile(name("a/b/file")); err != nil || string(b) != "hello you, unsynced" {
		t.Errorf("%q, %v", b, err)
	}
	if err := os.Remove(name("a")); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Error(err)
	}
	if _, err := os.Stat(name("a/other")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	check(os.Remove(name("a/b/file")))
	if info, err := f.Stat(); err != nil || info.Size() != 19 {
		t.Errorf("an open file without a name: %v, %v", info, err)
	}
	check(f.Close())
	for percent, want := range map[int]string{0: "a/b/file a/other", 100: "a/lost"} {
		after := disk.Crash(percent, rand.New(rand.NewPCG(1, 1)))
		if got := strings.Join(after.Files(), " "); got != want {
			t.Errorf("with %d %% of what is not synced: %s", percent, got)
		}
	}
	left, err := disk.Crash(0, nil).Open("a/b/file")
	check(err)
	if b, err := io.ReadAll(left); err != nil || string(b) != "hello you" {
		t.Errorf("%q, %v", b, err)
	}
	disk.Kill()
	if err := os.WriteFile(name("a/more"), nil, 0o600); !errors.Is(err, syscall.EIO) {
		t.Errorf("a dead disk: %v", err)
	}
}

// TestMount_Like: a disk does the same through the kernel as by itself.
func TestMount_Like(t *testing.T) {
	disk, at := mount(t, disktest.Strict)
	r := rand.New(rand.NewPCG(7, 7))
	own := disktest.New(disktest.Strict)
	names := []string{"a", "b", "c", "d/a", "d/b"}
	pick := func() string { return names[r.IntN(len(names))] }
	for range 2000 {
		one, other, op, long := pick(), pick(), r.IntN(6), r.IntN(9000)
		var errs []error
		for _, w := range []struct {
			fs   vfs.FS
			root string
		}{{vfs.Default, at + "/"}, {own, ""}} {
			errs = append(errs, act(w.fs, w.root+one, w.root+other, w.root+"d", op, long))
		}
		if (errs[0] == nil) != (errs[1] == nil) {
			t.Fatalf("operation %d on %s and %s: %v by the kernel, %v by itself", op, one, other, errs[0], errs[1])
		}
	}
	for seed := range uint64(20) {
		a, b := disk.Crash(50, rand.New(rand.NewPCG(seed, 1))), own.Crash(50, rand.New(rand.NewPCG(seed, 1)))
		if !slices.Equal(a.Files(), b.Files()) {
			t.Errorf("a cut leaves %v by the kernel, %v by itself", a.Files(), b.Files())
		}
		for _, name := range a.Files() {
			if read(t, a, name) != read(t, b, name) {
				t.Errorf("%s is another", name)
			}
		}
	}
}

func act(fs vfs.FS, one, other, folder string, op, long int) error {
	switch op {
	case 0:
		return fs.MkdirAll(folder, 0o700)
	case 1:
		f, err := fs.Create(one, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.Write([]byte(strings.Repeat("x", long)))
		return errors.Join(err, f.Close())
	case 2:
		f, err := fs.OpenReadWrite(one, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("again"), int64(long))
		if long%2 == 0 {
			err = errors.Join(err, f.Sync())
		}
		return errors.Join(err, f.Close())
	case 3:
		if one == other {
			return nil
		}
		return fs.Rename(one, other)
	case 4:
		d, err := fs.OpenDir(folder)
		if err != nil {
			return err
		}
		return errors.Join(d.Sync(), d.Close())
	default:
		return fs.Remove(one)
	}
}

func read(t *testing.T, d *disktest.Disk, name string) string {
	f, err := d.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
