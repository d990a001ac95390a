package storage

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/storage/disktest"
)

// recoveries is one box with its cards and backups, and what it ever gave.
type recoveries struct {
	t     *testing.T
	rng   *rand.Rand
	disk  *disktest.Disk
	cards []*disktest.Disk // disks with a card that may come back; the last one is the latest
	gave  map[string]map[uint64]uint64
	named map[string]map[uint64]bool // the numbers that were given up by name
	n     uint64
	log   []string
	forks bool // since the last settlement a medium had another history
	mark  bool // the mark is the store's own
	knows bool // the store that is there, perhaps damaged, is the latest, or recover has made it
	met   map[string]int
}

func (r *recoveries) did(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
	r.met[strings.Fields(r.log[len(r.log)-1])[0]]++
}

func (r *recoveries) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(r.log, "\n      "))
}

// sell sells if the store does.
func (r *recoveries) sell() {
	s, err := Open(withCard(r.disk))
	if err != nil {
		return
	}
	if s.Behind() != nil || s.Restored() != nil {
		must(r.t, s.Close())
		return
	}
	r.mark, r.knows = true, true
	for range 1 + r.rng.IntN(12) {
		if err = r.sale(s); err != nil { // the store is damaged: this document was not acknowledged
			break
		}
	}
	r.did("sold to %d: %v", r.n, err)
	if r.rng.IntN(3) == 0 {
		_, err := s.Backup(ctx, fmt.Sprint("medium/", r.n), nil)
		r.did("backup: %v", err)
	}
	c, _ := s.SecondCopy()
	has := r.pieces(s)
	must(r.t, s.Close()) // a table that nothing has read yet may be damaged
	r.cards = append(r.cards, r.disk.Copy())
	if c.Live {
		r.copied(has)
	}
}

func (r *recoveries) sale(s *Store) error {
	r.n++
	n, series := r.n, []string{"a", "b"}[r.rng.IntN(2)]
	e, err := s.build(ctx, Keys{Series: series, Idempotency: idem(n)},
		func(slot Slot) (Draft, error) { return draft(code(n), slot), nil })
	if err != nil {
		return err
	}
	if was := r.gave[series][e.Number]; was != 0 {
		r.fail("%s %d was document %d, and is %d", series, e.Number, was, n)
	}
	r.gave[series][e.Number] = n
	if r.rng.IntN(4) == 0 {
		_, err = s.Advance(ctx, code(n), fresh, Change{To: done, Parts: []Part{{"answer", form(code(n))}}})
	}
	return cmp.Or(err, s.Beat(time.Unix(int64(n), 0), time.Time{}))
}

// pieces returns how much a store has of each document.
func (r *recoveries) pieces(s *Store) map[uint64]int {
	list := make(map[uint64]int)
	for doc := uint64(1); doc <= r.n; doc++ {
		if _, err := s.Get(code(doc)); err == nil {
			parts, _ := s.Parts(code(doc))
			list[doc] = 1 + len(parts)
		}
	}
	return list
}

// copied checks that a second copy that is live and can be read has as much as the store.
func (r *recoveries) copied(has map[uint64]int) {
	disk := onlyCard(r.t, r.disk)
	made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	if err != nil || slices.ContainsFunc(made.Sources, func(s Source) bool { return s.Bad != nil }) {
		return // it was worn before
	}
	s := openStore(r.t, disk)
	copied := r.pieces(s)
	must(r.t, s.Close())
	for doc, n := range has {
		if copied[doc] < n {
			r.fail("document %d: the store has %d pieces, and its second copy %d", doc, n, copied[doc])
		}
	}
	r.did("copied")
}

// die loses the store, often the mark, and damages the card.
func (r *recoveries) die() {
	must(r.t, errors.Join(r.disk.RemoveAll("box/store"), syncDir(r.disk, "box")))
	if r.rng.IntN(2) == 0 || !r.mark {
		must(r.t, errors.Join(r.disk.RemoveAll(markPath), syncDir(r.disk, "other")))
		r.mark = false
	}
	r.knows = false
	r.wear()
	r.did("died")
}

// rot damages the store in one place.
func (r *recoveries) rot() {
	files := slices.DeleteFunc(r.disk.Files(), func(f string) bool {
		return !strings.HasPrefix(f, "box/store/") || size(r.t, r.disk, f) == 0
	})
	if len(files) > 0 {
		f := files[r.rng.IntN(len(files))]
		at := r.rng.Int64N(size(r.t, r.disk, f))
		if harm(r.t, r.disk, f, at); !r.mark && !r.notes() {
			harm(r.t, r.disk, f, at) // nothing would know that the mark is old
		}
		r.did("rotten %s", f)
	}
}

// notes reports whether the store's note about its mark can be read.
func (r *recoveries) notes() bool {
	o := options(r.disk)
	o.setDefaults()
	f, err := openFolder(&o, "", true)
	if err != nil {
		return false
	}
	defer func() { must(r.t, f.close()) }()
	return f.meta
}

// putBack puts an earlier store in the place of the present one.
func (r *recoveries) putBack() {
	if !r.mark {
		return // nothing else would know the last numbers
	}
	from := r.cards[r.rng.IntN(len(r.cards))]
	must(r.t, r.disk.RemoveAll("box/store"))
	for _, f := range from.Files() {
		if strings.HasPrefix(f, "box/store/") {
			must(r.t, makeParents(r.disk, f))
			writeFile(r.t, r.disk, f, readFile(r.t, from, f))
		}
	}
	must(r.t, errors.Join(syncDir(r.disk, "box/store"), syncDir(r.disk, "box")))
	r.knows = false
	r.did("put back")
}

// renew is an empty card, with the place of the mark on it.
func (r *recoveries) renew() {
	if !r.knows {
		return // with the old card the last medium that knows the numbers would be gone
	}
	must(r.t, errors.Join(r.disk.RemoveAll(card), makeParents(r.disk, card+"/x"), r.disk.RemoveAll(markPath),
		syncDir(r.disk, "other")))
	r.mark = false
	r.did("new card")
	r.recover(r.rng.IntN(2) == 0)
}

// wear damages the card in a few places.
func (r *recoveries) wear() {
	numbers, err := segmentNumbers(r.disk, card)
	must(r.t, err)
	for range min(r.rng.IntN(4), len(numbers)) {
		path := segmentPath(r.disk, card, numbers[r.rng.IntN(len(numbers))])
		harm(r.t, r.disk, path, r.rng.Int64N(size(r.t, r.disk, path)))
	}
	r.did("worn")
}

// insert puts a card into the slot, often the latest, at times with the mark that lies on it.
func (r *recoveries) insert() {
	from := r.anyCard()
	takeCard(r.t, from, r.disk)
	if r.knows && r.rng.IntN(3) == 0 && r.notes() {
		writeFile(r.t, r.disk, markPath, readFile(r.t, from, markPath))
		r.mark = false
		r.did("with its mark")
	}
}

func (r *recoveries) anyCard() *disktest.Disk {
	i := max(0, len(r.cards)-1-r.rng.IntN(3)*r.rng.IntN(4))
	r.did("card %d of %d", i, len(r.cards))
	return r.cards[i]
}

// recover is dtectl recover, and, if a person names the losses, what settles them.
func (r *recoveries) recover(accept bool) {
	from := Sources{Copy: card}
	if names, err := r.disk.List("medium"); err == nil && r.rng.IntN(4) == 0 {
		from.Backups = []string{"medium/" + names[r.rng.IntN(len(names))]}
	}
	if r.rng.IntN(5) == 0 {
		other := r.anyCard()
		must(r.t, errors.Join(r.disk.RemoveAll(beside), makeParents(r.disk, beside+"/x")))
		numbers, err := segmentNumbers(other, card)
		must(r.t, err)
		for _, n := range numbers {
			writeFile(r.t, r.disk, segmentPath(r.disk, beside, n), readFile(r.t, other, segmentPath(other, card, n)))
		}
		from.Copy = beside
	}
	made, err := Assemble(ctx, from, options(r.disk), nil)
	r.did("recover %s %v: %v", from.Copy, from.Backups, err)
	diverged := func(s Source) bool { return s.Diverged != nil }
	r.forks = r.forks || errors.Is(err, ErrDiverged) || slices.ContainsFunc(made.Sources, diverged)
	if errors.Is(err, ErrUnreadable) || errors.Is(err, ErrNoStore) || errors.Is(err, ErrCorrupt) && made.Sources != nil {
		return
	}
	s, err := Open(options(r.disk))
	if errors.Is(err, ErrMark) {
		if _, err = NewMark(ctx, MarkAim{Second: from.Copy}, options(r.disk), nil); err == nil {
			s, err = Open(options(r.disk))
		}
	}
	if err != nil {
		r.did("refused %v", err)
		return
	}
	defer func() { must(r.t, s.Close()) }()
	r.knows = true
	begun := func(time.Time) []string { return []string{"a", "b"} }
	o, err := s.Owed(begun)
	must(r.t, err)
	if o == nil || !accept {
		return
	}
	r.forks = r.forks || slices.ContainsFunc(s.Behind(), func(w Witness) bool { return w.Diverged })
	there := r.readable(from)
	losses := o.losses(0)
	for i, n := range o.Series {
		if last := r.last(n.Series); n.Open && last > n.Known {
			losses[i].Numbers = append(losses[i].Numbers, Span{n.Known + 1, last})
		}
		for _, span := range losses[i].Numbers {
			for number := span.From; number <= span.To; number++ {
				doc := r.gave[n.Series][number]
				if _, err := s.Get(code(doc)); err != nil && there[doc] && !r.forks && !r.named[n.Series][number] {
					r.fail("%s %d is given up, and document %d can be read", n.Series, number, doc)
				}
				if r.named[n.Series] == nil {
					r.named[n.Series] = make(map[uint64]bool)
				}
				r.named[n.Series][number] = true
			}
		}
	}
	if i := r.rng.IntN(len(losses)); o.Series[i].Lost() != "" {
		rest := slices.Delete(slices.Clone(losses), i, i+1)
		if _, err := s.Settle(ctx, begun, rest, "named"); !errors.Is(err, ErrMissing) {
			r.fail("settling without %v: %v", losses[i], err)
		}
	}
	if _, err := s.Settle(ctx, begun, losses, "named"); err != nil {
		r.fail("settling: %v", err)
	}
	r.forks, r.mark = false, true
	r.did("settled %v", losses)
	for series, list := range r.gave {
		for number, doc := range list {
			named := r.named[series][number] || r.named[Others][number]
			if _, err := s.Get(code(doc)); err != nil && !named {
				r.fail("%s %d, document %d, is given up and was not named: %v", series, number, doc, err)
			}
		}
	}
}

// last returns the last number of a series, or, for the others, of any.
func (r *recoveries) last(series string) (last uint64) {
	for name, list := range r.gave {
		for number := range list {
			if name == series || series == Others {
				last = max(last, number)
			}
		}
	}
	return last
}

// readable returns the documents that the media have without the store.
func (r *recoveries) readable(from Sources) map[uint64]bool {
	list := make(map[uint64]bool)
	disk := onlyCard(r.t, r.disk)
	if _, err := Assemble(ctx, from, options(disk), nil); err != nil {
		return list
	}
	s := openStore(r.t, disk)
	gone, err := s.Incomplete()
	must(r.t, err)
	for doc := uint64(1); doc <= r.n; doc++ {
		_, err := s.Get(code(doc))
		list[doc] = err == nil && !slices.ContainsFunc(gone, func(a Affected) bool { return a.Code == code(doc) })
	}
	must(r.t, s.Close())
	return list
}

// end: with the latest card in the slot, and each loss named, the box sells again.
func (r *recoveries) end() {
	i := len(r.cards) - 1
	for ; i > 0; i-- { // a new card may have been taken out before anything was on it
		if numbers, _ := segmentNumbers(r.cards[i], card); len(numbers) > 0 {
			break
		}
	}
	takeCard(r.t, r.cards[i], r.disk)
	for sold, try := len(r.cards), 0; len(r.cards) == sold; try++ {
		if try == 4 {
			r.fail("the box never sells again")
		}
		r.recover(true)
		r.sell()
	}
}

// Media are lost, damaged, put in and put back in any order, and a person types what recover asks. No number is given
// twice, none is given up without its name, and none whose document recover could read; the second copy has what the
// store has; and the box sells again.
func TestRecover_Campaign(t *testing.T) {
	rounds := 20
	if soak {
		rounds = 600
	}
	met := make(map[string]int)
	for round := range rounds {
		r := &recoveries{t: t, rng: newRand(uint64(round)), disk: disktest.New(disktest.Strict), met: met,
			gave: map[string]map[uint64]uint64{"a": {}, "b": {}}, named: make(map[string]map[uint64]bool)}
		must(t, Create(withCard(r.disk)))
		r.did("round %d", round)
		for r.sell(); len(r.log) < 24; {
			switch r.rng.IntN(12) {
			case 0, 1:
				r.sell()
			case 2:
				r.die()
				r.recover(false)
			case 3:
				r.wear()
			case 4, 5:
				r.insert()
			case 6:
				r.recover(false)
			case 7:
				r.rot()
			case 8:
				r.putBack()
			case 9:
				r.renew()
			default:
				r.recover(true)
			}
		}
		r.end()
	}
	t.Log(met)
}
