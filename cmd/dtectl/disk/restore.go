package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/fleet/ship"
	"dtegate/storage"
)

// Restore is dtectl restore.
type Restore struct {
	Dir        string `arg:"" type:"existingdir" help:"The backup."`
	AcceptMark bool   `help:"Trust the high-water mark beside the store to tell which numbers were spent since, and reconcile at once."`
}

// Run makes a store of a backup where the configuration says, never over another, and prints what must be reconciled.
func (c *Restore) Run(ctx context.Context, top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	o := cfg.Store(slog.Default())
	bar := term.NewBar(term.Err)
	b, err := storage.Restore(ctx, c.Dir, o, bar.Show)
	bar.End()
	return restored(ctx, cfg, b, c.AcceptMark, err)
}

// Rebuild is dtectl rebuild.
type Rebuild struct {
	Dir        string `arg:"" optional:"" type:"existingdir" help:"The second copy, on the medium that outlived the box."`
	Fleet      bool   `help:"The second copy that the dead box shipped to the chain's store."`
	Epoch      int64  `help:"With --fleet: of the box of this epoch. Default: the last box that has shipped its whole copy."`
	AcceptMark bool   `help:"Trust the high-water mark beside the store, and reconcile at once."`
}

// Run makes a store of a second copy, as restore does of a backup.
func (c *Rebuild) Run(ctx context.Context, top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	if c.Fleet == (c.Dir != "") {
		return errors.New("rebuild: either a folder or --fleet")
	}
	if c.Epoch < 0 || c.Epoch > 0 && !c.Fleet {
		return errors.New("rebuild: --epoch goes with --fleet, and is 1 or more")
	}
	o := cfg.Store(slog.Default())
	if c.Fleet {
		if c.Dir, o.Elsewhere, err = fetchCopy(ctx, cfg, c.Epoch); err != nil {
			return err
		}
	}
	bar := term.NewBar(term.Err)
	b, missing, err := storage.Rebuild(ctx, c.Dir, o, bar.Show)
	bar.End()
	if c.Fleet && err == nil && o.Elsewhere.Lacks == "" {
		err = ship.Remove(c.Dir)
	}
	if err == nil && (len(missing) > 0 || o.Elsewhere.Lacks != "") {
		c.AcceptMark = false // a person reads first what is missing
	}
	return restored(ctx, cfg, b, c.AcceptMark, err)
}

// restored describes what was made of a backup or a copy, and what must be reconciled.
func restored(ctx context.Context, cfg *config.Config, b *storage.Backup, acceptMark bool, err error) error {
	if errors.Is(err, storage.ErrExists) {
		return fmt.Errorf("%s is there: a store is never overwritten; move it away first: %w", cfg.Data, err)
	}
	if err := describeBackup(term.Out, b, err); err != nil {
		return err
	}
	if _, err := printVouched(term.Out, cfg, storage.OpenReadOnly); err != nil {
		term.Printf("who wrote the rules and the acts is not known: %v\n", err) // the store is there, and must be reconciled
	}
	return reconcile(ctx, cfg, Reconcile{AcceptMark: acceptMark})
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
