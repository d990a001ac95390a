package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dtectl/fleet/controlplane"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

// Enrol is dtectl fleet enrol.
type Enrol struct {
	Boxes   []string `arg:"" optional:"" help:"BRANCH=FINGERPRINT, as the box shows its key (dtectl doctor there) or whoever installed it read it out." placeholder:"BRANCH=FINGERPRINT"`
	All     bool     `help:"Enrol every box that waits, whatever its key, where the branch has had none: for a chain's first day, while nobody but its boxes can write to the store."`
	Replace bool     `help:"The branch has a box already: the new one takes the next epoch, and the old one numbers nothing from the moment it knows."`
	Close   []string `help:"With --replace: points of sale of the lost box, M001P001, that nobody numbers again this year, since it may have issued what the store does not know." placeholder:"M001P001"`
}

// waiting is a box that could be enrolled.
type waiting struct {
	branch string
	epoch  int64 // that it would get
	status *fleetproto.Status
	again  bool // its own: the enrolment is signed again, with the points of sale that the box has now
}

// Run enrols boxes, or lists those that wait.
func (c *Enrol) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	return c.run(ctx, chain)
}

func (c *Enrol) run(ctx context.Context, chain *controlplane.Chain) error {
	s, err := controlplane.NewSurveyor(chain).Read(ctx)
	if err != nil {
		return err
	}
	list := waitingOf(s)
	if len(c.Boxes) == 0 && !c.All {
		return printWaiting(list)
	}
	points, err := c.points()
	if err != nil {
		return err
	}
	var chosen []waiting
	if c.All {
		chosen = slices.DeleteFunc(slices.Clone(list), func(w waiting) bool { return w.epoch > 1 || w.again })
		if len(chosen) == 0 {
			return errors.New("no box waits to be enrolled")
		}
	}
	for _, box := range c.Boxes {
		w, err := c.choose(list, box)
		if err != nil {
			return err
		}
		chosen = append(chosen, w)
	}
	if len(points) > 0 && (len(chosen) != 1 || chosen[0].epoch == 1) {
		return errors.New("--close: is of one branch whose box is replaced")
	}
	for _, b := range s.Branches { // whose branch and points of sale it was is not known
		if b.LostEpoch > 0 {
			return fmt.Errorf("the store has lost the enrolment of %s, epoch %d: put it back from the store's "+
				"versions, or dtectl fleet status --accept %s; nothing was enrolled",
				b.Name, b.LostEpoch, b.Name)
		}
	}
	if err := disjoint(s, chosen); err != nil {
		return err
	}
	director, err := chain.Sign()
	if err != nil {
		return err
	}
	for _, w := range chosen {
		after, shut := int64(0), append(slices.Clone(points), closedIn(s, w.branch, year(chain))...)
		if len(shut) > 0 { // before anybody may number: closed first
			if after, err = closePoints(ctx, chain, w, shut); err != nil {
				return err
			}
		}
		epoch, err := enrol(ctx, chain, w, after, director)
		if err != nil {
			return fmt.Errorf("enrolling %s: %w", w.branch, err)
		}
		term.Printf("enrolled %s, epoch %d, key %s\n", w.branch, epoch, controlplane.Fingerprint(w.status.Key))
	}
	return nil
}

// disjoint refuses two branches with one point of sale: each would number the same series.
func disjoint(s *controlplane.Survey, chosen []waiting) error {
	given := make(map[fleetproto.Point]string)
	for _, w := range chosen {
		for _, p := range w.status.Points {
			other := given[p]
			if b := s.Holder(p, w.branch); b != nil {
				other = b.Name
			}
			if other != "" && other != w.branch {
				return fmt.Errorf(
					"%s: its point of sale %s%s is of %s: correct taxpayer and points of sale at one of "+
						"the two boxes; nothing was enrolled",
					w.branch, p.Establishment, p.Point, other)
			}
			given[p] = w.branch
		}
	}
	return nil
}

// maxForeign is how many epochs that this director did not sign are passed over: a director's key before it signed
// them, or somebody with the store's credentials alone. Boxes pass over as many.
const maxForeign = 16

// enrol takes the next epoch that is free. after is the version that the box must know before it numbers; 0: none.
func enrol(ctx context.Context, c *controlplane.Chain, w waiting, after int64, director fleetproto.Signer) (int64,
	error) {
	for epoch := w.epoch; epoch < w.epoch+maxForeign; epoch++ {
		data, err := c.Identity.SealEnrolment(fleetproto.Enrolment{Branch: w.branch, Epoch: epoch, Key: w.status.Key,
			Group:  w.status.Group,
			Points: append([]fleetproto.Point{}, w.status.Points...), At: c.Now().UTC().Truncate(time.Second),
			By: c.Who, After: after}, director)
		if err != nil {
			return 0, err
		}
		if w.again {
			return epoch, c.Store.Put(ctx, fleetproto.BoxKey(w.branch, epoch), data)
		}
		// A status of that epoch shows that it was given, and that the store has lost the enrolment.
		if _, err := c.Store.Get(ctx, fleetproto.StatusKey(w.branch, epoch), fleetproto.MaxJWS); !errors.Is(err,
			fleetproto.ErrNotFound) {
			if err != nil && !errors.Is(err, fleetproto.ErrTooLarge) {
				return 0, fmt.Errorf("reading the status of epoch %d: %w", epoch, err)
			}
			continue
		}
		err = c.CreateOnce(ctx, fleetproto.BoxKey(w.branch, epoch), data)
		if !errors.Is(err, fleetproto.ErrExists) {
			return epoch, err
		}
		if _, err := controlplane.NewEnrolments(c).Get(ctx, w.branch, epoch); !controlplane.Strangers(err) {
			return 0, errors.Join(fmt.Errorf("epoch %d was given at this moment by somebody else: look at dtectl "+
				"fleet status", epoch), err)
		}
	}
	return 0, fmt.Errorf("%d epochs are taken by what this director did not sign: the store's owner must delete what "+
		"does not belong there", maxForeign)
}

// waiting are the boxes that write a status and are not enrolled.
func waitingOf(s *controlplane.Survey) (list []waiting) {
	for _, b := range s.Branches {
		switch {
		case b.Enrolment == nil && b.Status != nil:
			list = append(list, waiting{branch: b.Name, epoch: 1, status: b.Status})
		case b.Stranger != nil && b.Former == 0:
			list = append(list, waiting{branch: b.Name, epoch: b.Enrolment.Epoch + 1, status: b.Stranger})
		case b.Status != nil && b.Status.Group != b.Enrolment.Group: // somebody moved it
			list = append(list, waiting{branch: b.Name, epoch: b.Enrolment.Epoch + 1, status: b.Status})
		case b.Status != nil && slices.ContainsFunc(b.Status.Points,
			func(p fleetproto.Point) bool { return !slices.Contains(b.Enrolment.Points, p) }):
			list = append(list, waiting{branch: b.Name, epoch: b.Enrolment.Epoch, status: b.Status, again: true})
		}
	}
	return list
}

// choose finds the box that an argument names, and refuses one whose key is another.
func (c *Enrol) choose(list []waiting, box string) (waiting, error) {
	name, key, named := strings.Cut(box, "=")
	i := slices.IndexFunc(list, func(w waiting) bool { return w.branch == name })
	switch {
	case !named:
		return waiting{}, fmt.Errorf("%s: must be BRANCH=FINGERPRINT: compare the fingerprint with what the box shows",
			box)
	case i < 0:
		return waiting{}, fmt.Errorf("%s: no box of that branch waits to be enrolled", name)
	case controlplane.Fingerprint(list[i].status.Key) != strings.ToLower(key):
		return waiting{}, fmt.Errorf("%s: the box that waits has the key %s, not %s: ask who it is", name,
			controlplane.Fingerprint(list[i].status.Key), key)
	case list[i].epoch > 1 && !list[i].again && !c.Replace:
		return waiting{}, fmt.Errorf("%s has a box: --replace gives the branch to this one, and the old one numbers "+
			"nothing any more", name)
	}
	return list[i], nil
}

func (c *Enrol) points() (points []fleetproto.Point, err error) {
	for _, p := range c.Close {
		if len(p) != 8 || p[4] != 'P' {
			return nil, fmt.Errorf("--close: %q is no point of sale like M001P001", p)
		}
		points = append(points, fleetproto.Point{Establishment: p[:4], Point: p[4:]})
	}
	return points, nil
}

func year(c *controlplane.Chain) int { return c.Now().In(dte.Zone).Year() }

// closedIn are the points of sale of a branch that any group's order has closed in a year: the branch may have moved.
func closedIn(s *controlplane.Survey, branch string, year int) (points []fleetproto.Point) {
	for _, v := range s.Groups {
		for _, p := range v.Closed {
			if p.Branch == branch && p.Year == year {
				points = append(points, fleetproto.Point{Establishment: p.Establishment, Point: p.Point})
			}
		}
	}
	return points
}

// closePoints has the desired state say that points of sale of a branch are never numbered again this year, and returns
// a version that says so.
func closePoints(ctx context.Context, c *controlplane.Chain, w waiting, points []fleetproto.Point) (version int64,
	err error) {
	head, err := c.Head(ctx, w.status.Group)
	if err != nil {
		return 0, err
	}
	closes := func(list []fleetproto.ClosedPoint, p fleetproto.Point) bool {
		return slices.ContainsFunc(list, func(o fleetproto.ClosedPoint) bool {
			return o.Branch == w.branch && o.Establishment == p.Establishment && o.Point == p.Point && o.Year == year(c)
		})
	}
	if head != nil && !slices.ContainsFunc(points, func(p fleetproto.Point) bool { return !closes(head.Closed, p) }) {
		return head.Version, nil
	}
	d, err := c.Next(ctx, head, w.status.Group, "a box of "+w.branch+" was lost", time.Time{},
		func(d *fleetproto.Desired) error {
			d.Closed = slices.Clone(d.Closed)
			for _, p := range points {
				if !closes(d.Closed, p) {
					d.Closed = append(d.Closed, fleetproto.ClosedPoint{Branch: w.branch, Establishment: p.Establishment,
						Point: p.Point, Year: year(c), Since: w.epoch})
				}
			}
			return nil
		})
	if err != nil {
		return 0, err
	}
	return d.Version, nil
}

func printWaiting(list []waiting) error {
	if len(list) == 0 {
		term.Printf("no box waits to be enrolled\n")
		return nil
	}
	w := tabwriter.NewWriter(term.Out, 0, 0, 2, ' ', 0)
	term.Fprintf(w, "BRANCH\tEPOCH\tKEY\tPOINTS\tGROUP\n")
	for _, l := range list {
		var points []string
		for _, p := range l.status.Points {
			points = append(points, p.Establishment+p.Point)
		}
		term.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", l.branch, l.epoch, controlplane.Fingerprint(l.status.Key),
			strings.Join(points, " "), l.status.Group)
	}
	return w.Flush()
}
