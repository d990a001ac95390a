package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"dtegate/cmd/dted/config"
)

// rehearsed is the file beside a store that says that production was rehearsed with it.
const rehearsed = ".rehearsal"

// rehearse keeps a rehearsal of production and production apart: a rehearsal begins with a store that has issued nothing,
// marks it, and no appliance in production opens it afterwards. Its numbers and simulated seals never mix with real ones.
// lastID is the store's last record.
func rehearse(cfg *config.Config, lastID uint64, log *slog.Logger) error {
	mark := cfg.Data + rehearsed
	_, err := os.Stat(mark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for the mark of a rehearsal: %w", err)
	}
	marked := err == nil
	switch {
	case !cfg.Authority.Rehearsal && marked:
		return fmt.Errorf("the store %s was made to rehearse production (%s): its documents have simulated seals; make another with dtectl init", cfg.Data, mark)
	case !cfg.Authority.Rehearsal:
		return nil
	case !marked && lastID > 0:
		return fmt.Errorf("the store %s has issued documents: a rehearsal of production needs a store of its own, made by dtectl init", cfg.Data)
	case !marked:
		if err := os.WriteFile(mark, []byte("Production was rehearsed with this store. Its seals are simulated.\n"), 0o600); err != nil {
			return fmt.Errorf("marking the store of a rehearsal: %w", err)
		}
	}
	log.Warn("rehearsal of production: simulated seals are believed, and no document is valid", "authority", cfg.Authority.URL, "mark", mark)
	return nil
}
