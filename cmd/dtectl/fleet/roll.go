package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtectl/fleet/controlplane"
	"dtegate/cmd/term"
	"dtegate/engine/fleet/fleetproto"
)

// Roll is dtectl fleet roll.
type Roll struct {
	Group string                `help:"One group; default: all of them."`
	Share *controlplane.Percent `help:"Percentage of the next ring; default: 5, 25, 100 in turn." placeholder:"25"`
	// Follow goes on until the roll-outs have reached all, or one harms.
	Follow bool `help:"Stay, and open ring after ring until all have it, or it harms."`

	said map[string]string // by group
}

// followEvery is how often a roll that follows reads the chain.
const followEvery = 2 * time.Second

// errHarms ends a roll that held a roll-out.
var errHarms = errors.New("a roll-out harms, and is held")

// Run opens what may be opened. It may run every few minutes by a timer: where a ring's criteria do not hold, it
// changes nothing.
func (c *Roll) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	surveyor := controlplane.NewSurveyor(chain)
	for {
		underWay, err := c.once(ctx, chain, surveyor)
		if err != nil || !c.Follow || !underWay {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// say tells why a roll-out stays as it is; who follows is told once.
func (c *Roll) say(group, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.said[group] == text && c.Follow {
		return
	}
	if c.said == nil {
		c.said = make(map[string]string)
	}
	c.said[group] = text
	term.Printf("%s: %s\n", group, text)
}

// once opens what may be opened, and tells whether a roll-out was under way.
func (c *Roll) once(ctx context.Context, chain *controlplane.Chain, surveyor *controlplane.Surveyor) (underWay bool,
	err error) {
	s, err := restored(ctx, chain, surveyor)
	if err != nil {
		return false, err
	}
	var failed []error
	for _, fault := range s.Faults {
		failed = append(failed, errors.New(fault))
	}
	found := false
	for _, head := range s.Groups {
		if c.Group != "" && c.Group != head.Group {
			continue
		}
		found = true
		if head.Rollout != nil && (head.Rollout.Share < fleetproto.Whole ||
			s.Measure(head.Rollout, head.Group).Wants(head.Rollout, chain.Now()) != "") {
			underWay = true // else this is its end
		}
		if err := c.group(ctx, chain, s, head); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", head.Group, err))
		}
	}
	if !found {
		return false, errors.New("nothing was published yet for this group")
	}
	return underWay, errors.Join(failed...)
}

func (c *Roll) group(ctx context.Context, chain *controlplane.Chain, s *controlplane.Survey,
	head *controlplane.Version) error {
	now := chain.Now()
	r := head.Rollout
	if len(head.Lost) > 0 {
		d, err := chain.Next(ctx, head, head.Group, fmt.Sprintf("mends version %d, which the store has lost",
			head.Lost[0].Version), time.Time{},
			func(*fleetproto.Desired) error { return nil })
		if err != nil {
			return err
		}
		return printOrder(d, s)
	}
	if r == nil {
		if head.Expires.Sub(now) > head.Expires.Sub(head.Issued)/2 {
			c.say(head.Group, "no roll-out is on its way")
			return nil
		}
		d, err := chain.Next(ctx, head, head.Group, "signed again", time.Time{},
			func(*fleetproto.Desired) error { return nil })
		if err != nil {
			return err
		}
		term.Printf("%s: signed again, good until %s\n", d.Group, controlplane.Local(d.Expires))
		return nil
	}
	m := s.Measure(r, head.Group)
	if m.Harms(r) && !r.Held {
		reason := fmt.Sprintf("held by itself: %d of %d branches that tried %s failed: %s", len(m.Failed), m.Succeeded+
			len(m.Failed), r.Name, strings.Join(first(m.Failed, 5), " "))
		if _, err := chain.Next(ctx, head, head.Group, reason, time.Time{},
			func(d *fleetproto.Desired) error { d.Rollout.Held = true; return nil }); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", errHarms, reason)
	}
	if why := m.Wants(r, now); why != "" {
		c.say(head.Group, "%s stays as it is: %s", r.Name, why)
		return nil
	}
	if r.Share == fleetproto.Whole {
		d, err := chain.Next(ctx, head, head.Group, r.Name+" has reached all", time.Time{},
			func(d *fleetproto.Desired) error {
				d.Live, d.Rollout = r.State.Over(d.Live), nil
				return nil
			})
		if err != nil {
			return err
		}
		return printOrder(d, s)
	}
	share := controlplane.NextShare(r.Share)
	if c.Share != nil {
		share = int(*c.Share)
	}
	if share <= r.Share {
		return fmt.Errorf("--share: the ring has %s already", controlplane.Percent(r.Share))
	}
	d, err := chain.Next(ctx, head, head.Group, "", time.Time{}, func(d *fleetproto.Desired) error {
		d.Rollout.Share, d.Rollout.Opened = share, d.Issued
		return nil
	})
	if err != nil {
		return err
	}
	return printOrder(d, s)
}

// first are the first few of a list, and how many more there are.
func first(list []string, n int) []string {
	if len(list) <= n {
		return list
	}
	return append(append([]string(nil), list[:n]...), fmt.Sprintf("and %d more", len(list)-n))
}

// Hold is dtectl fleet hold.
type Hold struct {
	Group  string `help:"Group; may be left out where there is one."`
	Reason string `help:"Why, for the log."`
}

// Run holds a roll-out.
func (c *Hold) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	return setHeld(ctx, chain, c.Group, c.Reason, true)
}

// Resume is dtectl fleet resume.
type Resume struct {
	Group  string `help:"Group; may be left out where there is one."`
	Reason string `help:"Why, for the log."`
}

// Run lets a roll-out go on; its ring is watched anew.
func (c *Resume) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	return setHeld(ctx, chain, c.Group, c.Reason, false)
}

func setHeld(ctx context.Context, c *controlplane.Chain, name, reason string, held bool) error {
	head, s, err := look(ctx, c, name)
	if err != nil {
		return err
	}
	if head.Rollout == nil {
		return fmt.Errorf("%s: no roll-out is on its way", head.Group)
	}
	if head.Rollout.Held == held {
		return fmt.Errorf("%s: %s is so already: %s", head.Group, head.Rollout.Name,
			controlplane.RingWords(head.Rollout, s.Measure(head.Rollout, head.Group).Boxes))
	}
	d, err := c.Next(ctx, head, head.Group, reason, time.Time{}, func(d *fleetproto.Desired) error {
		d.Rollout.Held = held
		if !held {
			d.Rollout.Opened = d.Issued
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printOrder(d, s)
}

// restored makes a survey, and puts back what the store has lost and this centre has kept.
func restored(ctx context.Context, c *controlplane.Chain, surveyor *controlplane.Surveyor) (*controlplane.Survey,
	error) {
	s, err := surveyor.Read(ctx)
	if err != nil || len(s.Faults) == 0 {
		return s, err
	}
	put, err := c.RestoreAll(ctx)
	for _, what := range put {
		term.Printf("the store had lost %s: it is put back\n", what)
	}
	if err != nil {
		term.Fprintf(term.Err, "%v\n", err)
	}
	return surveyor.Read(ctx)
}

// look reads the chain and the head of a group; without a name, of the only one.
func look(ctx context.Context, c *controlplane.Chain, name string) (*controlplane.Version, *controlplane.Survey,
	error) {
	s, err := restored(ctx, c, controlplane.NewSurveyor(c))
	if err != nil {
		return nil, nil, err
	}
	if name == "" {
		var names []string
		for _, v := range s.Groups {
			names = append(names, v.Group)
		}
		if len(names) != 1 {
			return nil, nil, fmt.Errorf("--group: one of these is meant: %s", cmp.Or(strings.Join(names, ", "),
				"none: nothing was published yet"))
		}
		name = names[0]
	}
	head := s.Desired(name)
	if head == nil {
		return nil, nil, fmt.Errorf("%s: nothing was published yet, or it is not believed: %s", name,
			strings.Join(s.Faults, "; "))
	}
	return head, s, nil
}

// Back is dtectl fleet back.
type Back struct {
	Group  string `help:"Group; may be left out where there is one."`
	Reason string `help:"Why, for the log."`
}

// Run takes a roll-out back, or, with none on its way, the last one that reached all.
func (c *Back) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	return c.run(ctx, chain)
}

func (c *Back) run(ctx context.Context, chain *controlplane.Chain) error {
	head, s, err := look(ctx, chain, c.Group)
	if err != nil {
		return err
	}
	live := head.Live
	if head.Rollout == nil {
		if live, err = liveBefore(ctx, chain, head); err != nil {
			return err
		}
	}
	d, err := chain.Next(ctx, head, head.Group, c.Reason, time.Time{}, func(d *fleetproto.Desired) error {
		d.Live, d.Rollout = live, nil
		return nil
	})
	if err != nil {
		return err
	}
	return printOrder(d, s)
}

// liveBefore is what was desired before the last roll-out reached all. Branches go back by one roll-out and no further:
// whoever holds the director's key alone cannot walk them down.
func liveBefore(ctx context.Context, c *controlplane.Chain, head *controlplane.Version) (fleetproto.State, error) {
	for v := head; ; {
		b, err := c.Before(ctx, v)
		switch {
		case err != nil:
			return fleetproto.State{}, err
		case b == nil:
			return fleetproto.State{}, fmt.Errorf("%s: nothing else was desired before", head.Group)
		case reflect.DeepEqual(b.Live, head.Live):
			v = b
			continue
		case b.Rollout == nil:
			return fleetproto.State{}, fmt.Errorf("%s went back already: branches go back by one roll-out only; "+
				"publish what shall run under a higher version", head.Group)
		}
		for _, r := range head.Live.Rules { // a branch leaves alone what nobody names
			if !slices.ContainsFunc(b.Live.Rules, r.SameGeneration) {
				return fleetproto.State{}, fmt.Errorf("%s: nothing was desired for %s before %s %s: branches would "+
					"keep it; publish another version of it", head.Group, r.Document, r.Name, r.Version)
			}
		}
		return b.Live, nil
	}
}
