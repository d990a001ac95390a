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
	row := restoredRow{Copy: true, At: o.Now().UnixNano(), From: c.store}
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
				return errors.Join(apply(db, c.b, false), ctx.Err())
			case frameRows:
				return errors.Join(apply(db, f.Payload, true), ctx.Err())
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

// apply commits rows, of a change as it was committed once, or as they stood (filled). Changes of one series lie in the
// log in their order; a counter is set from several series, and keeps its latest value. An entry of filled rows takes
// its row out of the queue that it was in before.
func apply(db *pebble.DB, repr []byte, filled bool) error {
	in, out := db.NewBatch(), db.NewBatch()
	err := in.SetRepr(slices.Clone(repr))
	if err != nil {
		return errors.Join(ErrCorrupt, err)
	}
	for r := in.Reader(); err == nil; {
		kind, key, value, ok, bad := r.Next()
		if bad != nil {
			return errors.Join(ErrCorrupt, bad)
		}
		if !ok {
			break
		}
		var old []byte
		if key[0] == tableCounter || filled && key[0] == tableEntry {
			if old, err = get(db, key); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			err = nil
		}
		switch {
		case kind == pebble.InternalKeyKindDelete:
			err = out.Delete(key, nil)
		case key[0] == tableCounter && len(old) == counterSize && be.Uint64(old[8:]) > be.Uint64(value[8:]):
		default:
			if e, bad := decodeEntry(0, old); key[0] == tableEntry && old != nil && bad == nil && e.Due != nil {
				e.ID = be.Uint64(key[1:])
				err = out.Delete(e.due(), nil)
			}
			err = errors.Join(err, out.Set(key, value, nil))
		}
	}
	return errors.Join(err, out.Commit(pebble.NoSync), out.Close(), in.Close())
}
