package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/fleet/wire"
)

// reporter tells the centre: the branch's status, and each act once.
type reporter struct{ *core }

// Status is what the centre would be told now.
func (r *reporter) Status() wire.Status {
	s := wire.Status{}
	if r.o.Describe != nil {
		r.o.Describe(&s)
	}
	standing := r.fence.Standing()
	trouble := r.trouble("status")
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Branch, s.Group, s.Points = r.o.Branch, r.o.Group, r.o.Points
	s.Epoch, s.Replaced, s.Key = standing.Epoch, standing.Replaced, wire.EncodeKey(r.public())
	s.At, s.Sequence, s.Acts, s.Settings = r.o.Now().UTC(), r.state.Sequence, r.state.Act, r.state.Settings
	s.Desired = wire.Reached{Version: r.state.Version, At: r.asked.UTC(), Trouble: trouble}
	if r.asked.IsZero() {
		s.Desired.At = time.Time{}
	}
	if r.desired != nil {
		s.Desired.Expires = r.desired.Expires
	}
	s.Rollout, s.Rules = r.progress, nil
	for _, b := range r.o.Rules.Bundles() {
		if b.inForce() {
			s.Rules = append(s.Rules, wire.Running{Digest: b.Digest, Name: b.Name, Version: b.Version, Bundle: b.Kind, Document: b.Document,
				Schema: b.Schema, From: b.From, Live: b.Where == Live})
		}
	}
	return s
}

// Look is what people at the box are shown of the chain.
type Look struct {
	Standing Standing
	Version  int64     // of the desired state
	Asked    time.Time // when the store last answered; zero: not since the start
	Trouble  string    // what is wrong; empty: nothing
}

// Look is how the box and its chain are to each other.
func (r *reporter) Look() Look {
	l := Look{Standing: r.fence.Standing(), Trouble: r.trouble("")}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Version, l.Asked = r.state.Version, r.asked
	return l
}

// sendStatus writes the branch's status over the one before.
func (r *reporter) sendStatus(ctx context.Context) error {
	if r.state.Sequence == 0 {
		if err := r.recall(ctx); err != nil {
			return err
		}
	}
	// The number first: a status never bears one that another status of this box had.
	if err := r.change(func(s *state) { s.Sequence++ }); err != nil {
		return err
	}
	data, err := wire.SealStatus(r.Status(), r.o.Box)
	if err != nil {
		return fmt.Errorf("the status cannot be written: %w", err)
	}
	if err := r.put(ctx, wire.StatusKey(r.o.Branch), data); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.dirty = false
	r.metrics.reported.Set(float64(r.o.Now().Unix()))
	return nil
}

// recall reads what the store knows of the branch, when the box has no state: where its acts go on, and behind which number its
// statuses. Nothing else is believed of it.
func (r *reporter) recall(ctx context.Context) error {
	held, err := r.get(ctx, wire.StatusKey(r.o.Branch), wire.MaxJWS)
	if errors.Is(err, wire.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the last status: %w", err)
	}
	last, err := wire.OpenStatus(held.Data, r.o.Branch)
	if err != nil {
		return nil // somebody else's writing: this box overwrites it
	}
	act := r.state.Act
	if last.Acts > act {
		if _, err := r.get(ctx, wire.ActKey(r.o.Branch, last.Acts), wire.MaxJWS); err == nil {
			act = last.Acts
		}
	}
	return r.change(func(s *state) {
		s.Act = act
		if last.Key == wire.EncodeKey(r.public()) {
			s.Sequence = last.Sequence
		}
	})
}
