package storage

import (
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
	for range 1 + r.rng.IntN(12) {
		series := []string{"a", "b"}[r.rng.IntN(2)]
		r.n++
		e := put(r.t, s, series, r.n)
		if was := r.gave[series][e.Number]; was != 0 {
			r.fail("%s %d was document %d, and is %d", series, e.Number, was, r.n)
		}
		r.gave[series][e.Number] = r.n
	}
	r.did("sold to %d", r.n)
	if r.rng.IntN(3) == 0 {
		backup(r.t, s, fmt.Sprint("medium/", r.n))
	}
	sound(r.t, s)
	r.cards = append(r.cards, r.disk.Copy())
}

// die loses the store, often the mark, and damages the card.
func (r *recoveries) die() {
	must(r.t, errors.Join(r.disk.RemoveAll("box/store"), syncDir(r.disk, "box")))
	if r.rng.IntN(2) == 0 {
		must(r.t, errors.Join(r.disk.RemoveAll(markPath), syncDir(r.disk, "other")))
	}
	r.wear()
	r.did("died")
}

// wear damages the card in a few places.
func (r *recoveries) wear() {
	numbers, err := segmentNumbers(r.disk, card)
	must(r.t, err)
	for range r.rng.IntN(4) {
		path := segmentPath(r.disk, card, numbers[r.rng.IntN(len(numbers))])
		harm(r.t, r.disk, path, r.rng.Int64N(size(r.t, r.disk, path)))
	}
	r.did("worn")
}

// insert puts a card into the slot, often the latest.
func (r *recoveries) insert() {
	i := len(r.cards) - 1 - r.rng.IntN(3)*r.rng.IntN(4)
	takeCard(r.t, r.cards[max(i, 0)], r.disk)
	r.did("card %d of %d", i, len(r.cards))
}

// recover is dtectl recover, and, if a person names the losses, what settles them.
func (r *recoveries) recover(accept bool) {
	from := Sources{Copy: card}
	if names, err := r.disk.List("medium"); err == nil && r.rng.IntN(4) == 0 {
		from.Backups = []string{"medium/" + names[r.rng.IntN(len(names))]}
	}
	made, err := Assemble(ctx, from, options(r.disk), nil)
	r.did("recover %v: %v", from.Backups, err)
	diverged := func(s Source) bool { return s.Diverged != nil }
	r.forks = r.forks || errors.Is(err, ErrDiverged) || slices.ContainsFunc(made.Sources, diverged)
	if errors.Is(err, ErrUnreadable) || errors.Is(err, ErrNoStore) || errors.Is(err, ErrCorrupt) && made.Sources != nil {
		return
	}
	s, err := Open(options(r.disk))
	if errors.Is(err, ErrMark) {
		if _, err = NewMark(ctx, MarkAim{Second: card}, options(r.disk), nil); err == nil {
			s, err = Open(options(r.disk))
		}
	}
	if err != nil {
		r.did("refused %v", err)
		return
	}
	defer func() { must(r.t, s.Close()) }()
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
				if doc := r.gave[n.Series][number]; there[doc] && !r.forks && !r.named[n.Series][number] {
					r.fail("%s %d is given up, and document %d can be read", n.Series, number, doc)
				}
				if r.named[n.Series] == nil {
					r.named[n.Series] = make(map[uint64]bool)
				}
				r.named[n.Series][number] = true
			}
		}
	}
	if _, err := s.Settle(ctx, begun, losses, "named"); err != nil {
		r.fail("settling: %v", err)
	}
	r.forks = false
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

// Media are lost, damaged, put in and put back in any order, and a person types what recover asks. No number is given
// twice, none is given up without its name, and none whose document recover could read.
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
			switch r.rng.IntN(9) {
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
			default:
				r.recover(true)
			}
		}
	}
	t.Log(met)
}
