package fleet

import (
	"context"
	"errors"
	"fmt"

	"dtegate/engine/fleet/wire"
)

// owner finds out whose the branch is, and opens and closes the fence.
type owner struct {
	*core
	reader *reader
}

// maxForeign is how many objects that no director signed are passed over in a look for the next enrolment: somebody with the
// store's credentials may have put them where the next one belongs.
const maxForeign = 16

// look goes through the enrolments of the branch that the box has not seen. The highest that the director signed says whose the
// branch is. An epoch that another box has after this box's ends this box for good, also when its key is enrolled once more: what
// its store knows is old.
func (w *owner) look(ctx context.Context) error {
	next := enrolled{Highest: w.state.Highest, Object: w.state.Object, Own: w.state.Own, Over: w.state.Over}
	var fault error
	foreign, away, known := 0, false, int64(0)
	for epoch := next.Highest + 1; foreign < maxForeign; epoch++ {
		o, err := w.get(ctx, wire.BoxKey(w.o.Branch, epoch), wire.MaxJWS)
		if errors.Is(err, wire.ErrNotFound) {
			break
		}
		if err != nil && !errors.Is(err, wire.ErrTooLarge) {
			fault, away = fmt.Errorf("asking for epoch %d: %w", epoch, err), true
			break
		}
		var e *wire.Enrolment
		if err == nil {
			e, err = wire.OpenEnrolment(o.Data, w.o.Director, w.o.Branch, epoch)
		}
		if err != nil {
			foreign++
			fault = fmt.Errorf("epoch %d is not taken: %w", epoch, err)
			continue
		}
		next.Highest, next.Object = epoch, o.Data
		switch {
		case !w.owns(e):
			next.Over = next.Over || next.Own > 0
		case !next.Over:
			next.Own, known = epoch, e.After
		}
	}
	if next.Highest == w.state.Highest || away && next.Own == 0 { // nothing new; or the enrolment of this box may be the next one
		return fault
	}
	before, now := w.fence.enrolled(), w.standing(next)
	if now == before {
		return fault
	}
	if now.Epoch != before.Epoch && w.state.Version < known {
		if err := w.reader.read(ctx); w.state.Version < known {
			return errors.Join(fault, fmt.Errorf("version %d of the desired state is to be known before anything is numbered", known), err)
		}
	}
	err := w.change(func(s *state) {
		s.enrolled = next
		if now.Replaced && !before.Replaced {
			w.tell(s, wire.Act{What: wire.ActReplaced, Reason: fmt.Sprintf("epoch %d", now.Highest)})
		}
	})
	// The fence closes also when the state cannot be written; it opens only behind that.
	if err == nil || now.Replaced {
		w.fence.set(now)
	}
	if err != nil {
		return errors.Join(fault, err)
	}
	w.dirty = true
	if now.Replaced && !before.Replaced {
		w.o.Logger.Error("another box has this branch: nothing is numbered here any more", "epoch", now.Highest, "own", now.Epoch)
	} else {
		w.o.Logger.Info("the branch's enrolment", "branch", w.o.Branch, "epoch", now.Highest, "own", now.Epoch)
	}
	return fault
}

// owns reports whether an enrolment names this box's key.
func (w *owner) owns(e *wire.Enrolment) bool {
	return e.BoxKeyOf().Public.Equal(w.public())
}

// standing is what the enrolments prove: the highest counts while a pinned director's key has signed it.
func (w *owner) standing(n enrolled) Standing {
	s := Standing{Epoch: n.Own, Highest: n.Highest}
	if n.Highest == 0 {
		return s
	}
	e, err := wire.OpenEnrolment(n.Object, w.o.Director, w.o.Branch, n.Highest)
	if err == nil && (n.Over || !w.owns(e)) {
		s.Replaced, s.Since = true, e.At
	}
	return s
}
