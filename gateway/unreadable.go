package gateway

import (
	"bytes"
	"errors"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
)

// unreadable answers what fasthttp could not read as a request, or did not want to. admit says whether the caller has a
// good token: who has none learns that and nothing of sizes.
func (g *Gateway) unreadable(listener string, bodies *bodies, admit func(*fasthttp.RequestCtx) error) func(*fasthttp.RequestCtx, error) {
	return func(ctx *fasthttp.RequestCtx, err error) {
		bodies.release(&ctx.Request.Header)
		var small *fasthttp.ErrSmallBuffer
		var p error
		switch {
		case errors.Is(err, fasthttp.ErrBodyTooLarge):
			// Of a body in chunks fasthttp has forgotten the headers by now.
			if len(ctx.Request.Header.RawHeaders()) > 0 {
				p = admit(ctx)
			}
			if n := ctx.Request.Header.ContentLength(); p == nil && n > 0 && n <= maxBody {
				g.metrics.refused(listener, "bodies")
				p = &Problem{Status: fasthttp.StatusServiceUnavailable, Type: engine.CodeUnavailable, RetryAfter: time.Second,
					Message: "Hay demasiadas solicitudes grandes a la vez"}
			}
			if p == nil {
				g.metrics.refused(listener, "size")
				p = problem(fasthttp.StatusRequestEntityTooLarge, "TOO_LARGE", "El cuerpo supera lo que se admite: 1 MiB (1048576 bytes) de una caja, 16 MiB de un conjunto de reglas")
			}
			discard(ctx.Conn())
		case errors.As(err, &small):
			g.metrics.refused(listener, "size")
			p = problem(fasthttp.StatusRequestHeaderFieldsTooLarge, "TOO_LARGE", "Los encabezados superan 16 KiB")
		case errors.Is(err, os.ErrDeadlineExceeded):
			g.metrics.refused(listener, "slow")
			p = problem(fasthttp.StatusRequestTimeout, "TIMEOUT", "La solicitud no llegó completa a tiempo")
		default:
			g.metrics.refused(listener, "malformed")
			p = problem(fasthttp.StatusBadRequest, "VALIDATION_ERROR", "La solicitud HTTP no puede leerse")
		}
		g.refuse(ctx, listener, p)
		ctx.SetConnectionClose()
	}
}

var errAmbiguous = problem(fasthttp.StatusBadRequest, "VALIDATION_ERROR", "La solicitud lleva Content-Length y Transfer-Encoding")

// ambiguous tells whether a request says in two ways where it ends (RFC 9112 §6.1): fasthttp takes the chunks, a proxy
// before it may take the length, and what one of them takes for a body is a request to the other.
func ambiguous(h *fasthttp.RequestHeader) bool {
	return h.ContentLength() == -1 && bytes.Contains(bytes.ToLower(h.RawHeaders()), []byte("content-length"))
}

// discard reads what a client goes on sending, up to 16 MiB, for two seconds, or until it pauses: closing a connection
// with unread bytes would reset it, and the client would never see the answer.
func discard(c net.Conn) {
	var b [32 << 10]byte
	end := time.Now().Add(2 * time.Second)
	for n := 0; n < 16<<20 && time.Now().Before(end); {
		if c.SetReadDeadline(time.Now().Add(200*time.Millisecond)) != nil {
			return
		}
		k, err := c.Read(b[:])
		if err != nil {
			return
		}
		n += k
	}
}
