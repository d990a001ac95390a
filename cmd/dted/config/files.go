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

// KeepPrivate sets the umask: only this process's account may read the files and folders that the process and its
// libraries create, such as the store's tables and logs, spools and books. dted and dtectl call it before they create
// anything.
func KeepPrivate() { syscall.Umask(0o077) }

// WriteFile replaces a private file: it writes a new file, syncs and renames the file, and syncs the folder.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the file names of a folder durable.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// ReadSecret returns the secret in a file. name is the setting, for errors. An empty file is an error.
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

// readAs reads and parses a file. name is the setting, for errors.
func readAs[T any](name, file string, parse func([]byte) (T, error)) (v T, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	if v, err = parse(b); err != nil {
		err = fmt.Errorf("%s: %s: %w", name, file, err)
	}
	return v, err
}

// readOrMake reads a key of the box, or makes it if the file does not exist. It never replaces an unreadable file.
func readOrMake[T any](file string, read func() (T, error), make func() (T, []byte, error)) (k T, made bool,
	err error) {
	if k, err = read(); !errors.Is(err, fs.ErrNotExist) {
		return k, false, err
	}
	k, text, err := make()
	if err == nil {
		err = WriteFile(file, text)
	}
	return k, true, err
}

// Keeper is the path of a small file of the appliance; each Save replaces the whole file.
type Keeper string

// Load returns the file's bytes, or nil if the file does not exist.
func (k Keeper) Load() ([]byte, error) {
	b, err := os.ReadFile(string(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Save replaces the file; data is durable when Save returns.
func (k Keeper) Save(data []byte) error { return WriteFile(string(k), data) }
