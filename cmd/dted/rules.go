package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine"
	"dtegate/engine/vouch"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// openShelf puts up what was live, and what the rules folder has that is new.
func openShelf(ctx context.Context, d *daemon, cfg *config.Config, box *vouch.Key) (*engine.Shelf, error) {
	keys, err := cfg.Rules.Pinned()
	if err != nil {
		return nil, err
	}
	shipped, err := shippedRules(cfg.Rules.Folder)
	if err != nil {
		return nil, err
	}
	if d.host.Engine() == "compiler" {
		// An unproven module may do its worst here first, with less to break.
		d.tester, err = rules.NewHost(ctx, rules.Options{Engine: "interpreter", Instances: 2, Logger: d.log})
		if err != nil {
			return nil, fmt.Errorf("starting the host of unproven rules: %w", err)
		}
	}
	accept := func(b *engine.Rulebook) error { return checkIssuer(cfg, b) }
	shelf := engine.NewShelf(engine.ShelfOptions{Store: d.store, Host: d.host, Interpreter: d.tester, Keys: keys, Box: box,
		Ambiente: cfg.Ambiente, Accept: accept, Logger: d.log, Now: time.Now,
		Points: len(cfg.Points), Returned: func(b engine.StepBack) { recordReturn(d.trail, &b, d.log) }})
	if err := shelf.Load(ctx, shipped); err != nil {
		return nil, err
	}
	return shelf, accept(shelf.Book())
}

// checkIssuer holds the issuer's data against the layouts: told at start or when a rule comes, not at the till.
func checkIssuer(cfg *config.Config, b *engine.Rulebook) error {
	for _, p := range cfg.Points {
		if faults := b.CheckIssuer(issuer(cfg), point(cfg, p)); len(faults) > 0 {
			return fmt.Errorf("the issuer's data in the configuration breaks the documents' layout: %v", faults)
		}
	}
	return nil
}

// shippedRules reads the bundles of the rules folder.
func shippedRules(folder string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*"+bundle.Extension))
	if err != nil {
		return nil, fmt.Errorf("reading rules folder: %w", err)
	}
	shipped := make(map[string][]byte)
	for _, path := range paths {
		if shipped[path], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("reading rule bundle: %w", err)
		}
	}
	return shipped, nil
}
