package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	// the store's credentials may have written objects for future epochs.
	maxForeign = 16
	// againEvery is the number of looks after which the box reads its own enrolment again: the director may have signed
	// it again, with other points of sale or another key, or a rolled-back store may have given the epoch to another
	// box.
	againEvery = 30
)

// Enrolled returns which box has the branch, as an agent with these options decides: from its state, and from the
// chain's store if the store answers. Enrolled writes nothing, and does not know whether a copy of this box runs. It
// does not call compare: if the agent found the box's store behind, only the points that the agent took count.
func Enrolled(ctx context.Context, o Options) (s Standing, answered bool, fault error) {
	a, err := New(o)
	if err != nil {
		return s, false, err
	}
	n, _, answered, fault := a.nextEnrolled(ctx)
	if n.Behind != "" {
		n.Points = slices.DeleteFunc(n.Points, func(p fleetproto.Point) bool {
			return !slices.Contains(a.state.Enrolled.Points, p)
		})
	}
	return n.standing(), answered, fault
}

// nextEnrolled reads the branch's enrolments that this box has not seen, and returns what they prove, or the present
// state if there are none. after is the version of the desired state that this box must know before it gives numbers.
// answered reports whether the chain's store answered. The trusted enrolment with the highest epoch decides which box
// has the branch. If another box has a later epoch, this box is replaced for good, even if its key is enrolled once
// more, because the box's own store is out of date. If the signer of the highest enrolment is no longer trusted, all
// enrolments are read again, and only those with a signature that is trusted now count; if there are none, nothing
// changes.
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
		if err != nil && !useless(err) {
			answered, fault = false, fmt.Errorf("asking for epoch %d: %w", epoch, err)
			break
		}
		var e *fleetproto.Enrolment
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
	// Nothing changes without a trusted enrolment, or if the store stopped answering while an enrolment that was not
	// read yet may be this box's own.
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

// readEnrolments adopts what nextEnrolled returns, without the points of sale that compare removes, and reports whether
// the chain's store answered. It compares the removed points again at each look. A box that was never enrolled adopts
// nothing while its store lacks numbers at any of its points of sale, or while compare cannot tell.
func (a *Agent) readEnrolments(ctx context.Context) (answered bool, fault error) {
	before := a.state.Enrolled
	next, after, answered, fault := a.nextEnrolled(ctx)
	if next.Own != before.Own && a.state.Version < after {
		if err := a.readDesired(ctx); a.state.Version < after {
			return answered, errors.Join(fault, fmt.Errorf("version %d of the desired state must be known before "+
				"anything is numbered", after), err)
		}
	}
	lacking := a.compare(ctx, &next, before.Points)
	switch {
	case errors.Is(lacking, errBehind):
		next.Behind = lacking.Error()
	case lacking == nil && answered:
		next.Behind = ""
	}
	if lacking != nil && before.Own == 0 { // the box's new numbers would contradict the numbers that its store lacks
		behind := next.Behind
		next = before
		next.Behind = behind
	}
	if fault = errors.Join(fault, lacking); bytes.Equal(next.Object, before.Object) &&
		slices.Equal(next.Points, before.Points) && next.Behind == before.Behind {
		return answered, fault
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
		a.o.Logger.Info("the branch's enrolment", "branch", a.o.Branch, "epoch", next.Highest, "own", next.Own,
			"points", next.Points)
	}
	return answered, fault
}

var errBehind = errors.New("this store lacks numbers that the branch gave: dtectl recover --from fleet")

// compare checks the points of sale that the enrolment n adds to those already taken. It removes from n each point at
// which the branch's boxes reported numbers that this box's store lacks, and returns the reason: the store is an image
// from before the enrolment, or was not recovered. If the chain's store does not answer, compare removes all added
// points. Statuses from before an enrolment with Stolen do not count.
func (a *Agent) compare(ctx context.Context, n *enrolled, taken []fleetproto.Point) (reason error) {
	added := fleetproto.Unnamed(n.Points, taken)
	if len(added) == 0 {
		return nil
	}
	given := make(map[string]uint64)
	own, unread := a.o.Last()
	for epoch, stolen := n.Highest, false; unread == nil && epoch > 0 && !stolen; epoch-- {
		var last *fleetproto.Status
		if last, stolen, unread = a.lastStatus(ctx, epoch); last != nil {
			given = highest(given, last.Last)
		}
	}
	reason = unread
	n.Points = slices.DeleteFunc(n.Points, func(p fleetproto.Point) bool {
		if !slices.Contains(added, p) {
			return false
		}
		err := cmp.Or(unread, a.lacks(own, given, n, p))
		if slices.Contains(a.o.Points, p) {
			reason = cmp.Or(reason, err)
		}
		return err != nil
	})
	return reason
}

// lacks returns errBehind if the branch gave a number at p above the last number in this store. It ignores closed
// points, and series of a year before both the enrolment n and the box's date (a date alone may be wrong).
func (a *Agent) lacks(own, given map[string]uint64, n *enrolled, p fleetproto.Point) error {
	since := strconv.Itoa(min(dte.Year(n.At), dte.Year(a.o.Now())))
	for _, series := range slices.Sorted(maps.Keys(given)) {
		year, _ := strconv.Atoi(yearOf(series))
		if given[series] > own[series] && yearOf(series) >= since && !a.Closed(p, year) &&
			strings.Contains(series, path.Join("/", p.Establishment, p.Point)+"/") {
			return fmt.Errorf("%w: a box of the branch gave number %d of %s, and this store ends at %d", errBehind,
				given[series], series, own[series])
		}
	}
	return nil
}

// yearOf returns the year at the end of a series' name. For a name without a year, the result sorts after every year.
func yearOf(series string) string { return series[strings.LastIndexByte(series, '/')+1:] }

// openEnrolment reads an enrolment of the branch and verifies that a trusted key signed it.
func (a *Agent) openEnrolment(object []byte, epoch int64) (*fleetproto.Enrolment, error) {
	return a.o.Chain.OpenEnrolment(object, a.trusted(), a.o.Branch, epoch)
}

func (a *Agent) ownsEnrolment(e *fleetproto.Enrolment) bool {
	return e.BoxKeyOf().Public.Equal(a.public())
}

func (n enrolled) standing() Standing {
	return Standing{Epoch: n.Own, Highest: n.Highest, Replaced: n.Over, Points: n.Points, Behind: n.Behind}
}
