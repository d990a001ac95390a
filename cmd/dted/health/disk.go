package health

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dtegate/engine/refusal"
)

// disk keeps room on the store's disk for what is issued already: to settle, report, forward and compact it. Below the
// reserve nothing new is issued. A ballast of a quarter of the reserve lies beside the store; it is given up when
// somebody else fills the disk, so that the store opens and goes on.
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
	d.free = func() (int64, error) { // asked ten times a second at most: a document is small beside the reserve
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

// diskRetry is when a till may try again: space comes from people.
const diskRetry = 30 * time.Second

// check is nil while there is room for a new document. Once there was none, an eighth of the reserve more must come
// free, so that tills do not get now one answer and now the other.
func (d *disk) check() error {
	free, err := d.free()
	if err != nil {
		return nil // the store will say what is wrong with its disk
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
		English: fmt.Sprintf("The store's disk has %d MiB free and keeps %d for what is issued already: nothing new is issued", free>>20, least>>20),
		Message: "El disco del equipo está lleno: no se emiten documentos nuevos hasta que haya espacio; los ya emitidos se siguen enviando"}
}

// tend gives the ballast up when the disk is nearly full, and lays it in again when there is plenty.
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

// lay makes a file that really takes its size.
func lay(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("allocating %s: %w", path, err)
	}
	return nil
}
