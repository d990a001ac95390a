package storage

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Head is how far each series of a store got, as one medium knows it. Only Relate compares two heads, and only Plan
// decides where a series continues.
type Head struct {
	Store  [16]byte         // zero: the medium names no store
	Series map[string]Reach // by name
	// Numbers: the medium (the mark, a status of the box, MH or the archive) knows only numbers, and may lag.
	Numbers bool
	// Slack is how many more numbers may have been assigned after the last number that the medium knows.
	Slack uint64

	// links returns, by series, the hash of this medium's journal link at the position in ends; ends comes from another
	// medium. A series whose link cannot be read may be missing.
	links func(ends map[string]Reach) (map[string][32]byte, error)
}

// Reach is how far one series got. In the store it is the row of a series.
type Reach struct {
	Sequence uint32   // the series' id, in the keys of its journal
	Last     uint64   // the highest number
	Position uint64   // of the last link in the journal; 0 if Head.Numbers is set
	Hash     [32]byte // of that link
}

func (h *Head) bySequence() []string {
	return slices.SortedFunc(maps.Keys(h.Series), func(a, b string) int {
		return cmp.Compare(h.Series[a].Sequence, h.Series[b].Sequence)
	})
}

// Relation is the result of comparing two Heads.
type Relation int

// The relations of a to b.
const (
	Same     Relation = iota
	Behind            // b continues where a ends
	Ahead             // a continues where b ends
	Diverged          // each has something that the other lacks, or they contradict each other
	Foreign           // they are of different stores
)

func numbersHead(store [16]byte, last map[string]uint64, slack uint64) *Head {
	h := &Head{Store: store, Series: make(map[string]Reach), Numbers: true, Slack: slack}
	for name, n := range last {
		h.Series[name] = Reach{Last: n}
	}
	return h
}

func storeHead(id [16]byte, r pebble.Reader, series map[string]Reach) *Head {
	return &Head{Store: id, Series: series, links: func(ends map[string]Reach) (map[string][32]byte, error) {
		found := make(map[string][32]byte)
		for name, end := range ends {
			key := journalKey(end.Sequence, end.Position)
			value, err := get(r, key)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return nil, err
			}
			found[name] = hashLink(key, value) // if the link is missing, this hash matches no link
		}
		return found, nil
	}}
}

// Relate compares a with b. It lists the series that go further in b or differ from a, with their ends in a (Here) and
// in b (There). An unreadable link does not prove divergence.
func Relate(a, b *Head) (Relation, []Lead, error) {
	if none := [16]byte{}; a.Store != none && b.Store != none && !sameFamily(a.Store, b.Store) {
		return Foreign, nil, nil
	}
	var behind, ahead, diverged []string
	inA, inB := make(map[string]Reach), make(map[string]Reach) // the ends to look up in a and in b
	union := maps.Clone(b.Series)
	maps.Copy(union, a.Series)
	names := slices.Sorted(maps.Keys(union))
	for _, name := range names {
		x, y := a.Series[name], b.Series[name]
		switch numbers := a.Numbers || b.Numbers; {
		case numbers && x.Last < y.Last, !numbers && x.Position < y.Position:
			behind = append(behind, name)
		case numbers && x.Last > y.Last, !numbers && x.Position > y.Position:
			ahead = append(ahead, name)
		case !numbers && (x.Hash != y.Hash || x.Sequence != y.Sequence):
			diverged = append(diverged, name)
		}
		switch {
		case a.Numbers || b.Numbers || x.Position == 0 || y.Position == 0:
		case x.Position < y.Position:
			inB[name] = x
		case x.Position > y.Position:
			inA[name] = y
		}
	}
	for _, side := range []struct {
		of   *Head
		ends map[string]Reach
	}{{a, inA}, {b, inB}} {
		if side.of.links == nil || len(side.ends) == 0 {
			continue
		}
		hashes, err := side.of.links(side.ends)
		if err != nil {
			return Diverged, nil, err
		}
		for name, end := range side.ends {
			if hash, read := hashes[name]; read && hash != end.Hash && !slices.Contains(diverged, name) {
				diverged = append(diverged, name)
			}
		}
	}
	relation := Same
	switch mixed := len(behind) > 0 && len(ahead) > 0; {
	case len(diverged) > 0:
		relation = Diverged
	case mixed && a.Numbers == b.Numbers:
		relation, diverged = Diverged, append(diverged, ahead...)
	case len(behind) > 0 && (!mixed || b.Numbers): // if b knows only numbers, it may lag in other series
		relation = Behind
	case len(ahead) > 0:
		relation = Ahead
	}
	var list []Lead
	for _, name := range names {
		x, y := a.Series[name], b.Series[name]
		if slices.Contains(behind, name) || slices.Contains(diverged, name) {
			list = append(list, Lead{name, x.Last, y.Last, max(x.Position, y.Position) - x.Position, y})
		}
	}
	return relation, list, nil
}

// Plan returns the highest number of each series that any head knows, and the slack: how many more numbers may have
// been assigned. Each series continues after known + slack: no higher number was ever assigned. possible lists series
// that may have begun although no medium knows them.
func Plan(possible []string, heads ...*Head) (known map[string]uint64, slack uint64) {
	known = make(map[string]uint64)
	for _, name := range possible {
		known[name] = 0
	}
	for _, h := range heads {
		slack = max(slack, h.Slack)
		for name, reach := range h.Series {
			known[name] = max(known[name], reach.Last)
		}
	}
	return known, slack
}

// Witness is a medium of the box, or a place outside of it, that knows more of this store's history than the store, for
// example after store and mark were put back to an earlier state. The store keeps a Witness across restarts until
// Settle deletes it. A Witness of the box stops numbering. A Witness outside of the box does not: the program that uses
// the store must not number documents in the series that such a Witness names. See Assemble and Settle.
type Witness struct {
	Medium   string   `json:"medium"` // WitnessCopy, WitnessMark, or another name: see endless
	Path     string   `json:"path"`   // for a Witness outside of the box: MH's text, or the key of the archived file
	Outside  bool     `json:"outside,omitempty"`
	Diverged bool     `json:"diverged"` // the medium's history differs from the store's: numbers were used twice
	Series   []Lead   `json:"series"`
	Store    [16]byte `json:"store,omitzero"` // identity of the medium's store; zero: not known
}

// Lead compares how far a series got in the store and on the medium. Changes is the number of changes, new records
// included, that only the medium has; 0 if unknown.
type Lead struct {
	Series  string `json:"series"`
	Here    uint64 `json:"here"`  // last number in the store; 0 in a Restoration
	There   uint64 `json:"there"` // on the medium
	Changes uint64 `json:"changes"`
	End     Reach  `json:"end,omitzero"` // on the medium; without Position if the medium knows only numbers
}

// The media of the box.
const (
	WitnessCopy = "second copy"
	WitnessMark = "high-water mark"
)

// endless reports whether the medium proves that the mark is old, but does not show where the numbers end. That is true
// of a backup, a shipped copy, a status of the box, a damaged mark, MH and the archive: any series may have gone on.
func (w *Witness) endless() bool { return w.Medium != WitnessCopy && w.Medium != WitnessMark }

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

func (a Lead) sameEnd(b Lead) bool {
	return a.Series == b.Series && a.End == b.End && (a.End.Position > 0 || a.There <= b.There)
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

// Behind returns the media of the box that know more than this store. The store may take numbers only while the result
// is empty. The caller must not change the result.
func (s *Store) Behind() []Witness {
	if list := s.behind.Load(); list != nil {
		return *list
	}
	return nil
}

// Held returns the witnesses outside of the box. Each names one series.
func (s *Store) Held() ([]Witness, error) {
	return use(s, "reading witnesses", func() ([]Witness, error) {
		list, err := readJSON[[]Witness](s.db, keyBehind)
		return slices.DeleteFunc(list, inBox), err
	})
}

func inBox(w Witness) bool { return !w.Outside }

// Hold adds witnesses outside of the box, durably. Each must name one series.
func (s *Store) Hold(list []Witness) error {
	return s.do("holding series", func() error {
		if err := s.sound(); err != nil {
			return err
		}
		for _, w := range list {
			w.Outside, w.Series = true, slices.Clone(w.Series)
			lead := &w.Series[0]
			err := s.replaceWitnesses(func(old Witness) bool {
				same := old.Outside && old.Medium == w.Medium && old.Series[0].Series == lead.Series
				if same {
					lead.There = max(lead.There, old.Series[0].There)
				}
				return same
			}, &w)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// hold stores a Witness of the box. From then on the store gives no numbers, even after a restart without the medium.
// An earlier Witness that knows more stays, because the card in the box may be another one now.
func (s *Store) hold(w Witness) {
	list := append(slices.DeleteFunc(slices.Clone(s.Behind()), w.covers), w)
	s.behind.Store(&list)
	if s.damage.err() == nil {
		s.o.dieOn(s.replaceWitnesses(w.covers, &w), "noting that a medium knows more")
	}
	s.o.Logger.Error("nothing is numbered before dtectl recover", "witness", w.String())
}

// covers reports whether an earlier Witness (old) of the same kind knows no more than w.
func (w *Witness) covers(old Witness) bool {
	return old.Medium == w.Medium && !slices.ContainsFunc(old.Series, func(o Lead) bool {
		i := slices.IndexFunc(w.Series, func(l Lead) bool { return l.Series == o.Series })
		return i < 0 || w.Series[i].There < o.There || w.Series[i].End.Position < o.End.Position ||
			old.Diverged && w.Series[i].End != o.End
	})
}

// release deletes the witnesses outside of the box that name the series and know no higher number.
func (s *Store) release(series string, number uint64) error {
	return s.replaceWitnesses(func(w Witness) bool {
		return w.Outside && w.Series[0].Series == series && w.Series[0].There <= number
	}, nil)
}

// replaceWitnesses deletes the witnesses for which drop returns true, and adds w unless w is nil, durably.
func (s *Store) replaceWitnesses(drop func(Witness) bool, w *Witness) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	return setWitnesses(s.db, s.db, drop, w, pebble.Sync)
}

// setWitnesses is replaceWitnesses for any writer, such as a batch. No other function writes the row of witnesses.
func setWitnesses(to pebble.Writer, r pebble.Reader, drop func(Witness) bool, w *Witness,
	sync *pebble.WriteOptions) error {
	list, err := readJSON[[]Witness](r, keyBehind)
	if err != nil {
		return err
	}
	had := len(list)
	if list = slices.DeleteFunc(list, drop); w != nil {
		list = append(list, *w)
	}
	switch {
	case w == nil && len(list) == had:
		return nil
	case len(list) == 0:
		return to.Delete(keyBehind, sync)
	}
	return setJSON(to, keyBehind, list, sync)
}

// leads returns a Witness if a medium (there) knows more than the store (here) or has another history; otherwise nil.
func leads(medium, path string, here, there *Head) (*Witness, error) {
	relation, list, err := Relate(here, there)
	if err != nil || relation != Behind && relation != Diverged {
		return nil, err
	}
	return &Witness{Medium: medium, Path: path, Diverged: relation == Diverged, Series: list, Store: there.Store}, nil
}

// lookAtCopy reads the end of a second copy and compares it with a store. end is nil if there is no copy or its end
// cannot be read; w is nil if the store has everything in the copy. errForeign if the copy is another store's.
func lookAtCopy(o *Options, r pebble.Reader, dir string, id [16]byte) (end *logEnd, w *Witness, err error) {
	if end, err = readEnd(o.FS, dir); err != nil || end == nil {
		return nil, nil, err
	}
	if !sameFamily(end.store, id) {
		return end, nil, fmt.Errorf("%w (%s)", errForeign, hex.EncodeToString(end.store[:]))
	}
	series, err := readAllSeries(r)
	if err == nil {
		w, err = unsettled(r, WitnessCopy, dir, storeHead([16]byte{}, r, series), end.head(o, dir))
	}
	return end, w, err
}

// unsettled is leads for a medium that may be older than a restoration of the store. The result is nil if Settle has
// dealt with all that the medium has.
func unsettled(r pebble.Reader, medium, path string, here, there *Head) (*Witness, error) {
	w, err := leads(medium, path, here, there)
	if w == nil || err != nil {
		return w, err
	}
	former, err := readJSON[[][16]byte](r, keyFormer)
	settled, bad := readJSON[[]Lead](r, keySettled)
	lost, worse := readHoles(r)
	if err = errors.Join(err, bad, worse); err != nil || !slices.Contains(former, w.Store) {
		return w, err
	}
	for _, l := range w.Series {
		end := l.End
		end.Sequence = here.Series[l.Series].Sequence
		has, err := holdsLink(r, place{end, l.Series})
		if err != nil {
			return w, err
		}
		if !has && (end.Position > 0 || !w.Diverged) && !lost.has(end.Sequence, l.There) &&
			!slices.ContainsFunc(settled, l.sameEnd) {
			return w, nil
		}
	}
	return nil, nil
}

// past reports whether this store was made from w's store and has used w's numbers again: w has another history and
// knows no higher number.
func (w *Witness) past(r pebble.Reader) bool {
	former, err := readJSON[[][16]byte](r, keyFormer)
	return err == nil && w.Diverged && slices.Contains(former, w.Store) &&
		!slices.ContainsFunc(w.Series, func(l Lead) bool { return l.There > l.Here })
}

func (e *logEnd) head(o *Options, dir string) *Head {
	h := &Head{Store: e.store, Series: make(map[string]Reach)}
	h.links = func(ends map[string]Reach) (map[string][32]byte, error) { return e.links(o, dir, ends) }
	for _, p := range e.told.Series {
		h.Series[p.Name] = p.Reach
	}
	return h
}

// links finds the hashes of the copy's links at the positions in ends. It reads the segments backwards, down to these
// positions.
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
		_, _, err = s.frames(0, true, func(_ uint64, f frame) error {
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

// holdsLink reports whether the store's journal has, at p's position, the link with p's hash.
func holdsLink(r pebble.Reader, p place) (bool, error) {
	key := journalKey(p.Sequence, p.Position)
	value, err := get(r, key)
	return err == nil && hashLink(key, value) == p.Hash, onlyIf(!errors.Is(err, ErrNotFound), err)
}

// addFormer adds ids to the row of the identities that the store had before restorations.
func addFormer(b *pebble.Batch, r pebble.Reader, ids ...[16]byte) error {
	list, err := readJSON[[][16]byte](r, keyFormer)
	for _, id := range ids {
		if id != ([16]byte{}) && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return errors.Join(err, setJSON(b, keyFormer, list, nil))
}

var (
	errForeign = fmt.Errorf("%w: another store's copy", ErrNoStore)
	// errConflict: only a person can decide about the files in the copy's folder.
	errConflict = errors.New("the second copy cannot go on")
)

// examine reads the second medium before anything is written to it. It returns the end where this store's log
// continues, or nil if a new log must begin.
func (c *second) examine(id [16]byte) (*logEnd, error) {
	o := &c.s.o
	end, w, err := lookAtCopy(o, c.s.db, o.SecondCopy, id)
	switch {
	case end == nil && errors.Is(err, ErrCorrupt):
		return nil, setAside(o, [16]byte{}, nil)
	case errors.Is(err, errForeign):
		return nil, fmt.Errorf("%w: %w: it is not touched; move it away, or configure another folder", errConflict, err)
	case err != nil:
		return nil, err
	case end == nil:
		return nil, c.roomFor()
	}
	switch {
	case w != nil && w.past(c.s.db):
		o.Logger.Error("the second copy has documents that the store lacks: dtectl recover --from names them",
			"witness", w.String())
	case w != nil:
		c.s.hold(*w)
		return nil, fmt.Errorf("%w: %s", errConflict, w)
	case end.store == id:
		return end, nil
	}
	// The copy is older than this store's restoration.
	if err := setAside(o, end.store, nil); err != nil {
		return nil, err
	}
	return nil, c.roomFor()
}
