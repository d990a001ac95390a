package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet/fleetproto"
)

type Roll struct {
	Group string `help:"One group; default: all of them."`
	// Follow repeats the work until the roll-outs have reached all branches, or a harmful roll-out is held.
	Follow bool `help:"Go on and open ring after ring, until all branches have it or it does harm."`

	said map[string]string // last text printed, by group
}

// followEvery is the pause between two readings of the chain with --follow, and while status waits.
const followEvery = 2 * time.Second

// errHarms is the error of dtectl fleet roll when it has stopped a harmful roll-out (see fleetproto.Rollout.Held).
var errHarms = errors.New("a roll-out harms, and is held")

// noOrder is what the verbs say of a group without a head.
func (s *Survey) noOrder() string {
	return strings.Join(append([]string{"the store has no order that director.public signed"}, s.Faults...), "; ")
}

// Run opens every ring that may be opened. A timer may call it every few minutes.
func (c *Roll) Run(ctx context.Context, chain *Chain) error {
	surveyor := NewSurveyor(chain)
	c.said = make(map[string]string)
	for {
		underWay, err := c.once(ctx, chain, surveyor)
		if err == nil && c.Follow && underWay {
			err = fairqueue.Sleep(ctx, followEvery)
		}
		if err != nil || !c.Follow || !underWay {
			return err
		}
	}
}

// once opens the rings that may be opened, and reports whether a roll-out is under way.
func (c *Roll) once(ctx context.Context, chain *Chain, surveyor *Surveyor) (underWay bool, err error) {
	s, err := restored(ctx, chain, surveyor)
	if err != nil {
		return false, err
	}
	groups := slices.DeleteFunc(slices.Clone(s.Groups),
		func(v *Version) bool { return c.Group != "" && c.Group != v.Group })
	if len(groups) == 0 {
		return false, errors.New(s.noOrder())
	}
	var failed []error
	for _, fault := range s.Faults {
		failed = append(failed, errors.New(fault))
	}
	for _, head := range groups {
		if r := head.Rollout; r != nil && (r.Share < fleetproto.Whole ||
			s.Measure(r, head.Group).Wants(r, chain.Now()) != "") {
			underWay = true // otherwise this call ends the roll-out
		}
		if err := c.group(ctx, chain, s, head); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", head.Group, err))
		}
	}
	return underWay, errors.Join(failed...)
}

func (c *Roll) group(ctx context.Context, chain *Chain, s *Survey, head *Version) error {
	now, r, m, why := chain.Now(), head.Rollout, Ring{}, "no roll-out is under way"
	if r != nil {
		m = s.Measure(r, head.Group)
		if why = m.Wants(r, now); why != "" {
			why = r.Name + " stays as it is: " + why
		}
	}
	harms := r != nil && m.Harms(r) && !r.Held
	if head.Unread > 0 && !harms { // it may hold the roll-out, or close a point of sale; the survey's fault names it
		return nil
	}
	// A report of a lost version is no proof: it must not delay the stop of a harmful roll-out. A later call mends the
	// lost version.
	if len(head.Lost) > 0 && !harms {
		return chain.order(ctx, s, head, fmt.Sprintf("mends version %d, which the store has lost",
			head.Lost[0].Version), nil)
	}
	if harms {
		reason := fmt.Sprintf("held by itself: %d of %d branches that tried %s failed: %s", len(m.Failed), m.Succeeded+
			len(m.Failed), r.Name, strings.Join(m.Failed[:min(len(m.Failed), 5)], " "))
		if _, err := chain.Next(ctx, head, head.Group, reason, time.Time{},
			func(d *fleetproto.Desired) { d.Rollout.Held = true }); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", errHarms, reason)
	}
	if why != "" && head.Expires.Sub(now) <= head.Expires.Sub(head.Issued)/2 {
		return chain.order(ctx, s, head, "signed again", nil)
	}
	if why != "" {
		if c.said[head.Group] != why { // --follow calls this again and again
			c.said[head.Group] = why
			term.Printf("%s: %s\n", head.Group, why)
			m.tell(term.Out)
		}
		return nil
	}
	if r.Share == fleetproto.Whole {
		return chain.order(ctx, s, head, r.Name+" has reached all", func(d *fleetproto.Desired) {
			d.Live, d.Rollout = r.State.Over(d.Live), nil
			d.Live.Rules = d.Live.On(dte.Date(now.Add(-2 * time.Hour))) // boxes' clocks may be behind by an hour
		})
	}
	rings := []int{500, 2500, fleetproto.Whole} // 5 %, 25 %, all
	next := *r
	next.Share = rings[slices.IndexFunc(rings, func(share int) bool { return share > r.Share })]
	if m.Boxes == 0 { // no branch has tried the roll-out: one branch tries it alone
		next.Share = sort.Search(next.Share, func(share int) bool {
			next.Share = share
			return s.Measure(&next, head.Group).Boxes > 0
		})
	}
	return chain.order(ctx, s, head, "", func(d *fleetproto.Desired) {
		d.Rollout.Share, d.Rollout.Opened = next.Share, d.Issued
	})
}

type Hold struct {
	Group  string `help:"Group; may be omitted if there is only one."`
	Reason string `help:"Why, for the log."`
}

type Resume Hold

func (c *Hold) Run(ctx context.Context, chain *Chain) error { return c.set(ctx, chain, true) }

// Run continues a held roll-out; the soak time of its ring begins again.
func (c *Resume) Run(ctx context.Context, chain *Chain) error {
	return (*Hold)(c).set(ctx, chain, false)
}

func (c *Hold) set(ctx context.Context, chain *Chain, held bool) error {
	head, s, err := c.look(ctx, chain)
	if err != nil {
		return err
	}
	if head.Rollout == nil {
		return fmt.Errorf("%s: no roll-out is under way", head.Group)
	}
	if head.Rollout.Held == held && head.Unread == 0 {
		return fmt.Errorf("%s: nothing to change, %s is: %s", head.Group, head.Rollout.Name, ringIn("en", head.Rollout))
	}
	return chain.order(ctx, s, head, c.Reason, func(d *fleetproto.Desired) {
		if d.Rollout.Held = held; !held {
			d.Rollout.Opened = d.Issued
		}
	})
}

// look reads the chain and the head of the group, or of the only group if no name is given.
func (c *Hold) look(ctx context.Context, chain *Chain) (*Version, *Survey, error) {
	s, err := restored(ctx, chain, NewSurveyor(chain))
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, v := range s.Groups {
		names = append(names, v.Group)
	}
	name := cmp.Or(append([]string{c.Group}, names...)...)
	head := s.Desired(name)
	switch {
	case head == nil:
		return nil, nil, fmt.Errorf("%s: %s", cmp.Or(name, "--group"), s.noOrder())
	case c.Group == "" && len(names) > 1:
		return nil, nil, fmt.Errorf("--group: name one of these groups: %s", strings.Join(names, ", "))
	}
	return head, s, nil
}

// restored makes a survey, and puts back the lost versions and enrolments that this centre has kept: without its
// successor's enrolment, a replaced box continues to give numbers.
func restored(ctx context.Context, c *Chain, surveyor *Surveyor) (*Survey, error) {
	s, err := surveyor.Read(ctx)
	if err != nil {
		return s, err
	}
	if s.apart > maxDelay {
		return nil, fmt.Errorf("this machine's clock and the store's are %s apart: an order would begin and end at "+
			"another time than it says", dte.Span(s.apart))
	}
	if len(s.Faults) == 0 {
		return s, nil
	}
	put, err := c.Restore(ctx)
	for _, key := range slices.Sorted(maps.Keys(surveyor.lost)) {
		fault := c.putBack(ctx, key, surveyor.lost[key])
		if err = errors.Join(err, fault); fault == nil {
			put = append(put, key)
		}
	}
	for _, what := range put {
		term.Printf("the store had lost %s: it is put back\n", what)
	}
	if err != nil {
		term.Fprintf(term.Err, "%v\n", err)
	}
	return surveyor.Read(ctx)
}

type Back struct {
	Group     string `help:"Group; may be omitted if there is only one."`
	Reason    string `help:"Why, for the log."`
	Completed bool   `help:"Take back what all branches have, although a later roll-out was taken back already."`
}

// Run takes back the roll-out in progress, or else the last that reached all branches. The roll-out in progress may be
// in a version that cannot be read: then back only gives that version up.
func (c *Back) Run(ctx context.Context, chain *Chain) error {
	head, s, err := (&Hold{Group: c.Group}).look(ctx, chain)
	if err != nil {
		return err
	}
	live := head.Live
	if head.Rollout == nil && head.Unread == 0 {
		if live, err = c.liveBefore(ctx, chain, head); err != nil {
			return err
		}
	}
	return chain.order(ctx, s, head, c.Reason, func(d *fleetproto.Desired) { d.Live, d.Rollout = live, nil })
}

// liveBefore returns the live state before the last completed roll-out. Branches go back by one roll-out only: the
// director's key alone must not take them back step by step.
func (c *Back) liveBefore(ctx context.Context, chain *Chain, head *Version) (live fleetproto.State, err error) {
	for v := head; ; {
		b, err := chain.Before(ctx, v)
		switch {
		case err != nil:
			return live, err
		case b == nil:
			return live, fmt.Errorf("%s: nothing else was desired before", head.Group)
		case reflect.DeepEqual(b.Live, head.Live) && b.Rollout != nil && !c.Completed: // two people may type the verb
			return live, fmt.Errorf("%s: %s was taken back already; --completed takes back the roll-out before it, "+
				"which all branches have", head.Group, b.Rollout.Name)
		case reflect.DeepEqual(b.Live, head.Live):
			v = b
			continue
		case b.Rollout == nil:
			return live, fmt.Errorf("%s went back already: branches go back by one roll-out only; publish what shall "+
				"run under a higher version", head.Group)
		}
		for _, r := range head.Live.Rules { // a branch keeps a rule that no order names
			if !slices.ContainsFunc(b.Live.Rules, r.SameDocument) {
				return live, fmt.Errorf("%s: nothing was desired for %s before %s %s: branches would keep it; publish "+
					"another version of it", head.Group, r.Document, r.Name, r.Version)
			}
		}
		return b.Live, nil
	}
}
