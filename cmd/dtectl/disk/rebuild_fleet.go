package disk

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

// fetchCopy brings what the branch's box of an epoch shipped, 0: as ship.Fetch, into a folder beside the store, which the caller removes
// with ship.Remove. Cut short, it goes on there when it is called again.
func fetchCopy(ctx context.Context, cfg *config.Config, epoch int64) (string, error) {
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
	folder := filepath.Clean(cfg.Data) + ".copy"
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("making room for the copy: %w", err)
	}
	got, err := ship.Fetch(ctx, store, directors, cfg.Fleet.Branch, epoch, folder)
	if err != nil {
		err = fmt.Errorf("fetching the second copy of %s: %w", cfg.Fleet.Branch, err)
		if got.Bytes == 0 {
			return "", errors.Join(err, ship.Remove(folder))
		}
		return "", fmt.Errorf("%w\nthe %d bytes that are here stay in %s: the same command goes on from there", err, got.Bytes, folder)
	}
	if got.Before > 0 {
		screen.Printf("%d of the bytes had been fetched before\n", got.Before)
	}
	if got.Doubt != nil {
		screen.Printf("a base of the copy cannot be used, its pieces were read instead: %v\n", got.Doubt)
	}
	screen.Printf("fetched the second copy of %s: %d pieces, %d bytes, shipped by the box of epoch %d; %d parts of %d bases were read\n",
		cfg.Fleet.Branch, got.Pieces, got.Bytes, got.Epoch, got.Parts, got.Bases)
	if len(got.Newer) > 0 {
		screen.Printf("the box of epoch %d came after it and had not shipped its whole copy, therefore that is not taken: what it sold is not here, and the numbers\n"+
			"that it gave are not proven\n", got.Newer[len(got.Newer)-1])
	}
	if len(got.Older) > 0 && !got.Whole {
		screen.Printf("boxes of earlier epochs shipped too, the last of them that of epoch %[1]d. If the box of epoch %[2]d died before its whole copy was shipped, what it\n"+
			"lacks is there: dtectl rebuild --fleet --epoch %[1]d; then the numbers that the box of epoch %[2]d gave are not proven\n", got.Older[len(got.Older)-1], got.Epoch)
	}
	return folder, nil
}
