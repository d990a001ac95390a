package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files of a backup: copied, synced, digested.

// copyChunk is how much is copied between two looks at the context, and at most left to the kernel unsynced: a slow
// medium that gets it all at once would hold up the store's own syncs.
const copyChunk = 1 << 20

// copyFile makes a synced copy and returns its digest. to must not be there.
func copyFile(ctx context.Context, fs vfs.FS, from, to string, p *meter) (string, error) {
	in, err := fs.Open(from)
	if err != nil {
		return "", fmt.Errorf("copying: %w", err)
	}
	out, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", errors.Join(fmt.Errorf("copying: %w", err), in.Close())
	}
	paced := vfs.NewSyncingFile(out, vfs.SyncingFileOptions{BytesPerSync: copyChunk})
	sum, err := digestOf(ctx, in, paced, p)
	if err == nil {
		err = paced.Sync()
	}
	if err = errors.Join(err, paced.Close(), in.Close()); err != nil {
		return "", fmt.Errorf("copying %s: %w", from, err)
	}
	return sum, nil
}

// checkFile reads a file that should have a digest. ErrCorrupt.
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
	if found != sum {
		return fmt.Errorf("%w: %s is altered", ErrCorrupt, path)
	}
	return nil
}

func digestOf(ctx context.Context, in io.Reader, out io.Writer, p *meter) (string, error) {
	h := sha256.New()
	to := io.MultiWriter(h, out) // a vfs.File may alter what it wrote
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

// listFiles returns the names in a folder without folders, in order, and their size together.
func listFiles(fs vfs.FS, dir string) (names []string, size int64, err error) {
	names, err = fs.List(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("listing %s: %w", dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		info, err := fs.Stat(fs.PathJoin(dir, name))
		if err != nil {
			return nil, 0, fmt.Errorf("listing %s: %w", dir, err)
		}
		size += info.Size()
	}
	return names, size, nil
}

func encodeSums(sums map[string]string) []byte {
	var b strings.Builder
	for _, name := range sortedNames(sums) {
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

func sortedNames[V any](named map[string]V) []string { return slices.Sorted(maps.Keys(named)) }

func writeSynced(fs vfs.FS, path string, b []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func readWhole(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// unlocked is a filesystem whose stores nobody else opens, perhaps one that cannot be written: Pebble makes a lock file
// even to read.
type unlocked struct{ vfs.FS }

func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements vfs.FS.
func (u unlocked) Unwrap() vfs.FS { return u.FS }

// meter adds up what is done of a work whose first half is bytes read and whose second is rows walked.
type meter struct {
	report      Progress
	done, total int64
}

func (m *meter) add(n int64) {
	m.done += n
	m.tell()
}

// second sets the second half.
func (m *meter) second(done, of int64) {
	m.done = m.total/2 + int64(float64(m.total/2)*float64(done)/float64(max(of, 1)))
	m.tell()
}

func (m *meter) finish() {
	m.done = m.total
	m.tell()
}

func (m *meter) tell() {
	if m.report != nil {
		m.report(min(m.done, m.total), m.total)
	}
}
