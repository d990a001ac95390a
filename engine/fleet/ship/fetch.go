package ship

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"dtegate/engine/fleet/wire"
)

// ErrNothing means that no box of the branch has shipped anything.
var ErrNothing = errors.New("nothing of this branch's second copy is in the store")

// Fetched is what Fetch has brought back.
type Fetched struct {
	Epoch  int64   // of the box that shipped it
	Older  []int64 // epochs before it whose boxes shipped too
	Newer  []int64 // epochs behind it whose boxes shipped, and did not say that their copy is whole
	Whole  bool    // the box has said that its whole copy is in the store
	Bases  int64
	Parts  int64 // of the bases
	Pieces int64 // in the store, those in bases included
	Bytes  int64
	Before int64 // of Bytes, brought by an earlier call
	// Doubt is why the parts were not used to their end, the pieces in their place; nil: they were.
	Doubt error
}

// Fetch brings the second copy of a branch's last box that has its whole copy in the store into a folder of its own, or, where no box
// has said so, of the last box that shipped anything: its bases, and the pieces behind
// the last one. All are signed by that box's enrolled key, or named by what is, and each names the one before. A base that does not prove
// itself is passed over, for the pieces say the same. What is behind a piece that does not prove itself is not looked at: an error
// names it, and the folder holds what is before it. A fetch that was cut short goes on in the same folder. Remove removes the folder and
// the note of how far the fetch came.
//
// With an epoch it is the box of that epoch, whether its copy is whole or not; 0: none is meant.
func Fetch(ctx context.Context, store wire.Store, director []wire.Key, branch string, epoch int64, folder string) (Fetched, error) {
	boxes, foreign, err := enrolled(ctx, store, director, branch)
	if err != nil {
		return Fetched{}, err
	}
	var shipped []chest // ascending
	for _, e := range boxes {
		if epoch != 0 && e.Epoch > epoch {
			break
		}
		_, err := store.Get(ctx, wire.SegmentKey(branch, e.Epoch, 1), wire.MaxSegment)
		if err != nil && !errors.Is(err, wire.ErrNotFound) {
			return Fetched{}, fmt.Errorf("reading the copy of epoch %d: %w", e.Epoch, err)
		}
		if err == nil {
			shipped = append(shipped, chest{store, branch, e.Epoch, e.BoxKeyOf()})
		}
	}
	at := len(shipped) - 1
	switch {
	case at >= 0 && (epoch == 0 || shipped[at].epoch == epoch):
	case len(foreign) > 0:
		return Fetched{}, fmt.Errorf("%w of a box that fleet.director_key vouches for; boxes that no key in it has enrolled: %w", ErrNothing, errors.Join(foreign...))
	case epoch != 0:
		return Fetched{}, fmt.Errorf("%w of the box of epoch %d", ErrNothing, epoch)
	default:
		return Fetched{}, ErrNothing
	}
	whole := int64(0)
	for i := at; i >= 0 && whole == 0 && (epoch == 0 || i == at); i-- {
		if whole, err = shipped[i].whole(ctx); err != nil && (epoch == 0 || !disproved(err)) {
			return Fetched{}, err
		}
		if whole > 0 {
			at = i
		}
	}
	got, err := shipped[at].fetch(ctx, folder)
	got.Older, got.Newer, got.Whole = epochs(shipped[:at]), epochs(shipped[at+1:]), whole > 0
	if err == nil && got.Pieces < whole {
		err = fmt.Errorf("piece %d: %w, and the copy was whole with piece %d: the store has lost it", got.Pieces+1, wire.ErrNotFound, whole)
	}
	return got, err
}

func epochs(of []chest) (list []int64) {
	for _, c := range of {
		list = append(list, c.epoch)
	}
	return list
}

// enrolled are a branch's boxes, ascending, and why other enrolments are not counted.
func enrolled(ctx context.Context, store wire.Store, director []wire.Key, branch string) (boxes []*wire.Enrolment, foreign []error, err error) {
	for epoch := int64(1); ; epoch++ {
		held, err := store.Get(ctx, wire.BoxKey(branch, epoch), wire.MaxJWS)
		if errors.Is(err, wire.ErrNotFound) {
			return boxes, foreign, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading epoch %d: %w", epoch, err)
		}
		e, err := wire.OpenEnrolment(held.Data, director, branch, epoch)
		if err != nil {
			foreign = append(foreign, fmt.Errorf("epoch %d: %w", epoch, err))
			continue
		}
		boxes = append(boxes, e)
	}
}

// chest is what one box has shipped.
type chest struct {
	store  wire.Store
	branch string
	epoch  int64
	box    wire.Key
}

// fetch brings everything into a folder.
func (c chest) fetch(ctx context.Context, folder string) (Fetched, error) {
	got := Fetched{Epoch: c.epoch}
	to, err := resume(folder, c.branch, c.epoch)
	if err != nil {
		return got, err
	}
	got.Before = to.Bytes
	if err = c.parts(ctx, folder, to, &got); err == nil {
		err = c.pieces(ctx, to.last(), func(p *wire.Piece, object, body []byte) error {
			if err := put(folder, p.File, p.Offset, body); err != nil {
				return err
			}
			return to.fetched(link{p.Number, wire.Digest(object)}, int64(len(body)))
		})
	}
	got.Bytes, got.Pieces = to.Bytes, to.Piece
	return got, errors.Join(err, to.note())
}

// link is a piece that another one follows; zero: the first does.
type link struct {
	number int64
	digest string
}

// parts brings what the bases hold behind the last piece that is here.
func (c chest) parts(ctx context.Context, folder string, to *progress, got *Fetched) error {
	previous := ""
	for n := int64(1); ; n++ {
		b, digest, err := c.base(ctx, n, previous)
		if b == nil || err != nil {
			return c.doubt(got, err)
		}
		previous = digest
		for _, p := range b.Parts {
			if p.Piece > to.Piece {
				held, err := c.store.Get(ctx, wire.PartKey(c.branch, c.epoch, p.Digest), wire.MaxPart)
				if err == nil && (wire.Digest(held.Data) != p.Digest || int64(len(held.Data)) != p.Size) {
					err = fmt.Errorf("%w: its bytes were altered", wire.ErrOther)
				}
				if err == nil {
					err = put(folder, p.File, p.Offset, held.Data)
				}
				if err != nil {
					return c.doubt(got, fmt.Errorf("base %d, part %s: %w", n, p.Digest, err))
				}
				if err := to.fetched(link{p.Piece, p.Last}, p.Size); err != nil {
					return err
				}
			}
			got.Parts++
		}
		got.Bases = n
	}
}

// doubt keeps what is wrong with the bases, and returns what is wrong with the store: that is tried again later.
func (c chest) doubt(got *Fetched, err error) error {
	if disproved(err) {
		got.Doubt = err
		return nil
	}
	return err
}

// disproved reports whether an object does not prove itself, whoever asks for it again.
func disproved(err error) bool {
	return slices.ContainsFunc([]error{wire.ErrNotFound, wire.ErrTooLarge, wire.ErrFormat, wire.ErrSignature, wire.ErrOther}, func(of error) bool { return errors.Is(err, of) })
}

// base reads a base and its digest; nil where there is none.
func (c chest) base(ctx context.Context, n int64, previous string) (*wire.Base, string, error) {
	held, err := c.store.Get(ctx, wire.BaseKey(c.branch, c.epoch, n), wire.MaxJWS)
	if errors.Is(err, wire.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading base %d: %w", n, err)
	}
	b, err := wire.OpenBase(held.Data, c.branch, c.epoch, n, c.box)
	if err == nil && b.Previous != previous {
		err = fmt.Errorf("%w: it does not follow base %d", wire.ErrOther, n-1)
	}
	if err != nil {
		return nil, "", fmt.Errorf("base %d: %w", n, err)
	}
	return b, wire.Digest(held.Data), nil
}

// pieces calls fn with each piece behind one, up to the last, with its object and its bytes.
func (c chest) pieces(ctx context.Context, at link, fn func(p *wire.Piece, object, body []byte) error) error {
	for {
		number := at.number + 1
		held, err := c.store.Get(ctx, wire.SegmentKey(c.branch, c.epoch, number), wire.MaxSegment)
		if errors.Is(err, wire.ErrNotFound) {
			return c.end(ctx, number)
		}
		if err != nil {
			return fmt.Errorf("reading piece %d: %w", number, err)
		}
		p, body, err := wire.OpenPiece(held.Data, c.branch, c.epoch, number, c.box)
		if err == nil && p.Previous != at.digest {
			err = fmt.Errorf("%w: it does not follow piece %d", wire.ErrOther, at.number)
		}
		if err == nil {
			err = fn(p, held.Data, body)
		}
		if err != nil {
			return fmt.Errorf("piece %d: %w", number, err)
		}
		at = link{number, wire.Digest(held.Data)}
	}
}

// end is nil where the box shipped no piece behind one that is not there: else the store has lost it.
func (c chest) end(ctx context.Context, missing int64) error {
	_, err := c.store.Get(ctx, wire.SegmentKey(c.branch, c.epoch, missing+1), wire.MaxSegment)
	switch {
	case errors.Is(err, wire.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading piece %d: %w", missing+1, err)
	}
	return fmt.Errorf("piece %d: %w, and the next one is there: the store has lost it", missing, wire.ErrNotFound)
}

// put writes bytes where they belong in a file; what was behind them is void.
func put(folder, file string, offset int64, body []byte) error {
	f, err := os.OpenFile(filepath.Join(folder, file), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() < offset {
		return errors.Join(fmt.Errorf("%w: %s has no byte %d yet", wire.ErrOther, file, offset), err)
	}
	if err := f.Truncate(offset); err != nil {
		return err
	}
	if _, err := f.WriteAt(body, offset); err != nil {
		return err
	}
	return f.Sync()
}
