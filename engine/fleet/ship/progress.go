package ship

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dtegate/engine/fleet/fleetproto"
)

// progress is a folder that a fetch fills, and how far the fetch has come: the folder holds every piece up to Piece,
// whether it came by itself or in a part. The note of the progress is a file next to the folder. It is written once the
// folder and its files are on the medium, and may lag behind the folder: a piece that is fetched again overwrites
// itself. Bytes that changed meanwhile are found when a store is rebuilt from the folder.
type progress struct {
	Branch string           `json:"branch"`
	Epoch  int64            `json:"epoch"`
	Piece  int64            `json:"piece"` // the last, by number
	Digest string           `json:"digest"`
	Bytes  int64            `json:"bytes"`
	Files  map[string]int64 `json:"files"` // sizes

	folder string
	file   *os.File // the last written file; the others are synced
	behind int      // number of objects since the note was written
}

// noteEvery is how many objects are fetched between two notes.
const noteEvery = 64

// progressOf returns the path of a folder's note.
func progressOf(folder string) string { return filepath.Clean(folder) + ".fetched" }

// resume returns how far an earlier fetch of the same box has filled the folder. It empties the folder if that fetch
// was of another box, or if the folder lacks files of the note.
func resume(folder, branch string, epoch int64) (*progress, error) {
	data, err := os.ReadFile(progressOf(folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading how far the fetch has come: %w", err)
	}
	p := new(progress)
	if err != nil || json.Unmarshal(data, p) != nil || p.Branch != branch || p.Epoch != epoch || !p.holds(folder) {
		p = &progress{Branch: branch, Epoch: epoch}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	if p.folder = folder; p.Files == nil {
		p.Files = make(map[string]int64)
	}
	return p, nil
}

// holds reports whether a folder has the files of the note, with at least their noted sizes.
func (p *progress) holds(folder string) bool {
	for name, size := range p.Files {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() < size {
			return false
		}
	}
	return true
}

// put writes bytes at offset in a file and discards the file's bytes after them. gap: the bytes before offset may be
// missing; missing bytes are zero.
func (p *progress) put(name string, offset int64, body []byte, gap bool) error {
	f := p.file
	if f == nil || filepath.Base(f.Name()) != name {
		if err := p.close(); err != nil {
			return err
		}
		var err error
		if f, err = os.OpenFile(filepath.Join(p.folder, name), os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		p.file = f
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < offset && !gap {
		return fmt.Errorf("%w: %s has no byte %d yet", fleetproto.ErrOther, name, offset)
	}
	p.Files[name] = offset + int64(len(body))
	if info.Size() != offset {
		err = f.Truncate(offset)
	}
	if err == nil {
		_, err = f.WriteAt(body, offset)
	}
	return err
}

// close syncs and closes the last written file.
func (p *progress) close() error {
	if p.file == nil {
		return nil
	}
	err := errors.Join(p.file.Sync(), p.file.Close())
	p.file = nil
	return err
}

// fetched counts an object in the folder whose last piece is piece. It notes the progress every noteEvery objects.
func (p *progress) fetched(piece int64, digest string) error {
	p.Piece, p.Digest = piece, digest
	if p.behind++; p.behind < noteEvery {
		return nil
	}
	return p.note()
}

// note brings the folder to the medium, then writes the progress down.
func (p *progress) note() error {
	p.behind = 0
	err := errors.Join(p.close(), syncPath(p.folder), syncPath(filepath.Dir(filepath.Clean(p.folder))))
	if err != nil {
		return fmt.Errorf("bringing the fetched copy to the disk: %w", err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	file := progressOf(p.folder)
	next := file + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(next, file), syncPath(filepath.Dir(file)))
}

// syncPath returns when a file or a folder is on its medium.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Remove removes a folder that a fetch filled, and its note.
func Remove(folder string) error {
	return errors.Join(os.RemoveAll(folder), os.RemoveAll(progressOf(folder)), os.RemoveAll(progressOf(folder)+".new"))
}
