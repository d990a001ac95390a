package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"

	"dtegate/cmd/dted/config"
	"dtegate/engine"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// loadRules reads every bundle of the rules folder. One that is not signed, not whole or does not compile stops the
// start: a branch with half its rules is worse than one that says what is wrong.
func loadRules(ctx context.Context, cfg config.Rules, host *rules.Host) (*engine.Rulebook, error) {
	keys, err := pinned(cfg)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(cfg.Folder, "*.dterule"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no rule bundle (*.dterule) in %s", cfg.Folder)
	}
	var loaded []*rules.Rule
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading rule bundle: %w", err)
		}
		b, err := bundle.Read(data, keys, cfg.Threshold)
		if err != nil {
			return nil, fmt.Errorf("rule bundle %s: %w", path, err)
		}
		r, err := host.LoadBundle(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("rule bundle %s: %w", path, err)
		}
		loaded = append(loaded, r)
	}
	generation, err := rules.NewGeneration(loaded...)
	if err != nil {
		return nil, err
	}
	return engine.NewRulebook(generation)
}

func pinned(cfg config.Rules) ([]bundle.Key, error) {
	var keys []bundle.Key
	for _, k := range cfg.Keys {
		b, err := os.ReadFile(k.File)
		if err != nil {
			return nil, fmt.Errorf("reading rules key %s: %w", k.ID, err)
		}
		public, err := bundle.ParsePublic(b)
		if err != nil {
			return nil, fmt.Errorf("rules key %s: %w", k.ID, err)
		}
		keys = append(keys, bundle.Key{ID: k.ID, Public: ed25519.PublicKey(public)})
	}
	return keys, nil
}
