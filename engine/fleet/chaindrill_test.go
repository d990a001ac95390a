package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
	fleetwire "dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/record"
)

// drill is a chain without random faults.
func drill(t *testing.T, begin time.Time, fn func(*network, *site)) {
	inChain(t, 1, begin, func(c *network) {
		for _, s := range c.sites {
			s.box.line.mend()
		}
		fn(c, c.sites[0])
		for _, s := range c.sites {
			s.wg.Wait()
		}
	})
}

// sold issues a document, which must succeed, and returns its number.
func (s *site) sold(m *chainBox) string {
	s.chain.t.Helper()
	s.n++
	req := enginetest.Sale(fmt.Sprintf("%s drill %d", s.name, s.n), 100+s.n)
	req.Caller = m.caller()
	r, err := m.issue(req)
	s.must(err)
	return r.ControlNumber
}

// turnedAway tries a sale that must not be numbered.
func (s *site) turnedAway(m *chainBox) {
	s.chain.t.Helper()
	s.n++
	req := enginetest.Sale(fmt.Sprintf("%s drill %d", s.name, s.n), 100+s.n)
	req.Caller = m.caller()
	if r, err := m.issue(req); !errors.Is(err, errReplaced) {
		s.chain.t.Errorf("a box that was replaced: %+v, %v", r, err)
	}
}

// another makes a second box for the branch from the chain's store alone.
func (s *site) another(old *chainBox) *chainBox {
	m := s.rebuilt(old, allLives, nil)
	m.line.mend()
	return m
}

// The old box returns in the middle of a sale: the sale ends with the number that it has, of a series in which nobody
// else gives numbers, and is its last one.
func TestChainDrill_ComesBack(t *testing.T) {
	drill(t, enginetest.Monday, func(c *network, s *site) {
		old := s.box
		first := s.sold(old)
		time.Sleep(time.Minute)
		old.line.set(enginetest.Refusing)
		late := s.sold(old) // the store never hears of it from this box in time
		m := s.another(old)
		m.turnOn()
		if got := s.sold(m); !strings.Contains(got, "P002") {
			t.Errorf("the new box numbers %s", got)
		}
		if got := m.Document(codeAt(t, c, first)); got.ControlNumber != first {
			t.Errorf("the new box has %s in the place of %s", got.ControlNumber, first)
		}

		c.chaos(simulator.Chaos{DelayMS: 6000})
		var during string
		s.wg.Go(func() { during = s.sold(old) })
		time.Sleep(2 * time.Second)
		old.line.set(enginetest.Plugged)
		time.Sleep(11 * time.Minute)
		s.wg.Wait()
		c.chaos(simulator.Chaos{})
		if during == "" || during <= late || !strings.Contains(during, "P001") {
			t.Errorf("the sale that was under way has number %q behind %q", during, late)
		}
		s.turnedAway(old)
		old.crash()
		s.turnedAway(old)
		s.sold(m)
		time.Sleep(26 * time.Hour)
		c.unique()
		for _, n := range []string{first, late, during} {
			codeAt(t, c, n)
		}
	})
}

// A box that was in a drawer since December asks before its first number of January.
func TestChainDrill_January(t *testing.T) {
	for name, on := range map[string]bool{"it runs": true, "it starts": false} {
		t.Run(name, func(t *testing.T) {
			drill(t, newYear.Add(-3*time.Hour), func(c *network, s *site) {
				old := s.box
				s.sold(old)
				time.Sleep(time.Minute)
				old.line.set(enginetest.Refusing)
				if !on {
					old.Fs = old.powerOff()
				}
				m := s.another(old)
				m.turnOn()
				s.sold(m)
				time.Sleep(time.Until(newYear.Add(time.Second)))
				old.line.set(enginetest.Plugged)
				if !on {
					old.turnOn()
					old.Cable.Set(enginetest.Plugged)
				}
				s.turnedAway(old) // without waiting for the next look
				if got := s.sold(m); !strings.HasSuffix(got, "000000000000001") {
					t.Errorf("the first number of January is %s", got)
				}
				c.unique()
			})
		})
	}
}

// Two boxes are made for one branch at once, for one point of sale. The box that was enrolled last has it, whichever
// starts first.
func TestChainDrill_Race(t *testing.T) {
	for name, order := range map[string][2]int{"in order": {0, 1}, "against it": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			drill(t, enginetest.Monday, func(c *network, s *site) {
				old := s.box
				s.sold(old)
				time.Sleep(time.Minute)
				first := s.another(old)
				s.point-- // nobody has told the other one
				second := s.another(old)
				boxes := []*chainBox{first, second}
				for _, i := range order {
					boxes[i].turnOn()
				}
				s.turnedAway(first)
				if got := s.sold(second); !strings.Contains(got, "P002") {
					t.Errorf("it numbers %s", got)
				}
				time.Sleep(26 * time.Hour)
				s.turnedAway(first)
				s.turnedAway(old)
				c.unique()
			})
		})
	}
}

// The store forgets the last piece of a dead box: its content is not in the new box, and no number is used twice, with
// the mark or without it.
func TestChainDrill_LastPieceLost(t *testing.T) {
	for name, kind := range map[string]int{"its mark lives": markLives, "nothing lives": nothing} {
		t.Run(name, func(t *testing.T) {
			drill(t, enginetest.Monday, func(c *network, s *site) {
				old := s.box
				numbers := make(map[string]bool)
				for range 3 {
					numbers[s.sold(old)] = true
					time.Sleep(time.Minute)
				}
				media := old.powerOff()
				pieces := slices.DeleteFunc(c.store.Keys("copy/v1/"+s.name+"/"),
					func(key string) bool { return strings.HasSuffix(key, ".jws") })
				c.store.Lose(pieces[len(pieces)-1])
				m := s.rebuilt(old, kind, media)
				m.turnOn()
				for range 3 {
					if n := s.sold(m); numbers[n] {
						t.Errorf("%s comes twice", n)
					}
				}
				time.Sleep(26 * time.Hour)
				c.unique()
			})
		})
	}
}

// backTo has the box sell 20 documents and report them; then the whole box is put back as it was once.
func (s *site) backTo(m *chainBox, as *image) {
	for range 20 {
		s.sold(m)
	}
	time.Sleep(2 * time.Hour) // its status goes out once an hour
	m.Fs = m.powerOff()
	m.put(as, onDisk, onMark, onCopy)
	m.aged = true
}

// All media of a box are put back together to an earlier state, the card too: nothing in the box knows what was sold
// since. The chain's store has pieces of the copy that the box does not know, and MH refuses the first number, which is a
// customer's already: either ends the numbering, the store before it begins.
func TestChainDrill_WholeImage(t *testing.T) {
	for name, with := range map[string]struct {
		mh, store enginetest.CableState
		since     string // the image
		again     int    // numbers that are given again, at most
	}{
		"both answer":               {enginetest.Plugged, enginetest.Plugged, "", 0},
		"MH answers":                {enginetest.Plugged, enginetest.Refusing, "", 1},
		"the chain's store answers": {enginetest.Refusing, enginetest.Plugged, "", 0},
		"the chain's store answers, enrolled again": {enginetest.Refusing, enginetest.Plugged, "enrolled again", 0},
		"the chain's store answers, first enrolled": {enginetest.Refusing, enginetest.Plugged, "first enrolled", 0},
		"the chain's store answers, given a key":    {enginetest.Refusing, enginetest.Plugged, "given a key", 0},
		"the same, which ships nothing":             {enginetest.Refusing, enginetest.Plugged, "given a key, no ship", 0},
	} {
		t.Run(name, func(t *testing.T) {
			drill(t, enginetest.Monday, func(c *network, s *site) {
				m := s.box
				since, noShip := strings.CutSuffix(with.since, ", no ship")
				with.since = since
				before := with.since == "first enrolled" || with.since == "given a key"
				if !before {
					s.sold(m)
				}
				time.Sleep(time.Minute)
				m.Fs = m.powerOff()
				image := m.media()
				if before { // neither agent nor shipper had heard of the chain
					image.agent, image.shipping = nil, nil
				}
				m.turnOn()
				m.Cable.Set(enginetest.Plugged)
				if with.since == "enrolled again" {
					s.enrol(m)
					time.Sleep(time.Hour)
				}
				s.backTo(m, image)
				m.line.set(with.store)
				if with.since == "given a key" { // the image has none: its start makes another, and the centre enrols it
					m.key, m.noShip = signer32(s.name, "another"), noShip
					s.enrol(m)
				}
				if with.since == "first enrolled" { // only the pieces show what was sold since its last status
					c.store.Lose(fleetwire.StatusKey(s.name, s.epoch))
				}
				m.turnOn()
				m.Cable.Set(with.mh)
				again := 0
				for n := range 20 { // one a second
					req := enginetest.Sale(fmt.Sprintf("again %d", n), 300+n)
					req.Caller = m.caller()
					r, err := m.issue(req)
					if err == nil {
						again++
					}
					if err == nil && with.mh == enginetest.Plugged && r.Estado != record.EstadoRejected {
						t.Errorf("%s is given again, and is %s", r.ControlNumber, r.Estado)
					}
					time.Sleep(time.Second)
				}
				if again > with.again {
					t.Errorf("%d numbers are given again", again)
				}
				if with.again > 0 || with.mh == with.store {
					return
				}
				if behind := m.agent.Fence().Standing().Behind; (behind != "") != (with.since == "given a key") {
					t.Errorf("%q", behind)
				}
				m.Fs = m.powerOff() // page "Box replaced": recover --from fleet, and another key
				from, _, err := s.fetch(m)
				s.must(err)
				s.recovers(m, from)
				s.on()
				s.rekey()
				s.sold(m)
				time.Sleep(26 * time.Hour)
				c.unique()
			})
		})
	}
}

// An image of the whole box sells while nobody answers, and is then known as one. The status of its epoch still says
// which numbers were given: with another key, and without dtectl recover, it numbers nothing.
func TestChainDrill_ImageSold(t *testing.T) {
	drill(t, enginetest.Monday, func(c *network, s *site) {
		m := s.box
		s.sold(m)
		time.Sleep(time.Minute)
		m.Fs = m.powerOff()
		image := m.media()
		m.turnOn()
		m.Cable.Set(enginetest.Plugged)
		s.backTo(m, image)
		m.line.set(enginetest.Refusing)
		m.turnOn()
		for range 3 {
			s.sold(m)
		}
		m.line.set(enginetest.Plugged)
		time.Sleep(2 * time.Hour)
		s.turnedAway(m)
		m.Fs = m.powerOff()
		m.key, m.disk, m.shipping = signer32(s.name, "another"), &fleettest.File{}, &fleettest.File{}
		s.enrol(m)
		m.turnOn()
		time.Sleep(2 * time.Hour)
		if behind := m.agent.Fence().Standing().Behind; !strings.Contains(behind, "gave number 21 of") {
			t.Errorf("%q", behind)
		}
	})
}

// A new box whose clock is wrong by minutes takes its branch, and an old box whose clock is wrong leaves it.
func TestChainDrill_WrongClock(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": 50 * time.Minute, "behind": -50 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			drill(t, newYear.Add(-20*time.Minute), func(c *network, s *site) {
				old := s.box
				s.sold(old)
				time.Sleep(time.Minute)
				old.Skew.Store(int64(skew))
				old.anyClock = true
				old.crash() // a process that runs does not wait by the clock on the wall
				m := s.another(old)
				m.Skew.Store(int64(-skew))
				m.anyClock = true
				m.turnOn()
				s.sold(m)
				time.Sleep(11 * time.Minute)
				s.turnedAway(old)
				c.publish()
				time.Sleep(2 * time.Hour)
				s.sold(m)
				s.turnedAway(old)
				if got, want := m.agent.Status().Desired, c.last.Version; got.Version != want || got.Trouble != "" {
					t.Errorf("it read version %d of %d: %s", got.Version, want, got.Trouble)
				}
				time.Sleep(26 * time.Hour)
				c.unique()
			})
		})
	}
}

// codeAt returns the code of the document that MH holds under a number.
func codeAt(t testing.TB, c *network, number string) string {
	t.Helper()
	for code, a := range c.sim.Accepted() {
		if strings.HasSuffix(numberOf(a.Document), number) {
			return code
		}
	}
	t.Fatalf("MH does not hold %s", number)
	return ""
}

// unique fails if MH saw a number or a code twice, or any other breach.
func (c *network) unique() {
	c.t.Helper()
	for _, breach := range c.sim.Audit() {
		c.t.Errorf("MH saw: %s", breach)
	}
}
