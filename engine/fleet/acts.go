package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"dtegate/engine/fleet/wire"
)

// maxActs are kept of a box that cannot send them; the oldest go first.
const maxActs = 1000

// tell puts an act among those to be sent.
func (c *core) tell(s *state, act wire.Act) {
	act.At, act.Branch = c.o.Now().UTC(), c.o.Branch
	if s.Acts = append(s.Acts, act); len(s.Acts) > maxActs {
		s.Acts = s.Acts[len(s.Acts)-maxActs:]
	}
}

// sendActs writes the acts that wait, in their order. The signature of the same act under the same number is the same bytes,
// therefore an attempt whose answer was lost is known by them. A number that other bytes have is another box's: the act takes
// the next.
func (r *reporter) sendActs(ctx context.Context) error {
	for len(r.state.Acts) > 0 {
		act := r.state.Acts[0]
		act.Number, act.Epoch = r.state.Act+1, r.state.Own
		data, err := wire.SealAct(act, r.o.Box)
		if err != nil {
			return fmt.Errorf("an act cannot be written: %w", err)
		}
		key := wire.ActKey(r.o.Branch, act.Number)
		err = r.create(ctx, key, data)
		mine := err == nil
		if errors.Is(err, wire.ErrExists) {
			held, e := r.get(ctx, key, wire.MaxJWS)
			if e != nil && !errors.Is(e, wire.ErrTooLarge) {
				return fmt.Errorf("reading act %d: %w", act.Number, e)
			}
			mine, err = bytes.Equal(held.Data, data), nil
		}
		if err != nil {
			return fmt.Errorf("writing act %d: %w", act.Number, err)
		}
		if err := r.change(func(s *state) {
			s.Act = act.Number
			if mine {
				s.Acts = s.Acts[1:]
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
