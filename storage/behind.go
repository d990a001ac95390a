package storage

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Witness is a medium that knows more of this store's history than the store, for example after store and mark were put back to
// an earlier state. While there is a Witness, the store takes no number: see TakeCopy and GiveUp.
type Witness struct {
	Medium   string  `json:"medium"` // WitnessCopy or WitnessMark
	Path     string  `json:"path"`
	Diverged bool    `json:"diverged"` // the medium holds another continuation than the store: numbers were used twice
	Series   []Ahead `json:"series"`
}

// Ahead is how far a series got in the store and on the medium. Changes counts the changes of its records that only the medium
// has, new records included; 0: not known.
type Ahead struct {
	Series  string `json:"series"` // empty: the store does not have it, and the mark is of the first format, without names
	Here    uint64 `json:"here"`   // last number in the store
	There   uint64 `json:"there"`  // on the medium
	Changes uint64 `json:"changes"`
}

// The media of a Witness.
const (
	WitnessCopy = "second copy"
	WitnessMark = "high-water mark"
)

func (w *Witness) String() string {
	what := "knows more than the store"
	if w.Diverged {
		what = "holds another history than the store"
	}
	text := fmt.Sprintf("%s %s %s", w.Medium, w.Path, what)
	for i, a := range w.Series {
		if i == 5 {
			return text + fmt.Sprintf("; and %d more series", len(w.Series)-i)
		}
		text += "; " + a.String()
	}
	return text
}

func (a Ahead) String() string {
	if a.Series == "" {
		a.Series = "a series that the store does not have"
	}
	switch {
	case a.There > a.Here:
		return fmt.Sprintf("%s: %d here, %d there", a.Series, a.Here, a.There)
	case a.There == a.Here && a.Changes > 0:
		return fmt.Sprintf("%s: %d changes of its records", a.Series, a.Changes)
	}
	return fmt.Sprintf("%s: %d here, %d there, not the same", a.Series, a.Here, a.There)
}

// Behind returns the media that know more than this store; if there is none, the store may take numbers. The caller must not
// change the result.
func (s *Store) Behind() []Witness {
	if list := s.behind.Load(); list != nil {
		return *list
	}
	return nil
}

// hold keeps the store from numbering, over restarts too: a medium that is pulled out is not forgotten.
func (s *Store) hold(w Witness) {
	list := slices.DeleteFunc(slices.Clone(s.Behind()), func(old Witness) bool { return old.Medium == w.Medium })
	list = append(list, w)
	s.behind.Store(&list)
	if s.damage.err() == nil {
		if err := setBehind(s.db, list); err != nil {
			s.o.die("noting that a medium knows more: %v", err)
		}
	}
	s.o.Logger.Error("nothing is numbered before dtectl reconcile", "witness", w.String())
}

func setBehind(db *pebble.DB, list []Witness) error {
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return db.Set(keyBehind, b, pebble.Sync)
}

// readBehind returns what hold has noted.
func readBehind(r pebble.Reader) (list []Witness, err error) {
	b, err := get(r, keyBehind)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		if bad := json.Unmarshal(b, &list); bad != nil || len(list) == 0 {
			err = fmt.Errorf("%w: the row of what other media know", ErrCorrupt)
		}
	}
	return list, err
}

// Held is a series of which a witness outside of the box knows numbers that the store lacks. The store keeps it over restarts, and
// SkipTo to There or further ends it; the store's owner numbers nothing while there is one. Nothing else is held up by it.
type Held struct {
	Witness string `json:"witness"` // "MH" or "archive"
	Words   string `json:"words"`   // what the witness said
	Series  string `json:"series"`
	Here    uint64 `json:"here"`  // last number in the store
	There   uint64 `json:"there"` // the highest that the witness named
}

func (h Held) String() string {
	return fmt.Sprintf("%s knows number %d of %s, the store %d (%s)", h.Witness, h.There, h.Series, h.Here, h.Words)
}

// Held returns the series that are held.
func (s *Store) Held() ([]Held, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return readHeld(s.db)
}

// Hold adds series to those that are held, durably.
func (s *Store) Hold(list []Held) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("holding series: %w", err)
	}
	defer s.leave()
	s.holding.Lock()
	defer s.holding.Unlock()
	held, err := readHeld(s.db)
	if err = errors.Join(err, s.sound()); err != nil {
		return fmt.Errorf("holding series: %w", err)
	}
	for _, h := range list {
		held = slices.DeleteFunc(held, func(old Held) bool {
			same := old.Witness == h.Witness && old.Series == h.Series
			if same {
				h.There = max(h.There, old.There)
			}
			return same
		})
		held = append(held, h)
	}
	if err := setHeld(s.db, held); err != nil {
		s.o.die("noting that a witness knows more: %v", err)
	}
	return nil
}

// release ends what is held of a series up to a number.
func (s *Store) release(series string, number uint64) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	held, err := readHeld(s.db)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(held), func(h Held) bool { return h.Series == series && h.There <= number })
	if len(rest) == len(held) {
		return nil
	}
	if err := setHeld(s.db, rest); err != nil {
		s.o.die("releasing a series: %v", err)
	}
	return nil
}

func setHeld(db *pebble.DB, list []Held) error {
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return db.Set(keyHeld, b, pebble.Sync)
}

func readHeld(r pebble.Reader) (list []Held, err error) {
	b, err := get(r, keyHeld)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err == nil && json.Unmarshal(b, &list) != nil {
		err = fmt.Errorf("%w: the row of what witnesses know", ErrCorrupt)
	}
	return list, err
}

// behindMark is the witness that a mark is which says more than the store; nil when it does not. held is where the store's
// series end, by name.
func behindMark(path string, held map[string]uint64, said reached) *Witness {
	w := Witness{Medium: WitnessMark, Path: path}
	for i, n := range said.numbers {
		if here := held[said.name(i)]; n > here {
			w.Series = append(w.Series, Ahead{Series: said.name(i), Here: here, There: n})
		}
	}
	if w.Series == nil {
		return nil
	}
	return &w
}

// compareCopy returns the witness that a second copy is, nil when the store has all that the copy tells.
func compareCopy(o *Options, r pebble.Reader, dir string, end *logEnd) (*Witness, error) {
	series, err := readAllSeries(r)
	if err != nil {
		return nil, err
	}
	byID := make(map[uint32]string)
	for name, row := range series {
		byID[row.Sequence] = name
	}
	w := &Witness{Medium: WitnessCopy, Path: dir}
	open := make(map[uint32]seriesRow) // ahead there; whether the same history goes on is to be seen
	more := false
	for _, p := range sortedPlaces(end.told) {
		name := byID[p.Sequence]
		row := series[name]
		row.Sequence = p.Sequence
		if p.Name == "" {
			p.Name = name
		}
		a := Ahead{Series: p.Name, Here: row.Last, There: p.Last}
		same := name == "" || p.Name == name
		switch {
		case !same:
		case p.Position > row.Position:
			more = true
			if a.Changes = p.Position - row.Position; p.Last == 0 { // of a head that does not name it
				a.There = row.Last + a.Changes
			}
			open[p.Sequence] = row
			w.Series = append(w.Series, a)
			continue
		default:
			if same, err = holdsLink(r, p); err != nil {
				return nil, err
			}
		}
		if !same {
			w.Diverged = true
			w.Series = append(w.Series, a)
		}
	}
	for name, row := range series { // a store that only lost its end has nothing of its own
		if more && row.Position > end.told.Series[row.Sequence].Position {
			w.Diverged = true
			w.Series = append(w.Series, Ahead{Series: name, Here: row.Last, There: end.told.Series[row.Sequence].Last})
		}
	}
	if w.Series == nil {
		return nil, nil
	}
	if !w.Diverged {
		w.Diverged, err = parts(o, dir, end, open)
	}
	return w, err
}

func sortedPlaces(s copyState) []place {
	list := make([]place, 0, len(s.Series))
	for _, p := range s.Series {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b place) int { return int(a.Sequence) - int(b.Sequence) })
	return list
}

// holdsLink tells whether the store's journal has that very link.
func holdsLink(r pebble.Reader, p place) (bool, error) {
	key := journalKey(p.Sequence, p.Position)
	value, err := get(r, key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return hashLink(key, value) == p.Hash, err
}

// parts tells whether the copy goes on from another link than that at which a series ends in the store. It reads
// backwards as far as the copy is ahead.
func parts(o *Options, dir string, end *logEnd, open map[uint32]seriesRow) (bool, error) {
	numbers, err := segmentNumbers(o.FS, dir)
	if err != nil {
		return false, err
	}
	for _, n := range slices.Backward(numbers) {
		if n > end.counts || len(open) == 0 {
			continue
		}
		s, err := readSegment(o.FS, dir, n)
		if err != nil {
			continue // what cannot be read cannot testify; TakeCopy says so
		}
		differs := false
		_, _, err = s.frames(true, func(_ uint64, f frame) error {
			if f.Kind != frameChange && f.Kind != frameRows {
				return nil
			}
			return f.links(func(key, value []byte) error {
				row, ok := open[be.Uint32(key[1:])]
				if !ok || be.Uint64(key[5:]) != row.Position+1 {
					return nil
				}
				l, err := decodeLink(value)
				differs = differs || l.Previous != row.Hash
				return err
			})
		})
		if err != nil || differs {
			return differs, err
		}
		for sequence, row := range open {
			if p := s.head.State.Series[sequence]; p.Position <= row.Position {
				if p.Position == row.Position && p.Hash != row.Hash {
					return true, nil
				}
				delete(open, sequence)
			}
		}
	}
	return false, nil
}

// links calls fn with each row of the journal in a change or in rows of a fill.
func (f *frame) links(fn func(key, value []byte) error) error {
	batch := f.Payload
	if f.Kind == frameChange {
		c := cursor{b: batch}
		c.place()
		c.u64()
		batch = c.b
	}
	return eachRow(batch, func(kind pebble.InternalKeyKind, key, value []byte) error {
		if kind != pebble.InternalKeyKindSet || key[0] != tableJournal || len(key) != 13 {
			return nil
		}
		return fn(key, value)
	})
}

// formerStores are the identities that a store had before it was restored.
func formerStores(r pebble.Reader) (list [][16]byte, err error) {
	b, err := get(r, keyFormer)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	for len(b) >= 16 {
		list, b = append(list, [16]byte(b)), b[16:]
	}
	return list, nil
}

// addFormer adds an identity to them.
func addFormer(b *pebble.Batch, r pebble.Reader, id [16]byte) error {
	list, err := formerStores(r)
	if err != nil || slices.Contains(list, id) {
		return err
	}
	var row []byte
	for _, old := range append(list, id) {
		row = append(row, old[:]...)
	}
	set(b, keyFormer, row)
	return nil
}

var (
	errForeign = errors.New("another store's copy")
	// errConflict: only a person can decide about what lies there.
	errConflict = errors.New("the second copy cannot go on")
)

// examine looks at what lies on the second medium before a byte is written there. It returns where this store's log goes
// on, nil when a new one is to begin.
func (c *second) examine(id [16]byte) (*logEnd, error) {
	o := &c.s.o
	if _, err := o.FS.Stat(o.SecondCopy); err != nil {
		return nil, nil // there is nothing, or making it will tell
	}
	end, err := readEnd(o.FS, o.SecondCopy)
	switch {
	case errors.Is(err, ErrCorrupt):
		return nil, setAllAside(o, [16]byte{})
	case err != nil:
		return nil, err
	case end == nil:
		return nil, c.roomFor()
	case !sameFamily(end.store, id):
		return nil, fmt.Errorf("%w: %w (%s): it is not touched; move it away, or configure another folder", errConflict, errForeign, hex.EncodeToString(end.store[:]))
	}
	w, err := compareCopy(o, c.s.db, o.SecondCopy, end)
	if err != nil {
		return nil, err
	}
	former, err := formerStores(c.s.db)
	if err != nil {
		return nil, err
	}
	settled := slices.Contains(former, end.store)
	switch {
	case w != nil && !(w.Diverged && settled):
		c.s.hold(*w)
		return nil, fmt.Errorf("%w: %s", errConflict, w)
	case end.store == id:
		return end, nil
	}
	// Of this store before it was restored or rebuilt: all that it says was settled then.
	if err := setAllAside(o, end.store); err != nil {
		return nil, err
	}
	return nil, c.roomFor()
}
