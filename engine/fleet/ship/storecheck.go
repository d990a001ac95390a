package ship

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
)

// lookAgain is how often the shipper looks for a new date, to make one check a day. The first look waits as long.
const lookAgain = time.Hour

type checked struct {
	at     time.Time // of the last complete check; zero: there was none
	lacks  string    // the lost pieces that the box cannot ship again, or ""
	failed bool      // the last check did not complete
}

// checks calls Check once a day, and every lookAgain while a check fails or finds losses, until ctx ends.
func (s *Shipper) checks(ctx context.Context) {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		s.mu.Lock()
		before := s.checked
		s.mu.Unlock()
		if s.o.Epoch() == 0 || !before.failed && before.lacks == "" && sameDay(before.at, s.o.Now()) {
			continue
		}
		err := s.Check(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		now := s.checked
		s.mu.Unlock()
		switch {
		case err != nil && !before.failed:
			s.o.Logger.Warn("the second copy in the chain's store cannot be checked", "error", err)
		case err == nil && now.lacks != before.lacks && now.lacks != "":
			s.o.Logger.Error("a rebuild from the chain's store would not be complete", "lacks", now.lacks)
		}
	}
}

func sameDay(a, b time.Time) bool {
	return a.UTC().Truncate(24 * time.Hour).Equal(b.UTC().Truncate(24 * time.Hour))
}

// Check compares the store's objects that a rebuild would read with what this box shipped. It ships lost or altered
// bytes again if the second copy still has them. It reads a part if the store lists the part with a size or tag not
// verified before. Once a day it also reads the newest pieces, which no part contains yet, checks their signatures, and
// joins them into parts. Shipped returns the result. After a crash, the next call continues with the pieces that are
// not joined yet.
//
// ErrCloned if the box's key signed a piece that this box did not ship: a clone of the box shipped it after the store
// had lost this box's piece.
func (s *Shipper) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	lacks, err := s.check(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checked.failed = err != nil; err == nil {
		s.checked.at, s.checked.lacks = s.o.Now(), lacks
	}
	return err
}

func (s *Shipper) check(ctx context.Context) (lacks string, err error) {
	s.mu.Lock()
	until := s.state
	s.mu.Unlock()
	if until.Cloned {
		return "", ErrCloned
	}
	if until.Epoch == 0 || until.Epoch != s.o.Epoch() || until.Number == 0 {
		return "", nil // nothing is shipped
	}
	c := s.chest(until.Epoch)
	listed, err := c.parts(ctx, until.Number)
	if err != nil {
		return "", err
	}
	var held []cargo
	end := int64(0)
	for _, g := range listed {
		if g.tag == "" || !slices.Contains(until.Sound, g.shown()) {
			_, err := c.get(ctx, g)
			switch {
			case disproved(err):
				continue
			case err != nil:
				return "", fmt.Errorf("checking what was shipped: %w", err)
			}
			s.mu.Lock()
			s.state.Sound = append(s.state.Sound, g.shown()) // the next check does not read it again
			s.mu.Unlock()
		}
		held, end = append(held, g), max(end, g.last)
	}
	r := &rollUp{s: s, c: c, until: until, held: held, made: make(map[string]bool)}
	of := Span{1, until.Number}
	if sameDay(until.Joined, s.o.Now()) {
		of.To = end // pieces shipped since the last check are joined tomorrow
	}
	_, gaps := plan(of, held)
	for _, gap := range gaps {
		if err := r.span(ctx, gap); err != nil {
			return "", err
		}
	}
	if len(r.made) > 0 {
		if listed, err = c.parts(ctx, until.Number); err != nil {
			return "", err
		}
		held = slices.DeleteFunc(listed, func(g cargo) bool { return !slices.Contains(held, g) && !r.made[c.key(g)] })
	}
	s.mu.Lock()
	s.state.Sound, s.state.Joined = nil, s.o.Now() // saved with the next piece
	for _, g := range held {
		s.state.Sound = append(s.state.Sound, g.shown())
	}
	s.mu.Unlock()
	if until.Whole {
		if n, err := c.whole(ctx); err != nil && !disproved(err) {
			return "", err
		} else if n == 0 {
			if err := s.putWhole(ctx, s.o.Store.Overwrite); err != nil {
				return "", err
			}
		}
	}
	if len(r.lost) > 0 {
		return spans(r.lost), nil
	}
	return "", nil
}

// rollUp joins pieces into parts in the store.
type rollUp struct {
	s     *Shipper
	c     chest
	until state           // the end of what was shipped
	held  []cargo         // valid parts in the store
	made  map[string]bool // keys of the parts that were written
	lost  []Span          // pieces that neither the store nor the second copy has

	open fleetproto.Piece
	body []byte // bytes of the open part
}

// span joins the pieces of a span into parts. Where the store does not return pieces, span calls heal.
func (r *rollUp) span(ctx context.Context, of Span) error {
	gap := Span{}
	var at *load
	err := r.c.bring(ctx, pieces(of), nil, "", func(g cargo, l *load, err error) error {
		if errors.Is(err, errForked) || err == nil && g.last == r.until.Number && l.digest != r.until.Previous {
			return r.s.cloned(g.last)
		}
		if err != nil {
			gap.From = cmp.Or(gap.From, g.first)
			if gap.To = g.last; archive.Refuses(err) && gap.To-gap.From >= patience {
				// A lost key or cold storage takes old pieces. A box that may not read its last one may read nothing.
				if _, err = r.c.get(ctx, cargo{last: r.until.Number}); archive.Refuses(err) {
					return fmt.Errorf("checking what was shipped: %w", err)
				}
			}
			return nil
		}
		if gap.From > 0 {
			if err := r.heal(ctx, gap, at, &load{file: l.file, offset: l.offset, digest: l.previous}); err != nil {
				return err
			}
			gap = Span{}
		}
		at = l
		return r.add(ctx, g.first, l)
	})
	if err == nil && gap.From > 0 {
		err = r.heal(ctx, gap, at, nil)
	}
	if err != nil {
		return err
	}
	return r.flush(ctx)
}

// heal ships the bytes of lost pieces again from the second copy: all bytes between the piece before the gap (from) and
// the piece after it (to). If from or to is nil, heal reads the part next to the gap. Each lost piece had at most
// maxPiece bytes of one file: more chunks than lost pieces cannot be the lost bytes.
func (r *rollUp) heal(ctx context.Context, gap Span, from, to *load) error {
	begin := place{r.until.First, 0}
	var err error
	if gap.From > 1 && from == nil {
		from, err = r.neighbour(ctx, func(g cargo) bool { return g.last == gap.From-1 })
	}
	if gap.To == r.until.Number {
		to = &load{file: r.until.File, offset: r.until.Offset, digest: r.until.Previous}
	} else if err == nil && to == nil {
		if to, err = r.neighbour(ctx, func(g cargo) bool { return g.first == gap.To+1 }); to != nil {
			to.digest = ""
		}
	}
	var chunks []load
	// No later piece confirms the piece before a gap: another copy of the box may have shipped it.
	other := false
	if from != nil {
		begin = from.end()
		_, own, bad := r.s.section(from.file, "", from.offset, int64(len(from.body)))
		other = bad == nil && !bytes.Equal(own, from.body)
	}
	if err == nil && to != nil && !other && (from != nil || gap.From == 1) {
		chunks = r.between(begin, place{to.file, to.offset})
	}
	if n := int64(len(chunks)); err != nil || n == 0 || n > gap.To-gap.From+1 {
		r.lost = append(r.lost, gap)
		return err
	}
	r.s.o.Logger.Warn("the chain's store has lost shipped data, which is shipped again", "lost", spans([]Span{gap}))
	for i, l := range chunks {
		l.number = gap.From + int64(i)
		first := l.number
		if i == len(chunks)-1 {
			l.number, l.digest = gap.To, to.digest
		}
		if err := r.add(ctx, first, &l); err != nil {
			return err
		}
	}
	return nil
}

// neighbour reads the part next to a gap, for which the function is returns true; nil if there is none.
func (r *rollUp) neighbour(ctx context.Context, is func(cargo) bool) (*load, error) {
	i := slices.IndexFunc(r.held, is)
	if i < 0 {
		return nil, nil
	}
	l, err := r.c.get(ctx, r.held[i])
	if disproved(err) {
		err = nil
	}
	return l, err
}

// between returns the second copy's bytes from one place to another, in chunks; nil if some bytes are missing. A file
// missing between two existing files counts as empty: package storage removes only segments that no longer count.
func (r *rollUp) between(from, to place) (list []load) {
	names, err := r.s.files()
	begun, ended := false, false
	for _, name := range names {
		if name < from.File || name > to.File {
			continue
		}
		h, _, bad := r.s.section(name, "", 0, 0)
		if bad != nil {
			return nil
		}
		begin, end := int64(0), h.size
		if name == from.File {
			begin, begun = from.End, true
		}
		if name == to.File {
			end, ended = to.End, true
		}
		if begin > end {
			return nil
		}
		for ; begin < end && err == nil; begin += maxPiece {
			l := load{file: name, offset: begin}
			_, l.body, err = r.s.section(name, "", begin, min(maxPiece, end-begin))
			list = append(list, l)
		}
	}
	if err != nil || !begun || !ended {
		return nil
	}
	return list
}

// add appends the bytes of l to the open part. They are the bytes of the pieces from first to l.number.
func (r *rollUp) add(ctx context.Context, first int64, l *load) error {
	if l.file != r.open.File || l.offset != r.open.Offset+int64(len(r.body)) || first != r.open.Number+1 ||
		len(r.body)+len(l.body) > fleetproto.MaxPart {
		if err := r.flush(ctx); err != nil {
			return err
		}
		r.open = fleetproto.Piece{Branch: r.c.branch, Epoch: r.c.epoch, First: first, File: l.file, Offset: l.offset}
	}
	r.body, r.open.Number, r.open.Last = append(r.body, l.body...), l.number, l.digest
	return nil
}

// flush ships the open part, and reads it back.
func (r *rollUp) flush(ctx context.Context) error {
	if r.open.First == 0 {
		return nil
	}
	data, err := r.c.chain.SealPiece(r.open, r.body, r.s.o.Box)
	g := cargo{part: true, first: r.open.First, last: r.open.Number, size: int64(len(data))}
	if err != nil {
		return err
	}
	err = r.s.o.Store.Create(ctx, r.c.key(g), data)
	again := errors.Is(err, archive.ErrExists) // the existing object may have other bytes
	var l *load
	if err == nil || again {
		l, err = r.c.get(ctx, g)
	}
	if again && (disproved(err) || err == nil && !bytes.Equal(l.body, r.body)) {
		if err = r.s.o.Store.Overwrite(ctx, r.c.key(g), data); err == nil {
			_, err = r.c.get(ctx, g)
		}
	}
	if err != nil {
		return fmt.Errorf("shipping a part: %w", err)
	}
	r.made[r.c.key(g)] = true
	r.open, r.body = fleetproto.Piece{}, nil
	return nil
}

// markWhole writes the WholeCopy, once per epoch, when everything in a live copy has just been shipped. If we crash
// before the state is saved, the next Step finds the object.
func (s *Shipper) markWhole(ctx context.Context) error {
	err := s.putWhole(ctx, s.o.Store.Create)
	if errors.Is(err, archive.ErrExists) {
		_, err = s.chest(s.state.Epoch).whole(ctx)
	}
	if err != nil {
		return fmt.Errorf("saying that the copy is whole: %w", err)
	}
	return s.save(func(n *state) { n.Whole = true })
}

func (s *Shipper) putWhole(ctx context.Context, put func(ctx context.Context, key string, data []byte) error) error {
	s.mu.Lock()
	w := fleetproto.WholeCopy{Branch: s.o.Branch, Epoch: s.state.Epoch, Piece: s.state.Number, At: s.o.Now().UTC()}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	data, err := s.o.Chain.Seal(&w, s.o.Box)
	if err != nil {
		return err
	}
	return put(ctx, fleetproto.WholeKey(w.Branch, w.Epoch), data)
}
