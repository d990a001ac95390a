package storage

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// markRow is the store's note about its mark: the mark's generation and its path. A mark of a lower generation, or of
// another line, is an old mark that was put back. The row is always written after the mark: at each Beat, at a Close if
// the mark was written since Open, and at an Open with a new mark. It is JSON.
type markRow struct {
	Generation uint64
	Path       string
}

// A generation has two parts: a line, which is 24 random bits for each new mark of a store (0: the first mark), and the
// number of times that the mark was written.
const writesBits = 40

func lineOf(generation uint64) uint64   { return generation >> writesBits }
func writesOf(generation uint64) uint64 { return generation & (1<<writesBits - 1) }

// row returns the markRow for the mark's present state.
func (m *mark) row() markRow { return markRow{m.file.generation.Load(), m.o.MarkPath} }

// noteMark writes the row, unsynced: if a crash loses it, the older row is still right, only less precise.
func (s *Store) noteMark() {
	if s.damage.err() != nil {
		return
	}
	if err := setJSON(s.db, keyMark, s.mark.row(), pebble.NoSync); err != nil {
		s.o.die("noting the mark: %v", err)
	}
}

// The kinds of a MarkState.
const (
	MarkSound      = "sound"      // this store's, and the store has all numbers of the mark
	MarkMissing    = "missing"    // there is no file
	MarkUnreadable = "unreadable" // neither slot is complete, or the medium cannot read it
	MarkForeign    = "foreign"    // another store's
	MarkOld        = "old"        // this store's, but old: the store knows a newer mark
	MarkLater      = "later"      // of a store that was restored from this one: this store is the older of the two
	MarkAhead      = "ahead"      // this store's, with higher numbers than the store's
)

// MarkState is the result of comparing a mark file with a store.
type MarkState struct {
	Path string
	Used string // path of the store's mark when the store was last open; empty: not known
	Kind string
	What string // the kind and its reason, in a sentence
	// Ahead lists the numbers that the store lacks, if the kind is MarkAhead.
	Ahead *Witness

	generation uint64
	store      [16]byte
	said       reached
}

// markJudge is the rows of a store by which it judges marks.
type markJudge struct {
	id       [16]byte
	row      markRow
	former   [][16]byte
	series   map[string]Reach
	restored *restoredRow // nil: not restored, or settled already
	behind   []Witness    // of the box
}

func newMarkJudge(r pebble.Reader) (*markJudge, error) {
	j := new(markJudge)
	var errs [6]error
	j.id, errs[0] = identity(r)
	j.row, errs[1] = readJSON[markRow](r, keyMark)
	j.former, errs[2] = formerStores(r)
	j.series, errs[3] = readAllSeries(r)
	j.restored, errs[4] = restoration(r)
	j.behind, errs[5] = readBehind(r)
	j.behind = slices.DeleteFunc(j.behind, func(w Witness) bool { return w.Outside })
	return j, errors.Join(errs[:]...)
}

// head returns where the store's series end.
func (j *markJudge) head() *Head { return storeHead(j.id, nil, j.series) }

// look judges the file at a path and changes nothing; the medium may be read-only.
func (j *markJudge) look(fs vfs.FS, path string) MarkState {
	file, said, err := openMarkFile(fs, path, false)
	state := j.judge(path, file, said, err)
	if file != nil {
		_ = file.close() // nothing was written
	}
	return state
}

// judge compares a mark with the store. err is the error of opening the mark.
func (j *markJudge) judge(path string, file *markFile, said reached, err error) MarkState {
	m := MarkState{Path: path, Used: j.row.Path}
	is := func(kind, format string, args ...any) MarkState {
		m.Kind, m.What = kind, fmt.Sprintf("mark %s: ", path)+fmt.Sprintf(format, args...)
		return m
	}
	switch {
	case errors.Is(err, errNoMark):
		return is(MarkMissing, "no mark is there")
	case err != nil:
		return is(MarkUnreadable, "%v", err)
	}
	m.store, m.generation, m.said = file.store, file.generation.Load(), said
	newest := m.generation
	if file.torn {
		newest++ // the damaged slot may have had the newer generation
	}
	switch {
	case !sameFamily(m.store, j.id):
		return is(MarkForeign, "it is of store %x, this is store %x", m.store, j.id)
	case lineOf(newest) == lineOf(j.row.Generation) && newest < j.row.Generation:
		return is(MarkOld, "it is an old one, written %d times when the store's own was written %d times: it does not "+
			"know the last numbers",
			writesOf(m.generation), writesOf(j.row.Generation))
	case j.restored != nil || len(j.behind) > 0: // it may have higher numbers, or a former identity
		return is(MarkSound, "it is this store's")
	case lineOf(newest) != lineOf(j.row.Generation) && j.row != (markRow{}):
		return is(MarkOld, "it is an old one, in whose place this store got a new mark: it does not know the last "+
			"numbers")
	case slices.Contains(j.former, m.store):
		return is(MarkOld, "it is of store %x, as this store was before it was restored: it does not know the last "+
			"numbers", m.store)
	case m.store != j.id:
		return is(MarkLater, "it is of store %x, which was restored from this one: this store, %x, is the older of "+
			"the two", m.store, j.id)
	}
	if err := compareMark(j.head(), said.head(m.store)); err != nil {
		m.Ahead, _ = leads(WitnessMark, path, j.head(), said.head(m.store)) // heads of numbers: reads no medium
		return is(MarkAhead, "%v", err)
	}
	return is(MarkSound, "it is this store's, and the store holds all that it says")
}

// refuse returns why a store does not open with a mark: ErrMark, and the last path of its own mark.
func (j *markJudge) refuse(o *Options, m MarkState) error {
	err := fmt.Errorf("%w: %s", ErrMark, m.What)
	if j.row.Path == "" || j.row.Path == o.MarkPath {
		return err
	}
	return fmt.Errorf("%w; the store's mark was last at %s (%s)", err, j.row.Path, j.look(o.FS, j.row.Path).Kind)
}

// newLine returns the first generation of a new mark.
func (j *markJudge) newLine() uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[5:]) // crypto/rand never fails since Go 1.24
		if line := be.Uint64(b[:]); line != 0 && line != lineOf(j.row.Generation) {
			return line<<writesBits | 1
		}
	}
}

// writeNew writes a new mark for the store.
func (j *markJudge) writeNew(o *Options, generation uint64) error {
	var said reached
	for name, row := range j.series {
		said.names, said.numbers = append(said.names, name), append(said.numbers, row.Last)
	}
	return writeNewMark(o.FS, o.MarkPath, j.id, said, firstSlot, generation)
}

// LookAtMark compares the mark file at a path with this store, and changes nothing; "" is the configured file.
func (s *Store) LookAtMark(path string) (MarkState, error) {
	return use(s, "judging a mark", func() (MarkState, error) {
		j, err := newMarkJudge(s.db)
		if err != nil {
			return MarkState{}, err
		}
		return j.look(s.o.FS, cmp.Or(path, s.o.MarkPath)), nil
	})
}
