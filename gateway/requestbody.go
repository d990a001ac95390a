package gateway

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/refusal"
	"dtegate/gateway/door"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

const strangersBody = 1 // bytes; with 0, fasthttp would use its default

// announced returns how many bytes of a request's body fasthttp may read after the headers, and for how long.
func (l *side) announced(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if _, ok := l.sender(h); !ok {
		return fasthttp.RequestConfig{MaxRequestBodySize: strangersBody}
	}
	most, long := l.bound(h)
	return fasthttp.RequestConfig{MaxRequestBodySize: most, ReadTimeout: long}
}

var (
	errAmbiguous = problem.ForTill("VALIDATION_ERROR",
		"La solicitud no dice de una sola manera dónde termina (Content-Length, Transfer-Encoding, "+
			"encabezados de una línea que acaba en CR LF)")
	errNewToken = &refusal.Error{Code: refusal.CodeUnavailable, RetryAfter: time.Second,
		Message: "El token acaba de darse de alta: repita la solicitud"}
	errBodies = &refusal.Error{Code: refusal.CodeUnavailable, RetryAfter: time.Second,
		Message: "Hay demasiadas solicitudes grandes a la vez"}
	errBodyShare = problem.TooMany(time.Second, "Este token envía demasiadas solicitudes grandes a la vez")
)

// ambiguous reports whether a request states the end of its body in two ways, or in a way that some servers do not know
// (RFC 9112 §6.1): the appliance could take a part of a proxy's body for a second request. ambiguous reads the raw
// headers, because fasthttp's ContentLength changes when the body is read.
func ambiguous(h *fasthttp.RequestHeader) bool {
	length, coding := false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		if !bytes.HasSuffix(line, []byte("\r\n")) || line[0] == ' ' || line[0] == '\t' {
			return true // programs differ about a bare line feed, or a header on two lines (§2.2, §5.2)
		}
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

// received reads the whole body of each request into memory and calls h. If a body was not read to its end, the
// connection is closed. The body of a request without a good token is not read: admit refuses the request on every
// path, so that the caller learns nothing about routes and sizes.
func (g *Gateway) received(l *side, h fasthttp.RequestHandler) fasthttp.RequestHandler {
	listener, share := l.name, door.NewBodies(l.pace)
	return func(ctx *fasthttp.RequestCtx) {
		if ambiguous(&ctx.Request.Header) {
			g.metrics.refused(listener, "malformed")
			reply.Fail(ctx, errAmbiguous)
			ctx.SetConnectionClose()
			return
		}
		stream := ctx.RequestBodyStream()
		if stream == nil || ctx.Request.Header.ContentLength() == 0 {
			ctx.Request.SetBodyRaw(nil)
			h(ctx)
			return
		}
		id, ok := l.sender(&ctx.Request.Header)
		if !ok {
			ctx.Request.SetBodyRaw(nil)
			err := l.admit(ctx)
			if err == nil { // the token was added after sender had looked it up
				err = errNewToken
			}
			g.refuse(ctx, listener, err)
			door.Discard(ctx.Conn())
			ctx.SetConnectionClose()
			return
		}
		most, _ := l.bound(&ctx.Request.Header)
		body := share.Body(id, most)
		defer body.Release()
		data, err := body.Read(stream, ctx.Request.Header.ContentLength())
		if err != nil {
			reason, e := refusalOf(err)
			g.metrics.refused(listener, reason)
			ctx.Request.SetBodyRaw(nil)
			if problem.Status(e.Code) == fasthttp.StatusTooManyRequests {
				g.slow(id)
			}
			if reason != "slow" {
				door.Discard(ctx.Conn())
			}
			reply.Fail(ctx, e)
			ctx.SetConnectionClose()
			return
		}
		ctx.Request.SetBodyRaw(data)
		h(ctx)
	}
}

// refusalOf returns the metric's label and the answer for a request that could not be read.
func refusalOf(err error) (reason string, e *refusal.Error) {
	var headers *fasthttp.ErrSmallBuffer
	switch {
	case errors.Is(err, door.ErrTooLarge):
		return "size", reply.ErrTooLarge
	case errors.As(err, &headers):
		return "size", errHeaders
	case errors.Is(err, door.ErrShare):
		return "body_share", errBodyShare
	case errors.Is(err, door.ErrFull):
		return "bodies", errBodies
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "slow", errSlow
	case errors.As(err, &e):
		return "large", e
	}
	return "malformed", errMalformed
}

func (g *Gateway) unreadable(listener string) func(*fasthttp.RequestCtx, error) {
	return func(ctx *fasthttp.RequestCtx, err error) {
		reason, e := refusalOf(err)
		g.metrics.refused(listener, reason)
		if listener == listenerOps {
			ctx.SetUserValue(reply.ForOperators, true)
		}
		g.refuse(ctx, listener, e)
		if e == errHeaders {
			ctx.SetStatusCode(fasthttp.StatusRequestHeaderFieldsTooLarge)
		}
		ctx.SetConnectionClose()
	}
}

var (
	errHeaders   = problem.ForTill("TOO_LARGE", "Los encabezados superan 16 KiB")
	errSlow      = problem.ForTill("TIMEOUT", "La solicitud no llegó completa a tiempo")
	errMalformed = problem.ForTill("VALIDATION_ERROR", "La solicitud HTTP no puede leerse")
)
