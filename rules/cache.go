package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cache keeps compiled modules for later starts. Each metered module has a folder, named by the module's SHA-256, with
// the engine's files and a seal over them. The engine's own checksum covers only the machine code; a flipped bit
// elsewhere could make the code jump anywhere. A folder gets its name when it is complete.
type cache struct{ dir string }

const (
	sealName  = "seal"
	newPrefix = "new-"    // prefix of a folder that is being written
	newFor    = time.Hour // an older unfinished folder is removed
	maxKept   = 32        // folders that a start keeps, about 8 MB each
)

// openCache opens the cache. It removes old unfinished folders and, of the others, all but the maxKept newest.
func openCache(dir string) (*cache, error) {
	if err := private(dir); err != nil {
		return nil, err
	}
	c := &cache{dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var modules []fs.FileInfo
	var stale []string
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil: // another process has removed the folder
		case strings.HasPrefix(e.Name(), newPrefix):
			if time.Since(info.ModTime()) > newFor {
				stale = append(stale, e.Name())
			}
		case len(e.Name()) == 2*sha256.Size:
			modules = append(modules, info)
		}
	}
	slices.SortFunc(modules, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, m := range modules[min(maxKept, len(modules)):] {
		stale = append(stale, m.Name())
	}
	for _, name := range stale {
		_ = os.RemoveAll(filepath.Join(dir, name)) // a folder that stays only uses disk space
	}
	return c, nil
}

type kept struct {
	cache  *cache
	digest string
	folder string // the engine may read and write here
	sealed bool   // the folder was complete when it was found
	files  string // checksum over the sizes and times of a sealed folder's files
	damage error  // why an earlier folder was removed
}

// find returns the folder of a metered module: the kept folder if its seal matches, otherwise a new folder.
func (c *cache) find(metered []byte) (*kept, error) {
	digest := sha256.Sum256(metered)
	k := &kept{cache: c, digest: hex.EncodeToString(digest[:])}
	k.folder = filepath.Join(c.dir, k.digest)
	err := k.verify()
	if err == nil {
		k.sealed = true
		now := time.Now()
		_ = os.Chtimes(k.folder, now, now) // otherwise a later start would remove the folder sooner
		return k, nil
	}
	if _, missing := os.Lstat(k.folder); missing == nil || !errors.Is(err, fs.ErrNotExist) {
		k.damage = fmt.Errorf("%s: %w", k.folder, err)
		if err := os.RemoveAll(k.folder); err != nil {
			return nil, err
		}
	}
	k.folder, err = os.MkdirTemp(c.dir, newPrefix)
	return k, err
}

func (k *kept) verify() error {
	seal, err := os.ReadFile(filepath.Join(k.folder, sealName))
	if err != nil {
		return err
	}
	sum, err := sumOf(k.folder, true)
	if err == nil && string(seal) != sum {
		err = errors.New("its content does not match its seal")
	}
	if err == nil {
		k.files, err = sumOf(k.folder, false)
	}
	return err
}

// keep seals the folder after the engine has written into it, and names it.
func (k *kept) keep() error {
	if files, err := sumOf(k.folder, false); err != nil || files == k.files {
		return err // the engine has written nothing
	}
	sum, err := sumOf(k.folder, true)
	if err != nil {
		return err
	}
	// No sync is needed: after a crash, an incomplete folder does not match its seal.
	if err := os.WriteFile(filepath.Join(k.folder, sealName), []byte(sum), 0o600); err != nil {
		return err
	}
	if k.sealed {
		return nil
	}
	name := filepath.Join(k.cache.dir, k.digest)
	if err := os.Rename(k.folder, name); err != nil {
		if _, there := os.Lstat(name); there == nil { // another process was quicker
			return k.drop()
		}
		return err
	}
	k.folder = name
	return nil
}

func (k *kept) drop() error { return os.RemoveAll(k.folder) }

// sumOf returns a checksum over all files of a folder except its seal: their names and, if contents is set, their
// contents. Otherwise it takes their sizes and times, which are quick to read.
func sumOf(folder string, contents bool) (string, error) {
	all, root := sha256.New(), os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == sealName {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a file", name)
		}
		if !contents {
			info, err := d.Info()
			if err == nil {
				fmt.Fprintf(all, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
			}
			return err
		}
		content, err := fs.ReadFile(root, name)
		fmt.Fprintf(all, "%q %x\n", name, sha256.Sum256(content))
		return err
	})
	return hex.EncodeToString(all.Sum(nil)), err
}

// private makes sure that a folder belongs to this user and that nobody else can write it, because the content of a
// compilation cache is executed. A seal shows damage, but does not stop an attacker.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder: %w", dir, fs.ErrInvalid)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("this system does not report the owner of a folder")
	}
	if int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, this program runs as user %d: %w", dir, owner.Uid, os.Geteuid(),
			fs.ErrPermission)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (%v): remove it with its content: %w", dir, mode,
			fs.ErrPermission)
	} else if mode != 0o700 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}
