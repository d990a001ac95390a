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

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
)

// chest is the data that one box has shipped to the store. The store is not trusted: an object is the box's only if it,
// or an object that names its digest, has the box's signature. A missing object proves nothing.
type chest struct {
	store  fleetproto.Lister
	chain  fleetproto.Chain
	branch string
	epoch  int64
	box    fleetproto.Key
	why    error // why the chest cannot be used: the box's enrolment is lost or invalid; nil: it is usable
}

const (
	atOnce   = 16       // requests at the same time
	roomFor  = 64 << 20 // bytes of objects that are being fetched or wait for use
	likely   = 16 << 10 // assumed bytes of a piece with unknown size
	perGet   = 64 << 10 // bytes that the progress adds for each request
	patience = 100      // after so many invalid objects at a copy's end, or unlisted epochs, a search gives up
	// A hostile store must not fill the box's memory: at most so many objects in a list, and bytes in a piece's object.
	mostListed = 1 << 20
	maxHead    = 64 << 10
	maxObject  = maxPiece + maxHead
)

// load is the verified content of a piece, or of a part.
type load struct {
	number   int64 // the number of the last piece
	file     string
	offset   int64
	body     []byte
	previous string // Digest of the previous piece's object; empty: not known
	digest   string // of the last piece's object
}

// cargo is an object with bytes of a copy: a part or a piece.
type cargo struct {
	part        bool
	first, last int64 // numbers of the first and the last piece
	size        int64
	tag         string // the store's own tag for the object's bytes
}

func (l *load) end() place { return place{l.file, l.offset + int64(len(l.body))} }

// disproved reports whether an error means that an object is missing, unreadable or invalid, so that another try is
// useless.
func disproved(err error) bool {
	return slices.ContainsFunc([]error{archive.ErrNotFound, archive.ErrTooLarge, archive.ErrUnread,
		fleetproto.ErrFormat, fleetproto.ErrSignature, fleetproto.ErrOther},
		func(of error) bool { return errors.Is(err, of) })
}

func listsAny(ctx context.Context, store fleetproto.Lister, folder string) (bool, error) {
	for _, err := range store.List(ctx, folder) {
		if err != nil {
			return false, fmt.Errorf("listing %s: %w", folder, err)
		}
		return true, nil
	}
	return false, nil
}

// whole returns the piece up to which the box has declared the copy whole, or 0.
func (c chest) whole(ctx context.Context) (int64, error) {
	held, err := c.store.Fetch(ctx, fleetproto.WholeKey(c.branch, c.epoch), fleetproto.MaxJWS)
	if errors.Is(err, archive.ErrNotFound) {
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

// status returns the box's last status in its epoch; nil: the store has no status that the box's key signed.
func (c chest) status(ctx context.Context) (*fleetproto.Status, error) {
	held, err := c.store.Fetch(ctx, fleetproto.StatusKey(c.branch, c.epoch), fleetproto.MaxJWS)
	if err != nil && !disproved(err) {
		return nil, fmt.Errorf("reading the last status: %w", err)
	}
	s, err := c.chain.OpenStatus(held.Data, c.branch, c.epoch, c.box)
	if err != nil {
		return nil, nil
	}
	return s, nil
}

// list calls a function (take) for each object whose key begins with prefix and is greater than a key (after).
func (c chest) list(ctx context.Context, prefix, after string, take func(archive.Object)) error {
	n := 0
	for e, err := range c.store.ListAfter(ctx, prefix, after) {
		if n++; err == nil && n > mostListed {
			err = errors.New("the store lists too many objects")
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", prefix, err)
		}
		take(e)
	}
	return nil
}

// parts lists the store's parts up to a piece (until). It does not check their content.
func (c chest) parts(ctx context.Context, until int64) (list []cargo, err error) {
	folder := fleetproto.PartsFolder(c.branch, c.epoch)
	err = c.list(ctx, folder, "", func(e archive.Object) {
		g := cargo{part: true, size: e.Size, tag: e.Tag}
		_, err := fmt.Sscanf(strings.TrimPrefix(e.Key, folder), "%d-%d", &g.first, &g.last)
		if err == nil && g.first > 0 && g.first <= g.last && g.last <= until && e.Key == c.key(g) {
			list = append(list, g)
		}
	})
	return list, err
}

// lastPart returns the list of parts without the invalid parts at its end, and its last part (nil: none is valid).
// doubt has the errors of the invalid parts.
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

// plan lists the parts and pieces that cover a span: parts where parts exist, single pieces in the gaps. A part that
// was made again may overlap another part.
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

// pieceNumbers lists the pieces in the store after a piece (behind), ascending, with their sizes.
func (c chest) pieceNumbers(ctx context.Context, behind int64) (numbers, sizes []int64, err error) {
	after := ""
	if behind > 0 {
		after = fleetproto.SegmentKey(c.branch, c.epoch, behind)
	}
	err = c.list(ctx, fleetproto.PiecesPrefix(c.branch, c.epoch), after, func(e archive.Object) {
		n, err := strconv.ParseInt(strings.TrimPrefix(e.Key, fleetproto.EpochFolder(c.branch, c.epoch)), 10, 64)
		if err == nil && n > behind && e.Key == fleetproto.SegmentKey(c.branch, c.epoch, n) {
			numbers, sizes = append(numbers, n), append(sizes, e.Size)
		}
	})
	// Somebody else may have written an object with far too high a number. Only a signature proves that so many earlier
	// pieces were lost.
	for n := len(numbers); err == nil && n > 0 && numbers[n-1]-behind-int64(n) > unlisted; n-- {
		if _, err := c.get(ctx, cargo{last: numbers[n-1]}); !disproved(err) {
			return numbers, sizes, err
		}
		numbers, sizes = numbers[:n-1], sizes[:n-1]
	}
	return numbers, sizes, err
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

// shown identifies the object and its bytes, as far as the store's list shows them.
func (g cargo) shown() string { return fmt.Sprintln(g, g.size, g.tag) }

// get reads a piece or a part. If disproved(err), the store does not return what the box shipped.
func (c chest) get(ctx context.Context, g cargo) (*load, error) {
	first, most := int64(0), int64(maxObject)
	if g.part {
		first, most = g.first, min(g.size, fleetproto.MaxPart+maxHead)
	}
	held, err := c.store.Fetch(ctx, c.key(g), most)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", g, err)
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

// errForked means that the box's key signed two pieces with the same number, or two histories of the copy.
var errForked = fmt.Errorf("%w, by another copy of the box", fleetproto.ErrOther)

func pieces(of Span) (list []cargo) {
	for n := of.From; n <= of.To; n++ {
		list = append(list, cargo{first: n, last: n, size: likely})
	}
	return list
}

// bring calls use with the content of each object in list, in order, or with the error if the object is invalid. In
// place of an invalid part, it continues with other parts and with pieces. previous is the digest of the piece before
// the first; empty: unknown.
func (c chest) bring(ctx context.Context, list, parts []cargo, previous string, use func(g cargo, l *load,
	err error) error) error {
	for done := int64(0); ; {
		var bad cargo
		err := c.inOrder(ctx, list, func(g cargo, l *load, err error) error {
			if err == nil && l.previous != "" && previous != "" && l.previous != previous {
				err = fmt.Errorf("%v: %w: it does not follow piece %d", g, errForked, g.first-1)
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

// inOrder gets the objects in list, several at a time. It calls use with each result, in the order of the list, and
// stops at the first error of use.
func (c chest) inOrder(ctx context.Context, list []cargo, use func(g cargo, l *load, err error) error) error {
	type result struct {
		*load
		error
	}
	ctx, cancel := context.WithCancel(ctx)
	var busy sync.WaitGroup
	defer busy.Wait()
	defer cancel()
	var results [atOnce]chan result
	next, open := 0, int64(0)
	for i, g := range list {
		for ; next < min(len(list), i+atOnce) && (next == i || open+list[next].size <= roomFor); next++ {
			open += list[next].size
			done, wanted := make(chan result, 1), list[next]
			results[next%atOnce] = done
			busy.Go(func() {
				l, err := c.get(ctx, wanted)
				done <- result{l, err}
			})
		}
		r := <-results[i%atOnce]
		open -= g.size
		if err := use(g, r.load, r.error); err != nil {
			return err
		}
	}
	return nil
}
