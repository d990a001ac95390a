package main

import (
	"context"
	"log/slog"
	"sync"

	"dtegate/storage"
)

// backups makes copies of the open store, one at a time; dtectl backup asks for them and looks on.
type backups struct {
	store *storage.Store
	log   *slog.Logger
	asked chan string

	mu    sync.Mutex
	busy  bool
	state backupState
}

// backupState is how far the latest backup is.
type backupState struct {
	Done   int64           `json:"done"`
	Total  int64           `json:"total"`
	Backup *storage.Backup `json:"backup,omitempty"` // when it is made
	Error  string          `json:"error,omitempty"`  // when it failed
}

func newBackups(store *storage.Store, log *slog.Logger) *backups {
	return &backups{store: store, log: log, asked: make(chan string, 1)}
}

// Begin implements operators.Backups.
func (b *backups) Begin(dir string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy {
		return false
	}
	b.busy, b.state = true, backupState{}
	b.asked <- dir
	return true
}

// State implements operators.Backups.
func (b *backups) State() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// run makes what is asked for. The end of ctx cuts a backup short; its folder does not get its name then.
func (b *backups) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case dir := <-b.asked:
			made, err := b.store.Backup(ctx, dir, func(done, total int64) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.state.Done, b.state.Total = done, total
			})
			if err != nil {
				b.log.Error("backup failed", "dir", dir, "error", err)
			} else {
				b.log.Info("backup made", "dir", dir, "documents", made.Documents, "bytes", made.Bytes)
			}
			b.mu.Lock()
			b.busy, b.state.Backup = false, made
			if err != nil {
				b.state.Error = err.Error()
			}
			b.mu.Unlock()
		}
	}
}
