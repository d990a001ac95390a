package fleet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet/fleetproto"
)

type Status struct {
	JSON     bool     `help:"Write one JSON object."`
	Group    string   `help:"Only this group's branches."`
	Branches []string `arg:"" optional:"" help:"Only these branches."`
	Trouble  bool     `help:"Only branches with a concern."`
	Accept   []string `help:"Branches whose loss in the store somebody has checked." placeholder:"A,B"`
	// Wait is how long to wait for the outcome of the desired state in the branches shown.
	Wait time.Duration `help:"Wait until the branches have applied or refused it." placeholder:"2m"`
}

// Run verifies every status and prints the chosen branches. If the store has lost something, Run returns an error.
func (c *Status) Run(ctx context.Context, chain *Chain) error {
	surveyor := NewSurveyor(chain)
	surveyor.Accept = c.Accept
	s, err := surveyor.Read(ctx)
	for end := time.Now().Add(c.Wait); err == nil && !s.settled(c.shows) && time.Now().Before(end); {
		if err = fairqueue.Sleep(ctx, followEvery); err == nil {
			s, err = surveyor.Read(ctx)
		}
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(c.Accept, c.Branches) {
		if !slices.ContainsFunc(s.Branches, func(b *Branch) bool { return b.Name == name }) {
			return fmt.Errorf("no branch %s is in the chain's store", name)
		}
	}
	if c.Group != "" && s.Desired(c.Group) == nil && !slices.ContainsFunc(s.Branches, c.inGroup) {
		return fmt.Errorf("no branch of a group %s is in the chain's store", c.Group)
	}
	if c.JSON {
		err = term.JSON(s.Report(c.shows))
	} else {
		err = s.print(term.Out, c.shows)
	}
	if n := s.Lost(); err == nil && n > 0 {
		return fmt.Errorf("the store has lost or put back something of %d branches or groups: see above", n)
	}
	return err
}

// inGroup is true for every group if the branch's group is not known.
func (c *Status) inGroup(b *Branch) bool {
	return c.Group == "" || b.Group() == "" || b.Group() == c.Group
}

func (c *Status) shows(b *Branch) bool {
	return c.inGroup(b) && (len(c.Branches) == 0 || slices.Contains(c.Branches, b.Name)) &&
		(!c.Trouble || b.Level() > Fine)
}

// settled reports whether all branches for which shows returns true, except silent ones, have reported the outcome of
// the desired state.
func (s *Survey) settled(shows func(*Branch) bool) bool {
	return !slices.ContainsFunc(s.Branches, func(b *Branch) bool {
		st, desired := b.Status, s.Desired(b.Group())
		return shows(b) && st != nil && b.Enrolment != nil && desired != nil && !b.silent(s.At) &&
			(st.Rollout != nil && st.Rollout.Stage == fleetproto.StageWaiting || len(b.lacks(s.At, desired)) > 0)
	})
}

// Counts are the numbers that IT asks for first.
type Counts struct {
	Branches    int `json:"branches"`
	Selling     int `json:"selling"` // by the last reports of their boxes
	Closed      int `json:"cannot_sell"`
	Contingency int `json:"in_contingency"`
	Silent      int `json:"silent"`
	Waiting     int `json:"waiting_for_enrolment"`
}

func (s *Survey) Counts() (n Counts) {
	n.Branches = len(s.Branches)
	for _, b := range s.Branches {
		if b.Enrolment == nil && b.Lost == "" || b.Stranger != nil {
			n.Waiting++
		}
		switch {
		case b.silent(s.At):
			n.Silent++
			continue
		case b.Status == nil:
			continue
		case b.Status.Ready && !b.Status.Replaced:
			n.Selling++
		default:
			n.Closed++
		}
		if b.Status.Contingency != nil {
			n.Contingency++
		}
	}
	return n
}

type report struct {
	At       time.Time      `json:"at"` // by the store's clock
	Counts   Counts         `json:"counts"`
	Groups   []groupReport  `json:"groups"`
	Faults   []string       `json:"faults"`   // faults of the store as a whole or of one group
	Branches []branchReport `json:"branches"` // worst first
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
	Seen     time.Time          `json:"seen,omitzero"` // when its status was written, see Branch.Seen
	Level    string             `json:"level"`         // ok, warn, bad
	Concerns []string           `json:"concerns"`      // worst first
	Codes    []string           `json:"codes"`         // of the concerns
	Status   *fleetproto.Status `json:"status,omitempty"`
}

var levelNames = [...]string{Fine: "ok", Warning: "warn", Bad: "bad"}

func (s *Survey) Report(shows func(*Branch) bool) report {
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
	for _, b := range s.Branches {
		if !shows(b) {
			continue
		}
		r := branchReport{Branch: b.Name, Group: b.Group(), Seen: b.Seen, Level: levelNames[b.Level()],
			Status: b.Status, Concerns: b.words(), Codes: []string{}, Epoch: b.epoch()}
		for _, c := range b.Concerns {
			r.Codes = append(r.Codes, c.Code)
		}
		out.Branches = append(out.Branches, r)
	}
	return out
}

func (b *Branch) words() []string {
	list := []string{}
	for _, c := range b.Concerns {
		list = append(list, c.Say("en"))
	}
	return list
}

func (s *Survey) print(out io.Writer, shows func(*Branch) bool) error {
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
		term.Fprintf(out, "%s version %d, good until %s: %s\n", v.Group, v.Version, local(v.Expires), describe(v.Live))
		if r := v.Rollout; r != nil {
			m := s.Measure(r, v.Group)
			term.Fprintf(out, "  %s %s, %s (%d): %d applied it, %d failed, %d have no outcome yet\n  next ring: %s\n",
				r.Name, describe(r.State), ringIn("en", r), m.Boxes, m.Succeeded, len(m.Failed), m.Waiting,
				cmp.Or(m.Wants(r, s.At), "dtectl fleet roll"))
			m.tell(out)
		}
	}
	shown := slices.DeleteFunc(slices.Clone(s.Branches), func(b *Branch) bool { return !shows(b) })
	return term.Table(out, "BRANCH\tGROUP\tSTATE\tSEEN\tVERSION\tROLL-OUT\tWHAT", shown, func(b *Branch) []any {
		seen, reached, stage := "never", "–", "–"
		if !b.Seen.IsZero() {
			seen = dte.Span(max(0, s.At.Sub(b.Seen)))
		}
		if b.Status != nil {
			reached = strconv.FormatInt(b.Status.Desired.Version, 10)
			if b.Status.Rollout != nil {
				stage = string(b.Status.Rollout.Stage)
			}
		}
		return []any{b.Name, b.Group(), b.State(), seen, reached, stage, strings.Join(b.words(), "; ")}
	})
}

// State describes a branch in a word or two.
func (b *Branch) State() string {
	s := b.Status
	switch {
	case b.has("silent", "lost"):
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
