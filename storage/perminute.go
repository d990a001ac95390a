package storage

import (
	"log/slog"
	"sync"
	"time"
)

// perMinute logs an error that repeats itself: at once, and then once a minute with the number of those in between.
type perMinute struct {
	logger *slog.Logger

	mu      sync.Mutex
	last    time.Time
	skipped int
}

func (p *perMinute) error(message string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() && time.Since(p.last) < time.Minute {
		p.skipped++
		return
	}
	p.logger.Error(message, "error", err.Error(), "more_since_last_line", p.skipped)
	p.last, p.skipped = time.Now(), 0
}
