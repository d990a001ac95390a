package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/fleet/fleetproto"
)

// A store may lose an object, or have an older one put back, and every signature in it is still right. The centre
// therefore keeps on its own disk what it has seen: of each branch the newest status, and each version that was
// published.

// seen is what the centre has seen of a branch.
type seen struct {
	Epoch    int64     `json:"epoch"`
	Sequence int64     `json:"sequence"`          // of the newest status of that epoch
	At       time.Time `json:"at,omitzero"`       // when it was signed
	Twice    bool      `json:"twice,omitempty"`   // another status had the same number
	Acts     int64     `json:"acts,omitempty"`    // all acts up to this number were looked for
	Missing  []int64   `json:"missing,omitempty"` // of them, those that the store does not have
}

// maxMissing are kept of a branch.
const maxMissing = 10

// memoryFile holds the branches of this director; empty: they are kept while the process lives.
func (c *Chain) memoryFile() string {
	if c.Cache == "" {
		return ""
	}
	return filepath.Join(c.Cache, "seen-"+fleetproto.Fingerprint(c.Director.Public)+".json")
}

// recall reads what was seen. Another process may have written it since.
func (c *Chain) recall(before map[string]seen) (map[string]seen, error) {
	file := c.memoryFile()
	if file == "" {
		return before, nil
	}
	text, err := os.ReadFile(file)
	held := make(map[string]seen)
	if err == nil {
		err = json.Unmarshal(text, &held)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return before, fmt.Errorf("reading what this centre has seen: %w", err)
	}
	return held, nil
}

// remember writes what was seen.
func (c *Chain) remember(now map[string]seen) error {
	file := c.memoryFile()
	if file == "" {
		return nil
	}
	text, err := json.Marshal(now)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = config.WriteFile(file, text)
	}
	if err != nil {
		return fmt.Errorf("writing what this centre has seen: %w", err)
	}
	return nil
}

// versionsFolder holds the versions of a group that this centre published or read.
func (c *Chain) versionsFolder(group string) string {
	return filepath.Join(c.Cache, "desired-"+fleetproto.Fingerprint(c.Director.Public), group)
}

// keepVersion keeps the bytes of a version that the director has signed, the first that it sees under a number. Where
// the folder cannot be written, remember says so.
func (c *Chain) keepVersion(group string, version int64, data []byte) {
	if c.Cache == "" {
		return
	}
	file := filepath.Join(c.versionsFolder(group), strconv.FormatInt(version, 10)+".jws")
	if _, err := os.Stat(file); err == nil || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	_ = config.WriteFile(file, data)
}

// keptVersions are the numbers of the versions that are kept, ascending.
func (c *Chain) keptVersions(group string) (numbers []int64) {
	if c.Cache == "" {
		return nil
	}
	entries, _ := os.ReadDir(c.versionsFolder(group)) // none: nothing was kept
	for _, e := range entries {
		if n, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), ".jws"), 10, 64); err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// keptGroups are the groups of which a version is kept.
func (c *Chain) keptGroups() (groups []string) {
	if c.Cache == "" {
		return nil
	}
	entries, _ := os.ReadDir(c.versionsFolder(""))
	for _, e := range entries {
		if fleetproto.CheckName(e.Name()) == nil {
			groups = append(groups, e.Name())
		}
	}
	return groups
}

// kept reads a version that is kept, and verifies it.
func (c *Chain) kept(group string, version int64) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(c.versionsFolder(group), strconv.FormatInt(version, 10)+".jws"))
	if err != nil {
		return nil, err
	}
	_, err = c.Identity.OpenDesired(data, []fleetproto.Key{c.Director}, group, version)
	return data, err
}
