package storage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Create makes an empty store and its mark. ErrExists if Dir exists, or if there is a mark with any number: this mark may be
// all that is left of a lost store, and its numbers must not be used again.
//
// A crash in the middle leaves no store; Create can then be repeated.
func Create(o Options) error {
	if err := o.setDefaults(); err != nil {
		return err
	}
	if _, err := o.FS.Stat(o.Dir); err == nil {
		return fmt.Errorf("creating store %s: %w", o.Dir, ErrExists)
	}
	if said, _, err := readMark(o.FS, o.MarkPath); err == nil && len(said.numbers) > 0 {
		return fmt.Errorf("creating store %s: mark %s counts numbers of another: %w", o.Dir, o.MarkPath, ErrExists)
	} else if err != nil && !errors.Is(err, errNoMark) {
		return fmt.Errorf("creating store %s: %w", o.Dir, errors.Join(ErrExists, err))
	}
	if err := create(&o); err != nil {
		return fmt.Errorf("creating store %s: %w", o.Dir, err)
	}
	return nil
}

func create(o *Options) error {
	for _, path := range []string{o.Dir, o.MarkPath} {
		if err := makeParents(o.FS, path); err != nil {
			return err
		}
	}
	var store [16]byte
	if _, err := rand.Read(store[:]); err != nil {
		return err
	}
	// Pebble's own first Open is not atomic: make the store aside.
	aside := o.Dir + ".new"
	if err := o.FS.RemoveAll(aside); err != nil {
		return err
	}
	if err := fill(o, aside, store); err != nil {
		return err
	}
	if err := writeNewMark(o.FS, o.MarkPath, store, reached{}, firstSlot, 1); err != nil {
		return err
	}
	// Pebble has synced its folder; this does not rely on it.
	if err := syncDir(o.FS, aside); err != nil {
		return err
	}
	// The mark comes first: with a mark alone Create can be repeated, with a store alone nothing opens.
	if err := o.FS.Rename(aside, o.Dir); err != nil {
		return err
	}
	return syncDir(o.FS, o.FS.PathDir(o.Dir))
}

// fill opens the new store twice: the log of the very first Open still has the old format.
func fill(o *Options, dir string, store [16]byte) error {
	po := o.pebbleOptions(&damage{})
	po.ErrorIfNotExists, po.ErrorIfExists = false, true
	db, err := pebble.Open(dir, po)
	if err != nil {
		return err
	}
	b := db.NewBatch()
	err = errors.Join(
		b.Set(keyLayout, be.AppendUint32(nil, layout), nil),
		b.Set(keyStore, store[:], nil),
		b.Commit(pebble.Sync), db.Close())
	if err != nil {
		return err
	}
	if db, err = pebble.Open(dir, o.pebbleOptions(&damage{})); err != nil {
		return err
	}
	return db.Close()
}

// makeParents makes the folder that path stands in, durably. After a failure it takes back what it made: nobody can tell
// from a folder that is there whether its name is on the medium, and the next attempt would not ask.
func makeParents(fs vfs.FS, path string) error {
	var made []string
	dir := fs.PathDir(path)
	for {
		if _, err := fs.Stat(dir); err == nil || fs.PathDir(dir) == dir {
			break
		}
		made = append(made, dir)
		dir = fs.PathDir(dir)
	}
	if len(made) == 0 {
		return nil
	}
	if err := fs.MkdirAll(made[0], 0o700); err != nil {
		return err
	}
	for _, d := range append(slices.Clone(made), dir) {
		if err := syncDir(fs, d); err != nil {
			for _, m := range made { // the innermost first
				err = errors.Join(err, fs.Remove(m))
			}
			return err
		}
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
