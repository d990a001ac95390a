package ship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
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
	number   int64 // of the last piece
	file     string
	offset   int64
	body     []byte
	previous string // Digest of the object of the piece before; empty: it is not known
	digest   string // of the object of the last piece
}

// cargo is an object that holds bytes of a copy, a part or a piece.
type cargo struct {
	part        bool
	first, last int64 // pieces
	size        int64
	tag         string // the store's own name for its bytes
}

// end is where a load ends.
func (l *load) end() place { return place{l.file, l.offset + int64(len(l.body))} }

// disproved reports whether an object does not prove itself, whoever asks for it again.
func disproved(err error) bool {
	return slices.ContainsFunc([]error{fleetproto.ErrNotFound, fleetproto.ErrTooLarge, fleetproto.ErrFormat,
		fleetproto.ErrSignature, fleetproto.ErrOther}, func(of error) bool { return errors.Is(err, of) })
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

// parts lists the parts that the store shows up to a piece. What they hold only get proves.
func (c chest) parts(ctx context.Context, until int64) (list []cargo, err error) {
	for e, err := range c.store.List(ctx, fleetproto.PartsFolder(c.branch, c.epoch)) {
		if err != nil {
			return nil, fmt.Errorf("listing the parts: %w", err)
		}
		g := cargo{part: true, size: e.Size, tag: e.Tag}
		_, err := fmt.Sscanf(strings.TrimPrefix(e.Key, fleetproto.PartsFolder(c.branch, c.epoch)), "%d-%d", &g.first,
			&g.last)
		if err == nil && g.first > 0 && g.first <= g.last && g.last <= until && e.Key == c.key(g) {
			list = append(list, g)
		}
	}
	return list, nil
}

// lastPart is the last part that proves itself; nil: none does. The parts behind it that do not are left out of the
// list, and are the reason for doubt.
func (c chest) lastPart(ctx context.Context) (list []cargo, last *load, doubt, err error) {
	if list, err = c.parts(ctx, math.MaxInt64); err != nil {
		return nil, nil, nil, err
	}
	for len(list) > 0 {
		i := 0
		for j, g := range list {
			if g.last > list[i].last {
				i = j
			}
		}
		last, err = c.get(ctx, list[i])
		if err == nil {
			return list, last, doubt, nil
		}
		if !disproved(err) {
			return nil, nil, nil, err
		}
		doubt, list = errors.Join(doubt, err), slices.Delete(list, i, i+1)
	}
	return nil, nil, doubt, nil
}

// plan lists the parts and pieces that cover a span: parts where they exist, single pieces in the gaps between parts. A
// part that was made again can repeat the pieces of another part.
func plan(of Span, parts []cargo) (list []cargo, gaps []Span) {
	for at := of.From; at <= of.To; {
		next, best := of.To+1, -1
		for i, p := range parts {
			switch {
			case p.last < at || p.last > of.To:
			case p.first > at:
				next = min(next, p.first)
			case best < 0 || p.last > parts[best].last:
				best = i
			}
		}
		if best < 0 {
			gaps = append(gaps, Span{at, next - 1})
			list, at = append(list, pieces(Span{at, next - 1})...), next
			continue
		}
		list, at = append(list, parts[best]), parts[best].last+1
	}
	return list, gaps
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

func (c chest) key(g cargo) string {
	if g.part {
		return fleetproto.PartKey(c.branch, c.epoch, g.first, g.last)
	}
	return fleetproto.SegmentKey(c.branch, c.epoch, g.last)
}

func (g cargo) String() string {
	if g.part {
		return fmt.Sprintf("part %d-%d", g.first, g.last)
	}
	return fmt.Sprint("piece ", g.last)
}

// shown is what a list says of it.
func (g cargo) shown() string { return fmt.Sprintln(g, g.size, g.tag) }

// get reads an object of the copy. disproved: the store does not give back what the box shipped.
func (c chest) get(ctx context.Context, g cargo) (*load, error) {
	held, err := c.store.Get(ctx, c.key(g), fleetproto.MaxSegment)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", g, err)
	}
	first := g.first
	if !g.part {
		first = 0
	}
	p, body, err := c.chain.OpenPiece(held.Data, c.branch, c.epoch, first, g.last, c.box)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", g, err)
	}
	l := &load{number: p.Number, file: p.File, offset: p.Offset, body: body, previous: p.Previous, digest: p.Last}
	if !g.part {
		l.digest = fleetproto.Digest(held.Data)
	}
	return l, nil
}

// pieces is a cargo for each piece of a span.
func pieces(of Span) (list []cargo) {
	for n := of.From; n <= of.To; n++ {
		list = append(list, cargo{first: n, last: n, size: likely})
	}
	return list
}

// bring calls use with what the objects hold, in their order. In the place of a part that does not prove itself come
// other parts and pieces; use gets the reason why an object does not, with a load of nil. previous is the digest of the
// piece before the first; empty: it is not known.
func (c chest) bring(ctx context.Context, list, parts []cargo, previous string, use func(g cargo, l *load,
	err error) error) error {
	for done := int64(0); ; {
		var bad cargo
		err := inOrder(ctx, len(list), func(i int) int64 { return list[i].size }, func(ctx context.Context,
			i int) (*load, error) {
			return c.get(ctx, list[i])
		}, func(i int, l *load, err error) error {
			g := list[i]
			if err == nil && l.previous != "" && previous != "" && l.previous != previous {
				err = fmt.Errorf("%v: %w: it does not follow piece %d", g, fleetproto.ErrOther, g.first-1)
			}
			switch {
			case err == nil:
				previous, done = l.digest, g.last
			case !disproved(err):
				return fmt.Errorf("reading the copy: %w", err)
			case g.part:
				bad = g
				return cmp.Or(use(g, nil, err), err)
			default:
				previous, done = "", g.last
			}
			return use(g, l, err)
		})
		if !bad.part || !disproved(err) {
			return err
		}
		parts = slices.DeleteFunc(slices.Clone(parts), func(p cargo) bool { return p == bad })
		list, _ = plan(Span{max(bad.first, done+1), list[len(list)-1].last}, parts)
	}
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
