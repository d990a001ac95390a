package fleet

import (
	"context"
	"fmt"
	"time"

	"dtegate/engine/fleet/wire"
)

// tuning is the settings file that the centre desires: how often the agent asks and reports, and what the appliance reads at its start.
type tuning struct{ *core }

// take puts the settings file in force that is desired here: how often the agent asks and reports at once, the rest when
// the appliance starts next.
func (t *tuning) take(ctx context.Context, d *wire.Desired) error {
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
		if values, err = t.fetch(ctx, wire.SettingsKey(want.Settings), want.Settings, wire.MaxSettings); err != nil {
			return fmt.Errorf("the settings %.12s: %w", want.Settings, err)
		}
		if _, err := wire.ParseSettings(values); err != nil {
			return fmt.Errorf("the settings %.12s are not taken: %w", want.Settings, err)
		}
	}
	err := t.change(func(s *state) {
		s.Settings, s.Values = want.Settings, values
		t.tell(s, wire.Act{What: wire.ActSettings, Version: d.Version, Digest: want.Settings})
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
func (t *tuning) inForce() *wire.Settings {
	if s, err := wire.ParseSettings(t.state.Values); err == nil {
		return s
	}
	return new(wire.Settings)
}
