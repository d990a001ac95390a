package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// KeepPrivate makes every file and folder that this process creates readable by its own account alone, whatever umask
// the process inherited. It reaches the files that libraries create too: the store's tables and logs, spools, the
// books. Both programs call it before they create anything.
func KeepPrivate() { syscall.Umask(0o077) }

// WriteFile replaces a private file: written aside, synced, renamed, and the folder synced.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// ReadSecret returns the line of a file that a setting names. An empty file is an error: no secret is empty.
func ReadSecret(name, file string) (string, error) {
	if file == "" {
		return "", fmt.Errorf("%s: is missing", name)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" {
		return "", fmt.Errorf("%s: %s is empty", name, file)
	}
	return secret, nil
}

// Keeper is a small file of the appliance, replaced whole.
type Keeper string

// Load returns its bytes, none when there is no file.
func (k Keeper) Load() ([]byte, error) {
	b, err := os.ReadFile(string(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Save is durable when it returns.
func (k Keeper) Save(data []byte) error { return WriteFile(string(k), data) }
