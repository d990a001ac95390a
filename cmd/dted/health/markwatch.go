package health

import (
	"context"
	"log/slog"
	"time"

	"dtegate/storage"
)

// proveEvery is how often the high-water mark is opened by its path. The running store holds the file open and does not
// notice that it was deleted or that its medium was unmounted; the next start refuses to open without it.
const proveEvery = time.Minute

// markWatch proves the mark in the background.
type markWatch struct {
	store *storage.Store
	log   *slog.Logger
	sleep func(ctx context.Context, d time.Duration) error
	lost  bool // said so already
}

func NewMarkWatch(store *storage.Store, log *slog.Logger) *markWatch {
	return &markWatch{store: store, log: log, sleep: sleep}
}

// Run proves the mark until ctx ends. A medium that hangs holds up the proof alone, not the end of the process.
func (w *markWatch) Run(ctx context.Context) error {
	for w.sleep(ctx, proveEvery) == nil {
		proof := make(chan error, 1)
		go func() { proof <- w.store.ProveMark() }()
		select {
		case <-ctx.Done():
			return nil
		case err := <-proof:
			w.tell(err)
		}
	}
	return nil
}

// tell logs when the mark is lost and when it is back.
func (w *markWatch) tell(err error) {
	switch {
	case err != nil && !w.lost:
		w.log.Error("the next start will refuse the mark: do not restart", "error", err)
	case err == nil && w.lost:
		w.log.Info("the mark is as it was written again")
	}
	w.lost = err != nil
}
