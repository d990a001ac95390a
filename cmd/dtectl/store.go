package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/storage"
)

type fsckCommand struct{ archiveFlags }

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
	fmt.Printf("documents %d\nseries    %d\n", report.Documents, report.Series)
	for _, series := range slices.Sorted(maps.Keys(report.Last)) {
		fmt.Printf("  %s  1…%d\n", series, report.Last[series])
	}
	for _, l := range report.Lost {
		fmt.Printf("given up  %s  %d…%d on %s: %s\n", l.Series, l.From, l.To, local(l.At), l.Reason)
	}
	for _, m := range report.Missing {
		fmt.Printf("missing   %v\n", m)
	}
	for _, p := range report.Problems {
		fmt.Printf("problem   %v\n", p)
	}
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%d problems: do not issue from this store", n)
	}
	fmt.Println("integrity: whole")
	bad, err := printVouched(os.Stdout, cfg, storage.OpenReadOnly)
	switch {
	case err != nil:
		return fmt.Errorf("asking who wrote the rules and the acts: %w", err)
	case bad > 0:
		return fmt.Errorf("%d rules or acts are not what this box or the pinned keys vouch for: such a rule computes nothing", bad)
	}
	fmt.Println("no problem found")
	return nil
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
	fmt.Printf("series %s number %d id %d state %d revision %d\n", entry.Series, entry.Number, entry.ID, entry.State, entry.Revision)
	if err := json.NewEncoder(os.Stdout).Encode(json.RawMessage(entry.Head)); err != nil {
		return fmt.Errorf("printing record: %w", err)
	}
	parts, err := store.Parts(entry.Code)
	if err != nil {
		return err
	}
	for _, p := range parts {
		fmt.Printf("%s %s\n", p.Name, p.Data)
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
