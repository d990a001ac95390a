package rules

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
)

// cacheStart starts a host over a cache folder, and computes 7 with a module that the cache may have. It returns the
// counts and the log of the cache.
func cacheStart(t *testing.T, dir string) (damaged, unusable int, logged string) {
	t.Helper()
	var text bytes.Buffer
	h := host(t, Options{CacheDir: dir, Logger: slog.New(slog.NewTextHandler(&text, nil))})
	m, err := h.Load(context.Background(), constant(7).Bytes())
	if err != nil {
		t.Fatalf("the start ends: %v", err)
	}
	var out abi.Output
	if err := m.Evaluate(context.Background(), oneLine(), &out); err != nil || out.Summary[0] != 7 {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := m.Close(context.Background()); err != nil {
		t.Error(err)
	}
	values := metrictest.Values(t, h)
	return int(values["dte_rule_cache_failures_total/damaged"]), int(values["dte_rule_cache_failures_total/unusable"]),
		text.String()
}

// files are the files of the one module in a cache folder.
func files(t *testing.T, dir string) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*/*", "*/*/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) != 2 {
		t.Fatalf("it keeps %v, want the code and its seal", paths)
	}
	return paths
}

// TestCache_Damaged: whatever happens to the files of the cache, the start goes on with the same results, says so, and
// the next start finds a whole cache again.
func TestCache_Damaged(t *testing.T) {
	dir := t.TempDir()
	whole := func(when string) {
		t.Helper()
		if damaged, unusable, logged := cacheStart(t, dir); damaged+unusable > 0 {
			t.Fatalf("%s: %d damaged, %d unusable\n%s", when, damaged, unusable, logged)
		}
	}
	whole("the first start")
	whole("the second start")
	damage := func(name string, do func(path string) error, path string) {
		t.Helper()
		if err := do(path); err != nil {
			t.Fatal(err)
		}
		if damaged, unusable, logged := cacheStart(t, dir); damaged != 1 || unusable != 0 || !strings.Contains(logged,
			"compiled again") {
			t.Errorf("%s of %s: %d damaged, %d unusable\n%s", name, path, damaged, unusable, logged)
		}
		whole("after " + name)
	}
	for i := range 2 {
		size := 0
		if info, err := os.Stat(files(t, dir)[i]); err == nil {
			size = int(info.Size())
		}
		step := max(1, size/14)
		for at := 0; at < size; at += step {
			damage("a turned bit", func(path string) error {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				b[at] ^= 1 << (at % 8)
				return os.WriteFile(path, b, 0o600)
			}, files(t, dir)[i])
		}
		for _, left := range []int64{0, 1, int64(size) / 2, int64(size) - 1} {
			damage("a truncation", func(path string) error { return os.Truncate(path, left) }, files(t, dir)[i])
		}
		for name, do := range map[string]func(string) error{
			"the loss": os.Remove,
			"a folder in place": func(path string) error {
				if err := os.Remove(path); err != nil {
					return err
				}
				return os.MkdirAll(filepath.Join(path, "x"), 0o700)
			},
			"a file too many": func(path string) error { return os.WriteFile(path+".tmp", []byte("x"), 0o600) },
		} {
			damage(name, do, files(t, dir)[i])
		}
	}
	damage("a file in place of the folder", func(path string) error {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return os.WriteFile(path, []byte("x"), 0o600)
	}, filepath.Dir(files(t, dir)[0]))
}

// TestCache_Sealed: a file that the engine does not open is thrown away too, even if its seal is right.
func TestCache_Sealed(t *testing.T) {
	dir := t.TempDir()
	cacheStart(t, dir)
	for range 2 {
		for _, path := range files(t, dir) {
			if filepath.Base(path) == sealName {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Dir(filepath.Dir(path))
			sum, err := sumOf(folder, true)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, sealName), []byte(sum), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if damaged, _, logged := cacheStart(t, dir); damaged != 1 || !strings.Contains(logged, "checksum mismatch") {
			t.Errorf("%d damaged\n%s", damaged, logged)
		}
		cacheStart(t, dir) // keeps the file again
	}
}

// TestCache_OtherEngine: where the engine has another version, its new file is sealed beside the old one.
func TestCache_OtherEngine(t *testing.T) {
	dir := t.TempDir()
	cacheStart(t, dir)
	for _, path := range files(t, dir) {
		if filepath.Base(path) == sealName {
			continue
		}
		folder := filepath.Dir(filepath.Dir(path))
		if err := os.Rename(filepath.Dir(path), filepath.Join(folder, "another engine")); err != nil {
			t.Fatal(err)
		}
		sum, err := sumOf(folder, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, sealName), []byte(sum), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if damaged, unusable, logged := cacheStart(t, dir); damaged+unusable > 0 {
			t.Errorf("%d damaged, %d unusable\n%s", damaged, unusable, logged)
		}
	}
	if kept, err := filepath.Glob(filepath.Join(dir, "*", "*", "*")); err != nil || len(kept) != 2 {
		t.Errorf("%v %v", kept, err)
	}
}

// TestCache_Unusable: a cache folder that cannot be used costs time, never a start.
func TestCache_Unusable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a file": file, "a folder in a file": filepath.Join(file, "cache"),
		"a folder that cannot be made": "/proc/none/cache"} {
		if _, unusable, logged := cacheStart(t, dir); unusable != 1 {
			t.Errorf("%s: %d unusable\n%s", name, unusable, logged)
		}
	}
	dir := filepath.Join(t.TempDir(), "cache")
	h := host(t, Options{CacheDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Load(context.Background(), constant(7).Bytes()); err != nil {
		t.Errorf("a folder that went away: %v", err)
	}
}

// TestCache_TwoProcesses: of two processes that compile a module at once, one keeps it, and the other neither fails nor
// leaves its own files behind.
func TestCache_TwoProcesses(t *testing.T) {
	dir := t.TempDir()
	c, err := openCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	var both [2]*kept
	for i := range both {
		if both[i], err = c.find([]byte("module")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(both[i].folder, "code"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, k := range both {
		if err := k.keep(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if k, err := c.find([]byte("module")); err != nil || !k.sealed || k.damage != nil || len(left) != 1 {
		t.Errorf("the next start finds %+v, %v; %v are left", k, err, left)
	}
}

// TestCache_Full: a module that a full disk does not keep is used all the same, and leaves nothing behind. A process of
// its own may write no file of more than 100 bytes.
func TestCache_Full(t *testing.T) {
	const limited = "DTE_TEST_LIMITED"
	if os.Getenv(limited) == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestCache_Full$")
		cmd.Env = append(os.Environ(), limited+"=1")
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, b)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
		skip.Test(t, "file size limit", err)
	}
	dir := t.TempDir()
	if _, unusable, logged := cacheStart(t, dir); unusable != 1 || !strings.Contains(logged, "file too large") {
		t.Errorf("%d unusable\n%s", unusable, logged)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// TestCache_Prune: folders of other versions and of killed processes are removed, beginning with those that no start has
// used for the longest time. Other files stay.
func TestCache_Prune(t *testing.T) {
	dir := t.TempDir()
	cacheStart(t, dir)
	kept := filepath.Dir(files(t, dir)[0])
	others := []string{"new-456", "lost+found"} // a folder that another process is writing, and a file of nobody
	for _, name := range append([]string{"new-123/x"}, others...) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(kept)
	if err != nil {
		t.Fatal(err)
	}
	long := info.ModTime().Add(-2 * newFor)
	longer := long.Add(-newFor)
	for name, at := range map[string]time.Time{"new-123": long, "lost+found": longer, filepath.Base(kept): longer} {
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	cacheStart(t, dir)       // uses the oldest module
	for i := range maxKept { // older ones
		old := filepath.Join(dir, strings.Repeat(string(rune('0'+i/10)), 63)+string(rune('0'+i%10)))
		if err := os.Mkdir(old, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(old, long, long); err != nil {
			t.Fatal(err)
		}
	}
	cacheStart(t, dir)
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range append(others, filepath.Base(kept)) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if len(left) != maxKept+len(others) {
		t.Errorf("%d are left, want %d", len(left), maxKept+len(others))
	}
}

// TestCompiling: while a module is compiled, the others go on, and a caller that waits may give up.
func TestCompiling(t *testing.T) {
	h := host(t, Options{})
	m, err := h.Load(context.Background(), constant(7).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	h.compiling <- struct{}{} // another module is being compiled
	if err := m.Evaluate(context.Background(), oneLine(), new(abi.Output)); err != nil {
		t.Error(err)
	}
	again, err := h.Load(context.Background(), constant(7).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Module{m, again} {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := h.Load(ctx, w.NewSum().Module().Bytes()); err == nil || !strings.Contains(err.Error(),
		"while another rule module is compiled") {
		t.Error(err)
	}
	<-h.compiling
}
