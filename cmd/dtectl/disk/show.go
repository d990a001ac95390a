// Package disk holds the verbs of dtectl that read or write a store and its media: show, fsck, backup, recover, clock
// and audit.
package disk

import (
	"errors"
	"fmt"
	"log/slog"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// Show is dtectl show.
type Show struct {
	Code string `arg:"" help:"codigoGeneracion of the document."`
}

// Run prints the record's own data and each of its parts.
func (c *Show) Run(top *adminclient.Options) error {
	code, err := dte.ParseCode(c.Code)
	if err != nil {
		return err
	}
	store, err := open(top)
	if err != nil {
		return err
	}
	defer store.Close()
	entry, err := store.Get(storage.Code(code))
	if err != nil {
		return err
	}
	term.Printf("series %s number %d id %d state %d revision %d\n", entry.Series, entry.Number, entry.ID, entry.State,
		entry.Revision)
	term.Printf("%s\n", entry.Head)
	parts, err := store.Parts(entry.Code)
	if err != nil {
		return err
	}
	for _, p := range parts {
		term.Printf("%s %s\n", p.Name, p.Data)
	}
	return nil
}

func open(top *adminclient.Options) (*storage.Store, error) {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return nil, err
	}
	store, err := storage.Open(cfg.Store(slog.Default()))
	if errors.Is(err, storage.ErrInUse) {
		return nil, fmt.Errorf("%w (is the appliance stopped?)", err)
	}
	return store, err
}

// Clock is dtectl clock.
type Clock struct {
	Accept ClockAccept `cmd:"" help:"Take the box's clock for right, where MH cannot be asked (the appliance must be stopped)."`
}

// ClockAccept is dtectl clock accept.
type ClockAccept struct{}

// Run has the store forget the time that it knew: after a clock that was ahead, or a year in a cupboard.
func (*ClockAccept) Run(top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	store, err := open(top)
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
