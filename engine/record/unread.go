package record

import (
	"log/slog"
	"sync"
)

// Unread logs, once each, the records that wait in a queue and cannot be read. Such a record does not stop the others: the
// law's deadlines run for each document separately. It is safe for concurrent use.
//
// It is only for heads that do not decode. A store that returns other bytes than were written accepts no change until it is
// repaired.
type Unread struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]bool
}

// NewUnread returns an Unread that writes to log.
func NewUnread(log *slog.Logger) *Unread { return &Unread{log: log, said: make(map[string]bool)} }

// Note logs why a record of a queue cannot be read, unless it has logged that before. It remembers at most 1,000 texts, and
// then logs no other.
func (u *Unread) Note(queue string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	const most = 1000 // texts that are remembered
	if text := err.Error(); !u.said[text] && len(u.said) < most {
		u.said[text] = true
		u.log.Error("a record that waits cannot be read, the others go on", "queue", queue, "error", err)
	}
}
