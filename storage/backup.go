package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A backup is a folder:
//
//	store/       a Pebble store, as it was at one moment
//	backup.json  a Backup, which describes the store
//	SHA256SUMS   the digests of all these files, for `sha256sum -c`

// Backup describes a backup.
type Backup struct {
	Store     string            `json:"store"` // the identity of the backed-up store, hex
	Taken     time.Time         `json:"taken"`
	Documents int               `json:"documents"`
	Last      map[string]uint64 `json:"last"` // last number of each series
	Bytes     int64             `json:"bytes"`
}

// identity returns the identity in Store; zero: it cannot be read.
func (b *Backup) identity() (id [16]byte) {
	if raw, err := hex.DecodeString(b.Store); err == nil && len(raw) == len(id) {
		id = [16]byte(raw)
	}
	return id
}

const (
	backupStore = "store"
	backupFile  = "backup.json"
	backupSums  = "SHA256SUMS"
)

// Progress is called with the finished amount of a long task, and with the total. Both count the same unit: bytes, or
// items such as links of the journal. Progress is never called by two goroutines at once.
type Progress func(done, total int64)

// Backup copies the store's present state into a new folder, preferably on another medium, while issuing continues. The
// copy is written under a temporary name, synced, checked as by Fsck, and finally renamed to dir; an existing dir is
// therefore a complete backup. The medium of dir needs as much free space as the store takes; the store's own disk
// needs almost none.
//
// ErrExists if dir exists. If rows of the copy contradict each other, Backup returns ErrCorrupt and makes no backup. A
// crash leaves dir + ".new", which the next Backup to dir removes.
func (s *Store) Backup(ctx context.Context, dir string, progress Progress) (*Backup, error) {
	if !s.backing.TryLock() {
		return nil, errors.New("backing up: another backup is under way")
	}
	defer s.backing.Unlock()
	b, err := s.backup(ctx, dir, progress)
	if err != nil {
		return nil, fmt.Errorf("backing up to %s: %w", dir, err)
	}
	_ = s.do("noting a backup", func() error { // fails if the store closes; the backup is good all the same
		s.o.dieOn(setJSON(s.db, keyBackup, b.Taken, pebble.Sync), "noting a backup")
		return nil
	})
	return b, nil
}

func (s *Store) backup(ctx context.Context, dir string, progress Progress) (*Backup, error) {
	fs := s.o.FS
	if _, err := fs.Stat(dir); err == nil {
		return nil, ErrExists
	}
	aside := dir + ".new"
	if err := errors.Join(makeParents(fs, dir), fs.RemoveAll(aside)); err != nil {
		return nil, err
	}
	// 1. Make a checkpoint next to the store: hard links to its files. Compactions leave the links alone.
	b := &Backup{Taken: s.o.Now().UTC()}
	checkpoint := s.o.checkpointDir()
	defer func() { _ = fs.RemoveAll(checkpoint) }() // the next Open or Backup tries again
	marked, err := use(s, "making checkpoint", func() (*Head, error) { return s.checkpoint(ctx, checkpoint, b) })
	if err != nil {
		return nil, err
	}

	// 2. Copy the checkpoint to the backup's medium, without its log. The log may be torn in the middle: Pebble copies
	// the log while it grows. Everything acknowledged before the checkpoint's flush is in the tables; without the log,
	// the tables are the store at the moment of a flush. Step 3 reads the copied files only after their sync.
	names, size, err := listFiles(withoutLogs{fs}, checkpoint)
	if err != nil {
		return nil, err
	}
	b.Bytes = size
	if u, err := fs.GetDiskUsage(fs.PathDir(dir)); err == nil && u.AvailBytes < uint64(size) {
		return nil, fmt.Errorf("it needs %d bytes and %d are free there", size, u.AvailBytes)
	}
	p := &meter{report: progress, total: 2 * size}
	store := fs.PathJoin(aside, backupStore)
	sums := make(map[string]string)
	err = fs.MkdirAll(store, 0o700)
	for _, name := range names {
		if err == nil {
			sums[backupStore+"/"+name], err = copyFile(ctx, fs, fs.PathJoin(checkpoint, name),
				fs.PathJoin(store, name), p)
		}
	}
	if err == nil {
		err = syncDir(fs, store)
	}
	if err != nil {
		return nil, err
	}

	// 3. Check every row. The mark was read before the checkpoint: the copy must have at least the mark's numbers.
	report, err := checkCopy(ctx, &s.o, store, marked, p)
	if err != nil {
		return nil, err
	}
	b.Documents, b.Last = report.Documents, report.Last

	// 4. Describe the backup, and give its folder the final name.
	about, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, err
	}
	sums[backupFile] = digest(about)
	for name, content := range map[string][]byte{backupFile: about, backupSums: encodeSums(sums)} {
		if err := writeSynced(fs, fs.PathJoin(aside, name), content); err != nil {
			return nil, err
		}
	}
	if err := syncDir(fs, aside); err != nil {
		return nil, err
	}
	p.finish()
	return b, renameSynced(fs, aside, dir)
}

// checkpoint makes a checkpoint in dir. It returns the content of the mark before the checkpoint.
func (s *Store) checkpoint(ctx context.Context, dir string, b *Backup) (*Head, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	marked := s.mark.durable()
	b.Store = hex.EncodeToString(marked.Store[:])
	// Pebble 2.1.7 copies only as many bytes of the manifest as it has written since Open. If Open found no log to
	// replay, as after some crashes, it has written none. A flush makes it write a manifest (TestBackup_Crash).
	if err := errors.Join(s.o.FS.RemoveAll(dir), s.flush(ctx)); err != nil {
		return nil, err
	}
	return marked, s.db.Checkpoint(dir)
}

// flush writes the store's tables. Pebble repeats a failing flush forever; ErrTables or ctx ends the wait.
func (s *Store) flush(ctx context.Context) error {
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return err
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-flushed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if err := s.o.tables.err(); err != nil {
				return err
			}
		}
	}
}

func (o *Options) checkpointDir() string { return o.Dir + ".checkpoint" }

// checkCopy checks a store that nobody else has open, without changing it. ErrCorrupt if it finds a problem.
func checkCopy(ctx context.Context, o *Options, dir string, marked *Head, p *meter) (report *Report, err error) {
	defer wrap(&err, "checking the copy")
	db, err := o.openAt(dir, true)
	if err != nil {
		return nil, err
	}
	defer closing(&err, db)
	if report, err = fsck(ctx, db, marked, nil, p.second); err != nil {
		return nil, err
	}
	if n := len(report.Problems); n > 0 {
		return report, fmt.Errorf("%w: %d problems, the first: %v", ErrCorrupt, n, report.Problems[0])
	}
	return report, nil
}

// CheckBackup reads a whole backup: every digest, and then every row. It uses only FS and Logger of o. ErrNoStore if
// there is no backup; ErrCorrupt if the backup is damaged.
func CheckBackup(ctx context.Context, dir string, o Options, progress Progress) (_ *Backup, err error) {
	o.Dir = dir
	o.setDefaults()
	defer wrap(&err, "checking backup %s", dir)
	b, sums, err := readBackup(o.FS, dir)
	if err != nil {
		return nil, err
	}
	p := &meter{report: progress, total: 2 * b.Bytes}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if err := checkFile(ctx, o.FS, o.FS.PathJoin(dir, name), sums[name], p); err != nil {
			return nil, err
		}
	}
	if _, err := checkCopy(ctx, &o, o.FS.PathJoin(dir, backupStore), nil, p); err != nil {
		return nil, err
	}
	p.finish()
	return b, nil
}

func readBackup(fs vfs.FS, dir string) (*Backup, map[string]string, error) {
	list, bad := readWhole(fs, fs.PathJoin(dir, backupSums))
	about, err := readWhole(fs, fs.PathJoin(dir, backupFile))
	if err = cmp.Or(bad, err); err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	sums, err := decodeSums(list)
	if err != nil {
		return nil, nil, err
	}
	if digest(about) != sums[backupFile] {
		return nil, nil, fmt.Errorf("%w: %s is altered", ErrCorrupt, backupFile)
	}
	delete(sums, backupFile)
	b := new(Backup)
	if err := json.Unmarshal(about, b); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, backupFile, err)
	}
	return b, sums, nil
}

// copyChunk is the number of bytes after which a copy is synced and the context is checked. One large sync to a slow
// medium would delay the store's own syncs.
const copyChunk = 1 << 20

// copyFile makes a synced copy and returns its digest. The target (to) must not exist.
func copyFile(ctx context.Context, fs vfs.FS, from, to string, p *meter) (sum string, err error) {
	defer wrap(&err, "copying %s", from)
	in, err := fs.Open(from)
	if err != nil {
		return "", err
	}
	defer closing(&err, in)
	out, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	paced := vfs.NewSyncingFile(out, vfs.SyncingFileOptions{BytesPerSync: copyChunk})
	if sum, err = digestOf(ctx, in, paced, p); err == nil {
		err = paced.Sync()
	}
	return sum, errors.Join(err, paced.Close())
}

func checkFile(ctx context.Context, fs vfs.FS, path, sum string, p *meter) error {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, path)
	}
	if err != nil {
		return err
	}
	found, err := digestOf(ctx, f, io.Discard, p)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return onlyIf(found != sum, fmt.Errorf("%w: %s is altered", ErrCorrupt, path))
}

func digestOf(ctx context.Context, in io.Reader, out io.Writer, p *meter) (string, error) {
	h := sha256.New()
	to := io.MultiWriter(h, out) // h first: a vfs.File may alter the bytes that it writes
	for {
		n, err := io.CopyN(to, in, copyChunk)
		p.add(n)
		switch {
		case err == io.EOF:
			return hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", err
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// listFiles returns the names in a folder that has no subfolders, sorted, and their total size.
func listFiles(fs vfs.FS, dir string) (names []string, size int64, err error) {
	defer wrap(&err, "listing %s", dir)
	names, err = fs.List(dir)
	slices.Sort(names)
	for _, name := range names {
		info, err := fs.Stat(fs.PathJoin(dir, name))
		if err != nil {
			return nil, 0, err
		}
		size += info.Size()
	}
	return names, size, err
}

func encodeSums(sums map[string]string) []byte {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	return []byte(b.String())
}

func decodeSums(b []byte) (map[string]string, error) {
	sums := make(map[string]string)
	for _, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		sum, name, ok := strings.Cut(line, "  ")
		raw, err := hex.DecodeString(sum)
		if !ok || err != nil || len(raw) != sha256.Size || strings.Contains(name, "..") {
			return nil, fmt.Errorf("%w: %s: line %q is not a digest and a name", ErrCorrupt, backupSums, line)
		}
		sums[name] = sum
	}
	return sums, nil
}

func writeSynced(fs vfs.FS, path string, b []byte) (err error) {
	defer wrap(&err, "writing %s", path)
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func readWhole(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// unlocked is a filesystem without locks, for stores that nobody else opens. Pebble makes a lock file even for reading,
// which a read-only filesystem refuses.
type unlocked struct{ vfs.FS }

func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// meter adds up the progress of a task: its first half counts bytes read, its second half links of the journal checked.
type meter struct {
	report      Progress
	done, total int64
}

func (m *meter) add(n int64) {
	m.done = min(m.done+n, m.total/2)
	m.tell()
}

func (m *meter) second(done, of int64) {
	m.done = m.total/2 + int64(float64(m.total/2)*float64(done)/float64(max(of, 1)))
	m.tell()
}

func (m *meter) finish() {
	m.done = m.total
	m.tell()
}

func (m *meter) tell() {
	if m.report != nil && m.total > 0 {
		m.report(min(m.done, m.total), m.total)
	}
}

// LastBackup returns when the latest completely checked backup of this store was taken. Zero if there is none: a
// rebuilt or restored store has no backup of its own yet.
func (s *Store) LastBackup() (time.Time, error) {
	return use(s, "reading the last backup", func() (time.Time, error) {
		return readJSON[time.Time](s.db, keyBackup)
	})
}
