package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/engine/dte"
	"dtegate/storage"
)

type fsckCommand struct {
	archiveFlags
	Backup  []string `help:"Also say which of the affected documents these backups hold." type:"existingdir" placeholder:"DIR"`
	Verbose bool     `help:"Also print what the storage engine says of the damage."`
}

// Run walks every key of the store, also of one that the appliance refuses to open, alters nothing, and exits non-zero
// when anything is wrong.
func (c *fsckCommand) Run(ctx context.Context, top *cli) error {
	if c.Archive {
		return c.check(ctx, top)
	}
	if c.Read || c.Shared || c.Repair {
		return errors.New("--read, --shared and --repair go with --archive")
	}
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	report, err := storage.Check(ctx, cfg.Store(slog.Default()))
	if err != nil {
		return fmt.Errorf("checking store (is the appliance stopped?): %w", err)
	}
	checkForms(ctx, cfg, report)
	screen.Printf("documents %d\nseries    %d\n", report.Documents, report.Series)
	for _, series := range slices.Sorted(maps.Keys(report.Last)) {
		screen.Printf("  %s  1…%d\n", series, report.Last[series])
	}
	for _, l := range report.Lost {
		screen.Printf("given up  %s  %d…%d on %s: %s\n", l.Series, l.From, l.To, local(l.At), l.Reason)
	}
	for _, m := range report.Missing {
		screen.Printf("missing   %v\n", m)
	}
	for _, p := range report.Problems {
		screen.Printf("problem   %v\n", p)
		if c.Verbose && p.Detail != "" {
			screen.Printf("          %s\n", p.Detail)
		}
	}
	c.affected(report, cfg)
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%d problems: do not issue from this store", n)
	}
	screen.Printf("integrity: whole\n")
	bad, err := printVouched(screen.Out, cfg, storage.OpenReadOnly)
	switch {
	case err != nil:
		return fmt.Errorf("asking who wrote the rules and the acts: %w", err)
	case bad > 0:
		return fmt.Errorf("%d rules or acts are not what this box or the pinned keys vouch for: such a rule computes nothing", bad)
	}
	screen.Printf("no problem found\n")
	return nil
}

// affected prints the documents of which something cannot be read, and where they are whole.
func (c *fsckCommand) affected(report *storage.Report, cfg *config.Config) {
	if len(report.Affected) == 0 {
		return
	}
	held := c.backups()
	for _, a := range report.Affected {
		numbers := fmt.Sprint(a.From)
		if a.To != a.From {
			numbers = fmt.Sprintf("%d…%d", a.From, a.To)
		}
		screen.Printf("document  %s  %s", a.Series, numbers)
		if a.Code != (storage.Code{}) {
			screen.Printf("  %s", dte.Code(a.Code))
		}
		screen.Printf("  %s cannot be read", a.What)
		for _, dir := range held.holders(a.Code) {
			screen.Printf("; whole in %s", dir)
		}
		screen.Printf("\n")
	}
	if cfg.SecondCopy != "" {
		screen.Printf("The second copy (%s) holds what was acknowledged while it was live: dtectl repair takes these documents from there.\n", cfg.SecondCopy)
	}
	if cfg.Archive != nil {
		screen.Printf("The archive holds the final documents: dtectl repair asks it for their signed forms.\n")
	}
}

// heldBackups are the backups that can be asked, by folder.
type heldBackups map[string]*storage.Store

func (c *fsckCommand) backups() heldBackups {
	held := make(heldBackups)
	for _, dir := range c.Backup {
		s, err := storage.OpenBackup(dir, storage.Options{Logger: slog.New(slog.DiscardHandler), Now: time.Now})
		if err != nil {
			screen.Printf("backup    %s cannot be asked: %v\n", dir, err)
			continue
		}
		held[dir] = s
	}
	return held
}

// holders are the backups that hold a document with all its parts.
func (h heldBackups) holders(code storage.Code) (dirs []string) {
	for _, dir := range sortedKeys(h) {
		if _, err := h[dir].Get(code); err != nil {
			continue
		}
		if _, err := h[dir].Parts(code); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

type showCommand struct {
	Code string `arg:"" help:"codigoGeneracion of the document."`
}

// Run prints the record's own data and each of its parts.
func (c *showCommand) Run(top *cli) error {
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
	screen.Printf("series %s number %d id %d state %d revision %d\n", entry.Series, entry.Number, entry.ID, entry.State, entry.Revision)
	screen.Printf("%s\n", entry.Head)
	parts, err := store.Parts(entry.Code)
	if err != nil {
		return err
	}
	for _, p := range parts {
		screen.Printf("%s %s\n", p.Name, p.Data)
	}
	return nil
}

func open(top *cli) (*storage.Store, error) {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return nil, err
	}
	store, err := storage.Open(cfg.Store(slog.Default()))
	if err != nil {
		return nil, fmt.Errorf("opening store (is the appliance stopped?): %w", err)
	}
	return store, nil
}
