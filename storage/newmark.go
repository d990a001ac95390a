package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ErrMarkSound: the mark is this store's and agrees with it, so no new one is made.
var ErrMarkSound = errors.New("the mark is this store's and agrees with it")

// standstill is the longest time since the store's last moment for which a second copy proves the store: a night. The
// box beats while it runs: after a longer time the branch may have sold from another disk.
const standstill = 12 * time.Hour

// MarkProof is the result of NewMark.
type MarkProof struct {
	Mark      MarkState // the file at the mark's path
	Moved     string    // the path from where the store's mark is brought to its place; empty: it is not there
	Documents int
	Series    int
	Last      time.Time // the last moment that the store knows; zero: the store is empty
	// Doubts are the reasons why the store may lack documents that it issued, in sentences. Empty: the store is proven
	// to hold all documents.
	Doubts []string
	Owed   *Owed  // what must be settled because of the doubts; nil: there are no doubts
	Aside  string // the new path of the file that was in the mark's place, "" if there was none
}

// MarkAim is the task of NewMark.
type MarkAim struct {
	From     string // where the mark's file is; "": where the store last used it
	Second   string // the second copy's folder; "": there is none
	Dry      bool   // change nothing
	Possible Possible
	// Accept decides about a store with doubts: nil if a person accepts all that is owed. After an error nothing
	// happens.
	Accept func(*MarkProof) error
}

// NewMark puts the mark of a store in order that is not in its place, or lost, unreadable, old, or another store's. The
// store must not be open.
//
// The store's own mark is brought from aim.From. At every moment one of the two files is the mark: the new file is
// written completely, then the store notes it, and then the old file is renamed to aim.From + ".moved", if its medium
// still allows that.
//
// If the mark cannot be found, NewMark proves the store: it checks every row and the chains of the journals, and the
// second copy must end exactly where the store ends. A proven store gets a new mark and continues where it was. If there
// are doubts that are accepted, the store owes what a store owes that was made of other media: it gives no number before
// Settle has moved every series above the highest number that the series can have reached.
//
// A file in the mark's place is renamed, never deleted. ErrMarkSound; ErrMark if aim.From is not this store's newest
// mark, or if the mark shows that this store is not the newest (MarkAhead, MarkLater): find the right disk, or use
// Assemble and Settle; ErrCorrupt if the check finds a problem; ErrNoStore, ErrInUse; the error of aim.Accept. After a
// crash it can be repeated: until it is complete the store opens with its old mark, or not at all, or issues nothing.
func NewMark(ctx context.Context, aim MarkAim, o Options, progress Progress) (*MarkProof, error) {
	p, err := newMark(ctx, &o, aim, progress)
	if err != nil {
		return p, fmt.Errorf("making a new mark: %w", err)
	}
	return p, nil
}

func newMark(ctx context.Context, o *Options, aim MarkAim, progress Progress) (p *MarkProof, err error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	db, err := openPebble(o, &damage{}, aim.Dry)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
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
	row, err := restoration(db)
	switch {
	case err != nil:
		return p, err
	case aim.From != "" && !usable:
		return p, fmt.Errorf("%w: %s", ErrMark, from.What)
	case usable:
		p.Moved = from.Path
	case row != nil:
		p.Last = row.takenAt()
		p.Doubts = []string{"the store was made of a backup or a copy and is not reconciled yet, and the mark that " +
			"knew the numbers spent since is gone"}
	default:
		row = &restoredRow{At: o.Now().UnixNano(), From: j.id}
		if err := p.prove(ctx, o, db, j, row, aim.Second, progress); err != nil {
			return p, err
		}
	}
	doubted := len(p.Doubts) > 0
	if doubted {
		row.MarkLost, row.Made = true, cmp.Or(row.Made, "its mark is lost")
		if p.Owed, err = owed(db, row, nil, nil, aim.Possible); err == nil && aim.Accept != nil {
			err = aim.Accept(p)
		}
	}
	if err != nil || aim.Dry {
		return p, err
	}
	if doubted { // from here on the store gives no number before Settle; Open makes the mark
		err = beRestored(db, slices.Clone(j.id[:]), *row)
	}
	if err == nil {
		err = makeParents(o.FS, o.MarkPath)
	}
	if err == nil {
		p.Aside, err = setMarkAside(o, p.Mark.Kind)
	}
	switch {
	case err != nil || doubted:
		return p, err
	case usable:
		return p, moveMark(o, db, &from)
	}
	// If we crash between the two writes, there is no mark of the new line, and NewMark must be repeated.
	generation := j.newLine()
	if err := setJSON(db, keyMark, markRow{generation, o.MarkPath}, pebble.Sync); err != nil {
		return p, err
	}
	return p, j.writeNew(o, generation)
}

// moveMark brings the store's mark to its configured path.
func moveMark(o *Options, db *pebble.DB, from *MarkState) error {
	generation := from.generation + 1
	err := writeNewMark(o.FS, o.MarkPath, from.store, from.said, firstSlot, generation)
	if err == nil { // from here on the old file is an old mark
		err = setJSON(db, keyMark, markRow{generation, o.MarkPath}, pebble.Sync)
	}
	if err != nil {
		return err
	}
	// If the medium accepts no more writes, the file stays: the store knows that it is old.
	if err = o.FS.Rename(from.Path, from.Path+".moved"); err == nil {
		err = syncDir(o.FS, o.FS.PathDir(from.Path))
	}
	if err != nil {
		o.Logger.Warn("the old mark stays where it was; the store does not take it any more", "path", from.Path, "error",
			err)
	}
	return nil
}

// prove checks the store and compares it with every other medium. row gets the higher numbers of other media.
func (p *MarkProof) prove(ctx context.Context, o *Options, db *pebble.DB, j *markJudge, row *restoredRow, second string,
	progress Progress) error {
	report, err := fsck(ctx, db, reached{}, nil, progress)
	if err != nil {
		return err
	}
	p.Documents, p.Series = report.Documents, report.Series
	if len(report.Problems) > 0 {
		return fmt.Errorf("%w: %v, and %d problems in all", ErrCorrupt, report.Problems[0], len(report.Problems))
	}
	series, err := readAllSeries(db)
	if err != nil {
		return err
	}
	if p.Last, err = lastMoment(db); err != nil {
		return err
	}
	row.Taken = p.Last.UnixNano()
	if p.Last.IsZero() {
		row.Taken = row.At
	}
	for _, w := range j.behind {
		p.doubt("%v", &w)
		row.addWitness(&w, series)
	}
	if p.Mark.store == j.id { // an old mark may still know more than the store
		w, err := leads(WitnessMark, o.MarkPath, j.head(), p.Mark.said.head(j.id))
		if err != nil {
			return err
		}
		if w != nil {
			p.doubt("%v", w)
			row.addWitness(w, series)
		}
	}
	if err := p.proveByCopy(o, db, j, row, series, second); err != nil {
		return err
	}
	switch now := o.Now(); {
	case p.Last.IsZero():
	case now.Sub(p.Last) > standstill:
		p.doubt("the last moment that the store knows is %v ago: was this disk in the box since?",
			now.Sub(p.Last).Round(time.Hour))
	case p.Last.Sub(now) > standstill:
		p.doubt("the box's clock stands %v before the last moment that the store knows",
			p.Last.Sub(now).Round(time.Hour))
	}
	return nil
}

func (p *MarkProof) doubt(format string, args ...any) {
	p.Doubts = append(p.Doubts, fmt.Sprintf(format, args...))
}

// proveByCopy compares the store with the second copy. Every change is in both before it is acknowledged, so a store
// that ends exactly where its copy ends has lost nothing.
func (p *MarkProof) proveByCopy(o *Options, db *pebble.DB, j *markJudge, row *restoredRow, series map[string]Reach,
	second string) error {
	if second == "" {
		p.doubt("there is no second copy that would prove that the store holds all that was issued")
		return nil
	}
	if _, err := o.FS.Stat(second); err != nil {
		p.doubt("the second copy is not there: %v", err)
		return nil
	}
	end, err := readEnd(o.FS, second)
	switch {
	case err != nil:
		p.doubt("the second copy cannot be read: %v", err)
		return nil
	case end == nil:
		p.doubt("there is no second copy in %s", second)
		return nil
	case !sameFamily(end.store, j.id):
		p.doubt("the second copy in %s is another store's", second)
		return nil
	}
	w, err := compareCopy(o, db, second, end)
	if err != nil {
		return err
	}
	if w != nil {
		p.doubt("%v", w)
		row.addWitness(w, series)
	}
	if row.Doubt = (end.unread + leastChange - 1) / leastChange; end.unread > 0 || len(end.strange) > 0 {
		p.doubt("the end of the second copy cannot be read")
	}
	if end.store != j.id {
		p.doubt("the second copy is of this store before it was restored")
	}
	for name, here := range series {
		there := end.told.Series[here.Sequence]
		if there.Position < here.Position {
			p.doubt("the second copy was not written to the end: of series %s it lacks %d changes", name,
				here.Position-there.Position)
			break
		}
	}
	return nil
}

// addWitness adds the numbers that another medium knows and the store lacks.
func (r *restoredRow) addWitness(w *Witness, series map[string]Reach) {
	for _, a := range w.Series {
		r.Known = raise(r.Known, a.Series, a.There, series)
	}
}

// lastMoment returns when the store last beat or changed; zero when it never did.
func lastMoment(r pebble.Reader) (latest time.Time, err error) {
	latest, err = latestChange(r)
	if row, bad := get(r, keyBeat); bad == nil && len(row) == 8 {
		if beat := time.Unix(0, int64(be.Uint64(row))).UTC(); beat.After(latest) {
			latest = beat
		}
	}
	return latest, err
}

// setMarkAside renames the file at the mark's path, durably.
func setMarkAside(o *Options, kind string) (string, error) {
	if kind == MarkMissing {
		return "", nil
	}
	aside := o.MarkPath + "." + kind + "-" + o.Now().UTC().Format("20060102T150405.000000000Z")
	if err := o.FS.Rename(o.MarkPath, aside); err != nil {
		return "", fmt.Errorf("setting the old mark aside: %w", err)
	}
	return aside, syncDir(o.FS, o.FS.PathDir(o.MarkPath))
}
