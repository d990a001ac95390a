package start

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

// CheckRehearsal refuses to mix a rehearsal of production with production: a rehearsal begins with a store that has issued
// nothing, and no appliance in production opens it afterwards. lastID is the store's last record.
func CheckRehearsal(c *config.Config, lastID uint64) error {
	_, err := checkRehearsal(c, lastID)
	return err
}

func checkRehearsal(c *config.Config, lastID uint64) (marked bool, err error) {
	mark := c.Data + rehearsed
	_, err = os.Stat(mark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("authority.rehearsal: looking for the mark of a rehearsal: %w", err)
	}
	marked = err == nil
	switch {
	case !c.Authority.Rehearsal && marked:
		return marked, fmt.Errorf("authority.rehearsal: the store %s was made to rehearse production (%s): its documents have simulated seals; make another with dtectl init", c.Data, mark)
	case c.Authority.Rehearsal && !marked && lastID > 0:
		return marked, fmt.Errorf("authority.rehearsal: the store %s has issued documents: a rehearsal of production needs a store of its own, made by dtectl init", c.Data)
	}
	return marked, nil
}

// Rehearse is CheckRehearsal, and marks the store of a rehearsal: its numbers and simulated seals never mix with real ones.
func Rehearse(c *config.Config, lastID uint64, log *slog.Logger) error {
	marked, err := checkRehearsal(c, lastID)
	if err != nil || !c.Authority.Rehearsal {
		return err
	}
	mark := c.Data + rehearsed
	if !marked {
		if err := os.WriteFile(mark, []byte("Production was rehearsed with this store. Its seals are simulated.\n"), 0o600); err != nil {
			return fmt.Errorf("marking the store of a rehearsal: %w", err)
		}
	}
	log.Warn("rehearsal of production: simulated seals are believed, and no document is valid", "authority", c.Authority.URL, "mark", mark)
	return nil
}
