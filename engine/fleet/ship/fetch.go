package ship

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dtegate/engine/fleet/wire"
)

// ErrNothing means that no box of the branch has shipped anything.
var ErrNothing = errors.New("nothing of this branch's second copy is in the store")

// Fetched is what Fetch has brought back.
type Fetched struct {
	Epoch  int64 // of the box that shipped it
	Pieces int64
	Bytes  int64
}

// Fetch brings the second copy of a branch's last box that shipped anything into an empty folder, each piece signed by that box's
// enrolled key and naming the one before. What is behind a piece that does not prove itself is not looked at: an error names it, and
// the folder holds what is before it.
func Fetch(ctx context.Context, store wire.Store, director []wire.Key, branch, folder string) (Fetched, error) {
	var got Fetched
	var boxes []*wire.Enrolment
	for epoch := int64(1); ; epoch++ {
		held, err := store.Get(ctx, wire.BoxKey(branch, epoch), wire.MaxJWS)
		if errors.Is(err, wire.ErrNotFound) {
			break
		}
		if err != nil {
			return got, fmt.Errorf("reading epoch %d: %w", epoch, err)
		}
		if e, err := wire.OpenEnrolment(held.Data, director, branch, epoch); err == nil {
			boxes = append(boxes, e)
		}
	}
	for i := len(boxes) - 1; i >= 0; i-- {
		_, err := store.Get(ctx, wire.SegmentKey(branch, boxes[i].Epoch, 1), wire.MaxSegment)
		if err == nil {
			return fetch(ctx, store, boxes[i], folder)
		}
		if !errors.Is(err, wire.ErrNotFound) {
			return got, fmt.Errorf("reading the copy of epoch %d: %w", boxes[i].Epoch, err)
		}
	}
	return got, ErrNothing
}

func fetch(ctx context.Context, store wire.Store, box *wire.Enrolment, folder string) (Fetched, error) {
	got := Fetched{Epoch: box.Epoch}
	previous := ""
	for {
		number := got.Pieces + 1
		held, err := store.Get(ctx, wire.SegmentKey(box.Branch, box.Epoch, number), wire.MaxSegment)
		if errors.Is(err, wire.ErrNotFound) {
			return got, end(ctx, store, box, number)
		}
		if err != nil {
			return got, fmt.Errorf("reading piece %d: %w", number, err)
		}
		p, body, err := wire.OpenPiece(held.Data, box.Branch, box.Epoch, number, box.BoxKeyOf())
		if err == nil && p.Previous != previous {
			err = fmt.Errorf("%w: it does not follow piece %d", wire.ErrOther, got.Pieces)
		}
		if err == nil {
			err = put(folder, p, body)
		}
		if err != nil {
			return got, fmt.Errorf("piece %d: %w", number, err)
		}
		previous = wire.Digest(held.Data)
		got.Pieces, got.Bytes = number, got.Bytes+int64(len(body))
	}
}

// end is nil where the box shipped no piece behind one that is not there: else the store has lost it.
func end(ctx context.Context, store wire.Store, box *wire.Enrolment, missing int64) error {
	_, err := store.Get(ctx, wire.SegmentKey(box.Branch, box.Epoch, missing+1), wire.MaxSegment)
	switch {
	case errors.Is(err, wire.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading piece %d: %w", missing+1, err)
	}
	return fmt.Errorf("piece %d: %w, and the next one is there: the store has lost it", missing, wire.ErrNotFound)
}

// put writes a piece where it belongs; what was behind it is void.
func put(folder string, p *wire.Piece, body []byte) error {
	f, err := os.OpenFile(filepath.Join(folder, p.File), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() < p.Offset {
		return errors.Join(fmt.Errorf("%w: %s has no byte %d yet", wire.ErrOther, p.File, p.Offset), err)
	}
	if err := f.Truncate(p.Offset); err != nil {
		return err
	}
	if _, err := f.WriteAt(body, p.Offset); err != nil {
		return err
	}
	return f.Sync()
}
