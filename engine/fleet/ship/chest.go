package ship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"dtegate/engine/fleet/fleetproto"
)

// chest is what one box has shipped, in the store. What a store says is never believed further than this: an object
// that bears the box's signature, or whose digest such an object names, is what the box shipped. That an object is not
// there proves nothing.
type chest struct {
	store  fleetproto.Lister
	chain  fleetproto.Chain
	branch string
	epoch  int64
	box    fleetproto.Key
}

// Limits of a fetch.
const (
	atOnce   = 16       // requests
	roomFor  = 64 << 20 // bytes of objects that are on their way or wait for their turn
	likely   = 16 << 10 // bytes of a piece whose size is not known
	perGet   = 64 << 10 // a request takes as long as so many bytes, for the progress
	patience = 100      // objects at the end of a copy that do not prove themselves, before their box gives up
)

// load is some bytes of a copy as they came from the store: of one piece, or of the pieces of a part.
type load struct {
	file     string
	offset   int64
	body     []byte
	previous string // Digest of the object of the piece before; empty: it is not known
	digest   string // of the object of the last piece
}

// cargo is an object that holds bytes of a copy.
type cargo struct {
	first, last int64            // pieces
	part        *fleetproto.Part // nil: it is one piece
	size        int64
}

// end is where a load ends.
func (l *load) end() place { return place{l.file, l.offset + int64(len(l.body))} }

// disproved reports whether an object does not prove itself, whoever asks for it again.
func disproved(err error) bool {
	return slices.ContainsFunc([]error{fleetproto.ErrNotFound, fleetproto.ErrTooLarge, fleetproto.ErrFormat,
		fleetproto.ErrSignature, fleetproto.ErrOther},
		func(of error) bool { return errors.Is(err, of) })
}

// empty reports whether the store shows nothing of this box.
func (c chest) empty(ctx context.Context) (bool, error) {
	for _, err := range c.store.List(ctx, fleetproto.EpochFolder(c.branch, c.epoch)) {
		if err != nil {
			return false, fmt.Errorf("listing the copy of epoch %d: %w", c.epoch, err)
		}
		return false, nil
	}
	return true, nil
}

// whole is the piece up to which at least the copy is whole; 0: its box has not said so.
func (c chest) whole(ctx context.Context) (int64, error) {
	held, err := c.store.Get(ctx, fleetproto.WholeKey(c.branch, c.epoch), fleetproto.MaxJWS)
	if errors.Is(err, fleetproto.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading whether the copy of epoch %d is whole: %w", c.epoch, err)
	}
	w, err := c.chain.OpenWholeCopy(held.Data, c.branch, c.epoch, c.box)
	if err != nil {
		return 0, fmt.Errorf("whether the copy of epoch %d is whole: %w", c.epoch, err)
	}
	return w.Piece, nil
}

// status is the last status that this box wrote in its epoch; nil: the store has none that its key has signed.
func (c chest) status(ctx context.Context) (*fleetproto.Status, error) {
	held, err := c.store.Get(ctx, fleetproto.StatusKey(c.branch, c.epoch), fleetproto.MaxJWS)
	if err != nil && !disproved(err) {
		return nil, fmt.Errorf("reading the last status: %w", err)
	}
	s, err := c.chain.OpenStatus(held.Data, c.branch, c.epoch, c.box)
	if err != nil {
		return nil, nil
	}
	return s, nil
}

// bases reads the bases that the store shows, by number, and why some of them cannot be used. What known has is not
// read again.
func (c chest) bases(ctx context.Context, known map[int64]listedBase) (map[int64]listedBase, error, error) {
	all := make(map[int64]listedBase)
	var numbers []int64
	for e, err := range c.store.List(ctx, fleetproto.BasesFolder(c.branch, c.epoch)) {
		if err != nil {
			return nil, nil, fmt.Errorf("listing the bases: %w", err)
		}
		n, ok := fleetproto.NumberOf(e.Key)
		if b := known[n]; ok && b.Base != nil && b.tag == e.Tag {
			all[n] = b
		} else if ok {
			all[n] = listedBase{tag: e.Tag}
			numbers = append(numbers, n)
		}
	}
	var doubt []error
	err := inOrder(ctx, len(numbers), func(int) int64 { return fleetproto.MaxJWS / 16 }, func(ctx context.Context,
		i int) (*fleetproto.Base, error) {
		held, err := c.store.Get(ctx, fleetproto.BaseKey(c.branch, c.epoch, numbers[i]), fleetproto.MaxJWS)
		if err != nil {
			return nil, err
		}
		return c.chain.OpenBase(held.Data, c.branch, c.epoch, numbers[i], c.box)
	}, func(i int, b *fleetproto.Base, err error) error {
		n := numbers[i]
		switch {
		case disproved(err):
			doubt = append(doubt, fmt.Errorf("base %d: %w", n, err))
		case err != nil:
			return fmt.Errorf("reading base %d: %w", n, err)
		}
		all[n] = listedBase{b, all[n].tag}
		return nil
	})
	return all, errors.Join(doubt...), err
}

// listedBase is a base with the store's name for its bytes; Base is nil where the bytes do not prove themselves.
type listedBase struct {
	*fleetproto.Base
	tag string
}

// parts are the usable parts of bases, in order, the pieces before their end that none of them holds, and the last
// piece that one does. Of parts that hold the same piece the newer base's is taken: it was made because something was
// wrong with the other.
func parts(bases map[int64]listedBase, usable func(*fleetproto.Part) bool) (list []*fleetproto.Part, gaps []Span,
	end int64) {
	numbers := slices.Sorted(maps.Keys(bases))
	for _, n := range slices.Backward(numbers) {
		if bases[n].Base == nil {
			continue
		}
		for i := range bases[n].Parts {
			p := &bases[n].Parts[i]
			at, same := slices.BinarySearchFunc(list, p.First, func(q *fleetproto.Part,
				first int64) int {
				return cmp.Compare(q.First, first)
			})
			if same || at > 0 && list[at-1].Piece >= p.First || at < len(list) && list[at].First <= p.Piece ||
				usable != nil && !usable(p) {
				continue
			}
			list = slices.Insert(list, at, p)
		}
	}
	for _, p := range list {
		if p.First > end+1 {
			gaps = append(gaps, Span{end + 1, p.First - 1})
		}
		end = p.Piece
	}
	return list, gaps, end
}

// pieceNumbers lists the pieces behind one that the store shows, ascending, with their sizes.
func (c chest) pieceNumbers(ctx context.Context, behind int64) (numbers, sizes []int64, err error) {
	after := ""
	if behind > 0 {
		after = fleetproto.SegmentKey(c.branch, c.epoch, behind)
	}
	for e, err := range c.store.ListAfter(ctx, fleetproto.PiecesPrefix(c.branch, c.epoch), after) {
		if err != nil {
			return nil, nil, fmt.Errorf("listing the pieces: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(e.Key, fleetproto.EpochFolder(c.branch, c.epoch)), 10, 64)
		if err == nil && n > behind && e.Key == fleetproto.SegmentKey(c.branch, c.epoch, n) {
			numbers, sizes = append(numbers, n), append(sizes, e.Size)
		}
	}
	return numbers, sizes, nil
}

// get reads an object of the copy. disproved: the store does not give back what the box shipped.
func (c chest) get(ctx context.Context, g cargo) (*load, error) {
	if g.part != nil {
		held, err := c.store.Get(ctx, fleetproto.PartKey(c.branch, c.epoch, g.part.Digest), fleetproto.MaxPart)
		if err == nil && (fleetproto.Digest(held.Data) != g.part.Digest || int64(len(held.Data)) != g.part.Size) {
			err = fmt.Errorf("%w: its bytes were altered", fleetproto.ErrOther)
		}
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", g.part.Digest, err)
		}
		return &load{file: g.part.File, offset: g.part.Offset, body: held.Data, digest: g.part.Last}, nil
	}
	held, err := c.store.Get(ctx, fleetproto.SegmentKey(c.branch, c.epoch, g.first), fleetproto.MaxSegment)
	if err != nil {
		return nil, fmt.Errorf("piece %d: %w", g.first, err)
	}
	p, body, err := c.chain.OpenPiece(held.Data, c.branch, c.epoch, g.first, c.box)
	if err != nil {
		return nil, fmt.Errorf("piece %d: %w", g.first, err)
	}
	return &load{file: p.File, offset: p.Offset, body: body, previous: p.Previous,
		digest: fleetproto.Digest(held.Data)}, nil
}

// pieces is a cargo for each piece of a span.
func pieces(of Span) (list []cargo) {
	for n := of.From; n <= of.To; n++ {
		list = append(list, cargo{first: n, last: n, size: likely})
	}
	return list
}

// bring calls use with what the objects hold, in their order. A part that does not prove itself is replaced by its
// pieces; use gets the reason why a piece does not, with a load of nil. previous is the digest of the piece before the
// first; empty: it is not known.
func (c chest) bring(ctx context.Context, list []cargo, previous *string, use func(g cargo, l *load,
	err error) error) error {
	return inOrder(ctx, len(list), func(i int) int64 { return list[i].size }, func(ctx context.Context, i int) (*load,
		error) {
		return c.get(ctx, list[i])
	}, func(i int, l *load, err error) error {
		g := list[i]
		if err == nil && l.previous != "" && *previous != "" && l.previous != *previous {
			err = fmt.Errorf("piece %d: %w: it does not follow piece %d", g.first, fleetproto.ErrOther, g.first-1)
		}
		switch {
		case err != nil && !disproved(err):
			return fmt.Errorf("reading the copy: %w", err)
		case err != nil && g.part != nil:
			if err := use(g, nil, err); err != nil {
				return err
			}
			return c.bring(ctx, pieces(Span{g.first, g.last}), previous, use)
		case err != nil:
			*previous = ""
			return use(g, nil, err)
		}
		*previous = l.digest
		return use(g, l, nil)
	})
}

// inOrder calls get for each index below n, several at once, and use with each result in the order of the indices. It
// ends with the first error of use. size is what a result takes in memory.
func inOrder[T any](ctx context.Context, n int, size func(int) int64, get func(context.Context, int) (T, error),
	use func(int, T, error) error) error {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	var busy sync.WaitGroup
	defer busy.Wait()
	defer cancel()
	var results [atOnce]chan result
	next, open := 0, int64(0)
	for i := range n {
		for ; next < n && next < i+atOnce && (next == i || open+size(next) <= roomFor); next++ {
			open += size(next)
			done := make(chan result, 1)
			results[next%atOnce] = done
			busy.Go(func(at int) func() {
				return func() {
					v, err := get(ctx, at)
					done <- result{v, err}
				}
			}(next))
		}
		r := <-results[i%atOnce]
		open -= size(i)
		if err := use(i, r.value, r.err); err != nil {
			return err
		}
	}
	return nil
}
