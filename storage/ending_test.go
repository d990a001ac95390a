package storage

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"dtegate/storage/disktest"
)

// ending is a context that ends after the given number of looks at it.
type ending struct {
	context.Context
	left atomic.Int64
}

func endingAfter(looks int64) *ending {
	c := &ending{Context: ctx}
	c.left.Store(looks)
	return c
}

func (c *ending) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// storeless is a disk without its store.
func storeless(t *testing.T, disk *disktest.Disk) *disktest.Disk {
	t.Helper()
	d := disk.Copy()
	if err := d.RemoveAll("box/store"); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestEnding: every method that reads or copies a whole store stops where its context ends, and says so. None reports
// half of its work as done.
func TestEnding(t *testing.T) {
	disk := tableStore(t, 60)
	rotting := disk.Copy()
	s := live(t, disk)
	large := make([]byte, 3*copyChunk)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // nothing makes it smaller
	if _, err := s.Advance(ctx, code(1), fresh, Change{To: done, Parts: []Part{{"answer", large}}}); err != nil {
		t.Fatal(err)
	}
	backup(t, s, backupDir)
	sound(t, s)
	for name, work := range map[string]func(context.Context) error{
		"check": func(ctx context.Context) error { _, err := Check(ctx, options(disk.Copy())); return err },
		"check backup": func(ctx context.Context) error {
			_, err := CheckBackup(ctx, backupDir, options(disk),
				nil)
			return err
		},
		"backup": func(ctx context.Context) error {
			s := openStore(t, disk.Copy())
			_, err := s.Backup(ctx, "elsewhere", nil)
			return errors.Join(err, s.Close())
		},
		"restore": func(ctx context.Context) error {
			_, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, options(storeless(t, disk)), nil)
			return err
		},
		"rebuild": func(ctx context.Context) error {
			_, err := Assemble(ctx, Sources{Copy: card}, options(storeless(t, disk)), nil)
			return err
		},
		"read tables": func(ctx context.Context) error {
			s := openStore(t, disk.Copy())
			return errors.Join(s.readTables(ctx, nil), s.Close())
		},
		"repair": func(ctx context.Context) error {
			// of small blocks: the search for what lies behind a bad block reads blocks again and again
			rotten := rotting.Copy()
			path := largest(t, rotten)
			if err := rotten.Flip(path, size(t, rotten, path)/3*8); err != nil {
				return err
			}
			_, err := Assemble(ctx, Sources{Copy: card}, options(rotten), nil)
			return err
		},
	} {
		const many = 1 << 40
		whole := endingAfter(many)
		if err := work(whole); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		looks := many - whole.left.Load()
		if looks < 2 {
			t.Errorf("%s looks at its context %d times", name, looks)
		}
		step := max(1, looks/3)
		if soak {
			step = max(1, looks/60)
		}
		for n := int64(0); n < looks; n += step {
			if err := work(endingAfter(n)); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, ended at look %d of %d: %v", name, n, looks, err)
			}
		}
		t.Logf("%s looks %d times", name, looks)
	}
}
