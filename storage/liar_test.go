package storage

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// liar is a file system on which a sync fails as it does under Linux. The failed sync reports an error once. The pages
// that it should have written are clean from then on, although the medium never got them: programs still read them, a
// later sync of the same file succeeds without them, and a power cut loses them while it keeps what was written later.
//
// With evicts the kernel has needed the memory meanwhile: programs too read what the medium holds.
type liar struct {
	*vfs.MemFS                        // crashable
	fails      func(path string) bool // asked at each sync of a file, under a lock; nil: none fails
	evicts     bool

	mu    sync.Mutex
	pages map[string]*pages // of every file that was opened to write, by every name that it had
}

// pages are a file's content on the medium, and what only memory holds.
type pages struct {
	medium []byte
	dirty  []span
	lost   bool // a sync of this file failed
}

type span struct{ from, to int64 }

func newLiar(mem *vfs.MemFS, fails func(path string) bool) *liar {
	return &liar{MemFS: mem, fails: fails, pages: make(map[string]*pages)}
}

// crash is the disk after a power cut: what was synced and not lied about.
func (l *liar) crash(t testing.TB) *vfs.MemFS {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	disk := l.MemFS.CrashClone(vfs.CrashCloneCfg{RNG: newRand(1)})
	for _, name := range slices.Sorted(maps.Keys(l.pages)) {
		if p := l.pages[name]; p.lost {
			if info, err := disk.Stat(name); err == nil && !info.IsDir() {
				writeFile(t, disk, name, p.medium)
			}
		}
	}
	return disk
}

func (l *liar) opened(name string, f vfs.File, err error, fresh bool) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pages[name]
	if p == nil || fresh {
		p = new(pages)
		l.pages[name] = p
		if !fresh {
			r, err := l.MemFS.Open(name)
			if err != nil {
				return nil, err
			}
			if p.medium, err = io.ReadAll(r); err != nil {
				return nil, err
			}
			if err := r.Close(); err != nil {
				return nil, err
			}
		}
	}
	return &lyingFile{File: f, fs: l, name: name, pages: p}, nil
}

func (l *liar) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.MemFS.Create(name, category)
	return l.opened(name, f, err, true)
}

func (l *liar) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := l.MemFS.OpenReadWrite(name, category, opts...)
	return l.opened(name, f, err, false)
}

func (l *liar) Rename(from, to string) error {
	err := l.MemFS.Rename(from, to)
	l.renamed(from, to, err)
	return err
}

func (l *liar) Link(from, to string) error {
	err := l.MemFS.Link(from, to)
	l.renamed(from, to, err)
	return err
}

// renamed keeps the old name too: a power cut may bring it back.
func (l *liar) renamed(from, to string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pages[from]; p != nil && err == nil {
		l.pages[to] = p
	}
}

func (l *liar) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.MemFS.ReuseForWrite(from, to, category)
	l.renamed(from, to, err)
	return l.opened(to, f, err, false)
}

func (l *liar) Unwrap() vfs.FS { return l.MemFS }

// lyingFile is one that was opened to write.
type lyingFile struct {
	vfs.File
	fs    *liar
	name  string
	pages *pages
	at    int64
}

func (f *lyingFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.dirtied(f.at, n)
	f.at += int64(n)
	return n, err
}

func (f *lyingFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	f.dirtied(at, n)
	return n, err
}

func (f *lyingFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.at += int64(n)
	return n, err
}

func (f *lyingFile) dirtied(at int64, n int) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.pages.dirty = append(f.pages.dirty, span{at, at + int64(n)})
}

func (f *lyingFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *lyingFile) SyncData() error { return f.sync(f.File.SyncData) }
func (f *lyingFile) SyncTo(length int64) (full bool, err error) {
	err = f.sync(func() error {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

func (f *lyingFile) sync(sync func() error) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	p := f.pages
	dirty := p.dirty
	p.dirty = nil // whatever comes of it, these pages are clean now
	if f.fs.fails != nil && f.fs.fails(f.name) {
		p.lost = true
		if f.fs.evicts {
			for _, d := range dirty {
				if _, err := f.File.WriteAt(p.at(d), d.from); err != nil {
					return err
				}
			}
		}
		return errorfs.ErrInjected
	}
	info, err := f.File.Stat()
	if err != nil {
		return err
	}
	for _, d := range dirty {
		d.to = min(d.to, info.Size())
		if grow := d.to - int64(len(p.medium)); grow > 0 {
			p.medium = append(p.medium, make([]byte, grow)...)
		}
		if _, err := f.File.ReadAt(p.medium[d.from:d.to], d.from); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return sync()
}

// at is what the medium holds there, zeros behind its end.
func (p *pages) at(d span) []byte {
	b := make([]byte, d.to-d.from)
	if d.from < int64(len(p.medium)) {
		copy(b, p.medium[d.from:])
	}
	return b
}

// The liar itself: what was synced before and after a failed sync is there, and what was written before it is not.
func TestLiar(t *testing.T) {
	for _, evicts := range []bool{false, true} {
		failing := false
		l := newLiar(vfs.NewCrashableMem(), func(string) bool { return failing })
		l.evicts = evicts
		f, err := l.Create("a.new", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		write := func(text string, fails bool) {
			t.Helper()
			failing = fails
			if _, err := f.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := f.Sync(); (err != nil) != fails {
				t.Fatalf("sync of %q: %v", text, err)
			}
		}
		write("one ", false)
		write("two ", true)
		write("three ", false)
		if err := errors.Join(f.Close(), l.Rename("a.new", "a"), syncDir(l, "")); err != nil {
			t.Fatal(err)
		}
		lost := "one \x00\x00\x00\x00three "
		want := map[bool]string{false: "one two three ", true: lost}[evicts]
		if read := readFile(t, l, "a"); string(read) != want {
			t.Errorf("evicts %v: programs read %q", evicts, read)
		}
		if read := readFile(t, l.crash(t), "a"); string(read) != lost {
			t.Errorf("evicts %v: after a power cut %q", evicts, read)
		}
	}
}
