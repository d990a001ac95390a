package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrMarkSound means that NewMark is not needed: the mark in place is this store's and agrees with it.
var ErrMarkSound = errors.New("the mark is this store's and agrees with it")

// standstill is the largest difference between the store's last moment and the clock, ahead or behind, at which NewMark
// still accepts the store as proven: one night. A running box writes a beat every few seconds; during a longer pause
// the branch may have sold from another disk.
const standstill = 12 * time.Hour

// MarkProof is the result of NewMark.
type MarkProof struct {
	Mark      MarkState // the file at the mark's path
	Moved     string    // where the store's own mark was found, outside its place; empty: not found
	Documents int
	Series    int
	Last      time.Time // the last moment that the store knows; zero: the store is empty
	// Doubts are the reasons why the store may lack documents that it issued, in sentences. Empty: it is proven that
	// the store has all documents.
	Doubts []string
	Owed   *Owed  // what must be settled because of the doubts; nil: there are no doubts
	Aside  string // the new path of the file that was in the mark's place, "" if there was none

	former [][16]byte // the identities of the stores on the media that know more
}

// MarkAim is the task of NewMark.
type MarkAim struct {
	From     string // where the mark's file is; "": where the store last used its mark
	Second   string // the second copy's folder; "": there is none
	Dry      bool   // change nothing
	Possible Possible
	// Accept decides about a store with doubts. It returns nil if a person accepts all of MarkProof.Owed. After an
	// error, NewMark changes nothing.
	Accept func(*MarkProof) error
}

// NewMark gives a sound mark to a store whose mark is lost, unreadable, old, another store's, or not in its place. The
// store must not be open.
//
// NewMark moves the store's own mark from aim.From to its place. At every moment one of the two files is the mark:
// NewMark writes the new file completely, notes it in the store, and appends ".moved" to the old file's name if the
// medium allows it.
//
// If the mark cannot be found, NewMark proves a store that needs no Settle: every row and the journals' chains must be
// right, the second copy must end exactly where the store ends, and the store's last moment must be recent (see
// standstill). A proven store gets a new mark and continues where it was. A store whose doubts are accepted is treated
// as rebuilt from other media: Settle must first move every series above the highest number that it can have reached.
//
// A file in the mark's place is renamed, never deleted. Errors: ErrMarkSound; ErrMark if aim.From is not this store's
// newest mark, or if the mark shows that this store is not the newest (MarkAhead, MarkLater): find the right disk, or
// use Assemble and Settle; ErrCorrupt if the check finds a problem; ErrNoStore, ErrInUse; the error of aim.Accept.
// Repeat NewMark after a crash: until then the store opens with its old mark, or does not open, or issues nothing.
func NewMark(ctx context.Context, aim MarkAim, o Options, progress Progress) (p *MarkProof, err error) {
	defer wrap(&err, "making a new mark")
	o.setDefaults()
	db, err := openPebble(&o, &damage{}, aim.Dry)
	if err != nil {
		return nil, err
	}
	defer closing(&err, db)
	j, err := newMarkJudge(db)
	if err != nil {
		return nil, err
	}
	p = &MarkProof{Mark: j.look(o.FS, o.MarkPath)}
	switch p.Mark.Kind {
	case MarkSound:
		return p, ErrMarkSound
	case MarkAhead, MarkLater:
		return p, fmt.Errorf("%w: %s", ErrMark, p.Mark.What)
	}
	from := j.look(o.FS, cmp.Or(aim.From, j.row.Path, o.MarkPath))
	usable := from.Kind == MarkSound || from.Kind == MarkAhead
	row := j.restored
	if row == nil {
		row = &Restoration{At: o.Now().UnixNano(), From: j.id}
	}
	if !usable {
		for _, w := range j.behind {
			p.noteAhead(&w, row, j.series)
		}
		p.noteAhead(p.Mark.Ahead, row, j.series) // an old mark may still know more than the store
	}
	switch {
	case aim.From != "" && !usable:
		return p, fmt.Errorf("%w: %s", ErrMark, from.What)
	case usable:
		p.Moved = from.Path
	case j.restored != nil:
		p.Last = row.TakenAt()
		p.doubt("the store was made from a backup or a copy and is not reconciled yet, and the mark that knew the " +
			"numbers spent since is gone")
	default:
		if err := p.prove(ctx, &o, db, j, row, aim.Second, progress); err != nil {
			return p, err
		}
	}
	doubted := len(p.Doubts) > 0
	if doubted {
		row.MarkLost, row.Made = true, cmp.Or(row.Made, "without its mark")
		if p.Owed, err = owed(db, row, nil, nil, aim.Possible); err == nil && aim.Accept != nil {
			err = aim.Accept(p)
		}
	}
	if err != nil || aim.Dry {
		return p, err
	}
	if doubted { // from here on the store gives no number before Settle, and Open makes the mark
		err = beRestored(db, slices.Clone(j.id[:]), *row, p.former...)
	}
	if err == nil {
		err = makeParents(o.FS, o.MarkPath)
	}
	if err == nil && p.Mark.Kind != MarkMissing {
		aside := o.MarkPath + "." + p.Mark.Kind + "-" + o.Now().UTC().Format("20060102T150405.000000000Z")
		if err := renameSynced(o.FS, o.MarkPath, aside); err != nil {
			return p, fmt.Errorf("setting the old mark aside: %w", err)
		}
		p.Aside = aside
	}
	switch {
	case err != nil || doubted:
		return p, err
	case usable:
		return p, moveMark(&o, db, &from)
	}
	// If we crash between the two writes, no mark has the generation in the row, and NewMark must be repeated.
	generation := j.newLine()
	if err := setJSON(db, keyMark, markRow{generation, o.MarkPath}, pebble.Sync); err != nil {
		return p, err
	}
	return p, j.writeNew(&o, generation)
}

func moveMark(o *Options, db *pebble.DB, from *MarkState) error {
	generation := from.generation + 1
	err := writeNewMark(o.FS, o.MarkPath, from.said, firstSlot, generation)
	if err == nil { // after this write, a start refuses the old file as old
		err = setJSON(db, keyMark, markRow{generation, o.MarkPath}, pebble.Sync)
	}
	if err != nil {
		return err
	}
	// If the medium is read-only, the file stays: the store knows that it is old.
	if err = renameSynced(o.FS, from.Path, from.Path+".moved"); err != nil {
		o.Logger.Warn("the old mark stays where it was; the store no longer accepts it", "path", from.Path,
			"error", err)
	}
	return nil
}

// prove checks the store, and compares it with the second copy and the clock. row gets the copy's higher numbers.
func (p *MarkProof) prove(ctx context.Context, o *Options, db *pebble.DB, j *markJudge, row *Restoration, second string,
	progress Progress) error {
	report, err := fsck(ctx, db, nil, nil, progress)
	if err != nil {
		return err
	}
	p.Documents, p.Series = report.Documents, report.Series
	if len(report.Problems) > 0 {
		return fmt.Errorf("%w: %v, and %d problems in all", ErrCorrupt, report.Problems[0], len(report.Problems))
	}
	if p.Last, err = lastMoment(db); err != nil {
		return err
	}
	row.Taken = p.Last.UnixNano()
	if p.Last.IsZero() {
		row.Taken = row.At
	}
	if err := p.proveByCopy(o, db, j, row, second); err != nil {
		return err
	}
	switch now := o.Now(); {
	case p.Last.IsZero():
	case now.Sub(p.Last) > standstill:
		p.doubt("the last moment that the store knows is %v ago: was this disk in the box since?",
			now.Sub(p.Last).Round(time.Hour))
	case p.Last.Sub(now) > standstill:
		p.doubt("the box's clock is %v before the last moment that the store knows", p.Last.Sub(now).Round(time.Hour))
	}
	return nil
}

func (p *MarkProof) doubt(format string, args ...any) {
	p.Doubts = append(p.Doubts, fmt.Sprintf(format, args...))
}

// proveByCopy compares the store with the second copy. While the copy is live, both have every change before it is
// acknowledged: a store that ends exactly where its copy ends has lost nothing.
func (p *MarkProof) proveByCopy(o *Options, db *pebble.DB, j *markJudge, row *Restoration, second string) error {
	if second == "" {
		p.doubt("there is no second copy that would prove that the store holds all that was issued")
		return nil
	}
	end, w, err := lookAtCopy(o, db, second, j.id)
	switch {
	case end == nil && err != nil, errors.Is(err, errForeign):
		p.doubt("the second copy %s cannot be read: %v", second, err)
		return nil
	case end == nil:
		p.doubt("there is no second copy in %s", second)
		return nil
	case err != nil:
		return err
	}
	p.noteAhead(w, row, j.series)
	if row.Doubt = (end.unread + leastChange - 1) / leastChange; end.unread > 0 || len(end.strange) > 0 {
		p.doubt("the end of the second copy cannot be read")
	}
	if end.store != j.id {
		p.doubt("the second copy is of this store before it was restored")
	}
	for name, here := range j.series {
		there := end.told.Series[here.Sequence]
		if there.Position < here.Position {
			p.doubt("the second copy was not written to the end: of series %s it lacks %d changes", name,
				here.Position-there.Position)
			break
		}
	}
	return nil
}

// noteAhead notes that a medium (w) knows more than the store: a doubt, the medium's store in p.former, and its higher
// numbers in row. A nil w is ignored.
func (p *MarkProof) noteAhead(w *Witness, row *Restoration, series map[string]Reach) {
	if w == nil {
		return
	}
	p.doubt("%v", w)
	p.former = append(p.former, w.Store)
	for _, a := range w.Series {
		row.Known = raise(row.Known, a, series)
	}
}

// lastMoment returns the time of the store's last Beat or change; zero if there is neither.
func lastMoment(r pebble.Reader) (latest time.Time, err error) {
	latest, err = latestChange(r)
	if beat, bad := readJSON[time.Time](r, keyBeat); bad == nil && beat.After(latest) {
		latest = beat
	}
	return latest, err
}

// markRow is the store's note about its mark: the mark's generation and its path, in JSON. A mark of a lower
// generation, or of another line (see writesBits), is old. The row is written after the mark: at each Beat, at a Close
// if the mark was written since Open, and at an Open with a new mark or path. Only NewMark writes it before a new mark.
type markRow struct {
	Generation uint64
	Path       string
}

// A generation has two parts: a line, which is 24 random bits for each new mark of a store (0: the first mark), and the
// number of times that the mark was written.
const writesBits = 40

func lineOf(generation uint64) uint64   { return generation >> writesBits }
func writesOf(generation uint64) uint64 { return generation & (1<<writesBits - 1) }

func (m *mark) row() markRow { return markRow{m.file.generation.Load(), m.o.MarkPath} }

// noteMark writes the markRow without a sync: if a crash loses it, the older row is still right, only less precise.
func (s *Store) noteMark() {
	if s.damage.err() == nil {
		s.o.dieOn(setJSON(s.db, keyMark, s.mark.row(), pebble.NoSync), "noting the mark")
	}
}

// The kinds of a MarkState.
const (
	MarkSound      = "sound"      // this store's; the store has all numbers of the mark, or must be settled first
	MarkMissing    = "missing"    // there is no file
	MarkUnreadable = "unreadable" // no slot is complete, or the medium does not return the file
	MarkForeign    = "foreign"    // another store's
	MarkOld        = "old"        // of this store's family, but the store last used a newer or another mark
	MarkLater      = "later"      // a later store's, which was restored from this store
	MarkAhead      = "ahead"      // this store's, with numbers that the store lacks
)

// MarkState is the result of comparing a mark file with a store.
type MarkState struct {
	Path string
	Used string // path of the store's mark when the store was last open; empty: not known
	Kind string
	What string // the kind and its reason, in a sentence
	// Ahead lists the numbers that the store lacks; nil if it lacks none, or if the kind is not MarkAhead or MarkOld.
	Ahead *Witness

	generation uint64
	said       *Head // nil: the mark is missing or unreadable
}

// markJudge compares marks with a store. It holds the store's rows for the comparison.
type markJudge struct {
	id       [16]byte
	row      markRow
	former   [][16]byte
	series   map[string]Reach
	restored *Restoration // nil: not restored, or settled already
	behind   []Witness    // media of the box that know more than the store
}

func newMarkJudge(r pebble.Reader) (*markJudge, error) {
	j := new(markJudge)
	var errs [6]error
	j.id, errs[0] = identity(r)
	j.row, errs[1] = readJSON[markRow](r, keyMark)
	j.former, errs[2] = readJSON[[][16]byte](r, keyFormer)
	j.series, errs[3] = readAllSeries(r)
	j.restored, errs[4] = readJSON[*Restoration](r, keyRestored)
	j.behind, errs[5] = readJSON[[]Witness](r, keyBehind)
	j.behind = slices.DeleteFunc(j.behind, func(w Witness) bool { return w.Outside })
	return j, errors.Join(errs[:]...)
}

func (j *markJudge) head() *Head { return storeHead(j.id, nil, j.series) }

// look judges the file at a path without writing; the medium may be read-only.
func (j *markJudge) look(fs vfs.FS, path string) MarkState {
	file, err := openMarkFile(fs, path, false)
	state := j.judge(path, file, err)
	if file != nil {
		_ = file.close() // nothing was written
	}
	return state
}

// judge compares a mark with the store. err is the error of opening the mark.
func (j *markJudge) judge(path string, file *markFile, err error) MarkState {
	m := MarkState{Path: path, Used: j.row.Path}
	is := func(kind, format string, args ...any) MarkState {
		m.Kind, m.What = kind, fmt.Sprintf("mark %s: ", path)+fmt.Sprintf(format, args...)
		if kind == MarkAhead || kind == MarkOld {
			m.Ahead, _ = leads(WitnessMark, path, j.head(), m.said) // heads of numbers: reads no medium
		}
		return m
	}
	switch {
	case errors.Is(err, errNoMark):
		return is(MarkMissing, "no mark is there")
	case err != nil:
		return is(MarkUnreadable, "%v", err)
	}
	m.generation, m.said = file.generation.Load(), file.said
	store, newest := m.said.Store, m.generation
	if file.torn {
		newest++ // the damaged slot may have had the newer generation
	}
	switch {
	case !sameFamily(store, j.id):
		return is(MarkForeign, "it is of store %x, this is store %x", store, j.id)
	case lineOf(newest) == lineOf(j.row.Generation) && newest < j.row.Generation:
		return is(MarkOld, "it is old: it was written %d times, the store's own mark %d times; it may not "+
			"know the last numbers", writesOf(m.generation), writesOf(j.row.Generation))
	case j.restored != nil || len(j.behind) > 0: // the mark may have higher numbers, or a former identity
		return is(MarkSound, "it is this store's")
	case lineOf(newest) != lineOf(j.row.Generation) && j.row != (markRow{}):
		return is(MarkOld, "it is old, or of a store that was made from this one: this store last used another")
	case slices.Contains(j.former, store):
		return is(MarkOld, "it is of store %x, this store before it was restored: it may not know the last "+
			"numbers", store)
	case store != j.id:
		return is(MarkLater, "it is of store %x, which was restored from this one: this store, %x, is the older of "+
			"the two", store, j.id)
	}
	if err := compareMark(j.head(), m.said); err != nil {
		return is(MarkAhead, "%v", err)
	}
	return is(MarkSound, "it is this store's, and the store has all of its numbers")
}

// refuse returns why a store does not open with a mark: ErrMark and the last path of the store's own mark.
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

func (j *markJudge) writeNew(o *Options, generation uint64) error {
	id := j.id
	if j.restored != nil { // until Settle the mark names the family only: see openMark
		clear(id[8:])
	}
	return writeNewMark(o.FS, o.MarkPath, markHead(id, j.series), firstSlot, generation)
}

// LookAtMark compares the mark file at a path with this store, and changes nothing; "" stands for the configured file.
func (s *Store) LookAtMark(path string) (MarkState, error) {
	return use(s, "judging a mark", func() (MarkState, error) {
		j, err := newMarkJudge(s.db)
		if err != nil {
			return MarkState{}, err
		}
		return j.look(s.o.FS, cmp.Or(path, s.o.MarkPath)), nil
	})
}
