package disktest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func write(t *testing.T, d *Disk, path, text string) vfs.File {
	t.Helper()
	f, err := d.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(d *Disk, path string) string {
	f, err := d.Open(path)
	if err != nil {
		return "none"
	}
	b, _ := io.ReadAll(f)
	return strings.TrimRight(string(b), "\x00")
}

func syncFolder(t *testing.T, d *Disk, path string) {
	t.Helper()
	f, err := d.OpenDir(path)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// states makes a folder with one synced file, alters the folder, and counts which of its names power cuts leave.
func states(t *testing.T, rules Rules, alter func(d *Disk)) map[string]bool {
	t.Helper()
	d := New(rules)
	if err := d.MkdirAll("f", 0o700); err != nil {
		t.Fatal(err)
	}
	syncFolder(t, d, "")
	if err := write(t, d, "f/old", "old").Sync(); err != nil {
		t.Fatal(err)
	}
	syncFolder(t, d, "f")
	alter(d)
	seen := make(map[string]bool)
	for seed := range uint64(200) {
		after := d.Crash(50, rand.New(rand.NewPCG(seed, 1)))
		names, err := after.List("f")
		if err != nil {
			t.Fatal(err)
		}
		seen[strings.Join(names, " ")] = true
		if again := strings.Join(after.Crash(0, nil).Files(), " "); again != strings.Join(after.Files(), " ") {
			t.Fatalf("what a cut left is not durable: %s", again)
		}
	}
	return seen
}

func TestDisk_Folders(t *testing.T) {
	replace := func(d *Disk) { // as Pebble moves its marker
		_ = write(t, d, "f/new", "new").Sync()
		_ = d.Remove("f/old")
	}
	rename := func(d *Disk) { _ = d.Rename("f/old", "f/new") }
	remove := func(d *Disk) {
		_ = d.Remove("f/old")
		_ = write(t, d, "f/other", "other")
	}
	for _, tt := range []struct {
		name  string
		rules Rules
		alter func(*Disk)
		want  string // names in the folder; "-": none
	}{
		{"a synced file takes its entry along", Ordered, replace, "new|old new"},
		{"changes in their order", Ordered, remove, "old|-|other"},
		{"no removal survives", CreationOnly, replace, "old|new old"},
		{"no removal survives a rename", CreationOnly, rename, "old|new old"},
		{"each for itself", Strict, replace, "old|new old|new|-"},
		{"a rename is one change", Strict, rename, "old|new"},
		{"a rename is one change in order", Ordered, rename, "old|new"},
	} {
		t.Run(tt.rules.String()+": "+tt.name, func(t *testing.T) {
			want := make(map[string]bool)
			for _, names := range strings.Split(strings.ReplaceAll(tt.want, "old new", "new old"), "|") {
				want[strings.ReplaceAll(names, "-", "")] = true
			}
			seen := states(t, tt.rules, tt.alter)
			if len(seen) != len(want) {
				t.Errorf("saw %v, want %v", seen, want)
			}
			for names := range seen {
				if !want[names] {
					t.Errorf("saw %q", names)
				}
			}
		})
	}
}

// A failed sync leaves clean pages: everything seems well, and is not on the medium.
func TestDisk_FailedSyncLies(t *testing.T) {
	for _, rules := range AllRules {
		d := New(rules)
		f := write(t, d, "log", "first")
		syncFolder(t, d, "")
		failed := d.FailSyncs(1, syscall.EIO, func(path string) bool { return path == "log" })
		if err := f.Sync(); !errors.Is(err, syscall.EIO) || failed() != 1 {
			t.Fatalf("the sync does not fail: %v", err)
		}
		_, err := f.WriteAt(bytes.Repeat([]byte("x"), 10), 2*page)
		if err = errors.Join(err, f.Sync()); err != nil {
			t.Fatal(err)
		}
		if got := read(d, "log"); !strings.HasPrefix(got, "first") {
			t.Errorf("%v: what is in memory is read as %.10q", rules, got)
		}
		after := d.Crash(100, nil)
		if got := strings.ReplaceAll(read(after, "log"), "\x00", ""); got != "xxxxxxxxxx" {
			t.Errorf("%v: the cut leaves %q", rules, got)
		}
		d.Evict()
		if got := strings.ReplaceAll(read(d, "log"), "\x00", ""); got != "xxxxxxxxxx" {
			t.Errorf("%v: the medium holds %q", rules, got)
		}
		write(t, d, "log", "again") // dirty again
		if err := f.Sync(); err != nil || !strings.HasPrefix(read(d.Crash(0, nil), "log"), "again") {
			t.Errorf("%v: a page that was written again is not synced: %v", rules, err)
		}
	}
}

func TestDisk_Flip(t *testing.T) {
	d := New(Strict)
	if err := write(t, d, "log", "a").Sync(); err != nil {
		t.Fatal(err)
	}
	syncFolder(t, d, "")
	if err := d.Flip("log", 1); err != nil || read(d, "log") != "c" || read(d.Crash(0, nil), "log") != "c" {
		t.Errorf("%q, %v", read(d, "log"), err)
	}
	if err := d.Flip("log", 8); err == nil {
		t.Error("a bit behind the end")
	}
}
