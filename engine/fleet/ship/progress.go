package ship

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// progress is how far a fetch has come: the folder holds every piece up to the last one, whether it came by itself or in a part. It
// stands beside the folder, and may be behind what the folder holds: what is fetched twice is written where it was. Bytes of the folder that were changed meanwhile are found by who rebuilds a store of them.
type progress struct {
	Branch string `json:"branch"`
	Epoch  int64  `json:"epoch"`
	Piece  int64  `json:"piece"` // the last, by number
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`

	file   string
	behind int // objects since it was written
}

// noteEvery is how many objects are fetched between two notes.
const noteEvery = 16

// progressOf is the name of the progress of a folder.
func progressOf(folder string) string { return filepath.Clean(folder) + ".fetched" }

// resume returns how far an earlier fetch of the same box has come into the folder. What it brought of another box is removed.
func resume(folder, branch string, epoch int64) (*progress, error) {
	fresh := &progress{Branch: branch, Epoch: epoch, file: progressOf(folder)}
	data, err := os.ReadFile(fresh.file)
	if err == nil {
		p := &progress{file: fresh.file}
		if json.Unmarshal(data, p) == nil && p.Branch == branch && p.Epoch == epoch {
			return p, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading how far the fetch has come: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// last is the last piece that the folder holds.
func (p *progress) last() link { return link{p.Piece, p.Digest} }

// fetched counts an object that is in the folder and ends with a piece, and notes the progress now and then.
func (p *progress) fetched(to link, bytes int64) error {
	p.Piece, p.Digest = to.number, to.digest
	p.Bytes += bytes
	if p.behind++; p.behind < noteEvery {
		return nil
	}
	return p.note()
}

// note writes the progress down.
func (p *progress) note() error {
	p.behind = 0
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	next := p.file + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(next, p.file)
}

// Remove removes what a fetch has brought into a folder, and the folder.
func Remove(folder string) error {
	return errors.Join(os.RemoveAll(folder), os.RemoveAll(progressOf(folder)), os.RemoveAll(progressOf(folder)+".new"))
}
