package ship

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dtegate/engine/fleet/fleetproto"
)

// ErrNothing means that no box of the branch has shipped anything.
var ErrNothing = errors.New("nothing of this branch's second copy is in the store")

// Span are pieces from one to another, both included.
type Span struct{ From, To int64 }

// Fetched is what Fetch has brought back.
type Fetched struct {
	Epoch  int64   // of the box that shipped it
	Older  []int64 // epochs before it whose boxes shipped too
	Newer  []int64 // epochs behind it whose boxes shipped, and did not say that their copy is whole
	Whole  bool    // the box has said that its whole copy is in the store
	Parts  int64   // that were brought
	Pieces int64   // that were brought, those in parts included
	Bytes  int64
	Before int64 // of Bytes, brought by an earlier call
	// Doubt is why parts were not used, and their pieces in their place; nil: all were.
	Doubt error
	// Missing are pieces that the box has shipped and the store does not give back; the folder has a gap of zeros
	// there. Why is the reason of the first.
	Missing []Span
	Why     error
	// Status is the last status that the box wrote; nil: the store has none that its key has signed.
	Status *fleetproto.Status
}

// Lacks returns what is not proven of a fetched copy, in words. Empty: it holds everything that the box had shipped
// when it wrote its last status.
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

// spans names pieces.
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

// Fetch brings the second copy of a branch's last box that has its whole copy in the store into a folder of its own,
// or, where no box has said so, of the last box that shipped anything: its parts, and the pieces that no part holds.
// All are signed by that box's enrolled key. A part that does not prove itself is passed over, for the pieces say the
// same. The pieces are those that the store lists and those that the box's last status, its parts and its word that the
// copy is whole speak of: what the store does not give back of them is Missing, and the rest is brought. An error is of
// the attempt: a fetch that was cut short goes on in the same folder. Remove removes the folder and the note of how far
// the fetch came.
//
// With an epoch it is the box of that epoch, whether its copy is whole or not; 0: none is meant. show gets how far the
// work is; nil: nobody looks.
func Fetch(ctx context.Context, store fleetproto.Lister, chain fleetproto.Chain, director []fleetproto.Key,
	branch string, epoch int64, folder string, show func(done, total int64),
) (Fetched, error) {
	shipped, stray, err := boxes(ctx, store, chain, director, branch, epoch)
	if err != nil {
		return Fetched{}, err
	}
	at := len(shipped) - 1
	switch {
	case at >= 0 && (epoch == 0 || shipped[at].epoch == epoch):
	case len(stray.why) > 0:
		return Fetched{}, fmt.Errorf("%w of a box that fleet.director_key vouches for; boxes that no key in it has "+
			"enrolled: %w", ErrNothing, errors.Join(stray.why...))
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
	got, err := shipped[at].fetch(ctx, folder, whole, show)
	got.Older, got.Newer, got.Whole = epochs(shipped[:at]), epochs(shipped[at+1:]), whole > 0
	for _, e := range stray.shipped {
		if e > got.Epoch {
			got.Newer = append(got.Newer, e)
		}
	}
	return got, err
}

func epochs(of []chest) (list []int64) {
	for _, c := range of {
		list = append(list, c.epoch)
	}
	return list
}

// strays are epochs whose enrolment is lost or proves nothing.
type strays struct {
	shipped []int64 // whose boxes shipped something
	why     []error
}

// boxes are a branch's boxes that shipped something, ascending, up to an epoch; 0: all.
func boxes(ctx context.Context, store fleetproto.Lister, chain fleetproto.Chain, director []fleetproto.Key,
	branch string, until int64) (list []chest, stray strays, err error) {
	last := int64(0)
	for e, err := range store.List(ctx, fleetproto.BoxesFolder+branch+"/") {
		if err != nil {
			return nil, stray, fmt.Errorf("listing the branch's boxes: %w", err)
		}
		if n, ok := fleetproto.NumberOf(e.Key); ok && e.Key == fleetproto.BoxKey(branch, n) {
			last = max(last, n)
		}
	}
	// one more: its enrolment may be what is lost
	for epoch := int64(1); epoch <= last+1 && (until == 0 || epoch <= until); epoch++ {
		c := chest{store: store, chain: chain, branch: branch, epoch: epoch}
		if none, err := c.empty(ctx); err != nil {
			return nil, stray, err
		} else if none {
			continue
		}
		held, err := store.Get(ctx, fleetproto.BoxKey(branch, epoch), fleetproto.MaxJWS)
		if err != nil && !disproved(err) {
			return nil, stray, fmt.Errorf("reading epoch %d: %w", epoch, err)
		}
		var e *fleetproto.Enrolment
		if err == nil {
			e, err = c.chain.OpenEnrolment(held.Data, director, branch, epoch)
		}
		if err != nil {
			stray.shipped, stray.why = append(stray.shipped, epoch), append(stray.why, fmt.Errorf("epoch %d: %w", epoch,
				err))
			continue
		}
		c.box = e.BoxKeyOf()
		list = append(list, c)
	}
	return list, stray, nil
}

// HasCopy reports whether a store has something that a box of a branch shipped.
func HasCopy(ctx context.Context, store fleetproto.Lister, branch string) (bool, error) {
	for _, err := range store.List(ctx, fleetproto.CopyFolder+branch+"/") {
		if err != nil {
			return false, fmt.Errorf("listing the second copy of %s: %w", branch, err)
		}
		return true, nil
	}
	return false, nil
}

// fetch brings everything into a folder. whole is the piece up to which the box said that its copy is whole.
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
	got.Bytes = to.Bytes
	return got, errors.Join(err, to.note())
}

// unlisted is how many pieces are asked for that the store does not list, and that something else names.
const unlisted = 10_000

// manifest are the objects that hold the copy, in order, up to the last piece that anything in the store names, and all
// its parts; unasked are pieces behind them that are not asked for, because the store lists none of so many.
func (c chest) manifest(ctx context.Context, got *Fetched, until int64) (list, parts []cargo, unasked Span, err error) {
	parts, end, doubt, err := c.lastPart(ctx)
	if err != nil {
		return nil, nil, unasked, err
	}
	got.Doubt = doubt
	if got.Status, err = c.status(ctx); err != nil {
		return nil, nil, unasked, err
	}
	last := int64(0)
	if end != nil {
		last = end.number
	}
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

// fill brings what the folder does not have yet.
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
			err = to.put(l.file, l.offset, l.body, len(got.Missing) > 0)
			if err != nil && !disproved(err) {
				return err
			}
		}
		if err != nil {
			if got.Why == nil {
				got.Why = err
			}
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
		to.Bytes += int64(len(l.body))
		if len(got.Missing) > 0 {
			return nil // the next call asks for what is missing again
		}
		return to.fetched(g.last, l.digest)
	})
}
