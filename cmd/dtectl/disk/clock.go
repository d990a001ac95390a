// Package disk holds the verbs of dtectl that read or write a store and its media: fsck, backup, recover, clock
// and audit.
package disk

import (
	"errors"
	"fmt"
	"log/slog"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/storage"
)

// Clock is dtectl clock.
type Clock struct {
	Accept ClockAccept `cmd:"" help:"Take the box's clock for right, where MH cannot be asked (the appliance must be stopped)."`
}

// ClockAccept is dtectl clock accept.
type ClockAccept struct{}

// Run replaces the store's last known time by the box's: after the clock was ahead, or the box was off for a year.
func (*ClockAccept) Run(top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	store, err := storage.Open(cfg.Store(slog.Default()))
	if errors.Is(err, storage.ErrInUse) {
		err = fmt.Errorf("%w (is the appliance stopped?)", err)
	}
	if err != nil {
		return err
	}
	now := cfg.Now()
	last, err := store.LastBeat()
	if err == nil {
		err = store.Beat(now)
	}
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	term.Printf("%s is taken for right; until now it was %s\n", adminclient.Local(now), adminclient.Local(last))
	return nil
}
