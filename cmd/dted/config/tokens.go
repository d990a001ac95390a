package config

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
)

// TokenFile is the list of tokens: keyed hashes only, so that the file gives no token away.
type TokenFile struct {
	// Secret keys the hashes, 32 bytes in hex.
	Secret string  `toml:"secret"`
	Tokens []Token `toml:"token"`
}

// Token is one till's right to issue.
type Token struct {
	ID          int64    `toml:"id"`
	Name        string   `toml:"name"`
	Hash        string   `toml:"hash"` // hex of HMAC-SHA-256 under the secret
	Point       int64    `toml:"point_of_sale"`
	Permissions []string `toml:"permissions"`
}

// LoadTokens reads a token file.
func LoadTokens(path string) (*TokenFile, error) {
	t := new(TokenFile)
	if err := read(path, t); err != nil {
		return nil, err
	}
	if b, err := hex.DecodeString(t.Secret); err != nil || len(b) != 32 {
		return nil, fmt.Errorf("%s: secret must be 32 bytes in hex", path)
	}
	for _, k := range t.Tokens {
		if b, err := hex.DecodeString(k.Hash); err != nil || len(b) != 32 {
			return nil, fmt.Errorf("%s: token %d: hash must be 32 bytes in hex", path, k.ID)
		}
	}
	return t, nil
}

// Save writes the token file whole or not at all.
func (t *TokenFile) Save(path string) error {
	b, err := toml.Marshal(t)
	if err != nil {
		return fmt.Errorf("encoding tokens: %w", err)
	}
	return WriteFile(path, b)
}

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
