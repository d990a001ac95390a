package ship

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"dtegate/engine/fleet/fleetproto"
)

// lookAgain is how often it is looked whether a day has begun. The first look is not at once: a start has better to do.
const lookAgain = time.Hour

// checked is what the last check found.
type checked struct {
	at     time.Time // of the last one that came to its end; zero: none did
	lacks  string    // what the store has lost and the box cannot ship again; empty: nothing
	failed bool      // the last one that was tried did not come to its end
}

// checks compares the store with what was shipped, once a day, until ctx ends.
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
			s.o.Logger.Warn("what the chain's store holds of the second copy cannot be checked", "error", err)
		case err == nil && now.lacks != before.lacks && now.lacks != "":
			s.o.Logger.Error("a rebuild from the chain's store would not be complete", "lacks", now.lacks)
		}
	}
}

func sameDay(a, b time.Time) bool {
	return a.UTC().Truncate(24 * time.Hour).Equal(b.UTC().Truncate(24 * time.Hour))
}

// Check compares what a rebuild would read in the store with what this box has shipped, and ships again what the store
// has lost or altered, while the second copy has it. Pieces that no base holds are read back, with their signatures,
// and joined in a base; what the bases hold is compared with the store's list, by size and tag, and read where the tag
// is another one. Shipped says what was found. Crash anywhere: the next call goes on with what is not joined yet.
func (s *Shipper) Check(ctx context.Context) error {
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
	if until.Epoch == 0 || until.Epoch != s.o.Epoch() || until.Number == 0 {
		return "", nil // nothing is shipped
	}
	c := chest{s.o.Store, s.o.Chain, s.o.Branch, until.Epoch, fleetproto.Public(s.o.Box)}
	if s.basesOf != until.Epoch {
		s.bases, s.basesOf, s.readBack = nil, until.Epoch, make(map[string]string)
	}
	if s.bases, _, err = c.bases(ctx, s.bases); err != nil {
		return "", err
	}
	sound, err := s.soundParts(ctx, c)
	if err != nil {
		return "", err
	}
	held, gaps, end := parts(s.bases, func(p *fleetproto.Part) bool { return sound[p.Digest] })
	r := &rollUp{s: s, c: c, base: fleetproto.Base{Branch: c.branch, Epoch: c.epoch, At: s.o.Now().UTC()}}
	for n, b := range s.bases {
		if r.base.Number = max(r.base.Number, n+1); b.Base != nil && sameDay(b.At, s.o.Now()) {
			until.Number = min(until.Number, end) // the rest of the day is the next day's
		}
	}
	if end < until.Number {
		gaps = append(gaps, Span{end + 1, until.Number})
	}
	for _, gap := range gaps {
		before, behind := around(held, gap, until)
		if err = r.span(ctx, gap, before, behind); err != nil {
			break
		}
	}
	if err != nil && !errors.Is(err, errFull) {
		return "", err
	}
	if err := r.save(ctx); err != nil {
		return "", err
	}
	if until.Whole {
		if n, err := c.whole(ctx); err != nil && !disproved(err) {
			return "", err
		} else if n == 0 {
			if err := s.putWhole(ctx, s.o.Store.Put); err != nil {
				return "", err
			}
		}
	}
	if len(r.lost) > 0 {
		return spans(r.lost), nil
	}
	return "", nil
}

// soundParts finds which parts of the bases the store holds unaltered, and ships those again that it does not, while
// the second copy has their bytes.
func (s *Shipper) soundParts(ctx context.Context, c chest) (map[string]bool, error) {
	tags := make(map[string]string)
	for e, err := range c.store.List(ctx, fleetproto.PartsFolder(c.branch, c.epoch)) {
		if err != nil {
			return nil, fmt.Errorf("listing the parts: %w", err)
		}
		tags[e.Key] = fmt.Sprint(e.Size, " ", e.Tag)
	}
	sound := make(map[string]bool)
	for _, b := range s.bases {
		if b.Base == nil {
			continue
		}
		for i := range b.Parts {
			p := &b.Parts[i]
			key := fleetproto.PartKey(c.branch, c.epoch, p.Digest)
			tag, there := tags[key]
			if there && (tag == fmt.Sprint(p.Size, " ", p.Tag) && p.Tag != "" || s.readBack[key] == tag) {
				sound[p.Digest] = true
				continue
			}
			_, err := c.get(ctx, cargo{part: p})
			if disproved(err) {
				err = s.partAgain(ctx, key, p)
			}
			if err != nil && !disproved(err) {
				return nil, fmt.Errorf("checking part %s: %w", p.Digest, err)
			}
			if sound[p.Digest] = err == nil; err == nil && there {
				s.readBack[key] = tag
			}
		}
	}
	return sound, nil
}

// partAgain ships a part again. ErrOther: the second copy does not have its bytes any more.
func (s *Shipper) partAgain(ctx context.Context, key string, p *fleetproto.Part) error {
	body, err := section(filepath.Join(s.o.Folder, p.File), p.Offset, p.Size)
	if err != nil || fleetproto.Digest(body) != p.Digest {
		return fmt.Errorf("%w: the second copy does not have the bytes of part %s any more", fleetproto.ErrOther,
			p.Digest)
	}
	return s.o.Store.Put(ctx, key, body)
}

// around is where the copy stands before a gap and behind it: as the parts say, or as the box knows of its first and
// last piece.
func around(held []*fleetproto.Part, gap Span, until state) (before, behind link) {
	if gap.From == 1 {
		before.file = until.First
	}
	behind = link{until.Number, until.Previous, place{until.File, until.Offset}}
	for _, p := range held {
		switch {
		case p.Piece == gap.From-1:
			before = link{p.Piece, p.Last, place{p.File, p.Offset + p.Size}}
		case p.First == gap.To+1:
			behind = link{gap.To, "", place{p.File, p.Offset}}
		}
	}
	return before, behind
}

// link is the end of a piece. The digest of its object may not be known.
type link struct {
	number int64
	digest string
	place
}

// rollUp puts pieces together into the parts of a base, in the store.
type rollUp struct {
	s    *Shipper
	c    chest
	base fleetproto.Base
	lost []Span // pieces that neither the store nor the second copy has

	open fleetproto.Part
	body []byte // of open
}

// errFull ends a roll-up whose base is full, 31 GiB; the rest is the next one's.
var errFull = errors.New("the base is full")

// span joins the pieces of a span. What the store does not give back of them is taken from the second copy.
func (r *rollUp) span(ctx context.Context, of Span, at, end link) error {
	previous, gap := at.digest, Span{}
	err := r.c.bring(ctx, pieces(of), &previous, func(g cargo, l *load, err error) error {
		if err != nil {
			if gap.From == 0 {
				gap.From = g.first
			}
			gap.To = g.last
			return nil
		}
		if gap.From > 0 {
			if err := r.heal(ctx, gap, at.place, link{gap.To, l.previous, place{l.file, l.offset}}); err != nil {
				return err
			}
			gap = Span{}
		}
		at = link{g.last, l.digest, l.end()}
		return r.add(ctx, g.first, at, l.offset, l.body)
	})
	if err == nil && gap.From > 0 {
		err = r.heal(ctx, gap, at.place, end)
	}
	if err != nil {
		return err
	}
	return r.flush(ctx)
}

// heal ships the bytes of lost pieces again from the second copy: all that lies between the piece before them and the
// one behind them. A piece has bytes of one file, and at most maxPiece of them: there are no fewer pieces than chunks
// of the files.
func (r *rollUp) heal(ctx context.Context, gap Span, from place, to link) error {
	chunks, ok := r.between(from, to.place)
	if n := int64(len(chunks)); !ok || n == 0 || n > gap.To-gap.From+1 {
		r.lost = append(r.lost, gap)
		return nil
	}
	r.s.o.Logger.Warn("the chain's store has lost what was shipped, and gets it again", "lost", spans([]Span{gap}))
	for i, l := range chunks {
		first := gap.From + int64(i)
		at := link{number: first, place: l.end()}
		if i == len(chunks)-1 {
			at.number, at.digest = gap.To, to.digest
		}
		if err := r.add(ctx, first, at, l.offset, l.body); err != nil {
			return err
		}
	}
	return nil
}

// between are the bytes of the second copy from one place to another, in chunks; false: it does not have all of them. A
// file that is not there between the two was void: both lie on the same medium.
func (r *rollUp) between(from, to place) (list []load, ok bool) {
	paths, err := filepath.Glob(filepath.Join(r.s.o.Folder, "*.copy"))
	if err != nil {
		return nil, false
	}
	slices.Sort(paths)
	begun, ended := false, false
	for _, path := range paths {
		name := filepath.Base(path)
		if name < from.file || name > to.file {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, false
		}
		begin, end := int64(0), info.Size()
		if name == from.file {
			begin, begun = from.end, true
		}
		if name == to.file {
			end, ended = to.end, true
		}
		if end > info.Size() || begin > end {
			return nil, false
		}
		for ; begin < end; begin += maxPiece {
			body, err := section(path, begin, min(maxPiece, end-begin))
			if err != nil {
				return nil, false
			}
			list = append(list, load{file: name, offset: begin, body: body})
		}
	}
	return list, begun && ended
}

// add puts bytes of pieces, from first to the one that ends at a link, behind those that came before.
func (r *rollUp) add(ctx context.Context, first int64, at link, offset int64, body []byte) error {
	if at.file != r.open.File || offset != r.open.Offset+int64(len(r.body)) || first != r.open.Piece+1 ||
		len(r.body)+len(body) > fleetproto.MaxPart {
		if err := r.flush(ctx); err != nil {
			return err
		}
		r.open = fleetproto.Part{File: at.file, Offset: offset, First: first}
	}
	r.body, r.open.Piece, r.open.Last = append(r.body, body...), at.number, at.digest
	return nil
}

// flush ships what has gathered as a part, and reads it back.
func (r *rollUp) flush(ctx context.Context) error {
	if r.open.First == 0 {
		return nil
	}
	r.open.Size, r.open.Digest = int64(len(r.body)), fleetproto.Digest(r.body)
	key := fleetproto.PartKey(r.c.branch, r.c.epoch, r.open.Digest)
	err := r.s.o.Store.Create(ctx, key, r.body)
	if errors.Is(err, fleetproto.ErrExists) {
		err = nil
	}
	if err == nil {
		_, err = r.c.get(ctx, cargo{part: &r.open})
	}
	if disproved(err) { // other bytes rest under its name
		if err = r.s.o.Store.Put(ctx, key, r.body); err == nil {
			_, err = r.c.get(ctx, cargo{part: &r.open})
		}
	}
	if err != nil {
		return fmt.Errorf("shipping a part: %w", err)
	}
	r.base.Parts, r.open, r.body = append(r.base.Parts, r.open), fleetproto.Part{}, nil
	if len(r.base.Parts) == fleetproto.MaxParts {
		return errFull
	}
	return nil
}

// save creates the base, with the store's names for its parts.
func (r *rollUp) save(ctx context.Context) error {
	if len(r.base.Parts) == 0 {
		return nil
	}
	slices.SortFunc(r.base.Parts, func(a, b fleetproto.Part) int { return int(a.First - b.First) })
	r.base.Number = max(r.base.Number, 1)
	for e, err := range r.s.o.Store.List(ctx, fleetproto.PartsFolder(r.c.branch, r.c.epoch)) {
		if err != nil {
			return fmt.Errorf("listing the parts: %w", err)
		}
		for i := range r.base.Parts {
			if p := &r.base.Parts[i]; e.Key == fleetproto.PartKey(r.c.branch, r.c.epoch, p.Digest) && e.Size == p.Size {
				p.Tag = e.Tag
			}
		}
	}
	data, err := r.c.chain.SealBase(r.base, r.s.o.Box)
	if err != nil {
		return err
	}
	if err := r.s.o.Store.Create(ctx, fleetproto.BaseKey(r.c.branch, r.c.epoch, r.base.Number), data); err != nil {
		// there already: of an earlier call, whose answer was lost
		return fmt.Errorf("creating base %d: %w", r.base.Number, err)
	}
	return nil
}

// markWhole says once an epoch that the store has the whole copy. The caller has just shipped all that a live copy
// held. If we crash before the state is saved, the next look finds the mark there.
func (s *Shipper) markWhole(ctx context.Context) error {
	err := s.putWhole(ctx, s.o.Store.Create)
	if errors.Is(err, fleetproto.ErrExists) {
		_, err = chest{s.o.Store, s.o.Chain, s.o.Branch, s.state.Epoch, fleetproto.Public(s.o.Box)}.whole(ctx)
	}
	if err != nil {
		return fmt.Errorf("saying that the copy is whole: %w", err)
	}
	s.mu.Lock()
	s.state.Whole = true
	s.mu.Unlock()
	return s.save()
}

func (s *Shipper) putWhole(ctx context.Context, put func(ctx context.Context, key string, data []byte) error) error {
	s.mu.Lock()
	w := fleetproto.WholeCopy{Branch: s.o.Branch, Epoch: s.state.Epoch, Piece: s.state.Number, At: s.o.Now().UTC()}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	data, err := s.o.Chain.SealWholeCopy(w, s.o.Box)
	if err != nil {
		return err
	}
	return put(ctx, fleetproto.WholeKey(w.Branch, w.Epoch), data)
}
