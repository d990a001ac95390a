package gateway

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/refusal"
)

// sender returns whose body a request's headers announce: the id of the token that shares the memory of bodies. ok is false
// for a stranger, of whom no body is read.
type sender func(*fasthttp.RequestHeader) (id int64, ok bool)

// What fasthttp may read of a stranger's body before the request is refused.
const strangersBody = 1 // bytes; fasthttp takes 0 for its default

// announced bounds, once a request's headers are there, what fasthttp reads ahead of the body and how long that may take.
func announced(from sender, bound func(*fasthttp.RequestHeader) (int, time.Duration)) func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
	return func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
		if _, ok := from(h); !ok {
			return fasthttp.RequestConfig{MaxRequestBodySize: strangersBody}
		}
		most, long := bound(h)
		return fasthttp.RequestConfig{MaxRequestBodySize: most, ReadTimeout: long}
	}
}

var (
	errAmbiguous = problem(fasthttp.StatusBadRequest, "VALIDATION_ERROR", "La solicitud no dice de una sola manera dónde termina (Content-Length, Transfer-Encoding)")
	errTooLarge  = problem(fasthttp.StatusRequestEntityTooLarge, "TOO_LARGE", "El cuerpo supera lo que se admite: 1 MiB (1048576 bytes) de una caja, 16 MiB de un conjunto de reglas")
	errBodies    = &Problem{Status: fasthttp.StatusServiceUnavailable, Type: refusal.CodeUnavailable, RetryAfter: time.Second,
		Message: "Hay demasiadas solicitudes grandes a la vez"}
	errBodyShare = &Problem{Status: fasthttp.StatusTooManyRequests, Type: "RATE_LIMITED", RetryAfter: time.Second,
		Message: "Este token envía demasiadas solicitudes grandes a la vez"}
)

// ambiguous tells whether a request says in two ways where it ends, or in one that not every reader knows (RFC 9112 §6.1):
// what a proxy before the appliance takes for a body would be a request here. It reads the headers as they came:
// fasthttp's own ContentLength changes with the body that it has read.
func ambiguous(h *fasthttp.RequestHeader) bool {
	length, coding := false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch name = bytes.TrimSpace(name); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			length = true
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			if coding || !strings.EqualFold(string(bytes.TrimSpace(value)), "chunked") {
				return true
			}
			coding = true
		}
	}
	return length && coding
}

// received is a handler whose request has its whole body in memory. A connection is kept only behind a body that was
// read to its end. Nothing is read of a stranger's, and admit refuses it wherever it was going: who has no token learns that
// and nothing of routes and sizes.
func (g *Gateway) received(listener string, from sender, admit func(*fasthttp.RequestCtx) error, pace func(id int64, n int) error, bound func(*fasthttp.RequestHeader) (int, time.Duration), h fasthttp.RequestHandler) fasthttp.RequestHandler {
	share := newBodies(pace)
	return func(ctx *fasthttp.RequestCtx) {
		if ambiguous(&ctx.Request.Header) {
			g.metrics.refused(listener, "malformed")
			fail(ctx, errAmbiguous)
			ctx.SetConnectionClose()
			return
		}
		stream := ctx.RequestBodyStream()
		if stream == nil || ctx.Request.Header.ContentLength() == 0 {
			ctx.Request.SetBodyRaw(nil)
			h(ctx)
			return
		}
		id, ok := from(&ctx.Request.Header)
		if !ok {
			ctx.Request.SetBodyRaw(nil)
			if err := admit(ctx); err != nil {
				g.refuse(ctx, listener, err)
			}
			discard(ctx.Conn())
			ctx.SetConnectionClose()
			return
		}
		most, _ := bound(&ctx.Request.Header)
		body := arriving{share: share, id: id, most: most}
		defer body.release()
		if err := body.read(stream, ctx.Request.Header.ContentLength()); err != nil {
			reason, p := refusalOf(err)
			g.metrics.refused(listener, reason)
			ctx.Request.SetBodyRaw(nil)
			if p.Status == fasthttp.StatusTooManyRequests {
				g.slow(id)
			}
			if reason != "slow" {
				discard(ctx.Conn())
			}
			fail(ctx, p)
			ctx.SetConnectionClose()
			return
		}
		ctx.Request.SetBodyRaw(body.data)
		h(ctx)
	}
}

// refusalOf is why a body was not read, and the answer.
func refusalOf(err error) (reason string, p *Problem) {
	switch {
	case errors.Is(err, errTooLarge):
		return "size", errTooLarge
	case errors.Is(err, errBodyShare):
		return "body_share", errBodyShare
	case errors.Is(err, errBodies):
		return "bodies", errBodies
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "slow", errSlow
	case errors.As(err, &p):
		return "large", p
	}
	return "malformed", errMalformed
}

const (
	bodiesBudget = 64 << 20 // bytes on a listener
	smallBody    = 32 << 10 // bytes that nobody counts: a sale of a hundred lines
)

// bodies shares the memory of large bodies among those who send them. What counts is what has arrived, not what was
// announced. A sender may hold as much as is left free (a dynamic threshold): one alone half of the budget, two a third
// each; whoever holds nothing always finds room while fewer than 63 others send all they may.
type bodies struct {
	// pace, if not nil, refuses n bytes of a large body of a sender who sends them too fast.
	pace func(id int64, n int) error

	mu   sync.Mutex
	left int           // bytes
	held map[int64]int // bytes, by sender
}

func newBodies(pace func(id int64, n int) error) *bodies {
	return &bodies{pace: pace, left: bodiesBudget, held: make(map[int64]int)}
}

// take reserves n bytes for a sender. errBodyShare when that is more than its share, errBodies when nothing is left.
func (b *bodies) take(id int64, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch held := b.held[id]; {
	case held > 0 && held+n > b.left:
		return errBodyShare
	case n > b.left:
		return errBodies
	}
	b.left -= n
	b.held[id] += n
	return nil
}

func (b *bodies) give(id int64, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.held[id] -= n; b.held[id] == 0 {
		delete(b.held, id)
	}
}

// arriving is a body that is being read. Its memory grows with what arrives, up to most bytes.
type arriving struct {
	share *bodies
	id    int64
	most  int
	data  []byte
	taken int // bytes of the share
}

// smallBodies are buffers of smallBody bytes.
var smallBodies = sync.Pool{New: func() any { return new([smallBody]byte) }}

// read reads a body to its end. announced is its length, -1 when it comes in chunks.
func (a *arriving) read(stream io.Reader, announced int) error {
	if announced > a.most {
		return errTooLarge
	}
	a.data = smallBodies.Get().(*[smallBody]byte)[:0]
	for {
		if len(a.data) == cap(a.data) {
			if err := a.grow(announced); err != nil {
				return err
			}
		}
		n, err := stream.Read(a.data[len(a.data):cap(a.data)])
		a.data = a.data[:len(a.data)+n]
		switch {
		case len(a.data) > a.most:
			return errTooLarge
		case err == io.EOF && announced >= 0 && len(a.data) < announced:
			return io.ErrUnexpectedEOF
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// grow doubles the memory, no further than what is announced or may come. One byte more lets read see the end, or that
// the body is too long.
func (a *arriving) grow(announced int) error {
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

// afford asks the pace of large bodies for all that is announced, before any of it is read beyond what nobody counts; for a
// body in chunks, for each growth.
func (a *arriving) afford(announced, size int) error {
	if a.share.pace == nil || a.taken > 0 && announced >= 0 {
		return nil
	}
	if announced < 0 {
		announced = size - a.taken
	}
	return a.share.pace(a.id, announced)
}

func (a *arriving) recycle() {
	if cap(a.data) == smallBody {
		smallBodies.Put((*[smallBody]byte)(a.data[:smallBody]))
	}
	a.data = nil
}

// release gives the memory back once the request is answered.
func (a *arriving) release() {
	a.recycle()
	if a.taken > 0 {
		a.share.give(a.id, a.taken)
	}
}
