package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dtegate/engine/fleet/wire"
)

// Closed tells whether the centre has closed a point of sale of this branch for a year.
func (a *Agent) Closed(p wire.Point, year int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.desired != nil && slices.ContainsFunc(a.desired.Closed, func(c wire.ClosedPoint) bool {
		return c.Branch == a.o.Branch && c.Establishment == p.Establishment && c.Point == p.Point && c.Year == year
	})
}

// get asks the store for an object, within the time of a request.
func (a *Agent) get(ctx context.Context, key string, limit int64) (wire.Object, error) {
	within := askFor
	if limit > wire.MaxJWS {
		within = fetchFor
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	o, err := a.o.Store.Get(ctx, key, limit)
	a.metrics.count("get", err)
	return o, err
}

// read goes through the versions that the box has not seen, one by one: each is signed by the director, is the group's, and
// names the one before. A box that was away for long reads on until there is none; only the last one has an effect. Nothing of a version
// that does not pass is kept, and none behind it is looked at.
func (a *Agent) read(ctx context.Context) error {
	version, digest := a.state.Version, a.state.Digest
	var last *wire.Desired
	var data []byte
	var fault error
	for {
		o, err := a.get(ctx, wire.DesiredKey(a.o.Group, version+1), wire.MaxJWS)
		if errors.Is(err, wire.ErrNotFound) {
			break
		}
		if err != nil {
			fault = fmt.Errorf("asking for version %d: %w", version+1, err)
			break
		}
		d, err := wire.OpenDesired(o.Data, a.o.Director, a.o.Group, version+1)
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
		err := a.change(func(s *state) { s.Version, s.Digest, s.Desired = version, digest, data })
		if err != nil {
			return err
		}
		// After this line the version has an effect, and none before it ever has one again.
		a.mu.Lock()
		a.desired = last
		a.mu.Unlock()
		a.o.Logger.Info("the centre desires another state", "version", version, "by", last.By, "reason", last.Reason)
		a.dirty = true
	}
	if fault == nil {
		a.mu.Lock()
		a.asked = a.o.Now()
		a.mu.Unlock()
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
