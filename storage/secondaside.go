package storage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A second copy that this store has outgrown is set aside by the store itself, never deleted: into a folder within the
// copy's own, because that may be where the medium is mounted, "old-", the date, and whose it is. Rebuild reads it there.

// setAside moves segments into such a folder and returns it. After a crash it goes on in the same one.
func setAside(o *Options, numbers []uint64, whose string) (string, error) {
	fs, dir := o.FS, o.SecondCopy
	names, err := fs.List(dir)
	if err != nil {
		return "", err
	}
	free := func(name string) bool { // nothing there would be overwritten
		return !slices.ContainsFunc(numbers, func(n uint64) bool {
			_, err := fs.Stat(segmentPath(fs, fs.PathJoin(dir, name), n))
			return err == nil
		})
	}
	name := fmt.Sprintf("old-%s-%s", o.Now().UTC().Format("20060102-150405"), whose)
	if i := slices.IndexFunc(names, func(n string) bool {
		return strings.HasPrefix(n, "old-") && strings.HasSuffix(n, "-"+whose) && free(n)
	}); i >= 0 {
		name = names[i]
	}
	for !free(name) {
		name += "-again"
	}
	to := fs.PathJoin(dir, name)
	if err := errors.Join(fs.MkdirAll(to, 0o700), syncDir(fs, dir)); err != nil {
		return "", fmt.Errorf("setting the old copy aside: %w", err)
	}
	slices.Sort(numbers) // the last one, which tells whose they are, goes last
	for _, n := range numbers {
		if err := fs.Rename(segmentPath(fs, dir, n), segmentPath(fs, to, n)); err != nil {
			return "", fmt.Errorf("setting the old copy aside: %w", err)
		}
	}
	if err := errors.Join(syncDir(fs, to), syncDir(fs, dir)); err != nil {
		return "", fmt.Errorf("setting the old copy aside: %w", err)
	}
	o.Logger.Warn("an old second copy was set aside, and a new one is begun", "path", to, "segments", len(numbers))
	return to, nil
}

// setAllAside is setAside of the whole log of a store.
func setAllAside(o *Options, store [16]byte) error {
	numbers, err := segmentNumbers(o.FS, o.SecondCopy)
	if err != nil {
		return err
	}
	whose := hex.EncodeToString(store[8:12])
	if store == ([16]byte{}) {
		whose = "unreadable"
	}
	_, err = setAside(o, numbers, whose)
	return err
}

// roomFor refuses to begin a whole copy where it will not fit, while old ones take the room. A copy takes about two and a
// half times the store.
func (c *second) roomFor() error {
	fs, dir := c.s.o.FS, c.s.o.SecondCopy
	usage, err := fs.GetDiskUsage(dir)
	if err != nil {
		return nil // the medium will say it itself
	}
	m := c.s.db.Metrics()
	need := 2 * m.DiskSpaceUsage()
	names, err := fs.List(dir)
	if err != nil || usage.AvailBytes >= need {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, "old-") {
			return fmt.Errorf("%d bytes are free on the medium and a new copy needs about %d: move %s to another one", usage.AvailBytes, need, fs.PathJoin(dir, n))
		}
	}
	return nil
}
