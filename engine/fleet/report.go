package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/fleet/wire"
)

// Status is what the centre would be told now.
func (a *Agent) Status() wire.Status {
	s := wire.Status{}
	if a.o.Describe != nil {
		a.o.Describe(&s)
	}
	standing := a.fence.Standing()
	trouble := a.trouble("status")
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Branch, s.Group, s.Points = a.o.Branch, a.o.Group, a.o.Points
	s.Epoch, s.Replaced, s.Key = standing.Epoch, standing.Replaced, wire.EncodeKey(a.public())
	s.At, s.Sequence, s.Acts, s.Settings = a.o.Now().UTC(), a.state.Sequence, a.state.Act, a.state.Settings
	s.Desired = wire.Reached{Version: a.state.Version, At: a.asked.UTC(), Trouble: trouble}
	if a.asked.IsZero() {
		s.Desired.At = time.Time{}
	}
	if a.desired != nil {
		s.Desired.Expires = a.desired.Expires
	}
	s.Rollout, s.Rules = a.progress, nil
	for _, b := range a.o.Rules.Bundles() {
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
func (a *Agent) Look() Look {
	l := Look{Standing: a.fence.Standing(), Trouble: a.trouble("")}
	a.mu.Lock()
	defer a.mu.Unlock()
	l.Version, l.Asked = a.state.Version, a.asked
	return l
}

// sendStatus writes the branch's status over the one before.
func (a *Agent) sendStatus(ctx context.Context) error {
	if a.state.Sequence == 0 {
		if err := a.recall(ctx); err != nil {
			return err
		}
	}
	// The number first: a status never bears one that another status of this box had.
	if err := a.change(func(s *state) { s.Sequence++ }); err != nil {
		return err
	}
	data, err := wire.SealStatus(a.Status(), a.o.Box)
	if err != nil {
		return fmt.Errorf("the status cannot be written: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	err = a.o.Store.Put(ctx, wire.StatusKey(a.o.Branch), data)
	a.metrics.count("put", err)
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	a.dirty = false
	a.metrics.reported.Set(float64(a.o.Now().Unix()))
	return nil
}

// recall reads what the store knows of the branch, when the box has no state: where its acts go on, and behind which number its
// statuses. Nothing else is believed of it.
func (a *Agent) recall(ctx context.Context) error {
	held, err := a.get(ctx, wire.StatusKey(a.o.Branch), wire.MaxJWS)
	if errors.Is(err, wire.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the last status: %w", err)
	}
	last, err := wire.OpenStatus(held.Data, a.o.Branch)
	if err != nil {
		return nil // somebody else's writing: this box overwrites it
	}
	act := a.state.Act
	if last.Acts > act {
		if _, err := a.get(ctx, wire.ActKey(a.o.Branch, last.Acts), wire.MaxJWS); err == nil {
			act = last.Acts
		}
	}
	return a.change(func(s *state) {
		s.Act = act
		if last.Key == wire.EncodeKey(a.public()) {
			s.Sequence = last.Sequence
		}
	})
}
