package fleet

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/fleet/fleetproto"
)

// Ring is the outcome of a roll-out in the branches of its ring.
type Ring struct {
	Boxes     int      `json:"branches"`  // branches in the ring that are enrolled, or whose enrolment is lost
	Succeeded int      `json:"succeeded"` // branches that have applied the roll-out
	Failed    []string `json:"failed"`    // branches that refused it, went back, or where its rules are Grave
	Waiting   int      `json:"waiting"`   // branches that have reported no outcome yet
	Silent    int      `json:"silent"`    // branches counted in Waiting that have reported nothing for SilentAfter
	// branches counted in Succeeded that read the last order and reported after the soak time
	Confirmed int `json:"confirmed"`
	// branches for which the store lacks an object or shows an older one: their reports do not count
	Doubtful []string `json:"doubtful"`
	Changes  string   `json:"changes,omitempty"` // a branch, and what the roll-out changes in the amounts of its sales
}

// Measure counts the branches of a roll-out's ring (see Ring.Boxes) by their boxes' reports about the roll-out.
func (s *Survey) Measure(r *fleetproto.Rollout, group string) Ring {
	m := Ring{Failed: []string{}, Doubtful: []string{}}
	var ordered int64
	if v := s.Desired(group); v != nil && v.Rollout != nil && v.Rollout.Name == r.Name {
		ordered = v.Version
	}
	for _, b := range s.Branches {
		lost := b.Enrolment == nil && b.Lost != "" // its group is not known: the branch counts in every group
		if !lost && (b.Enrolment == nil || b.Group() != group) || !r.InRing(b.Name) {
			continue
		}
		m.Boxes++
		var stage fleetproto.Stage
		if s := b.Status; !lost && s != nil && s.Group == group && s.Rollout != nil && s.Rollout.Name == r.Name {
			stage = s.Rollout.Stage
			if stage.Succeeded() && r.State.Settings != "" && s.Settings != r.State.Settings {
				stage = fleetproto.StageWaiting
			}
		}
		switch {
		case stage.Failed(), stage.Succeeded() && len(harmful(b.Status, r)) > 0:
			m.Failed = append(m.Failed, b.Name)
		case b.doubtful():
			m.Doubtful = append(m.Doubtful, b.Name)
		case stage.Succeeded():
			m.Succeeded++
			if reason := b.Status.Rollout.Reason; reason != "" && m.Changes == "" {
				m.Changes = b.Name + ": " + reason
			}
			if b.Status.Desired.Version >= ordered && (r.SoakSeconds == 0 || !b.Seen.Before(soakEnd(r))) {
				m.Confirmed++
			}
		default:
			m.Waiting++
			if b.silent(s.At) {
				m.Silent++
			}
		}
	}
	return m
}

// tell prints what the roll-out changes in a branch's amounts, if it changes any.
func (m Ring) tell(out io.Writer) {
	if m.Changes != "" {
		term.Fprintf(out, "  %s\n", m.Changes)
	}
}

// harmful returns a branch's bundles in force that fail there, or whose documents MH refuses there. If rollout is not
// nil, only bundles of the roll-out count. Rings and concerns use this criterion.
func harmful(s *fleetproto.Status, rollout *fleetproto.Rollout) (list []fleetproto.Running) {
	for _, r := range s.Rules {
		mine := rollout == nil || slices.ContainsFunc(rollout.State.Rules,
			func(o fleetproto.Rule) bool { return o.Digest == r.Digest })
		if r.Live && mine && r.Outcomes.Grave() {
			list = append(list, r)
		}
	}
	return list
}

// Harms reports whether more of the branches that tried the roll-out failed than the roll-out allows.
func (m Ring) Harms(r *fleetproto.Rollout) bool {
	tried := m.Succeeded + len(m.Failed)
	return len(m.Failed)*fleetproto.Whole > r.MaxFailures*tried
}

func soakEnd(r *fleetproto.Rollout) time.Time {
	began := slices.MaxFunc([]time.Time{r.Opened, r.NotBefore}, time.Time.Compare)
	return began.Add(time.Duration(r.SoakSeconds) * time.Second)
}

// Wants returns why the next ring cannot open yet; "" if it can.
func (m Ring) Wants(r *fleetproto.Rollout, now time.Time) string {
	soak := soakEnd(r)
	switch need := min(r.MinSuccess, m.Boxes); {
	case r.Held:
		return "it is held: dtectl fleet resume, or back"
	case m.Boxes == 0:
		return "" // a ring without a box proves nothing: it must not delay a branch
	case len(m.Doubtful) > 0:
		return fmt.Sprintf("the store has lost or put back something of %s: look at dtectl fleet status, and --accept "+
			"what cannot be mended", strings.Join(m.Doubtful[:min(len(m.Doubtful), 5)], " "))
	case m.Succeeded < need:
		return fmt.Sprintf("%d of %d branches applied it, %d must", m.Succeeded, m.Boxes, need)
	// the last ring waits for the branches that report; a silent branch finds the state in force later
	case r.Share == fleetproto.Whole && m.Waiting > m.Silent:
		return fmt.Sprintf("%d of %d branches applied it, %d still have no outcome", m.Succeeded, m.Boxes,
			m.Waiting-m.Silent)
	case now.Before(soak):
		return fmt.Sprintf("the ring is watched until %s", local(soak))
	case m.Confirmed < need:
		return fmt.Sprintf("%d branches have read the last order and reported since the ring was watched long enough, "+
			"%d must", m.Confirmed, need)
	}
	return ""
}

func describe(s fleetproto.State) string {
	var words []string
	for _, r := range s.Rules {
		words = append(words, r.Name+" "+r.Version)
	}
	if s.Settings != "" {
		words = append(words, "settings "+s.Settings[:12])
	}
	return cmp.Or(strings.Join(words, ", "), "as each box is configured")
}

// ringIn describes a ring in a language, "es" or "en".
func ringIn(lang string, r *fleetproto.Rollout) string {
	say := func(en, es string) string { return map[string]string{"en": en, "es": es}[lang] }
	var words []string
	if r.Held {
		words = append(words, say("HELD", "DETENIDO"))
	}
	if len(r.Pilots) > 0 && r.Share < fleetproto.Whole {
		words = append(words, say("pilots ", "piloto: ")+strings.Join(r.Pilots, " "))
	}
	switch {
	case r.Share == fleetproto.Whole:
		words = append(words, say("all branches", "todas las sucursales"))
	case r.Share > 0:
		words = append(words, Percent(r.Share).String())
	}
	return say("ring: ", "anillo: ") + cmp.Or(strings.Join(words, ", "), say("no branch", "ninguna sucursal"))
}
