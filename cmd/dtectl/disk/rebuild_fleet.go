package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/fleet/ship"
	"dtegate/storage"
)

// fetchCopy brings what the branch's box of an epoch shipped, 0: as ship.Fetch, into a folder beside the store, which the caller removes
// with ship.Remove, and returns what the store knows of the copy besides. Cut short, it goes on there when it is called again.
func fetchCopy(ctx context.Context, cfg *config.Config, epoch int64) (string, storage.Elsewhere, error) {
	var none storage.Elsewhere
	if cfg.Fleet == nil {
		return "", none, errors.New("rebuild --fleet: the configuration has no [fleet]")
	}
	directors, err := cfg.Fleet.Directors()
	if err != nil {
		return "", none, err
	}
	store, err := cfg.Fleet.Open()
	if err != nil {
		return "", none, err
	}
	folder := filepath.Clean(cfg.Data) + ".copy"
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", none, fmt.Errorf("making room for the copy: %w", err)
	}
	bar := term.NewBar(term.Err)
	got, err := ship.Fetch(ctx, store, cfg.Chain(), directors, cfg.Fleet.Branch, epoch, folder, bar.Show)
	bar.End()
	if err != nil {
		err = fmt.Errorf("fetching the second copy of %s: %w", cfg.Fleet.Branch, err)
		if got.Bytes == 0 {
			return "", none, errors.Join(err, ship.Remove(folder))
		}
		return "", none, fmt.Errorf("%w\nthe %d bytes that are here stay in %s: the same command goes on from there", err, got.Bytes, folder)
	}
	if got.Before > 0 {
		term.Printf("%d of the bytes had been fetched before\n", got.Before)
	}
	if got.Doubt != nil {
		term.Printf("a base of the copy cannot be used, its pieces were read instead: %v\n", got.Doubt)
	}
	term.Printf("fetched the second copy of %s: %d pieces, %d bytes, shipped by the box of epoch %d; %d parts of %d bases were read\n",
		cfg.Fleet.Branch, got.Pieces, got.Bytes, got.Epoch, got.Parts, got.Bases)
	e := storage.Elsewhere{Lacks: got.Lacks()}
	if len(got.Older) > 0 && !got.Whole {
		term.Printf("boxes of earlier epochs shipped too, the last of them that of epoch %[1]d. If the box of epoch %[2]d died before its whole copy was shipped, what it\n"+
			"lacks is there: dtectl rebuild --fleet --epoch %[1]d; then the numbers that the box of epoch %[2]d gave are not proven\n", got.Older[len(got.Older)-1], got.Epoch)
	}
	if s := got.Status; s != nil && s.Copy != nil {
		e.Last = s.Copy.Last
		term.Printf("the box's last status is of %s and names piece %d: what was fetched is compared with it. Of what the box shipped after it, nothing here\n"+
			"says whether the chain's store has lost any\n", adminclient.Local(s.At), s.Copy.Segment)
	}
	if e.Lacks != "" {
		term.Printf("NOT COMPLETE: %s\n", e.Lacks)
	}
	return folder, e, nil
}
