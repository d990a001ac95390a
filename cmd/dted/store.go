package main

import (
	"errors"
	"fmt"
	"log/slog"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health"
	"dtegate/engine/recordmac"
	"dtegate/storage"
)

// openStore opens the store behind its gate, or says what a person has to do before it can be opened.
func openStore(d *daemon, cfg *config.Config) (err error) {
	d.link = cfg.Authority.Link()
	d.gate = health.NewGate(cfg, d.link, d.log)
	options := cfg.Store(d.log)
	options.SecondCopy, options.OpenBehind = cfg.SecondCopy, true
	options.Carry = func(file string, end int64) {
		if s := d.shipper.Load(); s != nil { // it is made later than the store
			s.Carry(file, end)
		}
	}
	d.store, err = storage.Open(options)
	if errors.Is(err, storage.ErrMark) {
		return fmt.Errorf("%w; dtectl recover brings the mark from where it lies, or proves the store and makes another", err)
	}
	if err != nil {
		return err
	}
	if d.store.Restored() != nil {
		return fmt.Errorf("%w: run dtectl recover", storage.ErrRestored)
	}
	return d.gate.Guard(d.store, cfg.Now, d.log)
}

// openBoxKey reads the key by which this box knows its own records, or makes it at the first start. Without one the box goes
// on: what it records then bears no mark, and a rule computes only if pinned keys have signed it.
func openBoxKey(cfg *config.Config, log *slog.Logger) *recordmac.Key {
	key, made, err := cfg.MakeBox()
	switch {
	case err != nil:
		log.Error("the box's key cannot be used: records bear no mark, and only rules that pinned keys have signed compute", "error", err)
		return nil
	case made:
		log.Info("made the box's key", "file", cfg.BoxKey, "id", key.ID())
	}
	return key
}
