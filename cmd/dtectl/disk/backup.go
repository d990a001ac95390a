// Package disk contains dtectl's verbs for a store and its media: fsck, backup, recover, clock and audit.
package disk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/gateway/adminapi"
	"dtegate/storage"
)

type Clock struct {
	Accept ClockAccept `cmd:"" help:"Accept the box's clock when MH cannot confirm it (the appliance must be stopped)."`
}

type ClockAccept struct{}

// Run replaces the store's last known time by the box's time. If MH cannot confirm the time, this is needed after the
// clock was once ahead, or after the box was off for more than a month.
func (*ClockAccept) Run(cfg *config.Config) error {
	store, err := storage.Open(cfg.Store(slog.Default()))
	if err != nil {
		return err
	}
	now := cfg.Now()
	last, unsure, err := store.LastBeat()
	if err == nil {
		err = store.Beat(now, cmp.Or(unsure, last)) // the archive may have what was issued since
	}
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	term.Printf("%s is accepted; the last known time was %s\n", adminclient.Local(now), adminclient.Local(last))
	return nil
}

type Backup struct {
	Dir   string `arg:"" type:"path" help:"Folder to create, best on another medium; it must not exist."`
	Check bool   `help:"Read the backup in the folder and check it, instead of making one."`
}

func (c *Backup) Run(ctx context.Context, top *adminclient.Options) error {
	bar := term.NewGauge(term.Err)
	b, err := c.verified(ctx, top, bar)
	bar.Clear()
	if err != nil {
		return err
	}
	term.Printf("store      %s\ntaken      %s\nrecords    %d\nseries     %d\nsize       %s\nchecked    every digest "+
		"and every row\n", b.Store, adminclient.Local(b.Taken), b.Documents, len(b.Last), term.Bytes(b.Bytes))
	if c.Check {
		return c.vouched(top)
	}
	return nil
}

// verified checks a backup or makes one. It opens the store of a stopped appliance itself; a running appliance makes
// the backup while it issues.
func (c *Backup) verified(ctx context.Context, top *adminclient.Options, bar *term.Gauge) (*storage.Backup, error) {
	if c.Check {
		return storage.CheckBackup(ctx, c.Dir, storage.Options{Logger: slog.Default()}, bar.Of)
	}
	cfg, err := config.Load(top.Config)
	if err != nil {
		return nil, err
	}
	store, err := storage.Open(cfg.Store(slog.Default()))
	if errors.Is(err, storage.ErrInUse) {
		return backupRunning(ctx, cfg, c.Dir, bar)
	}
	if err != nil {
		return nil, err
	}
	b, err := store.Backup(ctx, c.Dir, bar.Of)
	return b, errors.Join(err, store.Close())
}

// vouched prints who signed the rules in the backup, according to the keys that the configuration pins.
func (c *Backup) vouched(top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		term.Printf("signatures of the rules and marks of the acts: not checked without a configuration (%v)\n", err)
		return nil
	}
	bad, err := printVouched(term.Out, cfg, func(o storage.Options) (*storage.Store, error) {
		return storage.OpenBackup(c.Dir, o)
	})
	if err == nil && bad > 0 {
		err = fmt.Errorf("neither this box nor a pinned key vouches for %d rules or acts in the backup: find out who "+
			"has written to it", bad)
	}
	return err
}

// backupRunning makes the running appliance write a backup, on the appliance's own filesystem.
func backupRunning(ctx context.Context, cfg *config.Config, dir string, bar *term.Gauge) (*storage.Backup, error) {
	g, err := adminclient.OwnGateway(cfg)
	if err != nil {
		return nil, err
	}
	body, _ := json.Marshal(map[string]string{"dir": dir}) // texts always marshal
	last, err := g.Follow(ctx, http.MethodPost, "/admin/backup", nil, body, func(l *adminapi.Line) error {
		if l.Progress != nil {
			bar.Of(int64(l.Progress.Documents), int64(l.Progress.Of))
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the appliance continues the backup: %w", ctx.Err())
	case err == nil && last.Backup == nil:
		err = errors.New("its answer names no backup")
	}
	if err != nil {
		return nil, fmt.Errorf("the running appliance made no backup: %w", err)
	}
	return last.Backup, nil
}
