package controlplane

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/fleet/fleetproto"
)

// Settled tells that every branch shown, the silent aside, has said what became of what is desired.
func (s *Survey) Settled(shows func(*Row) bool) bool {
	for _, r := range s.Rows() {
		st, desired := r.Status, s.Desired(r.Group())
		if !shows(r) || st == nil || r.Enrolment == nil || desired == nil || r.State() == "silent" {
			continue
		}
		if st.Desired.Version < desired.Version || st.Rollout != nil && st.Rollout.Stage == fleetproto.StageWaiting {
			return false
		}
		if lacks := r.lacks(s.At, desired); len(lacks) > 0 {
			return false
		}
	}
	return true
}

// Counts are what IT asks first.
type Counts struct {
	Branches    int `json:"branches"`
	Selling     int `json:"selling"` // by the last word of their boxes
	Closed      int `json:"cannot_sell"`
	Contingency int `json:"in_contingency"`
	Silent      int `json:"silent"`
	Waiting     int `json:"waiting_for_enrolment"`
}

func (s *Survey) Counts() (n Counts) {
	n.Branches = len(s.Branches)
	for _, b := range s.Branches {
		if b.Enrolment == nil || b.Stranger != nil && b.Former == 0 {
			n.Waiting++
		}
		if b.Seen.IsZero() || s.At.Sub(b.Seen) > SilentAfter {
			n.Silent++
			continue
		}
		if b.Status == nil {
			continue
		}
		if b.Status.Ready && !b.Status.Replaced {
			n.Selling++
		} else {
			n.Closed++
		}
		if b.Status.Contingency != nil {
			n.Contingency++
		}
	}
	return n
}

// report is a survey for programs.
type report struct {
	At       time.Time      `json:"at"` // by the store's clock
	Counts   Counts         `json:"counts"`
	Groups   []groupReport  `json:"groups"`
	Faults   []string       `json:"faults"`   // of the store as a whole, or of one group
	Branches []branchReport `json:"branches"` // the worst first
}

type groupReport struct {
	Group   string              `json:"group"`
	Desired *fleetproto.Desired `json:"desired"`
	Ring    *Ring               `json:"ring,omitempty"`
	Wants   string              `json:"wants,omitempty"` // what the next ring waits for
	Harms   bool                `json:"harms,omitempty"`
}

type branchReport struct {
	Branch   string             `json:"branch"`
	Group    string             `json:"group,omitempty"`
	Epoch    int64              `json:"epoch"`         // 0: no box is enrolled
	Seen     time.Time          `json:"seen,omitzero"` // the store's time of its status
	Level    string             `json:"level"`         // ok, warn, bad
	Concerns []string           `json:"concerns"`      // the worst first
	Codes    []string           `json:"codes"`         // of the concerns
	Status   *fleetproto.Status `json:"status,omitempty"`
}

var LevelNames = [...]string{Fine: "ok", Warning: "warn", Bad: "bad"}

func (s *Survey) Report(shows func(*Row) bool) report {
	out := report{At: s.At.UTC().Truncate(time.Second), Counts: s.Counts(), Groups: []groupReport{},
		Faults: append([]string{}, s.Faults...), Branches: []branchReport{}}
	for _, v := range s.Groups {
		g := groupReport{Group: v.Group, Desired: v.Desired}
		if r := v.Rollout; r != nil {
			m := s.Measure(r, v.Group)
			g.Ring, g.Wants, g.Harms = &m, m.Wants(r, s.At), m.Harms(r)
		}
		out.Groups = append(out.Groups, g)
	}
	for _, r := range s.Rows() {
		if !shows(r) {
			continue
		}
		b := branchReport{Branch: r.Name, Group: r.Group(), Seen: r.Seen, Level: LevelNames[r.Level()],
			Status: r.Status, Concerns: []string{}, Codes: []string{}}
		if r.Enrolment != nil {
			b.Epoch = r.Enrolment.Epoch
		}
		for _, c := range r.Concerns {
			b.Concerns, b.Codes = append(b.Concerns, c.Say("en")), append(b.Codes, c.Code)
		}
		out.Branches = append(out.Branches, b)
	}
	return out
}

// Print writes a survey for people.
func (s *Survey) Print(out io.Writer, shows func(*Row) bool) error {
	n := s.Counts()
	term.Fprintf(out, "%d branches: %d sell, %d cannot, %d in contingency, %d silent", n.Branches, n.Selling, n.Closed,
		n.Contingency, n.Silent)
	if n.Waiting > 0 {
		term.Fprintf(out, ", %d wait to be enrolled", n.Waiting)
	}
	term.Fprintf(out, "\n")
	for _, fault := range s.Faults {
		term.Fprintf(out, "FAULT: %s\n", fault)
	}
	for _, v := range s.Groups {
		term.Fprintf(out, "%s version %d, good until %s: %s\n", v.Group, v.Version, Local(v.Expires), Describe(v.Live))
		if r := v.Rollout; r != nil {
			m := s.Measure(r, v.Group)
			term.Fprintf(out, "  %s %s, %s: %d took it, %d failed, %d have not said yet\n", r.Name, Describe(r.State),
				RingWords(r, m.Boxes), m.Succeeded, len(m.Failed), m.Waiting)
			if why := m.Wants(r, s.At); why != "" {
				term.Fprintf(out, "  next ring: %s\n", why)
			} else {
				term.Fprintf(out, "  next ring: dtectl fleet roll\n")
			}
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	term.Fprintf(w, "BRANCH\tGROUP\tSTATE\tSEEN\tVERSION\tROLL-OUT\tWHAT\n")
	for _, r := range s.Rows() {
		if !shows(r) {
			continue
		}
		seen, reached, stage := "never", "–", "–"
		if !r.Seen.IsZero() {
			seen = Span(max(0, s.At.Sub(r.Seen)))
		}
		if r.Status != nil {
			reached = strconv.FormatInt(r.Status.Desired.Version, 10)
			if r.Status.Rollout != nil {
				stage = string(r.Status.Rollout.Stage)
			}
		}
		var words []string
		for _, c := range r.Concerns {
			words = append(words, c.Say("en"))
		}
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Group(), r.State(), seen, reached, stage,
			strings.Join(words, "; "))
	}
	return w.Flush()
}

// State is a branch in a word.
func (r *Row) State() string {
	s := r.Status
	switch {
	case slices.ContainsFunc(r.Concerns, func(c Concern) bool { return c.Code == "silent" || c.Code == "lost" }):
		return "silent"
	case s == nil:
		return "unknown"
	case s.Replaced:
		return "REPLACED"
	case !s.Ready:
		return "CANNOT SELL"
	case s.Contingency != nil:
		return "contingency"
	}
	return "sells"
}
