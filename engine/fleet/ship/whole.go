package ship

import (
	"context"
	"errors"
	"fmt"

	"dtegate/engine/fleet/wire"
)

// markWhole says once an epoch that the store has the whole copy. The caller has just shipped all that a live copy held. If we crash
// before the state is saved, the next look finds the mark there.
func (s *Shipper) markWhole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	data, err := wire.SealWholeCopy(wire.WholeCopy{Branch: s.o.Branch, Epoch: s.state.Epoch, Piece: s.state.Number, At: s.o.Now().UTC()}, s.o.Box)
	if err != nil {
		return err
	}
	err = s.o.Store.Create(ctx, wire.WholeKey(s.o.Branch, s.state.Epoch), data)
	if errors.Is(err, wire.ErrExists) {
		_, err = chest{s.o.Store, s.o.Branch, s.state.Epoch, wire.Public(s.o.Box)}.whole(ctx)
	}
	if err != nil {
		return fmt.Errorf("saying that the copy is whole: %w", err)
	}
	s.mu.Lock()
	s.state.Whole = true
	s.mu.Unlock()
	return s.save()
}

// whole is the piece up to which at least the copy is whole; 0: its box has not said so.
func (c chest) whole(ctx context.Context) (int64, error) {
	held, err := c.store.Get(ctx, wire.WholeKey(c.branch, c.epoch), wire.MaxJWS)
	if errors.Is(err, wire.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading whether the copy of epoch %d is whole: %w", c.epoch, err)
	}
	w, err := wire.OpenWholeCopy(held.Data, c.branch, c.epoch, c.box)
	if err != nil {
		return 0, fmt.Errorf("whether the copy of epoch %d is whole: %w", c.epoch, err)
	}
	return w.Piece, nil
}
