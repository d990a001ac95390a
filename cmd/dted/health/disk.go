package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dtegate/engine/fairqueue"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// disk keeps space free on the store's disk for documents that are already issued: to settle, report, forward and
// compact them. Below the reserve no new document is issued. A ballast file of a quarter of the reserve lies next to
// the store. When something else fills the disk, deleting the ballast lets the store open and continue.
type disk struct {
	folder  string
	reserve int64 // bytes
	ballast string
	free    func() (int64, error)
	log     *slog.Logger
	full    atomic.Bool
}

func newDisk(store string, reserve int64, log *slog.Logger) *disk {
	d := &disk{folder: store, reserve: reserve, ballast: store + ".ballast", log: log}
	var mu sync.Mutex
	var asked time.Time
	var free int64
	d.free = func() (int64, error) { // at most ten look-ups a second: a document is small compared with the reserve
		mu.Lock()
		defer mu.Unlock()
		if time.Since(asked) < time.Second/10 {
			return free, nil
		}
		var s syscall.Statfs_t
		if err := syscall.Statfs(d.folder, &s); err != nil {
			return 0, err
		}
		free, asked = int64(s.Bavail)*s.Bsize, time.Now()
		return free, nil
	}
	return d
}

// diskRetry is how long a till waits before it tries again: a person has to make space.
const diskRetry = 30 * time.Second

// check returns nil while the disk has space for a new document. After a full disk, an eighth more than the reserve
// must be free, so that the answers to tills do not alternate.
func (d *disk) check() error {
	free, err := d.free()
	if err != nil {
		return nil // the store itself reports a fault of its disk
	}
	least, was := d.reserve, d.full.Load()
	if was {
		least += d.reserve / 8
	}
	full := free < least
	if full != was && d.full.CompareAndSwap(was, full) {
		if full {
			d.log.Error("disk is full: nothing new is issued", "free_bytes", free, "reserve_bytes", d.reserve)
		} else {
			d.log.Info("disk has room again", "free_bytes", free)
		}
	}
	if !full {
		return nil
	}
	return &refusal.Error{Code: refusal.CodeStorageFull, RetryAfter: diskRetry,
		English: fmt.Sprintf("The store's disk has %d MiB free and keeps %d for what is issued already: nothing new "+
			"is issued", free>>20, least>>20),
		Message: "El disco del equipo está lleno: no se emiten documentos nuevos hasta que haya espacio; los ya " +
			"emitidos se siguen enviando"}
}

// tend deletes the ballast when the disk is nearly full, and makes it again when enough space is free.
func (d *disk) tend() {
	free, err := d.free()
	if err != nil {
		return
	}
	size := d.reserve / 4
	switch info, err := os.Stat(d.ballast); {
	case err == nil && free < size:
		if err := os.Remove(d.ballast); err != nil {
			d.log.Error("ballast stays", "error", err)
			return
		}
		d.log.Warn("ballast given up", "free_bytes", free)
	case (os.IsNotExist(err) || err == nil && info.Size() < size) && free > d.reserve+2*size:
		if err := lay(d.ballast, size); err != nil {
			d.log.Warn("no ballast", "error", err)
		}
	}
}

// lay makes a file of size bytes and allocates its disk space.
func lay(path string, size int64) error {
	_ = os.Remove(path) // the path may be a link to a file that must not be emptied
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, size), f.Close()); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("allocating %s: %w", path, err)
	}
	return nil
}

// proveEvery is how often the high-water mark is opened by its path. The running store holds the file open and does not
// notice that it is deleted or its medium unmounted; the next start would refuse the store.
const proveEvery = time.Minute

type markWatch struct {
	store *storage.Store
	log   *slog.Logger
	sleep func(ctx context.Context, d time.Duration) error
	lost  bool // the loss was logged
}

func NewMarkWatch(store *storage.Store, log *slog.Logger) *markWatch {
	return &markWatch{store: store, log: log, sleep: fairqueue.Sleep}
}

// Run checks the mark until ctx ends. A medium that hangs delays only the check, not the end of the process.
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

func (w *markWatch) tell(err error) {
	switch {
	case err != nil && !w.lost:
		w.log.Error("the next start will refuse the mark: do not restart", "error", err)
	case err == nil && w.lost:
		w.log.Info("the mark is as it was written again")
	}
	w.lost = err != nil
}
