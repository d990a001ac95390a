package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"dtegate/cmd/dted/config"
	"dtegate/storage"
)

// A store from a backup or from a second copy does not issue until it is known which numbers were spent since.
func TestOpen_Restored(t *testing.T) {
	b := newBranch(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(b.dir, "dted.toml"))
	must(err)
	cfg.SecondCopy = filepath.Join(b.dir, "card")
	d, err := open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	must(err)
	if c, ok := d.store.SecondCopy(); !ok || !c.Live {
		t.Errorf("second copy %+v, %v", c, ok)
	}
	d.close()
	must(os.RemoveAll(cfg.Data))
	_, err = storage.Assemble(t.Context(), storage.Sources{Copy: cfg.SecondCopy}, b.storeOptions(), nil)
	must(err)
	if d, err := open(t.Context(), cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, storage.ErrRestored) {
		t.Errorf("%v", err)
		d.close()
	}
}
