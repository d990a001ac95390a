package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

const (
	// maxForeign is how many objects without a trusted signature the box skips before the next enrolment: anybody with
	// the store's credentials may have written objects under future keys.
	maxForeign = 16
	// againEvery is the number of looks after which the box reads its own enrolment again: the director may have signed
	// it again, with other points of sale or another key, or a rolled-back store may have given the epoch to another
	// box.
	againEvery = 30
)

// Enrolled returns which box has the branch, by the rule of an agent with these options: by its state, and by the
// chain's store if that answers. It writes nothing. It does not know whether another copy of this box runs.
func Enrolled(ctx context.Context, o Options) (s Standing, answered bool, fault error) {
	a, err := New(o)
	if err != nil {
		return s, false, err
	}
	n, _, answered, fault := a.nextEnrolled(ctx)
	return n.standing(), answered, fault
}

// nextEnrolled reads the branch's enrolments that this box has not seen, and returns what they prove; nothing new: the
// state as it is. It reports whether the chain's store answered. Before this box numbers, it must know the version
// after of the desired state. The trusted enrolment with the highest epoch decides which box has the branch. If another
// box has a later epoch, this box is replaced for good, even if its key is enrolled once more, because the box's own
// store is out of date. If the signer of the highest enrolment is no longer trusted, all enrolments are read again, and
// only those with a signature that is trusted now count; if there are none, nothing changes.
func (a *Agent) nextEnrolled(ctx context.Context) (next enrolled, after int64, answered bool, fault error) {
	before := a.state.Enrolled
	next, first := before, before.Highest+1
	if _, err := a.openEnrolment(before.Object, before.Highest); before.Highest > 0 && err != nil {
		next, first = enrolled{}, 1
	} else if s := before.standing(); a.looks%againEvery == 0 || !s.Replaced && slices.ContainsFunc(a.o.Points,
		func(p fleetproto.Point) bool { return !s.Numbers(p) }) {
		first = max(1, before.Highest)
	}
	a.looks++
	answered = true
	highest := int64(0)
	for epoch, foreign := first, 0; foreign < maxForeign; epoch++ {
		o, err := a.get(ctx, fleetproto.BoxKey(a.o.Branch, epoch), fleetproto.MaxJWS)
		if errors.Is(err, archive.ErrNotFound) {
			if epoch <= before.Highest { // the store has lost an enrolment that the box has seen
				continue
			}
			break
		}
		if err != nil && !errors.Is(err, archive.ErrTooLarge) {
			answered, fault = false, fmt.Errorf("asking for epoch %d: %w", epoch, err)
			break
		}
		var e *fleetproto.Enrolment
		if err == nil && bytes.Equal(o.Data, next.Object) { // the same object was verified before
			continue
		}
		if err == nil {
			e, err = a.openEnrolment(o.Data, epoch)
		}
		switch {
		case err != nil:
			if fault = fmt.Errorf("epoch %d is not accepted: %w", epoch, err); epoch > before.Highest {
				foreign++
			}
			continue
		// an older object for the same enrolment of this box
		case epoch == next.Highest && a.ownsEnrolment(e) && e.At.Before(next.At):
			continue
		}
		next.Highest, next.Object, next.At = epoch, o.Data, e.At
		highest = max(highest, e.Highest)
		switch {
		case !a.ownsEnrolment(e):
			next.Over, next.Points = true, nil
			next.Passed = next.Passed || next.Own > 0
		case !next.Passed:
			next.Own, next.Over, next.Points, after = epoch, false, e.Points, e.After
		}
	}
	// Without a trusted enrolment nothing changes. If the store stopped answering, an unread enrolment may be this
	// box's own.
	if next.Highest == 0 || !answered && (next.Own == 0 || first == 1) {
		return before, 0, answered, fault
	}
	if next.Highest < highest {
		return before, 0, answered, errors.Join(fault,
			fmt.Errorf("epoch %d of the branch was given, and the store does not have it", highest))
	}
	next.Own = cmp.Or(next.Own, before.Own)
	return next, after, answered, fault
}

// readEnrolments adopts what nextEnrolled returns, and reports whether the chain's store answered.
func (a *Agent) readEnrolments(ctx context.Context) (answered bool, fault error) {
	before := a.state.Enrolled
	next, after, answered, fault := a.nextEnrolled(ctx)
	if bytes.Equal(next.Object, before.Object) {
		return answered, fault
	}
	if next.Own != before.Own && a.state.Version < after {
		if err := a.readDesired(ctx); a.state.Version < after {
			return answered, errors.Join(fault, fmt.Errorf("version %d of the desired state must be known before "+
				"anything is numbered", after), err)
		}
	}
	if added := fleetproto.Unnamed(next.Points, before.Points); len(added) > 0 {
		if err := a.compare(ctx, next, added); err != nil {
			if errors.Is(err, errBehind) && before.Own == 0 { // otherwise it numbers at its old points of sale
				a.fence.set(Standing{Behind: err.Error()})
			}
			return answered, errors.Join(fault, err)
		}
	}
	err := a.change(func(s *state) {
		if before.Own == 0 && next.Own > 0 { // the version that this enrolment requires is known here
			a.inherit(s, a.desired)
		}
		s.Enrolled = next
		if next.Over && !before.Over {
			a.queueAct(s, fleetproto.Act{What: fleetproto.ActReplaced, Reason: fmt.Sprintf("epoch %d", next.Highest)})
		}
	})
	// The fence closes even if the state cannot be written. It opens only if the state is written.
	if err == nil || next.Over {
		a.fence.set(next.standing())
	}
	if err != nil {
		return answered, errors.Join(fault, err)
	}
	a.dirty, a.recalled = true, a.recalled && next.Own == before.Own
	if next.Over && !before.Over {
		a.o.Logger.Error("another box has this branch: nothing is numbered here any more", "epoch", next.Highest, "own",
			next.Own)
	} else {
		a.o.Logger.Info("the branch's enrolment", "branch", a.o.Branch, "epoch", next.Highest, "own", next.Own)
	}
	return answered, fault
}

var errBehind = errors.New("this store lacks numbers that the branch gave: dtectl recover --from fleet")

// compare returns errBehind if the store of this box lacks numbers that a box of the branch reported, at points of sale
// that the enrolment n adds. The store is an image from before the enrolment, or was not recovered. Statuses from
// before an enrolment with Stolen do not count.
func (a *Agent) compare(ctx context.Context, n enrolled, points []fleetproto.Point) error {
	for epoch, stolen := n.Highest, false; epoch > 0 && !stolen; epoch-- {
		object, err := a.read(ctx, fleetproto.BoxKey(a.o.Branch, epoch))
		box, bad := a.openEnrolment(object, epoch)
		last := new(fleetproto.Status)
		if err == nil && bad == nil {
			stolen = box.Stolen
			object, err = a.read(ctx, fleetproto.StatusKey(a.o.Branch, epoch))
			last, bad = a.o.Chain.OpenStatus(object, a.o.Branch, epoch, box.BoxKeyOf())
		}
		if err != nil {
			return fmt.Errorf("reading the status of epoch %d: %w", epoch, err)
		}
		if bad != nil {
			continue
		}
		if err := a.lacks(last, n, points); err != nil {
			return err
		}
	}
	return nil
}

// lacks returns errBehind if a status names a number that the box's store lacks, at one of the points of sale. Series
// of the years before the enrolment n was signed, and before the box's date, have ended; that date may be wrong.
func (a *Agent) lacks(s *fleetproto.Status, n enrolled, points []fleetproto.Point) error {
	own, err := a.o.Last()
	if err != nil {
		return fmt.Errorf("reading the last numbers: %w", err)
	}
	since := strconv.Itoa(min(dte.Year(n.At), dte.Year(a.o.Now())))
	for series, number := range s.Last {
		here := func(p fleetproto.Point) bool {
			year, _ := strconv.Atoi(yearOf(series))
			return strings.Contains(series, path.Join("/", p.Establishment, p.Point)+"/") && !a.Closed(p, year)
		}
		if number > own[series] && yearOf(series) >= since && slices.ContainsFunc(points, here) {
			return fmt.Errorf("%w: the box of epoch %d gave number %d of %s, and this store ends at %d", errBehind,
				s.Epoch, number, series, own[series])
		}
	}
	return nil
}

// yearOf returns the year at the end of a series' name; what ends another name comes after every year.
func yearOf(series string) string { return series[strings.LastIndexByte(series, '/')+1:] }

// openEnrolment reads an enrolment of the branch and verifies that a trusted key signed it.
func (a *Agent) openEnrolment(object []byte, epoch int64) (*fleetproto.Enrolment, error) {
	return a.o.Chain.OpenEnrolment(object, a.trusted(), a.o.Branch, epoch)
}

func (a *Agent) ownsEnrolment(e *fleetproto.Enrolment) bool {
	return e.BoxKeyOf().Public.Equal(a.public())
}

func (n enrolled) standing() Standing {
	return Standing{Epoch: n.Own, Highest: n.Highest, Replaced: n.Over, Points: n.Points}
}
