package ship

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"dtegate/engine/fleet/fleetproto"
)

// ErrNothing means that no box of the branch has shipped any data.
var ErrNothing = errors.New("nothing of this branch's second copy is in the store")

// Span is a range of pieces, both ends included.
type Span struct{ From, To int64 }

// Fetched is the result of Fetch.
type Fetched struct {
	Epoch  int64   // of the box that shipped the copy
	Older  []int64 // earlier epochs whose boxes shipped too
	Newer  []int64 // later epochs whose boxes shipped too
	Whole  bool    // the box has declared that its whole copy is in the store
	Parts  int64   // fetched parts
	Pieces int64   // fetched pieces, with the pieces in parts
	Bytes  int64
	Before int64 // how many of Bytes an earlier call fetched
	// Doubt is why some pieces were read instead of their parts; nil: no part was invalid.
	Doubt error
	// Missing are pieces that the box has shipped and the store does not return, with zeros in their place. Why is the
	// reason for the first span.
	Missing []Span
	Why     error
	// Status is the box's last status; nil: the store has no status that the box's key signed.
	Status *fleetproto.Status
}

// Lacks returns the reasons why a fetched copy may be incomplete, in words. Empty: it has everything that the box had
// shipped by its last status.
func (f *Fetched) Lacks() string {
	var list []string
	if len(f.Missing) > 0 {
		list = append(list, fmt.Sprintf("the store has lost or altered %s of the copy (%v)", spans(f.Missing), f.Why))
	}
	if f.Status == nil {
		list = append(list, fmt.Sprintf("the store has no status that the box of epoch %d signed, therefore nothing "+
			"names its last piece", f.Epoch))
	}
	if n := len(f.Newer); n > 0 {
		list = append(list, fmt.Sprintf("the box of epoch %d sold after this copy", f.Newer[n-1]))
	}
	return strings.Join(list, "; ")
}

func spans(list []Span) string {
	const most = 20
	var words []string
	for i, s := range list {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more places", len(list)-most))
			break
		}
		if s.From == s.To {
			words = append(words, fmt.Sprint(s.From))
			continue
		}
		words = append(words, fmt.Sprintf("%d to %d", s.From, s.To))
	}
	if len(list) == 1 && list[0].From == list[0].To {
		return "piece " + words[0]
	}
	return "pieces " + strings.Join(words, ", ")
}

// Fetch fetches a box's second copy into a folder that has no other use. It chooses the branch's newest box whose copy
// is declared whole or, if no copy is whole, the newest box that shipped any data. Fetch reads the parts, and the
// pieces that no part contains, all signed by the box's enrolled key. Instead of an invalid part, it reads the part's
// pieces. It expects the pieces that the store lists, or that the box's last status, parts or WholeCopy name. Pieces
// that the store does not return are Missing. After an error, the next Fetch continues in the same folder. Remove
// removes the folder and the note of the progress.
//
// epoch selects the box of that epoch, even if its copy is not whole; 0 leaves the choice to Fetch. show, unless nil,
// receives the progress.
func Fetch(ctx context.Context, store fleetproto.Lister, chain fleetproto.Chain, director []fleetproto.Key,
	branch string, epoch int64, folder string, show func(done, total int64),
) (Fetched, error) {
	all, err := boxes(ctx, store, chain, director, branch)
	if err != nil {
		return Fetched{}, err
	}
	var shipped []chest
	var why []error
	for _, c := range all {
		if c.why == nil {
			shipped = append(shipped, c)
		} else {
			why = append(why, c.why)
		}
	}
	at := len(shipped) - 1
	if epoch != 0 {
		at = slices.IndexFunc(shipped, func(c chest) bool { return c.epoch == epoch })
	}
	switch {
	case at >= 0:
	case len(why) > 0:
		return Fetched{}, fmt.Errorf("%w of a box that fleet.director_key vouches for; boxes that no key in it has "+
			"enrolled: %w", ErrNothing, errors.Join(why...))
	case epoch != 0:
		return Fetched{}, fmt.Errorf("%w of the box of epoch %d", ErrNothing, epoch)
	default:
		return Fetched{}, ErrNothing
	}
	whole := int64(0)
	for i := at; i >= 0 && whole == 0 && (epoch == 0 || i == at); i-- {
		// without an earlier copy there is nothing to choose
		if whole, err = shipped[i].whole(ctx); err != nil && (epoch == 0 && i > 0 || !disproved(err)) {
			return Fetched{}, err
		}
		if whole > 0 {
			at = i
		}
	}
	got, err := shipped[at].fetch(ctx, folder, whole, show)
	got.Whole = whole > 0
	for _, c := range all {
		switch {
		case c.epoch > got.Epoch:
			got.Newer = append(got.Newer, c.epoch)
		case c.epoch < got.Epoch && c.why == nil:
			got.Older = append(got.Older, c.epoch)
		}
	}
	return got, err
}

// boxes returns a branch's boxes that shipped something, ascending.
func boxes(ctx context.Context, store fleetproto.Lister, chain fleetproto.Chain, director []fleetproto.Key,
	branch string) (list []chest, err error) {
	last := int64(0)
	for e, err := range store.List(ctx, fleetproto.BoxesFolder+branch+"/") {
		if err != nil {
			return nil, fmt.Errorf("listing the branch's boxes: %w", err)
		}
		n, ok := fleetproto.NumberOf(e.Key)
		if ok && e.Key == fleetproto.BoxKey(branch, n) && n-last <= patience { // a far higher epoch is forged
			last = max(last, n)
		}
	}
	// Check the next epoch too: the last enrolment may be lost, or missing in the list.
	for epoch := int64(1); epoch <= last+1; epoch++ {
		c := chest{store: store, chain: chain, branch: branch, epoch: epoch}
		there, err := listsAny(ctx, store, fleetproto.EpochFolder(branch, epoch))
		if err != nil {
			return nil, err
		}
		held, err := store.Fetch(ctx, fleetproto.BoxKey(branch, epoch), fleetproto.MaxJWS)
		if err != nil && !disproved(err) {
			return nil, fmt.Errorf("reading epoch %d: %w", epoch, err)
		}
		var e *fleetproto.Enrolment
		if err == nil {
			e, err = c.chain.OpenEnrolment(held.Data, director, branch, epoch)
		}
		if err != nil {
			c.why = fmt.Errorf("epoch %d: %w", epoch, err)
		} else {
			c.box, last = e.BoxKeyOf(), max(last, epoch)
		}
		if !there && err == nil {
			status, err := c.status(ctx)
			if err != nil {
				return nil, err
			}
			there = status != nil && status.Copy != nil && status.Copy.Segment > 0
		}
		if there {
			list = append(list, c)
		}
	}
	return list, nil
}

// HasCopy reports whether a store lists any data that boxes of a branch shipped.
func HasCopy(ctx context.Context, store fleetproto.Lister, branch string) (bool, error) {
	return listsAny(ctx, store, fleetproto.CopyFolder+branch+"/")
}

// fetch fetches the copy into a folder. whole is the piece up to which the box has declared its copy whole, or 0.
func (c chest) fetch(ctx context.Context, folder string, whole int64, show func(done, total int64)) (Fetched, error) {
	got := Fetched{Epoch: c.epoch}
	to, err := resume(folder, c.branch, c.epoch)
	if err != nil {
		return got, err
	}
	got.Before = to.Bytes
	list, parts, unasked, err := c.manifest(ctx, &got, max(whole, to.Piece))
	if err == nil {
		err = c.fill(ctx, list, parts, to, &got, show)
	}
	if err == nil && unasked.From <= unasked.To {
		got.Missing = append(got.Missing, unasked)
	}
	got.Bytes += to.Bytes
	return got, errors.Join(err, to.note())
}

// unlisted limits the pieces that are requested although the store does not list them: another object names them.
const unlisted = 10_000

// manifest returns the parts and pieces that make up the copy (list), in order, up to the last piece that any object in
// the store names. It also returns all parts in the store (parts). Of the pieces after the last listed piece, list has
// at most 10,000 (see unlisted); unasked has the others.
func (c chest) manifest(ctx context.Context, got *Fetched, until int64) (list, parts []cargo, unasked Span, err error) {
	parts, end, doubt, err := c.lastPart(ctx)
	if err != nil {
		return nil, nil, unasked, err
	}
	got.Doubt = doubt
	if got.Status, err = c.status(ctx); err != nil {
		return nil, nil, unasked, err
	}
	last := cmp.Or(end, new(load)).number
	numbers, sizes, err := c.pieceNumbers(ctx, last)
	if err != nil {
		return nil, nil, unasked, err
	}
	listed := make(map[int64]int64)
	for i, n := range numbers {
		listed[n], last = sizes[i], n
	}
	if got.Status != nil && got.Status.Copy != nil {
		until = max(until, got.Status.Copy.Segment)
	}
	if unasked = (Span{last + unlisted + 1, until}); until > last+unlisted {
		until = last + unlisted
	}
	list, _ = plan(Span{1, max(until, last)}, parts)
	for i, g := range list {
		if size, ok := listed[g.last]; ok && !g.part {
			list[i].size = size
		}
	}
	return list, parts, unasked, nil
}

// fill fetches the objects that the folder does not have yet.
func (c chest) fill(ctx context.Context, list, parts []cargo, to *progress, got *Fetched,
	show func(done, total int64)) error {
	var total, done int64
	rest := list[:0:0]
	for _, g := range list {
		total += g.size + perGet
		if g.last <= to.Piece {
			done += g.size + perGet
			got.Pieces += g.last - g.first + 1
			if g.part {
				got.Parts++
			}
			continue
		}
		rest = append(rest, g)
	}
	return c.bring(ctx, rest, parts, to.Digest, func(g cargo, l *load, err error) error {
		if done += g.size + perGet; show != nil {
			show(min(done, total), total)
		}
		switch {
		case err != nil && g.part:
			got.Doubt = errors.Join(got.Doubt, err)
			return nil
		case err == nil:
			if err = to.put(l.file, l.offset, l.body, len(got.Missing) > 0); err != nil && !disproved(err) {
				return err
			}
		}
		if err != nil {
			got.Why = cmp.Or(got.Why, err)
			if n := len(got.Missing); n > 0 && got.Missing[n-1].To == g.first-1 {
				got.Missing[n-1].To = g.first
			} else {
				got.Missing = append(got.Missing, Span{g.first, g.last})
			}
			return nil
		}
		got.Pieces += g.last - g.first + 1
		if g.part {
			got.Parts++
		}
		if len(got.Missing) > 0 {
			got.Bytes += int64(len(l.body))
			return nil // the next call fetches the missing pieces, and these bytes again
		}
		return to.fetched(g.last, l)
	})
}

// progress is how far a fetch has filled a folder: the folder has the bytes of every piece up to Piece. A file next to
// the folder, the note, keeps the progress. The note is written when the folder and its files are on the medium, and
// may lag behind: a piece that is fetched again overwrites itself. Changed bytes are found when a store is rebuilt from
// the folder.
type progress struct {
	Branch string           `json:"branch"`
	Epoch  int64            `json:"epoch"`
	Piece  int64            `json:"piece"` // number of the last piece
	Digest string           `json:"digest"`
	Bytes  int64            `json:"bytes"`
	Files  map[string]int64 `json:"files"` // sizes in bytes, by name

	folder  string
	written map[string]bool // files that were written since the last note
	behind  int             // number of objects fetched since the last note
}

// noteEvery is how many objects are fetched between two notes.
const noteEvery = 64

// noLink makes an open fail at a symbolic link: another account may have made the link to a file of this account.
const noLink = syscall.O_NOFOLLOW

func progressOf(folder string) string { return filepath.Clean(folder) + ".fetched" }

// resume returns how far an earlier fetch has filled the folder. It empties the folder if the note is missing,
// unreadable or another box's, or if files of the note are missing or too short.
func resume(folder, branch string, epoch int64) (*progress, error) {
	data, err := os.ReadFile(progressOf(folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading how far the fetch has come: %w", err)
	}
	p := new(progress)
	if err != nil || json.Unmarshal(data, p) != nil || p.Branch != branch || p.Epoch != epoch || p.Files == nil ||
		!p.holds(folder) {
		p = &progress{Branch: branch, Epoch: epoch, Files: make(map[string]int64)}
		entries, err := os.ReadDir(folder)
		file := progressOf(folder)
		if err = errors.Join(err, os.RemoveAll(file), syncPath(filepath.Dir(file))); err != nil {
			return nil, err
		}
		for _, e := range entries {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	p.folder, p.written = folder, make(map[string]bool)
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

// put writes bytes at offset in a file and discards the file's bytes after them. If the file ends before offset, zeros
// fill the gap if gap is set; otherwise put returns an error.
func (p *progress) put(name string, offset int64, body []byte, gap bool) error {
	f, err := os.OpenFile(filepath.Join(p.folder, name), os.O_CREATE|os.O_WRONLY|noLink, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size() < offset && !gap:
		err = fmt.Errorf("%w: %s has no byte %d yet", fleetproto.ErrOther, name, offset)
	case info.Size() != offset:
		err = f.Truncate(offset)
	}
	if err == nil {
		p.Files[name], p.written[name] = offset+int64(len(body)), true
		_, err = f.WriteAt(body, offset)
	}
	return errors.Join(err, f.Close())
}

// fetched records that the folder has an object whose last piece is piece. It writes the note after every noteEvery
// objects.
func (p *progress) fetched(piece int64, l *load) error {
	p.Piece, p.Digest, p.Bytes = piece, l.digest, p.Bytes+int64(len(l.body))
	if p.behind++; p.behind < noteEvery {
		return nil
	}
	return p.note()
}

func (p *progress) note() error {
	err := errors.Join(syncPath(p.folder), syncPath(filepath.Dir(filepath.Clean(p.folder))))
	for name := range p.written {
		err = errors.Join(err, syncPath(filepath.Join(p.folder, name)))
	}
	p.behind = 0
	clear(p.written)
	if err != nil {
		return fmt.Errorf("syncing the fetched copy to the disk: %w", err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	file := progressOf(p.folder)
	next := file + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|noLink, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close(), syncPath(next)); err != nil {
		return err
	}
	return errors.Join(os.Rename(next, file), syncPath(filepath.Dir(file)))
}

// syncPath returns when a file or a folder is on its medium.
var syncPath = func(path string) error {
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
