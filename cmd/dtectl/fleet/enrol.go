package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dtectl/fleet/centre"
	"dtegate/cmd/screen"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/wire"
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
	status *wire.Status
}

// Run enrols boxes, or lists those that wait.
func (c *Enrol) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	return c.run(ctx, chain)
}

func (c *Enrol) run(ctx context.Context, chain *centre.Chain) error {
	s, err := centre.NewSurveyor(chain).Read(ctx)
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
		chosen = slices.DeleteFunc(slices.Clone(list), func(w waiting) bool { return w.epoch > 1 })
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
	director, err := chain.Sign()
	if err != nil {
		return err
	}
	for _, w := range chosen {
		after := int64(0)
		if len(points) > 0 { // before anybody may number: closed first
			if after, err = closePoints(ctx, chain, w, points); err != nil {
				return err
			}
		}
		epoch, err := enrol(ctx, chain, w, after, director)
		if err != nil {
			return fmt.Errorf("enrolling %s: %w", w.branch, err)
		}
		screen.Printf("enrolled %s, epoch %d, key %s\n", w.branch, epoch, centre.Fingerprint(w.status.Key))
	}
	return nil
}

// maxForeign is how many epochs that this director did not sign are passed over: a director's key before it signed them, or
// somebody with the store's credentials alone. Boxes pass over as many.
const maxForeign = 16

// enrol takes the next epoch that is free. after is the version that the box must know before it numbers; 0: none.
func enrol(ctx context.Context, c *centre.Chain, w waiting, after int64, director wire.Signer) (int64, error) {
	for epoch := w.epoch; epoch < w.epoch+maxForeign; epoch++ {
		data, err := wire.SealEnrolment(wire.Enrolment{Branch: w.branch, Epoch: epoch, Key: w.status.Key, Points: append([]wire.Point{}, w.status.Points...),
			At: c.Now().UTC().Truncate(time.Second), By: c.Who, After: after}, director)
		if err != nil {
			return 0, err
		}
		err = c.CreateOnce(ctx, wire.BoxKey(w.branch, epoch), data)
		if !errors.Is(err, wire.ErrExists) {
			return epoch, err
		}
		if _, err := centre.NewEnrolments(c).Get(ctx, w.branch, epoch); !centre.Strangers(err) {
			return 0, errors.Join(fmt.Errorf("epoch %d was given at this moment by somebody else: look at dtectl fleet status", epoch), err)
		}
	}
	return 0, fmt.Errorf("%d epochs are taken by what this director did not sign: the store's owner must delete what does not belong there", maxForeign)
}

// waiting are the boxes that write a status and are not enrolled.
func waitingOf(s *centre.Survey) (list []waiting) {
	for _, b := range s.Branches {
		switch {
		case b.Enrolment == nil && b.Status != nil:
			list = append(list, waiting{b.Name, 1, b.Status})
		case b.Stranger != nil && b.Former == 0:
			list = append(list, waiting{b.Name, b.Enrolment.Epoch + 1, b.Stranger})
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
		return waiting{}, fmt.Errorf("%s: must be BRANCH=FINGERPRINT: compare the fingerprint with what the box shows", box)
	case i < 0:
		return waiting{}, fmt.Errorf("%s: no box of that branch waits to be enrolled", name)
	case centre.Fingerprint(list[i].status.Key) != strings.ToLower(key):
		return waiting{}, fmt.Errorf("%s: the box that waits has the key %s, not %s: ask who it is", name, centre.Fingerprint(list[i].status.Key), key)
	case list[i].epoch > 1 && !c.Replace:
		return waiting{}, fmt.Errorf("%s has a box: --replace gives the branch to this one, and the old one numbers nothing any more", name)
	}
	return list[i], nil
}

func (c *Enrol) points() (points []wire.Point, err error) {
	for _, p := range c.Close {
		if len(p) != 8 || p[4] != 'P' {
			return nil, fmt.Errorf("--close: %q is no point of sale like M001P001", p)
		}
		points = append(points, wire.Point{Establishment: p[:4], Point: p[4:]})
	}
	return points, nil
}

// closePoints publishes that points of sale of a branch are never numbered again this year, and returns the version that says so.
func closePoints(ctx context.Context, c *centre.Chain, w waiting, points []wire.Point) (version int64, err error) {
	head, err := c.Head(ctx, w.status.Group)
	if err != nil {
		return 0, err
	}
	year := c.Now().In(dte.Zone).Year()
	d, err := c.Next(ctx, head, w.status.Group, "a box of "+w.branch+" was lost", time.Time{}, func(d *wire.Desired) error {
		d.Closed = slices.Clone(d.Closed)
		for _, p := range points {
			closed := wire.ClosedPoint{Branch: w.branch, Establishment: p.Establishment, Point: p.Point, Year: year, Since: w.epoch}
			if !slices.Contains(d.Closed, closed) {
				d.Closed = append(d.Closed, closed)
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
		screen.Printf("no box waits to be enrolled\n")
		return nil
	}
	w := tabwriter.NewWriter(screen.Out, 0, 0, 2, ' ', 0)
	screen.Fprintf(w, "BRANCH\tEPOCH\tKEY\tPOINTS\tGROUP\n")
	for _, l := range list {
		var points []string
		for _, p := range l.status.Points {
			points = append(points, p.Establishment+p.Point)
		}
		screen.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", l.branch, l.epoch, centre.Fingerprint(l.status.Key), strings.Join(points, " "), l.status.Group)
	}
	return w.Flush()
}
