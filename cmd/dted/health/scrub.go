package health

import (
	"context"
	"log/slog"
	"time"

	"dtegate/storage"
)

// The store reads itself once a day: a bit that turned on the disk is found while the second copy and the backups that
// hold it are still there, and not on the day on which somebody asks for the document.
const (
	scrubFirst = 10 * time.Minute // after the start, which has work enough
	scrubEvery = 24 * time.Hour

	// 4 MiB a second at most, a tenth of it while sales are on their way: a branch's year is read in an hour or two.
	scrubPiece = 256 << 10             // bytes between two rests
	scrubRest  = 64 * time.Millisecond // after a piece
	scrubBusy  = 10                    // times as long while somebody sells
)

// scrubber reads the store in the background.
type scrubber struct {
	store *storage.Store
	log   *slog.Logger
	sleep func(ctx context.Context, d time.Duration) error
}

func NewScrubber(store *storage.Store, log *slog.Logger) *scrubber {
	return &scrubber{store: store, log: log, sleep: sleep}
}

// sleep returns ctx's error when it ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Run reads the store again and again until ctx ends.
func (s *scrubber) Run(ctx context.Context) error {
	for wait := scrubFirst; s.sleep(ctx, wait) == nil; wait = scrubEvery {
		if err := s.store.ReadTables(ctx, s.pause(ctx)); err != nil && ctx.Err() == nil {
			s.log.Error("reading the whole store failed", "error", err)
		}
	}
	return nil
}

// pause rests after each piece.
func (s *scrubber) pause(ctx context.Context) func(bytes int) error {
	read := 0
	return func(bytes int) error {
		if read += bytes; read < scrubPiece {
			return nil
		}
		rest := scrubRest * time.Duration(read) / scrubPiece
		read = 0
		if s.store.Busy() {
			rest *= scrubBusy
		}
		return s.sleep(ctx, rest)
	}
}
