package door

import (
	"errors"
	"io"
	"sync"
)

// Errors of Body.Read.
var (
	ErrTooLarge = errors.New("the body is larger than permitted")
	ErrShare    = errors.New("the sender has used its share of the memory for large bodies")
	ErrFull     = errors.New("the memory for large bodies is full")
)

const (
	// SmallBody is the largest body, in bytes, that is not counted: a sale of a hundred lines.
	SmallBody = 32 << 10
	budget    = 64 << 20 // bytes for the large bodies of a listener
)

// Bodies shares the memory for large bodies among their senders. It counts memory as bytes arrive, not announced sizes.
// A sender may use at most as many bytes as are free: one sender alone gets half of the budget, two get a third each. A
// new sender finds memory as long as fewer than 63 others use their full shares.
type Bodies struct {
	pace func(id int64, n int) error // nil: the rate is not limited

	mu   sync.Mutex
	left int           // bytes
	held map[int64]int // bytes, by sender
}

// NewBodies returns the memory of a listener. If pace is not nil, Body.Read calls it before it reads n bytes of a large
// body. pace returns an error if the sender is too fast, and Body.Read returns it unchanged.
func NewBodies(pace func(id int64, n int) error) *Bodies {
	return &Bodies{pace: pace, left: budget, held: make(map[int64]int)}
}

// Body returns the body of a sender's request; most is its largest size in bytes. The Body uses no memory before Read.
func (b *Bodies) Body(sender int64, most int) Body { return Body{share: b, id: sender, most: most} }

// take reserves n bytes for a sender. Errors: ErrShare (the sender's share is used up), ErrFull.
func (b *Bodies) take(id int64, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch held := b.held[id]; {
	case held > 0 && held+n > b.left:
		return ErrShare
	case n > b.left:
		return ErrFull
	}
	b.left -= n
	b.held[id] += n
	return nil
}

func (b *Bodies) give(id int64, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.held[id] -= n; b.held[id] == 0 {
		delete(b.held, id)
	}
}

// Body is a body that is being read. Its memory grows with the bytes that arrive, up to its limit (most).
type Body struct {
	share *Bodies
	id    int64
	most  int
	data  []byte
	taken int // bytes reserved from share
}

var smallBodies = sync.Pool{New: func() any { return new([SmallBody]byte) }}

// Read reads a body to its end. announced is its length, negative if it comes in chunks. The bytes are valid until
// Release. Errors: ErrTooLarge, ErrShare, ErrFull, io.ErrUnexpectedEOF, or the error of pace or of the stream.
func (a *Body) Read(stream io.Reader, announced int) ([]byte, error) {
	if announced > a.most {
		return nil, ErrTooLarge
	}
	a.data = smallBodies.Get().(*[SmallBody]byte)[:0]
	for {
		if len(a.data) == cap(a.data) {
			if err := a.grow(announced); err != nil {
				return nil, err
			}
		}
		n, err := stream.Read(a.data[len(a.data):cap(a.data)])
		a.data = a.data[:len(a.data)+n]
		switch {
		case len(a.data) > a.most:
			return nil, ErrTooLarge
		case err == io.EOF && len(a.data) < announced:
			return nil, io.ErrUnexpectedEOF
		case err == io.EOF:
			return a.data, nil
		case err != nil:
			return nil, err
		}
	}
}

// grow doubles the memory, up to the announced size or the largest size, plus one byte. The extra byte lets Read detect
// the end, or too long a body.
func (a *Body) grow(announced int) error {
	size := min(2*cap(a.data), a.most+1)
	if announced >= 0 {
		size = min(size, announced+1)
	}
	if err := a.afford(announced, size); err != nil {
		return err
	}
	if err := a.share.take(a.id, size-a.taken); err != nil {
		return err
	}
	a.taken = size
	grown := append(make([]byte, 0, size), a.data...)
	a.recycle()
	a.data = grown
	return nil
}

// afford calls pace once with the announced size of a large body or, for a body in chunks, with each growth.
func (a *Body) afford(announced, size int) error {
	if a.share.pace == nil || a.taken > 0 && announced >= 0 {
		return nil
	}
	if announced < 0 {
		announced = size - a.taken
	}
	return a.share.pace(a.id, announced)
}

func (a *Body) recycle() {
	if cap(a.data) == SmallBody {
		smallBodies.Put((*[SmallBody]byte)(a.data[:SmallBody]))
	}
	a.data = nil
}

func (a *Body) Release() {
	a.recycle()
	if a.taken > 0 {
		a.share.give(a.id, a.taken)
	}
}
