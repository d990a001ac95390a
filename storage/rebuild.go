package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Rebuild makes a store of the second copy of one whose box is dead, as Restore does of a backup: walked before it gets
// its name, and to be reconciled before it issues. It holds all that was acknowledged while the copy was live. Of the
// copy it alters nothing; of the returned Backup, Taken is when its last change was made.
//
// ErrExists when there is a store already; ErrNoStore when from is no second copy; ErrCorrupt when it is altered;
// ErrMark when the mark is unreadable or another store's.
func Rebuild(ctx context.Context, from string, o Options, progress Progress) (*Backup, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		return nil, errors.New("storage: Options.Now is not set")
	}
	b, err := rebuild(ctx, from, &o, progress)
	if err != nil {
		return nil, fmt.Errorf("rebuilding %s from %s: %w", o.Dir, from, err)
	}
	return b, nil
}

func rebuild(ctx context.Context, from string, o *Options, progress Progress) (*Backup, error) {
	fs := o.FS
	if _, err := fs.Stat(o.Dir); err == nil {
		return nil, ErrExists
	}
	c, err := readCopy(fs, from)
	if err != nil {
		return nil, err
	}
	row := restoredRow{At: o.Now().UnixNano(), From: c.store}
	if row.MarkLost, err = o.findMark(c.store); err != nil {
		return nil, err
	}
	for _, path := range []string{o.Dir, o.MarkPath} {
		if err := makeParents(fs, path); err != nil {
			return nil, err
		}
	}
	aside := o.Dir + ".new"
	if err := fs.RemoveAll(aside); err != nil {
		return nil, err
	}
	if err := fill(o, aside, c.store); err != nil {
		return nil, err
	}
	p := &meter{report: progress, total: 2 * c.size}
	at := *o
	at.Dir = aside
	db, err := openPebble(&at, &damage{}, false)
	if err != nil {
		return nil, err
	}
	err = c.replay(ctx, fs, db, &row, p)
	if err == nil {
		err = db.Flush()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	report, err := checkCopy(ctx, o, aside, nil, p)
	if err != nil {
		return nil, err
	}
	if err := o.place(aside, row); err != nil {
		return nil, err
	}
	p.finish()
	return &Backup{Store: fmt.Sprintf("%x", c.store), Taken: row.taken(), Documents: report.Documents, Last: report.Last, Bytes: c.size}, nil
}

// copyChain is a second copy, as it is read.
type copyChain struct {
	dir   string
	store [16]byte
	parts []position // segments in order, each with where it ends; 0 in the last: where what is whole ends
	size  int64
}

// readCopy finds which segments count, from the last one backwards.
func readCopy(fs vfs.FS, dir string) (*copyChain, error) {
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	c := &copyChain{dir: dir}
	for i := len(numbers) - 1; i >= 0; i-- {
		s, err := readSegment(fs, dir, numbers[i])
		if errors.Is(err, errNoSegment) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c.store = s.head.Store
		_, end, err := s.tail()
		if err != nil {
			return nil, err
		}
		for after := end; after != (position{}); {
			if c.parts = append(c.parts, after); after.Segment != s.head.Number {
				if s, err = readSegment(fs, dir, after.Segment); err != nil {
					return nil, fmt.Errorf("%w: segment %d: %w", ErrCorrupt, after.Segment, err)
				}
			}
			c.size += int64(after.Offset)
			after = s.head.After
		}
		slices.Reverse(c.parts)
		return c, nil
	}
	return nil, fmt.Errorf("%w: no segment in %s", ErrNoStore, dir)
}

// replay writes everything into an empty store, unsynced.
func (c *copyChain) replay(ctx context.Context, fs vfs.FS, db *pebble.DB, row *restoredRow, p *meter) error {
	for _, part := range c.parts {
		s, err := readSegment(fs, c.dir, part.Segment)
		if err != nil {
			return fmt.Errorf("%w: segment %d: %w", ErrCorrupt, part.Segment, err)
		}
		row.Taken = s.head.At
		_, err = s.walk(part.Offset, func(at uint64, f frame) error {
			p.add(int64(f.End - at))
			switch f.Kind {
			case frameChange:
				c := cursor{b: f.Payload}
				c.place()
				c.u64() // the announcement is in the batch
				if c.bad {
					return fmt.Errorf("%w: %s at byte %d", ErrCorrupt, s.path, at)
				}
				return errors.Join(apply(db, c.b), ctx.Err())
			case frameRows:
				return errors.Join(applyRows(db, f.Payload), ctx.Err())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	series, err := readAllSeries(db)
	if err != nil {
		return err
	}
	for name, last := range series {
		l, err := lastLink(db, name, last)
		if err != nil {
			return err
		}
		row.Taken = max(row.Taken, l.At)
	}
	return nil
}

// apply commits a batch as it was committed once.
func apply(db *pebble.DB, repr []byte) error {
	b := db.NewBatch()
	if err := b.SetRepr(slices.Clone(repr)); err != nil {
		return errors.Join(ErrCorrupt, err)
	}
	return errors.Join(b.Commit(pebble.NoSync), b.Close())
}

// applyRows commits rows as they stood. An entry that was there takes its row out of its old queue.
func applyRows(db *pebble.DB, repr []byte) error {
	b := db.NewBatch()
	if err := b.SetRepr(slices.Clone(repr)); err != nil {
		return errors.Join(ErrCorrupt, err)
	}
	stale := db.NewBatch()
	for r := b.Reader(); ; {
		_, key, _, ok, err := r.Next()
		if err != nil {
			return errors.Join(ErrCorrupt, err)
		}
		if !ok {
			break
		}
		if len(key) != 9 || key[0] != tableEntry {
			continue
		}
		id := be.Uint64(key[1:])
		old, err := get(db, key)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if e, err := decodeEntry(id, old); err == nil && e.Due != nil {
			if err := stale.Delete(e.due(), nil); err != nil {
				return err
			}
		}
	}
	return errors.Join(stale.Commit(pebble.NoSync), stale.Close(), b.Commit(pebble.NoSync), b.Close())
}
