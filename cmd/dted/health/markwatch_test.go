package health

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/storage"
)

// newStore makes a store with a mark, and opens it.
func newStore(t *testing.T, now func() time.Time) (*storage.Store, storage.Options) {
	t.Helper()
	dir := t.TempDir()
	o := storage.Options{Dir: filepath.Join(dir, "data"), MarkPath: filepath.Join(dir, "mark"), Now: now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return store, o
}

// A mark that is deleted under the running store is logged once, and once more when it is back; meanwhile the metric
// does not move.
func TestMarkWatch(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	store, o := newStore(t, func() time.Time { return now })
	var log bytes.Buffer
	minute, proved := 0, []float64{}
	w := &markWatch{store: store, log: slog.New(slog.NewTextHandler(&log, nil)), sleep: func(_ context.Context,
		d time.Duration) error {
		proved = append(proved, metrictest.Value(t, store, "dte_store_mark_proved_timestamp_seconds")-1_800_000_000)
		now = now.Add(d)
		var err error
		switch minute++; minute {
		case 2:
			err = os.Rename(o.MarkPath, o.MarkPath+".away")
		case 4:
			err = os.Rename(o.MarkPath+".away", o.MarkPath)
		case 5:
			return context.Canceled
		}
		return err
	}}
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := len(proved), 5; got != want || proved[0] != 0 || proved[1] != 60 || proved[2] != 60 ||
		proved[3] != 60 || proved[4] != 240 {
		t.Errorf("proved at %v", proved)
	}
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 || strings.Count(text, "again") != 1 {
		t.Errorf("the log says\n%s", text)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
