package storage

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A backup is a folder:
//
//	store/       a Pebble store, as it was at one moment
//	backup.json  what is in it, a Backup
//	SHA256SUMS   the digests of all of these, as `sha256sum -c` reads them

// Backup describes a backup.
type Backup struct {
	Store     string            `json:"store"` // the identity of the store that it is of, hex
	Taken     time.Time         `json:"taken"`
	Documents int               `json:"documents"`
	Last      map[string]uint64 `json:"last"` // number of each series
	Bytes     int64             `json:"bytes"`
}

const (
	backupStore = "store"
	backupFile  = "backup.json"
	backupSums  = "SHA256SUMS"
)

// Progress is called with how much of a long task is done, and with the total. Both count the same unit: bytes, or items such
// as links of the journal. It is never called from two goroutines at once.
type Progress func(done, total int64)

// Backup copies the store as it is now into a new folder, best on another medium, while issuing continues. The copy is written
// under a temporary name, synced and checked like Fsck does. It gets its name last: therefore a folder of that name is a
// complete backup. It needs as much space there as the store takes, and almost none here.
//
// ErrExists if dir exists; ErrCorrupt, and no backup, if rows of the copy contradict each other. A crash leaves dir + ".new",
// which the next Backup to dir removes.
func (s *Store) Backup(ctx context.Context, dir string, progress Progress) (*Backup, error) {
	if !s.backing.TryLock() {
		return nil, errors.New("backing up: another backup is under way")
	}
	defer s.backing.Unlock()
	b, err := s.backup(ctx, dir, progress)
	if err != nil {
		return nil, fmt.Errorf("backing up to %s: %w", dir, err)
	}
	s.noteBackup(b.Taken)
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
	// 1. A checkpoint beside the store: its files by another name, which compactions leave alone.
	b := &Backup{Taken: s.o.Now().UTC()}
	checkpoint := s.o.checkpointDir()
	marked, err := s.checkpoint(checkpoint, b)
	defer func() { _ = fs.RemoveAll(checkpoint) }() // the next Open or Backup tries again
	if err != nil {
		return nil, fmt.Errorf("making checkpoint: %w", err)
	}

	// 2. Copied to where the backup comes. The files are read from there only once they are synced.
	names, size, err := listFiles(fs, checkpoint)
	if err != nil {
		return nil, err
	}
	b.Bytes = size
	if u, err := fs.GetDiskUsage(fs.PathDir(dir)); err == nil && u.AvailBytes < uint64(size) {
		return nil, fmt.Errorf("it needs %d bytes and %d are free there", size, u.AvailBytes)
	}
	p := &meter{report: progress, total: 2 * size}
	store := fs.PathJoin(aside, backupStore)
	sums, err := copyFiles(ctx, fs, checkpoint, store, names, p)
	if err != nil {
		return nil, err
	}

	// 3. Walked. The mark was read before the checkpoint: the store holds at least what it says.
	report, err := checkCopy(ctx, &s.o, store, marked, p)
	if err != nil {
		return nil, err
	}
	b.Documents, b.Last = report.Documents, report.Last

	// 4. Described, and named.
	about, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, err
	}
	sums[backupFile] = digest(about)
	err = named(fs, aside, dir, about, encodeSums(sums))
	p.finish()
	return b, err
}

// copyFiles copies files to a new folder, whole and synced, and returns their digests by name in the backup.
func copyFiles(ctx context.Context, fs vfs.FS, from, to string, names []string, p *meter) (map[string]string, error) {
	if err := fs.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	sums := make(map[string]string)
	for _, name := range names {
		sum, err := copyFile(ctx, fs, fs.PathJoin(from, name), fs.PathJoin(to, name), p)
		if err != nil {
			return nil, err
		}
		sums[backupStore+"/"+name] = sum
	}
	return sums, syncDir(fs, to)
}

// named writes what a backup says of itself, and gives its folder, until now called aside, its name.
func named(fs vfs.FS, aside, dir string, about, sums []byte) error {
	if err := writeSynced(fs, fs.PathJoin(aside, backupFile), about); err != nil {
		return err
	}
	if err := writeSynced(fs, fs.PathJoin(aside, backupSums), sums); err != nil {
		return err
	}
	if err := syncDir(fs, aside); err != nil {
		return err
	}
	if err := fs.Rename(aside, dir); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(dir))
}

// checkpoint makes one, and returns what the mark said before.
func (s *Store) checkpoint(dir string, b *Backup) (reached, error) {
	if err := s.enter(); err != nil {
		return reached{}, err
	}
	defer s.leave()
	if err := s.writable(); err != nil {
		return reached{}, err
	}
	b.Store = hex.EncodeToString(s.mark.file.store[:])
	marked, err := s.mark.readReached()
	if err != nil {
		return reached{}, err
	}
	if err := s.o.FS.RemoveAll(dir); err != nil {
		return reached{}, err
	}
	// Pebble 2.1.7 copies as much of the manifest as it has written itself since Open: nothing, when Open found no log
	// to replay, as after some crashes. A flush makes it write one (TestBackup_Crash).
	if err := s.db.Flush(); err != nil {
		return reached{}, err
	}
	if err := s.db.Checkpoint(dir); err != nil {
		return reached{}, err
	}
	// The log in it may be torn in the middle: Pebble copies it while it grows. What was acknowledged before the flush is
	// in the tables, which without a log are the store as it was at the end of one.
	names, err := s.o.FS.List(dir)
	for _, name := range names {
		if err == nil && strings.HasSuffix(name, ".log") {
			err = s.o.FS.Remove(s.o.FS.PathJoin(dir, name))
		}
	}
	return marked, err
}

func (o *Options) checkpointDir() string { return o.Dir + ".checkpoint" }

// checkCopy walks a store that nobody else has open, without altering anything. ErrCorrupt.
func checkCopy(ctx context.Context, o *Options, dir string, marked reached, p *meter) (*Report, error) {
	at := *o
	at.Dir, at.FS = dir, unlocked{o.FS}
	db, err := openPebble(&at, &damage{}, true)
	if err != nil {
		return nil, fmt.Errorf("opening the copy: %w", err)
	}
	report, err := fsck(ctx, db, marked, nil, p.second)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("checking the copy: %w", err)
	}
	if n := len(report.Problems); n > 0 {
		return report, fmt.Errorf("%w: %d problems, the first: %v", ErrCorrupt, n, report.Problems[0])
	}
	return report, nil
}

// CheckBackup reads a whole backup: every digest, and then every row. It uses only FS and Logger of o. ErrNoStore if there is
// no backup, ErrCorrupt.
func CheckBackup(ctx context.Context, dir string, o Options, progress Progress) (*Backup, error) {
	o.Dir = dir
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	b, sums, err := readBackup(o.FS, dir)
	if err == nil {
		p := &meter{report: progress, total: 2 * b.Bytes}
		for _, name := range sortedNames(sums) {
			if err = checkFile(ctx, o.FS, o.FS.PathJoin(dir, name), sums[name], p); err != nil {
				break
			}
		}
		if err == nil {
			_, err = checkCopy(ctx, &o, o.FS.PathJoin(dir, backupStore), reached{}, p)
		}
		p.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("checking backup %s: %w", dir, err)
	}
	return b, nil
}

// readBackup reads what a backup says of itself.
func readBackup(fs vfs.FS, dir string) (*Backup, map[string]string, error) {
	list, err := readWhole(fs, fs.PathJoin(dir, backupSums))
	if err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	sums, err := decodeSums(list)
	if err != nil {
		return nil, nil, err
	}
	about, err := readWhole(fs, fs.PathJoin(dir, backupFile))
	if err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", ErrNoStore, err)
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
