package storage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Witness is a medium that knows more of this store's history than the store, for example after store and mark were put
// back to an earlier state. While there is a Witness, the store takes no number: see Assemble and Settle.
type Witness struct {
	Medium   string `json:"medium"` // WitnessCopy or WitnessMark
	Path     string `json:"path"`
	Diverged bool   `json:"diverged"` // the medium's history differs from the store's: numbers were used twice
	Series   []Lead `json:"series"`
}

// Lead compares how far a series got in the store and on the medium. Changes counts the changes of its records that
// only the medium has, new records included; 0: not known.
type Lead struct {
	Series  string `json:"series"`
	Here    uint64 `json:"here"`  // last number in the store
	There   uint64 `json:"there"` // on the medium
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

func (a Lead) String() string {
	switch {
	case a.There > a.Here:
		return fmt.Sprintf("%s: %d here, %d there", a.Series, a.Here, a.There)
	case a.There == a.Here && a.Changes > 0:
		return fmt.Sprintf("%s: %d changes of its records", a.Series, a.Changes)
	}
	return fmt.Sprintf("%s: %d here, %d there, not the same", a.Series, a.Here, a.There)
}

// Behind returns the media that know more than this store; while the list is empty, the store may take numbers. The
// caller must not change the result.
func (s *Store) Behind() []Witness {
	if list := s.behind.Load(); list != nil {
		return *list
	}
	return nil
}

// hold stops the store from giving numbers, also after a restart: removing the medium does not help.
func (s *Store) hold(w Witness) {
	list := slices.DeleteFunc(slices.Clone(s.Behind()), func(old Witness) bool { return old.Medium == w.Medium })
	list = append(list, w)
	s.behind.Store(&list)
	if s.damage.err() == nil {
		if err := setBehind(s.db, list); err != nil {
			s.o.die("noting that a medium knows more: %v", err)
		}
	}
	s.o.Logger.Error("nothing is numbered before dtectl recover", "witness", w.String())
}

func setBehind(db *pebble.DB, list []Witness) error { return setJSON(db, keyBehind, list, pebble.Sync) }

// readBehind returns the witnesses that hold has noted.
func readBehind(r pebble.Reader) ([]Witness, error) { return readJSON[[]Witness](r, keyBehind) }

// Held is a series in which a witness outside of the box knows numbers that the store lacks. The store keeps it across
// restarts, and Settle ends it. While any series is held, the store's owner gives no numbers; the store itself goes on.
type Held struct {
	Witness string `json:"witness"` // "MH" or "archive"
	Words   string `json:"words"`   // the witness's own words
	Series  string `json:"series"`
	Here    uint64 `json:"here"`  // last number in the store
	There   uint64 `json:"there"` // the highest number that the witness named
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

// Hold adds to the held series, durably.
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

// release removes the Held rows of a series up to a number.
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

func setHeld(db *pebble.DB, list []Held) error { return setJSON(db, keyHeld, list, pebble.Sync) }

func readHeld(r pebble.Reader) ([]Held, error) { return readJSON[[]Held](r, keyHeld) }

// leads returns a Witness if a medium knows more than the store, or another history; nil otherwise.
func leads(medium, path string, here, there *Head) (*Witness, error) {
	relation, list, err := Relate(here, there)
	if err != nil || relation != Behind && relation != Diverged {
		return nil, err
	}
	return &Witness{Medium: medium, Path: path, Diverged: relation == Diverged, Series: list}, nil
}

// compareCopy compares a second copy with the store: nil when the store has everything that the copy has.
func compareCopy(o *Options, r pebble.Reader, dir string, end *logEnd) (*Witness, error) {
	series, err := readAllSeries(r)
	if err != nil {
		return nil, err
	}
	return leads(WitnessCopy, dir, storeHead([16]byte{}, r, series), end.head(o, dir))
}

// head returns how far a second copy goes.
func (e *logEnd) head(o *Options, dir string) *Head {
	h := &Head{Store: e.store, Series: make(map[string]Reach), links: func(ends map[string]Reach) (map[string][32]byte,
		error) {
		return e.links(o, dir, ends)
	}}
	for _, p := range e.told.Series {
		h.Series[p.Name] = Reach{p.Last, p.Sequence, p.Position, p.Hash}
	}
	return h
}

// links finds the copy's hashes at the ends of another medium. It reads the segments backwards, down to these ends.
func (e *logEnd) links(o *Options, dir string, ends map[string]Reach) (map[string][32]byte, error) {
	names, found := make(map[uint32]string), make(map[string][32]byte)
	for name, end := range ends {
		names[end.Sequence] = name
	}
	say := func(name string, hash [32]byte) {
		if was, said := found[name]; !said || was == ends[name].Hash { // keep a contradicting hash
			found[name] = hash
		}
	}
	numbers, err := segmentNumbers(o.FS, dir)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(numbers) {
		if n > e.counts || len(names) == 0 {
			continue
		}
		s, err := readSegment(o.FS, dir, n)
		if err != nil {
			continue // an unreadable segment proves nothing
		}
		_, _, err = s.frames(true, func(_ uint64, f frame) error {
			return f.rows(func(key, value []byte) error {
				if key[0] != tableJournal || len(key) != 13 {
					return nil
				}
				name := names[be.Uint32(key[1:])]
				if name == "" || be.Uint64(key[5:]) != ends[name].Position+1 {
					return nil
				}
				l, err := decodeLink(value)
				if err == nil {
					say(name, l.Previous)
				}
				return err
			})
		})
		if err != nil {
			return nil, err
		}
		for sequence, name := range names {
			if p := s.head.State.Series[sequence]; p.Position <= ends[name].Position {
				if p.Position == ends[name].Position {
					say(name, p.Hash)
				}
				delete(names, sequence)
			}
		}
	}
	return found, nil
}

// holdsLink reports whether the store's journal has exactly the link of p.
func holdsLink(r pebble.Reader, p place) (bool, error) {
	key := journalKey(p.Sequence, p.Position)
	value, err := get(r, key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return hashLink(key, value) == p.Hash, err
}

// formerStores returns the identities that a store had before it was restored.
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

// addFormer adds identities to the former ones.
func addFormer(b *pebble.Batch, r pebble.Reader, ids ...[16]byte) error {
	list, err := formerStores(r)
	if err != nil {
		return err
	}
	var row []byte
	for _, id := range ids {
		if id != ([16]byte{}) && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	for _, old := range list {
		row = append(row, old[:]...)
	}
	set(b, keyFormer, row)
	return nil
}

var (
	errForeign = errors.New("another store's copy")
	// errConflict: only a person can decide about the files in the copy's folder.
	errConflict = errors.New("the second copy cannot go on")
)

// examine reads the second medium before anything is written to it. It returns the end where this store's log
// continues, nil when a new log must begin.
func (c *second) examine(id [16]byte) (*logEnd, error) {
	o := &c.s.o
	if _, err := o.FS.Stat(o.SecondCopy); err != nil {
		return nil, nil // no folder, or making the folder will return the error
	}
	end, err := readEnd(o.FS, o.SecondCopy)
	switch {
	case errors.Is(err, ErrCorrupt):
		return nil, setAside(o, [16]byte{}, nil)
	case err != nil:
		return nil, err
	case end == nil:
		return nil, c.roomFor()
	case !sameFamily(end.store, id):
		return nil, fmt.Errorf("%w: %w (%s): it is not touched; move it away, or configure another folder", errConflict,
			errForeign, hex.EncodeToString(end.store[:]))
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
	// The copy is of this store before it was restored or rebuilt: everything in it was settled then.
	if err := setAside(o, end.store, nil); err != nil {
		return nil, err
	}
	return nil, c.roomFor()
}
