package ship

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/fleet/wire"
)

// lookForBase is how often it is looked whether a month has begun. The first look is not at once: a start has better to do.
const lookForBase = time.Hour

// bases makes the bases until ctx ends. It reads the store and not the copy: what a base says was read back from where a rebuild
// would read it, piece by piece with its signature.
func (s *Shipper) bases(ctx context.Context) {
	var last time.Time // of the last base, or of the first piece
	look := time.NewTicker(lookForBase)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if s.o.Epoch() == 0 || !last.IsZero() && sameMonth(last, s.o.Now()) {
			continue
		}
		at, err := s.Base(ctx)
		if ctx.Err() != nil {
			return
		}
		if failed := s.baseFailed.Swap(err != nil); err != nil && !failed {
			s.o.Logger.Warn("the month's base of the second copy is not made", "error", err)
		}
		if err == nil {
			last = at
		}
	}
}

func sameMonth(a, b time.Time) bool {
	a, b = a.UTC(), b.UTC()
	return a.Year() == b.Year() && a.Month() == b.Month()
}

// Base makes a base of all pieces that no base holds yet, if none was made in this month and the first piece was shipped before it. It
// returns when the last base was made, or the first piece; zero: nothing is shipped. Crash anywhere: the next call makes it.
func (s *Shipper) Base(ctx context.Context) (time.Time, error) {
	c := chest{s.o.Store, s.o.Branch, s.o.Epoch(), wire.Public(s.o.Box)}
	began, err := c.store.Get(ctx, wire.SegmentKey(c.branch, c.epoch, 1), wire.MaxSegment)
	if errors.Is(err, wire.ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the first piece: %w", err)
	}
	last, at, next := began.Modified, link{}, wire.Base{Branch: c.branch, Epoch: c.epoch, Number: 1}
	for {
		b, digest, err := c.base(ctx, next.Number, next.Previous)
		if err != nil {
			return last, err
		}
		if b == nil {
			break
		}
		last, at = b.At, link{b.End().Piece, b.End().Last}
		next.Number, next.Previous = next.Number+1, digest
	}
	if sameMonth(last, s.o.Now()) {
		return last, nil
	}
	if next.Parts, err = c.gather(ctx, at); err != nil || len(next.Parts) == 0 {
		return last, err // nothing sold for a month: the next look sees
	}
	next.At = s.o.Now().UTC()
	data, err := wire.SealBase(next, s.o.Box)
	if err != nil {
		return last, err
	}
	err = c.store.Create(ctx, wire.BaseKey(c.branch, c.epoch, next.Number), data)
	if err != nil && !errors.Is(err, wire.ErrExists) { // there already: an earlier call's, whose answer was lost; the next one reads it
		return last, fmt.Errorf("creating base %d: %w", next.Number, err)
	}
	return next.At, nil
}

// errFull ends a gathering whose base is full, 31 GiB; the rest is the next month's.
var errFull = errors.New("the base is full")

// gather puts the pieces behind one together into parts, in the store.
func (c chest) gather(ctx context.Context, at link) (parts []wire.Part, err error) {
	var open wire.Part
	var body []byte // of open
	flush := func() error {
		if open.Piece == 0 {
			return nil
		}
		open.Size, open.Digest = int64(len(body)), wire.Digest(body)
		err := c.store.Create(ctx, wire.PartKey(c.branch, c.epoch, open.Digest), body)
		if errors.Is(err, wire.ErrExists) {
			err = c.same(ctx, open.Digest)
		}
		if err != nil {
			return fmt.Errorf("creating a part: %w", err)
		}
		parts, open, body = append(parts, open), wire.Part{}, nil
		if len(parts) == wire.MaxParts {
			return errFull
		}
		return nil
	}
	err = c.pieces(ctx, at, func(p *wire.Piece, object, more []byte) error {
		if p.File != open.File || p.Offset != open.Offset+int64(len(body)) || len(body)+len(more) > wire.MaxPart {
			if err := flush(); err != nil {
				return err
			}
			open = wire.Part{File: p.File, Offset: p.Offset}
		}
		body, open.Piece, open.Last = append(body, more...), p.Number, wire.Digest(object)
		return nil
	})
	if err == nil {
		err = flush()
	}
	if errors.Is(err, errFull) {
		err = nil
	}
	return parts, err
}

// same is nil where the store holds what a digest names.
func (c chest) same(ctx context.Context, digest string) error {
	held, err := c.store.Get(ctx, wire.PartKey(c.branch, c.epoch, digest), wire.MaxPart)
	if err == nil && wire.Digest(held.Data) != digest {
		err = fmt.Errorf("%w: other bytes rest under the name of part %s", wire.ErrOther, digest)
	}
	return err
}
