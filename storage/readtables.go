package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// reading is what the store knows of the reading of itself.
type reading struct {
	at     atomic.Int64  // Unix ns of the last whole pass; 0: there was none
	tables atomic.Uint64 // damaged tables in it
}

// ReadTables reads every table of the store once, from the medium, and checks each block. It finds a damaged block before the
// day on which a row of it is needed. After each read pause is called with the number of bytes; it may wait, and its error ends
// the pass. A damaged table stops issuing, like any damage. ReadTables does not compare rows with each other: see Fsck.
func (s *Store) ReadTables(ctx context.Context, pause func(bytes int) error) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("reading tables: %w", err)
	}
	defer s.leave()
	damaged := uint64(0)
	err := eachTable(ctx, s.db, &s.o, pause, func(path string, bad error) {
		damaged++
		if s.damage.note(fmt.Sprintf("%s: %v", path, bad)) {
			s.o.Logger.Error("store is damaged", "table", path, "error", bad.Error())
		}
	})
	if err != nil {
		return fmt.Errorf("reading tables: %w", err)
	}
	at := s.o.Now().UnixNano()
	s.reading.tables.Store(damaged)
	s.reading.at.Store(at)
	// A crash forgets it, and the next pass comes ten minutes after the start.
	row := be.AppendUint64(be.AppendUint64(nil, uint64(at)), damaged)
	if err := s.db.Set(keyRead, row, pebble.NoSync); err != nil {
		return fmt.Errorf("reading tables: %w", err)
	}
	return nil
}

// Reading is the result of the store's last complete reading of its tables.
type Reading struct {
	At      time.Time `json:"at"`      // its end; zero: there was none
	Damaged uint64    `json:"damaged"` // tables that are not as they were written
}

// LastReading returns the last result of ReadTables, also of an earlier process.
func (s *Store) LastReading() (r Reading) {
	if at := s.reading.at.Load(); at != 0 {
		r.At, r.Damaged = time.Unix(0, at).UTC(), s.reading.tables.Load()
	}
	return r
}

// recall takes the last reading from the store; one that cannot be read counts as none.
func (r *reading) recall(db pebble.Reader) {
	if row, err := get(db, keyRead); err == nil && len(row) == 16 {
		r.at.Store(int64(be.Uint64(row)))
		r.tables.Store(be.Uint64(row[8:]))
	}
}

// Busy returns whether a record is being appended: background work then rests longer.
func (s *Store) Busy() bool { return s.writing.Load() > 0 }

// eachTable checks every block of every table, and tells of the damaged ones. One that a compaction removes meanwhile is
// left out: its rows are in a newer one.
func eachTable(ctx context.Context, db *pebble.DB, o *Options, pause func(bytes int) error, tell func(path string, bad error)) error {
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	for _, tables := range levels {
		for _, table := range tables {
			path := o.FS.PathJoin(o.Dir, table.BackingSSTNum.String()+".sst")
			r := &pacedReader{ctx: ctx, pause: pause}
			if r.File, err = o.FS.Open(path); errors.Is(err, os.ErrNotExist) && !o.readOnly {
				continue
			}
			if err == nil {
				err = checkTable(ctx, r)
			}
			switch {
			case r.ended != nil:
				return r.ended
			case err != nil:
				tell(path, err)
			}
		}
	}
	return nil
}

func checkTable(ctx context.Context, r *pacedReader) error {
	readable, err := sstable.NewSimpleReadable(r)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	table, err := sstable.NewReader(ctx, readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(table.ValidateBlockChecksums(), table.Close())
}

// pacedReader is a table that is read with pauses.
type pacedReader struct {
	vfs.File
	ctx   context.Context
	pause func(bytes int) error
	ended error // why the pass ends, which is no damage
}

// ReadAt implements io.ReaderAt.
func (r *pacedReader) ReadAt(p []byte, at int64) (int, error) {
	if r.ended = r.ctx.Err(); r.ended == nil && r.pause != nil {
		r.ended = r.pause(len(p))
	}
	if r.ended != nil {
		return 0, r.ended
	}
	return r.File.ReadAt(p, at)
}
