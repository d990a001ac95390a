package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/fleet/fleetproto"
)

// reader reads the versions of the group's desired state.
type reader struct {
	*core
	ahead time.Time // what does not follow is not looked behind before
}

// aheadEvery is how often the box looks behind a version that it does not take.
const aheadEvery = 10 * time.Minute

// Closed reports whether the centre has closed a point of sale of this branch for a year.
func (r *reader) Closed(p fleetproto.Point, year int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.state.Closed, func(c fleetproto.ClosedPoint) bool {
		return c.Establishment == p.Establishment && c.Point == p.Point && c.Year == year
	})
}

// read goes through the versions that the box has not seen. A version is taken if the director has signed it and it stands behind the
// last version that was taken: by the digests of all that lie between, whoever signed those, or because it mends what the store has
// lost. Only the last version that is taken has an effect. What is not taken blocks nothing: read looks behind it, but no more often
// than aheadEvery.
func (r *reader) read(ctx context.Context) error {
	taken := fleetproto.Verified{Version: r.state.Version, Digest: r.state.Digest}
	signer, now := r.state.Signer, r.o.Now()
	var last *fleetproto.Desired
	var data []byte
	var fault error
	for seen, linked := taken, true; fault == nil || !now.Before(r.ahead); {
		version := seen.Version + 1
		o, err := r.get(ctx, fleetproto.DesiredKey(r.o.Group, version), fleetproto.MaxJWS)
		if errors.Is(err, fleetproto.ErrNotFound) {
			if fault != nil {
				r.ahead = now.Add(aheadEvery)
			}
			break
		}
		if err != nil && !errors.Is(err, fleetproto.ErrTooLarge) {
			fault = errors.Join(fault, fmt.Errorf("asking for version %d: %w", version, err))
			break
		}
		var d *fleetproto.Desired
		if err == nil {
			d, err = r.o.Chain.OpenDesired(o.Data, fleetproto.StillTrusted(r.o.Director, signer), r.o.Group, version)
		}
		signed := err == nil
		if !signed { // a version behind it may name its digest
			d, _ = r.o.Chain.ReadDesired(o.Data, r.o.Group, version)
		}
		if linked = linked && d != nil && d.Follows(seen) == nil; signed && !linked && !d.Mended(taken) {
			err = fmt.Errorf("%w: it was made behind another version %d than the one that this box verified (%.12s)", fleetproto.ErrOther, taken.Version, taken.Digest)
		}
		seen = fleetproto.Verified{Version: version, Digest: fleetproto.Digest(o.Data)}
		switch {
		case err == nil:
			taken, signer, linked, last, data, fault = seen, d.SignedBy, true, d, o.Data, nil
		case fault == nil:
			fault = fmt.Errorf("version %d is not taken: %w", version, err)
		}
	}
	if last != nil {
		err := r.change(func(s *state) {
			s.Version, s.Digest, s.Signer, s.Desired = taken.Version, taken.Digest, signer, data
			s.keepClosed(last)
		})
		if err != nil {
			return err
		}
		// After this line the version has an effect, and none before it ever has one again.
		r.mu.Lock()
		r.desired = last
		r.mu.Unlock()
		r.o.Logger.Info("the centre desires another state", "version", taken.Version, "by", last.By, "reason", last.Reason)
		r.dirty = true
	}
	if fault == nil {
		r.mu.Lock()
		r.asked = r.o.Now()
		r.mu.Unlock()
	}
	return fault
}

// tuning is the settings file that the centre desires: how often the agent asks and reports, and what the appliance reads at its start.
type tuning struct{ *core }

// take puts the settings file in force that is desired here: how often the agent asks and reports at once, the rest when
// the appliance starts next.
func (t *tuning) take(ctx context.Context, d *fleetproto.Desired) error {
	want := d.Live
	if own := t.state.Taken; own != nil && d.Rollout != nil && own.Rollout == d.Rollout.Name && !own.Stage.Failed() {
		want = d.Rollout.State.Over(d.Live)
	}
	if want.Settings == t.state.Settings {
		return t.keep()
	}
	var values []byte
	if want.Settings != "" {
		var err error
		if values, err = t.fetch(ctx, fleetproto.SettingsKey(want.Settings), want.Settings, fleetproto.MaxSettings); err != nil {
			return fmt.Errorf("the settings %.12s: %w", want.Settings, err)
		}
		if _, err := fleetproto.ParseSettings(values); err != nil {
			return fmt.Errorf("the settings %.12s are not taken: %w", want.Settings, err)
		}
	}
	err := t.change(func(s *state) {
		s.Settings, s.Values = want.Settings, values
		t.tell(s, fleetproto.Act{What: fleetproto.ActSettings, Version: d.Version, Digest: want.Settings})
	})
	if err != nil {
		return err
	}
	t.dirty = true
	return t.keep()
}

// keep writes the settings in force where the next start of the appliance reads them.
func (t *tuning) keep() error {
	if t.o.Settings == nil {
		return nil
	}
	there, err := t.o.Settings.Load()
	if err != nil || string(there) == string(t.state.Values) {
		return err
	}
	return t.o.Settings.Save(t.state.Values)
}

// poll is how often the store is asked for the desired state, reportEvery how often the status is written.
func (t *tuning) poll() time.Duration {
	if d := t.inForce().PollEvery(); d > 0 {
		return d
	}
	return t.o.Poll
}

func (t *tuning) reportEvery() time.Duration {
	if d := t.inForce().ReportEvery(); d > 0 {
		return d
	}
	return t.o.Report
}

// inForce are the settings in force.
func (t *tuning) inForce() *fleetproto.Settings {
	if s, err := fleetproto.ParseSettings(t.state.Values); err == nil {
		return s
	}
	return new(fleetproto.Settings)
}
