package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	fleetwire "dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/ship"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

// The parts of a replaced box that survive.
const (
	nothing = iota
	markLives
	copyLives
	allLives // and continues to sell, with a connection to the store or without
	kinds
)

// replace gives the branch another box.
func (s *site) replace() {
	c, old := s.chain, s.box
	kind := c.rand.IntN(kinds)
	if len(s.old) > 1 {
		kind = c.rand.IntN(allLives)
	}
	c.played.deaths++
	media, limit := s.part(old, kind)
	time.Sleep(c.upTo(time.Minute, 12*time.Hour))
	c.tell("%s: replaced, %d lives: %+v", s.name, kind, c.played)
	recovered := c.played.recovered
	m := s.rebuilt(old, kind, media)
	made := c.played.recovered == recovered
	m.turnOn()
	old.mu.Lock()
	old.replaced = time.Now()
	old.mu.Unlock()
	s.box = m
	if kind == allLives {
		s.old = append(s.old, old)
	}
	c.played.replaced++
	s.reckon(old, m, kind == allLives, made, limit)
}

// part ends the old box if needed, and returns the content of its media, and until when answered sales must survive.
func (s *site) part(old *chainBox, kind int) (media *disktest.Disk, limit time.Time) {
	if kind == allLives {
		s.wg.Wait()
		if s.chain.rand.IntN(2) == 0 {
			old.line.set(enginetest.Refusing)
		}
	} else {
		if s.chain.rand.IntN(2) == 0 {
			s.wg.Wait()
		}
		how, _ := old.Store.SecondCopy()
		s.unshipped(old)
		media = old.powerOff()
		old.scrap()
		if kind == copyLives && how.Live {
			limit = time.Now()
		}
		if kind == copyLives {
			s.harmCard(old, media)
		}
	}
	s.wg.Wait()
	old.mu.Lock()
	defer old.mu.Unlock()
	if limit.IsZero() {
		limit = old.through
	}
	if s.isHarmed() {
		limit = time.Time{}
	}
	return media, limit
}

// harmCard has the card of a dead box be an old one, or rotten, or torn, or another branch's, now and then; sometimes
// its mark is on it.
func (s *site) harmCard(old *chainBox, media *disktest.Disk) {
	c := s.chain
	if c.rand.IntN(2) == 0 {
		s.must(media.RemoveAll(onMark))
	}
	switch n := c.rand.IntN(9); {
	case n == 0 && s.image != nil:
		c.played.old++
		s.must(putMedium(media, s.image.fs, onCopy))
	case n == 1:
		c.played.rot++
		rot(media, onCopy, enginetest.Fork(c.rand))
	case n == 2:
		c.played.torn++
		tear(media, onCopy, enginetest.Fork(c.rand))
	case n == 3 && !old.through.IsZero(): // another branch's; what the box shipped makes the store
		c.played.foreign++
		s.must(putMedium(media, c.sites[(s.index+1)%len(c.sites)].box.Fs.Copy(), onCopy))
	default:
		return
	}
	s.harmed = time.Now()
}

// rebuilt is another box for the branch, made of what lives, else of the chain's store, as the runbook says. Where
// nobody can prove the last numbers, it numbers another point of sale.
func (s *site) rebuilt(old *chainBox, kind int, media *disktest.Disk) *chainBox {
	c := s.chain
	m := s.newMember(s.point)
	from, got, err := s.fetch(m)
	card := storage.Sources{Copy: onCopy, Dry: true}
	if kind == copyLives {
		s.must(putMedium(m.Fs, media, onCopy))
	}
	switch {
	case !errors.Is(err, ship.ErrNothing):
		s.must(err)
	case kind == markLives: // there is no store that the mark belongs to
		kind = nothing
	case kind == copyLives && errors.Is(m.recover(card, nil), errWantsMedium): // a torn card, before anything was shipped
		s.must(m.Fs.RemoveAll(onCopy))
		kind = nothing
	}
	if kind == nothing || kind == allLives || kind == markLives && got.Lacks() != "" {
		s.point++
		m.point = s.point
		c.order(func(d *fleetwire.Desired) {
			closed := fleetwire.ClosedPoint{Branch: s.name, Establishment: s.establishment(),
				Point: fmt.Sprintf("P%03d", old.point), Year: dte.Year(time.Now()), Since: s.epoch + 1}
			d.Closed = append(slices.Clone(d.Closed), closed)
		})
	}
	switch kind {
	case markLives:
		s.must(putMedium(m.Fs, media, onMark))
	case copyLives:
		from = storage.Sources{Copy: onCopy}
		s.must(putMedium(m.Fs, media, onMark))
	}
	s.enrol(m)
	if from.Copy == "" {
		s.must(storage.Create(m.Storage()))
	} else {
		s.recovers(m, from)
	}
	return m
}

func (s *site) must(err error) {
	s.chain.t.Helper()
	if err != nil {
		s.chain.t.Fatalf("%s, epoch %d: %v", s.name, s.epoch, err)
	}
}

// unshipped fails if a box whose connection to the store was long open has not shipped its sales.
func (s *site) unshipped(m *chainBox) {
	since, up := m.line.up()
	how, _ := m.Store.SecondCopy()
	const enough = 5 * time.Minute
	if !up || time.Since(since) < enough || !how.Live || m.agent.Fence().Standing().Epoch == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, x := range s.sales {
		if s.isHarmed() {
			break
		}
		if x.by == m && !x.lost && x.at.After(m.through) && time.Since(x.at) > enough {
			s.chain.t.Errorf(
				"%s was answered %s ago and is not in the chain's store; the store is reached since %s ago",
				key,
				time.Since(x.at),
				time.Since(since),
			)
		}
	}
}

// reckon compares what the branch's new box knows with what its tills were answered: lost is nothing that a box had
// shipped.
func (s *site) reckon(old, now *chainBox, alive, made bool, limit time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, x := range s.sales {
		if x.lost || x.by != old && slices.Contains(s.old, x.by) {
			continue
		}
		err := now.holds(key, x)
		switch {
		case err == nil:
			if !alive || x.by != old {
				x.by = now
			}
		case alive && x.by == old: // it lives on there
		case (x.by != old || !x.at.After(limit)) && !s.isHarmed():
			s.chain.t.Errorf("%s was answered at %s by the box before, everything until %s was shipped, and it is "+
				"lost: %v", key, x.at, limit, err)
			x.lost = true
		case made: // of nothing: nobody has anything to be asked about
			x.lost = true
			s.chain.played.lost++
		default:
			s.lose(key, x, err)
		}
	}
}
