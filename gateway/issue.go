package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
)

// issue answers a creation endpoint.
func (g *Gateway) issue(e *endpoint) handler {
	return func(ctx *fasthttp.RequestCtx, t *Token) error {
		if err := t.permit(e.document); err != nil {
			return err
		}
		if err := g.affords(t); err != nil {
			return err
		}
		req := engine.Request{Document: e.document, Caller: g.caller(ctx, t)}
		d, err := g.read(ctx, e, &req)
		if err != nil {
			return err
		}
		// The till may hang up; a sale once begun is finished.
		deadline, cancel := context.WithTimeout(context.Background(), g.o.Deadline)
		defer cancel()
		if len(d.faults) > 0 {
			return g.wholly(deadline, d, req)
		}
		r, err := g.o.Engine.Issue(deadline, req)
		var refused *refusal.Error
		if errors.As(err, &refused) && len(refused.Faults) > 0 {
			d.merge(refused.Faults)
			if refused.Code == refusal.CodeValidation {
				return e.invalid(d.faults)
			}
			return &Problem{Status: statuses[refused.Code], Type: refused.Code, Message: refused.Message, Faults: d.faults}
		}
		if err != nil {
			return err
		}
		g.keeps(t, r)
		answerRecord(ctx, fasthttp.StatusCreated, r)
		return nil
	}
}

// wholly refuses a request that is wrong already, with what the rules find wrong beside it.
func (g *Gateway) wholly(ctx context.Context, d *decoded, req engine.Request) *Problem {
	if !d.full() {
		req.Unread = d.unread()
		d.merge(g.o.Engine.Check(ctx, req))
	}
	return d.endpoint.invalid(d.faults)
}

// read takes everything that it needs out of the request: none of fasthttp's bytes outlive the handler.
func (g *Gateway) read(ctx *fasthttp.RequestCtx, e *endpoint, req *engine.Request) (*decoded, error) {
	key, err := once(&ctx.Request.Header, "Idempotency-Key")
	if err != nil {
		return nil, err
	}
	if key != nil {
		if len(key) == 0 || len(key) > 255 || strings.ContainsFunc(string(key), func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			return nil, problem(fasthttp.StatusBadRequest, refusal.CodeValidation, "Idempotency-Key lleva de 1 a 255 caracteres ASCII imprimibles")
		}
		req.IdempotencyKey = string(key)
	}
	if req.Wait, err = preference(ctx); err != nil {
		return nil, err
	}
	v, err := body(ctx)
	if err != nil {
		return nil, err
	}
	req.Digest, req.BytesDigest = v.Digest(), func() [32]byte { return sha256.Sum256(ctx.PostBody()) }
	d := e.decode(v, g.o.PaymentCodes)
	req.Facts, req.TestContingency, req.Origin, req.Warnings = d.facts, d.testContingency, d.origin, d.warnings
	return d, nil
}

// preference reads Prefer: wait=N (RFC 7240): how many seconds the till waits for MH. Other preferences are ignored, as
// the RFC has it.
func preference(ctx *fasthttp.RequestCtx) (time.Duration, error) {
	for _, p := range strings.Split(string(bytes.Join(ctx.Request.Header.PeekAll("Prefer"), []byte(","))), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
		if err != nil || n < 1 || time.Duration(n)*time.Second > maxWait {
			return 0, problem(fasthttp.StatusBadRequest, refusal.CodeValidation, "Prefer: wait lleva segundos, de 1 a 60")
		}
		ctx.Response.Header.Set("Preference-Applied", "wait="+strconv.Itoa(n))
		return time.Duration(n) * time.Second, nil
	}
	return 0, nil
}

// body reads a request's body: strict JSON, plain, of at most 1 MiB.
func body(ctx *fasthttp.RequestCtx) (dte.Value, error) {
	kind, _, _ := strings.Cut(string(ctx.Request.Header.ContentType()), ";")
	if kind = strings.TrimSpace(kind); kind != "" && !strings.EqualFold(kind, "application/json") {
		return dte.Value{}, problem(fasthttp.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "El cuerpo debe ser application/json")
	}
	for _, encoding := range ctx.Request.Header.PeekAll("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(string(encoding)), "identity") {
			return dte.Value{}, problem(fasthttp.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "El cuerpo no se admite comprimido")
		}
	}
	b := ctx.PostBody()
	if len(b) > maxBody {
		return dte.Value{}, problem(fasthttp.StatusRequestEntityTooLarge, "TOO_LARGE", "El cuerpo supera 1 MiB (1048576 bytes)")
	}
	v, err := dte.Parse(b)
	if err != nil {
		return dte.Value{}, syntax(err, b)
	}
	return v, nil
}

// syntax is what is wrong with a body that is not strict JSON, and where: the line and the character in it, both from 1.
func syntax(err error, body []byte) *Problem {
	p := &Problem{Status: fasthttp.StatusBadRequest, Type: refusal.CodeValidation, Message: "El cuerpo no es JSON válido"}
	var s *dte.SyntaxError
	if errors.As(err, &s) {
		before := body[:min(max(0, int(s.Offset)), len(body))]
		line := bytes.LastIndexByte(before, '\n') + 1
		where := fmt.Sprintf(" (línea %d, columna %d)", bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(before[line:])+1)
		p.Faults = []dte.Fault{{Path: s.Path, Code: s.Code, Message: sentence(s.Message) + where}}
	}
	return p
}

// invalid is a 400 with every path; a receptor that lacks what SPEC demands of it has its own code.
func (e *endpoint) invalid(faults []dte.Fault) *Problem {
	p := &Problem{Status: fasthttp.StatusBadRequest, Type: refusal.CodeValidation, Message: "La solicitud no es válida", Faults: faults}
	for _, f := range faults {
		member, inside := strings.CutPrefix(f.Path, "receptor.")
		if f.Code == refusal.CodeOriginType { // what a note's rule says of its original
			p.Type, p.Message = f.Code, f.Message
		}
		missing := f.Code == dte.FaultRequired && (f.Path == "receptor" || inside && slices.Contains(e.receptor, member))
		if missing && len(e.receptor) > 0 {
			p.Type, p.Message, p.RequiredFields = "RECEPTOR_VALIDATION_ERROR", "El receptor no lleva los campos que exige el documento", e.receptor
		}
	}
	return p
}
