package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/fleet/fleetproto"
)

// aheadEvery is how often the box reads behind a version that it refuses.
const aheadEvery = 10 * time.Minute

// Closed reports whether the centre has closed a point of sale of this branch for a year.
func (a *Agent) Closed(p fleetproto.Point, year int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.state.Closed, func(c fleetproto.ClosedPoint) bool {
		return c.Establishment == p.Establishment && c.Point == p.Point && c.Year == year
	})
}

// readDesired reads the versions of the group's desired state that the box has not seen. It takes a version that the
// director has signed and that follows the last version taken: through the digests of all versions between, whoever
// signed those, or because it mends what the store has lost. Only the last version taken has an effect. A refused
// version blocks nothing: readDesired reads behind it, but no more often than aheadEvery.
func (a *Agent) readDesired(ctx context.Context) error {
	taken := fleetproto.Verified{Version: a.state.Version, Digest: a.state.Digest}
	signer, now := a.state.Signer, a.o.Now()
	var last *fleetproto.Desired
	var data []byte
	var fault error
	for seen, linked := taken, true; fault == nil || !now.Before(a.ahead); {
		version := seen.Version + 1
		o, err := a.get(ctx, fleetproto.DesiredKey(a.o.Group, version), fleetproto.MaxJWS)
		if errors.Is(err, fleetproto.ErrNotFound) {
			if fault != nil {
				a.ahead = now.Add(aheadEvery)
			}
			break
		}
		if err != nil && !errors.Is(err, fleetproto.ErrTooLarge) {
			fault = errors.Join(fault, fmt.Errorf("asking for version %d: %w", version, err))
			break
		}
		var d *fleetproto.Desired
		if err == nil {
			d, err = a.o.Chain.OpenDesired(o.Data, fleetproto.StillTrusted(a.o.Director, signer), a.o.Group, version)
		}
		signed := err == nil
		if !signed { // a later version may name its digest
			d, _ = a.o.Chain.ReadDesired(o.Data, a.o.Group, version)
		}
		if linked = linked && d != nil && d.Follows(seen) == nil; signed && !linked && !d.Mended(taken) {
			err = fmt.Errorf("%w: it was made behind another version %d than the one that this box verified (%.12s)",
				fleetproto.ErrOther, taken.Version, taken.Digest)
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
		err := a.change(func(s *state) {
			s.Version, s.Digest, s.Signer, s.Desired = taken.Version, taken.Digest, signer, data
			s.keepClosed(last)
		})
		if err != nil {
			return err
		}
		// After this line the version has an effect, and no earlier version ever has one again.
		a.mu.Lock()
		a.desired = last
		a.mu.Unlock()
		a.o.Logger.Info("the centre desires another state", "version", taken.Version, "by", last.By, "reason",
			last.Reason)
		a.dirty = true
	}
	if fault == nil {
		a.mu.Lock()
		a.asked = a.o.Now()
		a.mu.Unlock()
	}
	return fault
}

// takeSettings puts the desired settings file in force: how often the agent polls and reports takes effect at once, the
// rest at the next start of the appliance.
func (a *Agent) takeSettings(ctx context.Context, d *fleetproto.Desired) error {
	want := d.Live
	if own := a.state.Taken; own != nil && d.Rollout != nil && own.Rollout == d.Rollout.Name && !own.Stage.Failed() {
		want = d.Rollout.State.Over(d.Live)
	}
	if want.Settings == a.state.Settings {
		return a.keepSettings()
	}
	var values []byte
	if want.Settings != "" {
		var err error
		if values, err = a.fetch(ctx, fleetproto.SettingsKey(want.Settings), want.Settings,
			fleetproto.MaxSettings); err != nil {
			return fmt.Errorf("the settings %.12s: %w", want.Settings, err)
		}
		if _, err := fleetproto.ParseSettings(values); err != nil {
			return fmt.Errorf("the settings %.12s are not taken: %w", want.Settings, err)
		}
	}
	err := a.change(func(s *state) {
		s.Settings, s.Values = want.Settings, values
		a.queueAct(s, fleetproto.Act{What: fleetproto.ActSettings, Version: d.Version, Digest: want.Settings})
	})
	if err != nil {
		return err
	}
	a.dirty = true
	return a.keepSettings()
}

// keepSettings writes the settings in force where the next start of the appliance reads them.
func (a *Agent) keepSettings() error {
	if a.o.Settings == nil {
		return nil
	}
	there, err := a.o.Settings.Load()
	if err != nil || string(there) == string(a.state.Values) {
		return err
	}
	return a.o.Settings.Save(a.state.Values)
}

// pollEvery is how often the agent reads the desired state; reportEvery is how often it writes the status.
func (a *Agent) pollEvery() time.Duration {
	if d := a.settingsInForce().PollEvery(); d > 0 {
		return d
	}
	return a.o.Poll
}

func (a *Agent) reportEvery() time.Duration {
	if d := a.settingsInForce().ReportEvery(); d > 0 {
		return d
	}
	return a.o.Report
}

// settingsInForce returns the settings in force.
func (a *Agent) settingsInForce() *fleetproto.Settings {
	if s, err := fleetproto.ParseSettings(a.state.Values); err == nil {
		return s
	}
	return new(fleetproto.Settings)
}
