package fleet

import (
	"fmt"
	"time"

	"dtegate/engine/fleet/wire"
)

// ring is what became of a roll-out in the branches that shall take it.
type ring struct {
	Boxes     int      `json:"branches"`  // that are enrolled and in the ring
	Succeeded int      `json:"succeeded"` // they took it
	Failed    []string `json:"failed"`    // refused it, or went back by themselves
	Waiting   int      `json:"waiting"`   // have not said yet
	Silent    int      `json:"silent"`    // of those, how many say nothing at all
}

// measure counts the enrolled branches of a roll-out's ring. A branch counts as its own box reports it, and only under this
// roll-out's name.
func (s *survey) measure(r *wire.Rollout, group string) ring {
	m := ring{Failed: []string{}}
	for _, b := range s.Branches {
		if b.Enrolment == nil || b.group() != group || !r.InRing(b.Name) {
			continue
		}
		m.Boxes++
		var stage wire.Stage
		if b.Status != nil && b.Status.Rollout != nil && b.Status.Rollout.Name == r.Name {
			stage = b.Status.Rollout.Stage
		}
		switch {
		case stage.Succeeded():
			m.Succeeded++
		case stage.Failed():
			m.Failed = append(m.Failed, b.Name)
		default:
			m.Waiting++
			if s.At.Sub(b.Seen) > silentAfter {
				m.Silent++
			}
		}
	}
	return m
}

// harms tells that more of those that tried failed than may.
func (m ring) harms(r *wire.Rollout) bool {
	tried := m.Succeeded + len(m.Failed)
	return len(m.Failed)*wire.Whole > r.MaxFailures*tried
}

// wants says what a ring still needs before the next one opens; empty: nothing.
func (m ring) wants(r *wire.Rollout, now time.Time) string {
	began := r.Opened
	if r.NotBefore.After(began) {
		began = r.NotBefore
	}
	soak := began.Add(time.Duration(r.SoakSeconds) * time.Second)
	switch need := min(r.MinSuccess, m.Boxes); {
	case r.Held:
		return "it is held: dtectl fleet resume, or back"
	case m.Boxes == 0:
		return "" // a ring without a box proves nothing, and holds up nobody
	case m.Succeeded < need:
		return fmt.Sprintf("%d of %d branches took it, %d must", m.Succeeded, m.Boxes, need)
	case r.Share == wire.Whole && m.Waiting > m.Silent: // the last ring: who is there has its say; who is away finds it in force
		return fmt.Sprintf("%d of %d branches took it, %d that are there have not said yet", m.Succeeded, m.Boxes, m.Waiting-m.Silent)
	case now.Before(soak):
		return fmt.Sprintf("the ring is watched until %s", local(soak))
	}
	return ""
}

// nextShare is the ring behind one: 5 %, 25 %, all.
func nextShare(share int) int {
	for _, s := range []int{500, 2500} {
		if share < s {
			return s
		}
	}
	return wire.Whole
}
