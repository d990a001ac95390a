package fleet

import (
	"context"
	"fmt"
	"time"

	"dtegate/engine/fleet/wire"
)

// takeSettings puts the settings file in force that is desired here: how often the agent asks and reports at once, the rest when
// the appliance starts next.
func (a *Agent) takeSettings(ctx context.Context, d *wire.Desired) error {
	want := d.Live
	if t := a.state.Taken; t != nil && d.Rollout != nil && t.Rollout == d.Rollout.Name && !t.Stage.Failed() {
		want = d.Rollout.State.Over(d.Live)
	}
	if want.Settings == a.state.Settings {
		return a.keepSettings()
	}
	var values []byte
	if want.Settings != "" {
		var err error
		if values, err = a.fetch(ctx, wire.SettingsKey(want.Settings), want.Settings, wire.MaxSettings); err != nil {
			return fmt.Errorf("the settings %.12s: %w", want.Settings, err)
		}
		if _, err := wire.ParseSettings(values); err != nil {
			return fmt.Errorf("the settings %.12s are not taken: %w", want.Settings, err)
		}
	}
	err := a.change(func(s *state) {
		s.Settings, s.Values = want.Settings, values
		a.tell(s, wire.Act{What: wire.ActSettings, Version: d.Version, Digest: want.Settings})
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

// poll is how often the store is asked for the desired state, reportEvery how often the status is written.
func (a *Agent) poll() time.Duration {
	if d := a.settings().PollEvery(); d > 0 {
		return d
	}
	return a.o.Poll
}

func (a *Agent) reportEvery() time.Duration {
	if d := a.settings().ReportEvery(); d > 0 {
		return d
	}
	return a.o.Report
}

// settings are those in force.
func (a *Agent) settings() *wire.Settings {
	if s, err := wire.ParseSettings(a.state.Values); err == nil {
		return s
	}
	return new(wire.Settings)
}
