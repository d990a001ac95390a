package record

import (
	"log/slog"
	"sync"
)

// Unread logs, once each, the records that wait and cannot be read. Such a record holds up no other: whoever works on a queue goes on
// with the rest, for the law's hours run for each document by itself. It is safe for concurrent use.
//
// This is about a head that does not decode. A store that does not return what was written takes no change at all until it is repaired.
type Unread struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]bool
}

// NewUnread returns one that has logged nothing yet.
func NewUnread(log *slog.Logger) *Unread { return &Unread{log: log, said: make(map[string]bool)} }

// Note logs why a record of a queue cannot be read, unless it has said so before.
func (u *Unread) Note(queue string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	const most = 1000 // texts that are remembered
	if text := err.Error(); !u.said[text] && len(u.said) < most {
		u.said[text] = true
		u.log.Error("a record that waits cannot be read, the others go on", "queue", queue, "error", err)
	}
}
