package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/engine/fleet/ship"
)

// fetchCopy brings what the branch's last box shipped into a folder beside the store, which the caller removes.
func fetchCopy(ctx context.Context, cfg *config.Config) (string, error) {
	if cfg.Fleet == nil {
		return "", errors.New("rebuild --fleet: the configuration has no [fleet]")
	}
	directors, err := cfg.Fleet.Directors()
	if err != nil {
		return "", err
	}
	store, err := cfg.Fleet.Open()
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(filepath.Dir(cfg.Data), "copy-")
	if err != nil {
		return "", fmt.Errorf("making room for the copy: %w", err)
	}
	got, err := ship.Fetch(ctx, store, directors, cfg.Fleet.Branch, folder)
	if err != nil {
		return "", errors.Join(fmt.Errorf("fetching the second copy of %s: %w", cfg.Fleet.Branch, err), os.RemoveAll(folder))
	}
	if got.Doubt != nil {
		screen.Printf("a base of the copy cannot be used, its pieces were read instead: %v\n", got.Doubt)
	}
	screen.Printf("fetched the second copy of %s: %d pieces, %d bytes, shipped by the box of epoch %d; %d parts of %d bases were read\n",
		cfg.Fleet.Branch, got.Pieces, got.Bytes, got.Epoch, got.Parts, got.Bases)
	return folder, nil
}
