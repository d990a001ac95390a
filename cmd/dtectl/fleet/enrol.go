package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

type Enrol struct {
	Boxes   []string `arg:"" optional:"" help:"As dtectl doctor shows it on the box." placeholder:"BRANCH=FINGERPRINT"`
	All     bool     `help:"Enrol every waiting box of a branch that never had one: for a chain's first day."`
	Replace bool     `help:"The new box takes the next epoch; the old box stops numbering when it knows."`
	Stolen  bool     `help:"With --replace: the old box's key was misused, and the new box has the old box's store."`
	Close   []string `help:"With --replace: points of sale that number no more this year." placeholder:"M001P001"`
}

// waiting is a box that could be enrolled.
type waiting struct {
	branch  string
	epoch   int64 // the epoch that the box would get
	status  *fleetproto.Status
	again   *fleetproto.Enrolment // to be signed again with the box's new points of sale; nil: the box gets a new epoch
	settled bool                  // the box is enrolled; a new epoch would make it ship its whole copy again
	older   string                // Branch.Older
	former  []fleetproto.Point    // points of sale of the box that would be replaced
}

func (c *Enrol) Run(ctx context.Context, chain *Chain) error {
	surveyor := NewSurveyor(chain)
	s, err := restored(ctx, chain, surveyor)
	if err != nil {
		return err
	}
	list := waitingOf(s)
	if len(c.Boxes) == 0 && !c.All {
		return printWaiting(slices.DeleteFunc(list, func(w waiting) bool { return w.settled }))
	}
	if err := s.whole(); err != nil {
		return err
	}
	var points []fleetproto.Point
	for _, p := range c.Close {
		if len(p) != 8 || p[4] != 'P' {
			return fmt.Errorf("--close: %q is not a point of sale like M001P001", p)
		}
		points = append(points, fleetproto.Point{Establishment: p[:4], Point: p[4:]})
	}
	var chosen []waiting
	for _, o := range surveyor.enrolments.near {
		if (c.All || !c.Replace) && len(s.Groups) == 0 && !slices.ContainsFunc(s.Branches, func(b *Branch) bool {
			return b.Name == o.owner && b.Enrolment != nil
		}) { // the branch's points of sale are not known
			return fmt.Errorf("another key has enrolled a box of %s: dtectl fleet rekey signs it again; --replace "+
				"does not wait for that", o.owner)
		}
	}
	if c.All {
		chosen = slices.DeleteFunc(slices.Clone(list), func(w waiting) bool { return w.epoch > 1 || w.again != nil })
		if len(chosen) == 0 {
			return errors.New("no box waits to be enrolled in a branch that never had one")
		}
	}
	for _, box := range c.Boxes {
		w, err := c.choose(list, box)
		if err != nil {
			return err
		}
		if c.Replace && w.again != nil { // the new epoch has the points of the box's configuration alone
			w.again, w.epoch = nil, w.epoch+1
		}
		chosen = append(chosen, w)
	}
	if (len(points) > 0 || c.Stolen) && (len(chosen) != 1 || chosen[0].epoch == 1 || !c.Replace) {
		return errors.New("--close and --stolen: need exactly one branch, whose box is replaced")
	}
	if err := disjoint(s, surveyor, chosen, points); err != nil {
		return err
	}
	director, err := chain.Sign()
	if err != nil {
		return err
	}
	for _, w := range chosen {
		after, err := chain.closePoints(ctx, s, w, points) // points are closed before the box may number
		if err != nil {
			return err
		}
		epoch, err := enrol(ctx, chain, w, fleetproto.Enrolment{After: after, Stolen: c.Stolen}, director)
		if err != nil {
			return fmt.Errorf("enrolling %s: %w", w.branch, err)
		}
		term.Printf("enrolled %s, epoch %d, key %s\n", w.branch, epoch, Fingerprint(w.status.Key))
	}
	return nil
}

// whole returns an error if the store has lost or altered an enrolment: the lost one may name the box or the points of
// sale of a new enrolment.
func (s *Survey) whole() error {
	for _, b := range s.Branches {
		if b.Lost != "" {
			return fmt.Errorf("%s: %s; nothing was signed", b.Name, b.Lost)
		}
	}
	return nil
}

// disjoint refuses a point of sale that another branch has, or had this year: both branches would number the same
// series. A closed point counts too, and a point of a replaced box or of an enrolment that the store lost or altered.
func disjoint(s *Survey, held *Surveyor, chosen []waiting, closing []fleetproto.Point) error {
	given, year := make(map[fleetproto.Point][]string), dte.Year(s.At)
	for _, v := range s.Groups {
		for _, c := range v.Closed {
			if p := (fleetproto.Point{Establishment: c.Establishment, Point: c.Point}); c.Year == year {
				given[p] = append(given[p], c.Branch)
			}
		}
	}
	for _, b := range s.Branches {
		if b.Enrolment == nil {
			continue
		}
		left := year // the year in which the epoch above this one began
		for epoch := b.Enrolment.Epoch; epoch > 0 && left >= year; epoch-- {
			key := fleetproto.BoxKey(b.Name, epoch)
			kept, _ := held.Chain.Identity.OpenEnrolment(held.lost[key], held.Chain.keys(), b.Name, epoch)
			e := cmp.Or(kept, held.enrolments.read[key+" "+held.enrolments.tags[key]])
			if e == nil {
				continue
			}
			left = dte.Year(cmp.Or(e.First, e.At))
			for _, p := range e.Points {
				given[p] = append(given[p], b.Name)
			}
		}
	}
	for _, p := range closing { // a point closed by mistake cannot be opened again
		if name := chosen[0].branch; !slices.Contains(given[p], name) {
			return fmt.Errorf("--close: no box of %s had the point of sale %s; nothing was enrolled", name, p)
		}
	}
	for _, w := range chosen {
		for _, p := range w.status.Points {
			for _, other := range given[p] {
				if other != w.branch {
					return fmt.Errorf("%s: its point of sale %s belongs to %s: correct taxpayer and points of sale at "+
						"one of the two boxes; nothing was enrolled", w.branch, p, other)
				}
			}
			given[p] = append(given[p], w.branch)
		}
	}
	return nil
}

// maxForeign is the largest number of epochs without this director's signature that enrol skips. Their author is an
// earlier director, or somebody with the store's credentials. Boxes skip the same number.
const maxForeign = 16

// enrol writes e as the next free epoch, or signs the box's enrolment again. The new signature keeps the points of sale
// of the old one: the box may have numbered their series.
func enrol(ctx context.Context, c *Chain, w waiting, e fleetproto.Enrolment, director fleetproto.Signer) (int64,
	error) {
	e.Branch, e.Key, e.Group, e.Points = w.branch, w.status.Key, w.status.Group, slices.Clone(w.status.Points)
	e.At, e.By = c.Now().UTC().Truncate(time.Second), c.Who
	if w.again != nil {
		e.Points = append(e.Points, fleetproto.Unnamed(w.again.Points, e.Points)...)
		e.Highest, e.Stolen = w.again.Highest, e.Stolen || w.again.Stolen
		e.First = cmp.Or(w.again.First, w.again.At)
		if !e.At.After(w.again.At) { // the signature with the later date counts, even if a clock was ahead
			e.At = w.again.At.Add(time.Second)
		}
	}
	for epoch, others := w.epoch, 0; others < maxForeign && epoch < w.epoch+maxWaiting; epoch++ {
		e.Epoch = epoch
		data, err := c.Identity.Seal(&e, director)
		if err != nil {
			return 0, err
		}
		if w.again != nil {
			return epoch, c.Store.Overwrite(ctx, fleetproto.BoxKey(w.branch, epoch), data)
		}
		// If there is a status of that epoch, the store has lost the epoch's enrolment, or somebody else wrote the
		// status. Either way, write that epoch and the next: boxes find no enrolment after a gap.
		_, given := c.Store.Fetch(ctx, fleetproto.StatusKey(w.branch, epoch), fleetproto.MaxJWS)
		free := errors.Is(given, archive.ErrNotFound)
		if given != nil && !free && !errors.Is(given, archive.ErrTooLarge) {
			return 0, fmt.Errorf("reading the status of epoch %d: %w", epoch, given)
		}
		err = c.CreateOnce(ctx, fleetproto.BoxKey(w.branch, epoch), data)
		if err == nil && !free {
			continue
		}
		if !errors.Is(err, archive.ErrExists) {
			return epoch, err
		}
		if _, err := newEnrolments(c).get(ctx, w.branch, epoch); !foreign(err) {
			return 0, errors.Join(fmt.Errorf("somebody else has just given epoch %d: look at dtectl "+
				"fleet status", epoch), err)
		}
		others++
	}
	return 0, errors.New("too many epochs are taken by objects that this director did not sign: the store's owner " +
		"must delete what does not belong there")
}

// waitingOf returns the boxes that report a status and can be enrolled, sorted by branch.
func waitingOf(s *Survey) (list []waiting) {
	for _, b := range s.Branches {
		if b.Stranger != nil {
			list = append(list, waiting{branch: b.Name, status: b.Stranger, epoch: b.Enrolment.Epoch + 1,
				older: b.Older, former: b.Enrolment.Points})
		}
		w := waiting{branch: b.Name, status: b.Status}
		switch e := b.Enrolment; {
		case b.Status == nil:
			continue
		case e == nil:
			w.epoch = 1
		case b.Status.Group != e.Group: // the box was moved to another group
			w.epoch = e.Epoch + 1
		case len(fleetproto.Unnamed(b.Status.Points, e.Points)) > 0:
			w.epoch, w.again = e.Epoch, e
		default:
			w.epoch, w.settled = e.Epoch+1, true
		}
		list = append(list, w)
	}
	slices.SortStableFunc(list, func(a, b waiting) int { return strings.Compare(a.branch, b.branch) })
	return list
}

// choose finds the box that an argument names, and refuses a box with another key.
func (c *Enrol) choose(list []waiting, box string) (waiting, error) {
	name, key, named := strings.Cut(box, "=")
	i := slices.IndexFunc(list, func(w waiting) bool {
		return w.branch == name && Fingerprint(w.status.Key) == strings.ToLower(key)
	})
	switch {
	case !named:
		return waiting{}, fmt.Errorf("%s: must be BRANCH=FINGERPRINT: compare the fingerprint with what the box shows",
			box)
	case i < 0, list[i].settled && !c.Replace:
		return waiting{}, fmt.Errorf("%s: no box of that branch and key waits to be enrolled (dtectl fleet enrol "+
			"lists those that wait)", name)
	case list[i].epoch > 1 && list[i].again == nil && !c.Replace:
		return waiting{}, fmt.Errorf("%s has a box: --replace gives the branch to this one, and the old one numbers "+
			"nothing any more", name)
	// the new box compares its store with that status
	case list[i].older != "" && !c.Stolen && slices.ContainsFunc(list[i].status.Points, func(p fleetproto.Point) bool {
		return slices.Contains(list[i].former, p) && !slices.Contains(c.Close, p.String())
	}):
		return waiting{}, fmt.Errorf("%s: %s. The last status names the last numbers of the old box: see on the "+
			"tills' receipts that the new box's store has them, then dtectl fleet status --accept %s; else --close "+
			"the old points of sale; nothing was enrolled", name, list[i].older, name)
	}
	return list[i], nil
}

// closePoints closes points of sale of a box's branch for this year: the given points, and those that any group's
// desired state has closed, because the branch may have moved to another group. It returns the version of the box's
// group that closes the points, 0 without points.
func (c *Chain) closePoints(ctx context.Context, s *Survey, w waiting, points []fleetproto.Point) (int64, error) {
	year := c.Now().In(dte.Zone).Year()
	closed := func(list []fleetproto.ClosedPoint) (points []fleetproto.Point) {
		for _, p := range list {
			if p.Branch == w.branch && p.Year == year {
				points = append(points, fleetproto.Point{Establishment: p.Establishment, Point: p.Point})
			}
		}
		return points
	}
	for _, v := range s.Groups {
		points = append(points, closed(v.Closed)...)
	}
	if len(points) == 0 {
		return 0, nil
	}
	head, err := c.Head(ctx, w.status.Group)
	if err != nil {
		return 0, err
	}
	var after []fleetproto.ClosedPoint
	if head != nil {
		after = slices.Clone(head.Closed)
	}
	before := len(after)
	for _, p := range points {
		if !slices.Contains(closed(after), p) {
			after = append(after, fleetproto.ClosedPoint{Branch: w.branch, Establishment: p.Establishment,
				Point: p.Point, Year: year, Since: w.epoch})
		}
	}
	if len(after) == before {
		return head.Version, nil
	}
	d, err := c.Next(ctx, head, w.status.Group, "a box of "+w.branch+" was lost", time.Time{},
		func(d *fleetproto.Desired) { d.Closed = after })
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
	return term.Table(term.Out, "BRANCH\tEPOCH\tKEY\tPOINTS\tGROUP", list, func(w waiting) []any {
		return []any{w.branch, w.epoch, Fingerprint(w.status.Key), strings.Trim(fmt.Sprint(w.status.Points), "[]"),
			w.status.Group}
	})
}
