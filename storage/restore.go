package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Restoration is what a restored store has to settle before it appends or advances anything: numbers that were spent
// after the backup must not be used again.
type Restoration struct {
	// Taken is the time of the backup, or of the last change in a second copy. If Repaired, it is the time until which nothing is
	// missing.
	Taken time.Time
	At    time.Time // of the restoration
	// Copy: it came from a second copy, which holds all that was acknowledged while it was live.
	Copy bool
	// Repaired: Repair made it.
	Repaired bool
	// MarkLost: there was no mark beside the restored store. Other sources must show which numbers were spent after the backup:
	// the tills' receipts, mailed documents, the authority.
	MarkLost bool
	// Series are the store's series, and the series that only the mark names: these began after the backup.
	Series []Behind
	// Begun is the highest number of series that began after the backup, if the mark is of the first format, which has no names; 0
	// if there are none.
	Begun uint64
	// Missing is what a damaged second copy lacked; a person must accept it, see Reconcile.
	Missing []Missing
	// Lacks is what of the copy was missing as other sources know (see Elsewhere), in words; a person must accept it, see Reconcile. Then
	// the copy does not prove the last numbers.
	Lacks string
	// Doubt is how many changes there may have been after the readable end of the copy; 0 if there is a mark, which shows it.
	Doubt uint64
}

// Behind is how far a series got, in the store and in the mark. If the mark does not name the series, Marked is
// Restoration.Begun. Known is the highest number that a damaged copy names without having its document.
type Behind struct {
	Series              string
	Last, Marked, Known uint64
}

// restoredRow is the row "restored" in the meta table; Reconcile deletes it.
type restoredRow struct {
	Taken, At      int64 // Unix ns
	Copy, MarkLost bool
	Repaired       bool
	From           [16]byte // the identity of the store that the backup is of
	Doubt          uint64
	Known          []knownSeries
	Lacks          string
}

func (r *restoredRow) takenAt() time.Time { return time.Unix(0, r.Taken).UTC() }

func (r *restoredRow) encode() []byte {
	b := be.AppendUint64(be.AppendUint64([]byte{rowVersion}, uint64(r.Taken)), uint64(r.At))
	var flags byte
	if r.MarkLost {
		flags |= 1
	}
	if r.Copy {
		flags |= 2
	}
	if r.Repaired {
		flags |= 4
	}
	if r.Lacks != "" {
		flags |= 8
	}
	b = append(append(b, flags), r.From[:]...)
	if r.Lacks != "" {
		lacks := r.Lacks[:min(len(r.Lacks), math.MaxUint16)]
		b = append(be.AppendUint16(b, uint16(len(lacks))), lacks...)
	}
	if r.Doubt == 0 && r.Known == nil {
		return b
	}
	b = be.AppendUint64(b, r.Doubt)
	for _, k := range r.Known {
		b = append(append(b, byte(len(k.Name))), k.Name...)
		b = be.AppendUint64(be.AppendUint64(b, k.Last), k.Changes)
	}
	return b
}

func decodeRestored(b []byte) (r restoredRow, err error) {
	c := cursor{b: b}
	c.version()
	r.Taken, r.At = int64(c.u64()), int64(c.u64())
	flags := c.u8()
	r.MarkLost, r.Copy, r.Repaired = flags&1 != 0, flags&2 != 0, flags&4 != 0
	copy(r.From[:], c.take(16))
	if flags&8 != 0 {
		r.Lacks = string(c.take(int(c.u16())))
	}
	if len(c.b) > 0 {
		r.Doubt = c.u64()
	}
	for len(c.b) > 0 && !c.bad {
		r.Known = append(r.Known, knownSeries{string(c.take(int(c.u8()))), c.u64(), c.u64()})
	}
	return r, c.end("restoration")
}

// A store's identity is 8 bytes that it keeps for ever and 8 that are new with each restoration: marks of the same
// family tell how far numbers got, but only the very same identity means the same series by the same sequence.
func sameFamily(a, b [16]byte) bool { return [8]byte(a[:8]) == [8]byte(b[:8]) }

// Restore makes a store from a backup: it compares the files with their digests while it copies them under a temporary name,
// checks every row, and gives the store its name last. A mark at MarkPath stays as it is, because it knows which numbers were
// spent since. Afterwards the store can be opened, and appends nothing before Reconcile.
//
// ErrExists when there is a store already; ErrNoStore when from is no backup; ErrCorrupt when it is altered; ErrMark
// when the mark is unreadable or another store's. A crash leaves o.Dir + ".new", which the next Restore removes.
func Restore(ctx context.Context, from string, o Options, progress Progress) (*Backup, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		return nil, errors.New("storage: Options.Now is not set")
	}
	b, err := restore(ctx, from, &o, progress)
	if err != nil {
		return nil, fmt.Errorf("restoring %s from %s: %w", o.Dir, from, err)
	}
	return b, nil
}

func restore(ctx context.Context, from string, o *Options, progress Progress) (*Backup, error) {
	fs := o.FS
	if _, err := fs.Stat(o.Dir); err == nil {
		return nil, ErrExists
	}
	b, sums, err := readBackup(fs, from)
	if err != nil {
		return nil, err
	}
	row := restoredRow{Taken: b.Taken.UnixNano(), At: o.Now().UnixNano()}
	if raw, err := hex.DecodeString(b.Store); err != nil || copy(row.From[:], raw) != 16 {
		return nil, fmt.Errorf("%w: %s: store %q", ErrCorrupt, backupFile, b.Store)
	}
	if row.MarkLost, err = o.findMark(row.From); err != nil {
		return nil, err
	}
	for _, path := range []string{o.Dir, o.MarkPath} {
		if err := makeParents(fs, path); err != nil {
			return nil, err
		}
	}
	aside := o.Dir + ".new"
	if err := errors.Join(fs.RemoveAll(aside), fs.MkdirAll(aside, 0o700)); err != nil {
		return nil, err
	}
	p := &meter{report: progress, total: 2 * b.Bytes}
	for _, name := range sortedNames(sums) {
		sum, err := copyFile(ctx, fs, fs.PathJoin(from, name), fs.PathJoin(aside, fs.PathBase(name)), p)
		if err != nil {
			return nil, errors.Join(ErrCorrupt, err)
		}
		if sum != sums[name] {
			return nil, fmt.Errorf("%w: %s is altered", ErrCorrupt, name)
		}
	}
	if err := syncDir(fs, aside); err != nil {
		return nil, err
	}
	if _, err := checkCopy(ctx, o, aside, reached{}, p); err != nil {
		return nil, err
	}
	if err := o.place(aside, row); err != nil {
		return nil, err
	}
	p.finish()
	return b, nil
}

// findMark tells whether the mark of a store is lost. One that is there must be its own, or of the same family.
func (o *Options) findMark(store [16]byte) (lost bool, err error) {
	switch _, of, err := readMark(o.FS, o.MarkPath); {
	case errors.Is(err, errNoMark):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("mark %s: %w", o.MarkPath, errors.Join(ErrMark, err))
	case !sameFamily(of, store):
		return false, fmt.Errorf("%w: mark %s is of store %x, what is restored of store %x", ErrMark, o.MarkPath, of, store)
	}
	return false, nil
}

// place gives a store that was made aside its name.
func (o *Options) place(aside string, row restoredRow) error {
	if err := markRestored(o, aside, row); err != nil {
		return err
	}
	if err := syncDir(o.FS, aside); err != nil {
		return err
	}
	if err := o.FS.Rename(aside, o.Dir); err != nil {
		return err
	}
	return syncDir(o.FS, o.FS.PathDir(o.Dir))
}

// markRestored writes the row that keeps the store from issuing.
func markRestored(o *Options, dir string, row restoredRow) error {
	at := *o
	at.Dir = dir
	db, err := openPebble(&at, &damage{}, false)
	if err != nil {
		return err
	}
	id, err := get(db, keyStore)
	if err == nil && string(id) != string(row.From[:]) {
		err = fmt.Errorf("%w: the backup says store %x, its rows say %x", ErrCorrupt, row.From, id)
	}
	if err == nil {
		err = beRestored(db, id, row)
	}
	return errors.Join(err, db.Close())
}

// beRestored makes a store issue nothing before it is reconciled, under a new identity.
func beRestored(db *pebble.DB, id []byte, row restoredRow) error {
	b := db.NewBatch()
	err := errors.Join(addFormer(b, db, row.From), newIdentity(b, db, id))
	_ = b.Delete(keyRead, nil) // memory; it may be another medium that was read
	set(b, keyRestored, row.encode())
	return errors.Join(err, b.Delete(keyBehind, nil), b.Commit(pebble.Sync))
}

// Restored returns what must be settled before this store issues, or nil. The caller must not change it.
func (s *Store) Restored() *Restoration { return s.restored.Load() }

// restoration reads the row, nil when there is none.
func restoration(r pebble.Reader) (*restoredRow, error) {
	value, err := get(r, keyRestored)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row, err := decodeRestored(value)
	return &row, err
}

// compare tells where the store's series end from what the mark says of them. What the mark says without a name it may say of
// any series that it does not name.
func (r *restoredRow) compare(store, said reached) *Restoration {
	v := &Restoration{Taken: r.takenAt(), At: time.Unix(0, r.At).UTC(), Copy: r.Copy, Repaired: r.Repaired, MarkLost: r.MarkLost, Lacks: r.Lacks}
	if r.MarkLost {
		said = reached{} // of a mark that Open made
	}
	marked := said.byName()
	v.Begun = marked[""]
	place := make(map[string]int)
	add := func(b Behind) {
		if b.Marked = marked[b.Series]; b.Marked == 0 {
			b.Marked = v.Begun
		}
		place[b.Series] = len(v.Series)
		v.Series = append(v.Series, b)
	}
	for i, last := range store.numbers {
		if name := store.name(i); name != "" {
			add(Behind{Series: name, Last: last})
		}
	}
	for i, n := range said.numbers { // begun after the backup
		if _, known := place[said.name(i)]; n > 0 && said.name(i) != "" && !known {
			add(Behind{Series: said.name(i)})
		}
	}
	v.Doubt = r.Doubt
	for _, k := range r.Known {
		if _, known := place[k.Name]; !known {
			add(Behind{Series: k.Name})
		}
		v.Series[place[k.Name]].Known = k.Last
	}
	return v
}

// Gap is a time that the store has lost: at the time To it was taken back to its state of the time From. It does not hold what
// happened between them (documents sealed, numbers spent).
type Gap struct{ From, To time.Time }

// maxGaps is how many gaps are kept; the oldest are forgotten first.
const maxGaps = 64

// Gaps are the restorations of this store, the oldest first. A store that was never restored from a backup or a second copy has
// none.
func (s *Store) Gaps() ([]Gap, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("reading restorations: %w", err)
	}
	defer s.leave()
	gaps, err := readGaps(s.db)
	if err != nil {
		return nil, fmt.Errorf("reading restorations: %w", err)
	}
	return gaps, nil
}

func readGaps(r pebble.Reader) ([]Gap, error) {
	row, err := get(r, keyGaps)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeGaps(row)
}

// The row "restorations": version u8 · (from i64 · to i64)…, Unix ns.
func encodeGaps(gaps []Gap) []byte {
	b := []byte{rowVersion}
	for _, g := range gaps {
		b = be.AppendUint64(be.AppendUint64(b, uint64(g.From.UnixNano())), uint64(g.To.UnixNano()))
	}
	return b
}

func decodeGaps(row []byte) (gaps []Gap, err error) {
	c := cursor{b: row}
	c.version()
	for len(c.b) >= 16 {
		gaps = append(gaps, Gap{time.Unix(0, int64(c.u64())).UTC(), time.Unix(0, int64(c.u64())).UTC()})
	}
	return gaps, c.end("restorations")
}

// endRestoration deletes the row that keeps the store from issuing, and keeps what it says as a gap, in one batch.
func (s *Store) endRestoration() error {
	row, err := restoration(s.db)
	if err != nil || row == nil {
		return errors.Join(err, s.db.Delete(keyRestored, pebble.Sync))
	}
	b := s.db.NewBatch()
	if err := appendGap(b, s.db, Gap{row.takenAt(), time.Unix(0, row.At).UTC()}); err != nil {
		return err
	}
	if err := b.Delete(keyRestored, nil); err != nil {
		return err
	}
	return b.Commit(pebble.Sync)
}

func appendGap(b *pebble.Batch, r pebble.Reader, g Gap) error {
	gaps, err := readGaps(r)
	if err != nil {
		return err
	}
	gaps = append(gaps, g)
	set(b, keyGaps, encodeGaps(gaps[max(0, len(gaps)-maxGaps):]))
	return nil
}

// addGap is for a store that gave up what another medium knows since its last change: nobody can say until when that was.
func (s *Store) addGap(b *pebble.Batch, lastChange time.Time) error {
	return appendGap(b, s.db, Gap{lastChange, s.o.Now().UTC()})
}
