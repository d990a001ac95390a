package centre

import (
	"fmt"
	"strings"
	"time"

	"dtegate/engine/fleet/wire"
)

// Ring is what became of a roll-out in the branches that shall take it.
type Ring struct {
	Boxes     int      `json:"branches"`  // that are enrolled and in the ring
	Succeeded int      `json:"succeeded"` // they took it
	Failed    []string `json:"failed"`    // refused it, or went back by themselves
	Waiting   int      `json:"waiting"`   // have not said yet
	Silent    int      `json:"silent"`    // of those, how many say nothing at all
}

// Measure counts the enrolled branches of a roll-out's ring. A branch counts as its own box reports it, and only under this
// roll-out's name.
func (s *Survey) Measure(r *wire.Rollout, group string) Ring {
	m := Ring{Failed: []string{}}
	for _, b := range s.Branches {
		if b.Enrolment == nil || b.Group() != group || !r.InRing(b.Name) {
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
			if s.At.Sub(b.Seen) > SilentAfter {
				m.Silent++
			}
		}
	}
	return m
}

// Harms tells that more of those that tried failed than may.
func (m Ring) Harms(r *wire.Rollout) bool {
	tried := m.Succeeded + len(m.Failed)
	return len(m.Failed)*wire.Whole > r.MaxFailures*tried
}

// Wants says what a ring still needs before the next one opens; empty: nothing.
func (m Ring) Wants(r *wire.Rollout, now time.Time) string {
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
		return fmt.Sprintf("the ring is watched until %s", Local(soak))
	}
	return ""
}

// NextShare is the ring behind one: 5 %, 25 %, all.
func NextShare(share int) int {
	for _, s := range []int{500, 2500} {
		if share < s {
			return s
		}
	}
	return wire.Whole
}

// Describe names what a state holds.
func Describe(s wire.State) string {
	var words []string
	for _, r := range s.Rules {
		words = append(words, r.Name+" "+r.Version)
	}
	if s.Settings != "" {
		words = append(words, "settings "+s.Settings[:12])
	}
	if len(words) == 0 {
		return "as each box is configured"
	}
	return strings.Join(words, ", ")
}

// RingWords is a ring in words.
func RingWords(r *wire.Rollout, boxes int) string { return RingIn("en", r, boxes) }

// RingIn is a ring in the words of a language, "es" or "en"; boxes are how many it has, 0: not known.
func RingIn(lang string, r *wire.Rollout, boxes int) string {
	say := func(en, es string) string {
		if lang == "es" {
			return es
		}
		return en
	}
	var words []string
	if r.Held {
		words = append(words, say("HELD", "DETENIDO"))
	}
	if len(r.Pilots) > 0 && r.Share < wire.Whole {
		words = append(words, say("pilots ", "piloto: ")+strings.Join(r.Pilots, " "))
	}
	switch {
	case r.Share == wire.Whole:
		words = append(words, say("all branches", "todas las sucursales"))
	case r.Share > 0:
		words = append(words, Percent(r.Share).String())
	}
	if len(words) == 0 {
		words = append(words, say("no branch", "ninguna sucursal"))
	}
	return fmt.Sprintf("%s: %s (%d)", say("ring", "anillo"), strings.Join(words, ", "), boxes)
}
