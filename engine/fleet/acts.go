package fleet

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"dtegate/engine/fleet/wire"
)

// maxActs are kept of a box that cannot send them; the oldest go first.
const maxActs = 1000

// tell puts an act among those to be sent.
func (a *Agent) tell(s *state, act wire.Act) {
	act.At, act.Branch = a.o.Now().UTC(), a.o.Branch
	if s.Acts = append(s.Acts, act); len(s.Acts) > maxActs {
		s.Acts = s.Acts[len(s.Acts)-maxActs:]
	}
}

// public is the box's own public key.
func (a *Agent) public() ed25519.PublicKey {
	public, _ := a.o.Box.Private.Public().(ed25519.PublicKey)
	return public
}

// sendActs writes the acts that wait, in their order. The signature of the same act under the same number is the same bytes,
// therefore an attempt whose answer was lost is known by them. A number that other bytes have is another box's: the act takes
// the next.
func (a *Agent) sendActs(ctx context.Context) error {
	for len(a.state.Acts) > 0 {
		act := a.state.Acts[0]
		act.Number, act.Epoch = a.state.Act+1, a.state.Own
		data, err := wire.SealAct(act, a.o.Box)
		if err != nil {
			return fmt.Errorf("an act cannot be written: %w", err)
		}
		key := wire.ActKey(a.o.Branch, act.Number)
		err = a.create(ctx, key, data)
		mine := err == nil
		if errors.Is(err, wire.ErrExists) {
			held, e := a.get(ctx, key, wire.MaxJWS)
			if e != nil && !errors.Is(e, wire.ErrTooLarge) {
				return fmt.Errorf("reading act %d: %w", act.Number, e)
			}
			mine, err = bytes.Equal(held.Data, data), nil
		}
		if err != nil {
			return fmt.Errorf("writing act %d: %w", act.Number, err)
		}
		if err := a.change(func(s *state) {
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

func (a *Agent) create(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	err := a.o.Store.Create(ctx, key, data)
	a.metrics.count("create", err)
	return err
}
