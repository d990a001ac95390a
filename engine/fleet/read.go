package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dtegate/engine/fleet/wire"
)

// reader reads the versions of the group's desired state.
type reader struct{ *core }

// Closed reports whether the centre has closed a point of sale of this branch for a year.
func (r *reader) Closed(p wire.Point, year int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.desired != nil && slices.ContainsFunc(r.desired.Closed, func(c wire.ClosedPoint) bool {
		return c.Branch == r.o.Branch && c.Establishment == p.Establishment && c.Point == p.Point && c.Year == year
	})
}

// read goes through the versions that the box has not seen, one by one: each is signed by the director, is the group's, and
// names the one before. A box that was away for long reads on until there is none; only the last one has an effect. Nothing of a version
// that does not pass is kept, and none behind it is looked at.
func (r *reader) read(ctx context.Context) error {
	version, digest := r.state.Version, r.state.Digest
	var last *wire.Desired
	var data []byte
	var fault error
	for {
		o, err := r.get(ctx, wire.DesiredKey(r.o.Group, version+1), wire.MaxJWS)
		if errors.Is(err, wire.ErrNotFound) {
			break
		}
		if err != nil {
			fault = fmt.Errorf("asking for version %d: %w", version+1, err)
			break
		}
		d, err := wire.OpenDesired(o.Data, r.o.Director, r.o.Group, version+1)
		if err == nil {
			err = d.Follows(before(version), digest)
		}
		if err != nil {
			fault = fmt.Errorf("version %d is not taken: %w", version+1, err)
			break
		}
		version, digest, last, data = d.Version, wire.Digest(o.Data), d, o.Data
	}
	if last != nil {
		err := r.change(func(s *state) { s.Version, s.Digest, s.Desired = version, digest, data })
		if err != nil {
			return err
		}
		// After this line the version has an effect, and none before it ever has one again.
		r.mu.Lock()
		r.desired = last
		r.mu.Unlock()
		r.o.Logger.Info("the centre desires another state", "version", version, "by", last.By, "reason", last.Reason)
		r.dirty = true
	}
	if fault == nil {
		r.mu.Lock()
		r.asked = r.o.Now()
		r.mu.Unlock()
	}
	return fault
}

// before is a version as Follows wants it.
func before(version int64) *wire.Desired {
	if version == 0 {
		return nil
	}
	return &wire.Desired{Version: version}
}
