package health

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/storage"
)

// The store is read once soon after the start and once a day, with rests; a sale on its way makes the rests longer.
func TestScrubber(t *testing.T) {
	dir := t.TempDir()
	o := storage.Options{Dir: filepath.Join(dir, "data"), MarkPath: filepath.Join(dir, "mark"), Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	var slept []time.Duration
	s := &scrubber{store: store, log: slog.New(slog.DiscardHandler), sleep: func(_ context.Context,
		d time.Duration) error {
		slept = append(slept, d)
		if len(slept) == 3 {
			return context.Canceled
		}
		return nil
	}}
	if err := s.Run(t.Context()); err != nil || len(slept) != 3 || slept[0] != scrubFirst || slept[1] != scrubEvery ||
		slept[2] != scrubEvery {
		t.Errorf("%v, %v", slept, err)
	}
	if metrictest.Value(t, store, "dte_store_read_timestamp_seconds") == 0 {
		t.Error("no pass")
	}
	slept = nil
	pause := s.pause(t.Context())
	for range 3 * scrubPiece / 4096 {
		if err := pause(4096); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if len(slept) != 3 || slept[0] != scrubRest {
		t.Errorf("rests %v", slept)
	}
	slept = nil
	sale, err := store.Begin(t.Context(), storage.Keys{Series: "a"})
	if err == nil {
		err = pause(scrubPiece)
		sale.Release()
	}
	if err != nil || len(slept) != 1 || slept[0] != scrubBusy*scrubRest {
		t.Errorf("while somebody sells it rests %v, %v", slept, err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
