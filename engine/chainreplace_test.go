package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/dte"
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
	m := s.rebuilt(old, kind, media)
	m.turnOn()
	old.mu.Lock()
	old.replaced = time.Now()
	old.mu.Unlock()
	s.box = m
	if kind == allLives {
		s.old = append(s.old, old)
	}
	c.played.replaced++
	s.reckon(old, m, kind == allLives, limit)
}

// part ends the old box if needed, and returns the content of its media, and until when answered sales must survive.
func (s *site) part(old *chainBox, kind int) (media *disktest.Disk, limit time.Time) {
	if kind == allLives {
		s.wg.Wait()
		if s.chain.rand.IntN(2) == 0 {
			old.line.set(refusing)
		}
	} else {
		if s.chain.rand.IntN(2) == 0 {
			s.wg.Wait()
		}
		how, _ := old.store.SecondCopy()
		s.unshipped(old)
		media = old.powerOff()
		old.scrap()
		if kind == copyLives && how.Live {
			limit = time.Now()
		}
	}
	s.wg.Wait()
	old.mu.Lock()
	defer old.mu.Unlock()
	if limit.IsZero() {
		limit = old.through
	}
	return media, limit
}

// rebuilt makes another box for the branch from the surviving parts, or else from the chain's store, as the runbook
// says. If nobody can prove the last numbers, it uses another point of sale.
func (s *site) rebuilt(old *chainBox, kind int, media *disktest.Disk) *chainBox {
	c := s.chain
	folder, dir := "/fetched", c.t.TempDir()
	_, err := ship.Fetch(context.Background(), c.store, chainName, []fleetwire.Key{fleetwire.Public(chainDirector)},
		s.name, 0, dir, nil)
	if errors.Is(err, ship.ErrNothing) {
		if folder = ""; kind == markLives {
			kind = nothing // there is no store to which the mark belongs
		}
	} else {
		s.must(err)
	}
	if kind == nothing || kind == allLives {
		s.point++
		c.order(func(d *fleetwire.Desired) {
			closed := fleetwire.ClosedPoint{Branch: s.name, Establishment: s.establishment(),
				Point: fmt.Sprintf("P%03d", old.point), Year: dte.Year(time.Now()), Since: s.epoch + 1}
			d.Closed = append(slices.Clone(d.Closed), closed)
		})
	}
	m := s.newMember(s.point)
	switch {
	case kind == copyLives:
		folder = copyFolder
		s.must(m.take(media, copyFolder))
	case folder != "":
		s.must(m.receive(dir, folder))
	}
	if kind == markLives {
		s.must(m.take(media, "/mark"))
	}
	s.enrol(m)
	if folder == "" {
		s.must(storage.Create(m.storage()))
	} else {
		s.must(m.fromCopy(folder))
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
	how, _ := m.store.SecondCopy()
	const enough = 5 * time.Minute
	if !up || time.Since(since) < enough || !how.Live || m.agent.Fence().Standing().Epoch == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, x := range s.sales {
		if x.by == m && !x.lost && x.at.After(m.through) && time.Since(x.at) > enough {
			s.chain.t.Errorf("%s was answered %s ago and is not in the chain's store; the store is reached since %s ago", key, time.Since(x.at), time.Since(since))
		}
	}
}

// reckon compares the branch's new box with the answers to its tills: nothing is lost that a box had shipped.
func (s *site) reckon(old, now *chainBox, alive bool, limit time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, x := range s.sales {
		if x.lost || x.by != old && slices.Contains(s.old, x.by) {
			continue
		}
		r, err := now.engine.documents.Document(context.Background(), codeOf(x.view), now.caller())
		switch {
		case err == nil && r.ControlNumber == x.view.ControlNumber:
			if !alive || x.by != old {
				x.by = now
			}
		case err == nil:
			s.chain.t.Errorf("P2: %s was answered %s and is %s", key, x.view.ControlNumber, r.ControlNumber)
		case alive && x.by == old: // the old box still has it
		case x.by != old || !x.at.After(limit):
			s.chain.t.Errorf("%s was answered at %s by the box before, everything until %s was shipped, and it is "+
				"lost: %v", key, x.at, limit, err)
			x.lost = true
		default:
			x.lost = true
			s.chain.played.lost++
		}
	}
}
