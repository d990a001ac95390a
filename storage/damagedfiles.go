package storage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Without Pebble's manifest, which may itself be damaged, a damaged store is read file by file. A deleted or
// overwritten row may reappear; the journal's digests therefore decide which rows count.

// rowSource delivers the rows of a store, in any order and perhaps repeatedly; only the links of a series' journal come
// in their order. A rowSource reports unreadable pieces and continues.
type rowSource struct {
	name string
	own  bool // of the store itself, or of a backup that is the first of all sources
	rows func(ctx context.Context, row func(key, value []byte) error, bad func(what string)) error
}

// folder is a Pebble store as a source of rows.
type folder struct {
	sources []rowSource // Pebble's view, if it opens the store; the tables; the log; newest file first
	whole   bool        // Pebble shows all changes, and the end of every series
	blind   bool        // Pebble does not show all rows
	meta    bool        // Pebble shows all meta rows
	db      *pebble.DB  // nil: Pebble cannot open the store
}

func (f *folder) close() error {
	if f.db == nil {
		return nil
	}
	return f.db.Close()
}

// openFolder opens a store in any state, to read it. Errors: ErrInUse; ErrNoStore when there is no folder.
func openFolder(o *Options, name string, own bool) (*folder, error) {
	f := &folder{blind: true}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	db, logless, err := openToCheck(o)
	if errors.Is(err, ErrInUse) {
		return nil, err
	}
	if err == nil {
		f.db, f.whole, f.blind, f.meta = db, logless == nil, false, true
		nothing := func(_, _ []byte) error { return nil }
		err := scanPast(db, []byte{tableMeta}, []byte{tableJournal}, nothing, func(blindSpot) {
			f.whole, f.meta = false, false
		})
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.sources = append(f.sources, rowSource{name, own, func(ctx context.Context, row func(key, value []byte) error,
			bad func(string)) error {
			read := func(key, value []byte) error { return errors.Join(row(key, value), ctx.Err()) }
			return scanPast(db, []byte{0}, []byte{tableEnd}, read, func(blindSpot) {
				f.blind = true
				bad("some rows")
			})
		}})
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(b, a)) })
	add := func(ext string, read func(context.Context, string, func(key, value []byte) error, func()) error) {
		for _, file := range names {
			if !strings.HasSuffix(file, ext) {
				continue
			}
			path := o.FS.PathJoin(o.Dir, file)
			f.sources = append(f.sources, rowSource{name, own, func(ctx context.Context,
				row func(key, value []byte) error, bad func(string)) error {
				if !f.blind && f.whole {
					return nil // Pebble showed all rows
				}
				return read(ctx, path, row, func() { bad(file) })
			}})
		}
	}
	add(".sst", o.tableRows)
	add(".log", o.logRows)
	return f, nil
}

// tableRows reads one table, and skips damaged blocks.
func (o *Options) tableRows(ctx context.Context, path string, row func(key, value []byte) error, bad func()) error {
	f, err := wholeBlocksFS{o.FS, func(string) {}}.Open(path)
	if err != nil {
		bad()
		return nil
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		bad()
		return f.Close()
	}
	po := o.pebbleOptions(&damage{})
	po.EnsureDefaults()
	r, err := sstable.NewReader(ctx, readable, po.MakeReaderOptions())
	if err != nil { // NewReader closes the file
		bad()
		return nil
	}
	defer func() { _ = r.Close() }() // the table was only read
	// scan reads up to tableEnd: after a damaged block, readPast looks for readable rows from any later key on.
	scan := func(from []byte, fn func(key, value []byte) error) (err error) {
		it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
		if err != nil {
			return errors.Join(ErrCorrupt, err)
		}
		defer func() {
			if bad := it.Error(); bad != nil {
				err = errors.Join(err, ErrCorrupt, bad)
			}
			_ = it.Close() // Close reports it.Error again
		}()
		for kv := it.SeekGE(from, 0); kv != nil && bytes.Compare(kv.K.UserKey, []byte{tableEnd}) < 0; kv = it.Next() {
			if kind := kv.K.Kind(); kind != pebble.InternalKeyKindSet && kind != pebble.InternalKeyKindSetWithDelete {
				continue
			}
			value, _, err := kv.Value(nil)
			if err != nil {
				return errors.Join(ErrCorrupt, err)
			}
			if err := fn(bytes.Clone(kv.K.UserKey), value); err != nil {
				return onlyIf(!errors.Is(err, errStop), err)
			}
		}
		return nil
	}
	return readPast(scan, []byte{0}, []byte{tableEnd}, func(key, value []byte) error {
		return errors.Join(row(key, value), ctx.Err()) // an ended context is not damage
	}, func(blindSpot) { bad() })
}

// The log's format is that of FormatWALSyncChunks: blocks of 32 KiB, in which chunks lie:
//
//	CRC u32 · length u16 · kind u8 · number of the log u32 · synced up to u64 · payload; little endian
//
// A record is one chunk, or a first, some middle and a last chunk. The CRC covers all bytes after it.
const (
	logBlock    = 32 << 10
	logHeader   = 19
	chunkFull   = 9
	chunkFirst  = 10
	chunkMiddle = 11
	chunkLast   = 12

	// The last chunk of a closed log has CRC and length 0, this kind, and the log's number plus 1.
	chunkEnd = 5
)

// logRows reads one file of the log. After damage it searches for the next chunk byte by byte. Pebble reuses a log's
// file for a later log: chunks of the earlier log remain after the later log's end, and are not damage. The log of a
// killed process has no end mark; in a reused file it is reported as damaged, because its end may be damaged.
func (o *Options) logRows(ctx context.Context, path string, row func(key, value []byte) error, bad func()) error {
	var number uint32
	if _, err := fmt.Sscanf(o.FS.PathBase(path), "%d", &number); err != nil {
		return nil
	}
	text, err := o.readAround(path)
	if err != nil {
		bad()
	}
	var record []byte
	begun, damaged := false, false
	// What was read since the last chunk: other bytes (strange); the end mark, or a chunk of an earlier log (over).
	strange, over := false, false
	for at := 0; at+logHeader <= len(text); {
		end := min((at/logBlock+1)*logBlock, len(text))
		if end-at < logHeader {
			at = end
			continue
		}
		kind, payload := logChunk(text[at:end], number)
		if payload == nil {
			of := logOf(text[at:end])
			over = over || !strange && of > 0 && of <= number
			strange = strange || !over && text[at] != 0
			begun = false
			at++
			continue
		}
		at += logHeader + len(payload)
		damaged, strange, over = damaged || strange || over, false, false
		switch kind {
		case chunkFull, chunkFirst:
			record, begun = append(record[:0], payload...), true
		default:
			record = append(record, payload...)
		}
		if !begun || kind != chunkFull && kind != chunkLast {
			continue
		}
		begun = false
		err := eachRow(record, func(key, value []byte) error { return row(bytes.Clone(key), value) })
		if err = errors.Join(err, ctx.Err()); err != nil && !errors.Is(err, ErrCorrupt) {
			return err
		}
	}
	if damaged || strange {
		bad()
	}
	return nil
}

// logOf returns the number of the log whose chunk or end mark is at the start of b, or 0.
func logOf(b []byte) uint32 {
	if number := le.Uint32(b[7:]); b[6] == chunkEnd {
		if [6]byte(b) == [6]byte{} {
			return number - 1
		}
	} else if _, payload := logChunk(b, number); payload != nil {
		return number
	}
	return 0
}

// logChunk returns the payload of the chunk at the start of b, nil if there is no chunk.
func logChunk(b []byte, number uint32) (kind byte, payload []byte) {
	kind = b[6]
	if kind < chunkFull || kind > chunkLast || le.Uint32(b[7:]) != number {
		return 0, nil
	}
	end := logHeader + int(le.Uint16(b[4:]))
	if end > len(b) || maskedCRC(b[6:end]) != le.Uint32(b) {
		return 0, nil
	}
	return kind, b[logHeader:end:end]
}

// readAround reads a file, with zeros where the medium returns no bytes.
func (o *Options) readAround(path string) ([]byte, error) {
	f, err := o.FS.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	text := make([]byte, info.Size())
	var faults error
	for at := 0; at < len(text); at += logBlock {
		if _, err := f.ReadAt(text[at:min(at+logBlock, len(text))], int64(at)); err != nil && err != io.EOF {
			faults = err
		}
	}
	return text, errors.Join(faults, f.Close())
}
