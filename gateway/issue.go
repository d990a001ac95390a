package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/exchange"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
)

// issue answers a creation endpoint.
func (g *saleRoutes) issue(f *form.Form) handler {
	return func(ctx *fasthttp.RequestCtx, t *Token) error {
		return g.make(ctx, t, f, fasthttp.StatusCreated, g.o.Sales.Issue)
	}
}

// correct answers POST /dte/correccion/:codigoGeneracion: the sale as it should have been, in the body of the document's
// own endpoint. It takes the permission of the document.
func (g *saleRoutes) correct(ctx *fasthttp.RequestCtx, t *Token) error {
	code, err := pathCode(ctx)
	if err != nil {
		return err
	}
	deadline, cancel := g.deadline()
	defer cancel()
	r, err := g.o.Documents.Document(deadline, code, g.caller(ctx, t))
	if err != nil {
		return err
	}
	return g.make(ctx, t, form.Documents[r.Document], fasthttp.StatusOK, func(ctx context.Context, req engine.Request) (*record.View, error) {
		return g.o.Sales.Correct(ctx, code, req)
	})
}

// make reads a sale by its form, has it made into a document, and answers with the record and a status.
func (g *saleRoutes) make(ctx *fasthttp.RequestCtx, t *Token, f *form.Form, status int, do func(context.Context, engine.Request) (*record.View, error)) error {
	if err := t.permit(f.Document); err != nil {
		return err
	}
	if err := g.affords(t); err != nil {
		return err
	}
	req := engine.Request{Document: f.Document, Caller: g.caller(ctx, t)}
	d, err := g.read(ctx, f, &req)
	if err != nil {
		return err
	}
	deadline, cancel := g.deadline()
	defer cancel()
	if len(d.Faults) > 0 { // with what the rules find wrong beside them
		d.MergeMore(func(unread []string) []dte.Fault {
			req.Unread = unread
			return g.o.Sales.Check(deadline, req)
		})
		return exchange.Invalid(d)
	}
	r, err := do(deadline, req)
	var refused *refusal.Error
	if errors.As(err, &refused) && len(refused.Faults) > 0 {
		d.Merge(refused.Faults)
		if refused.Code == refusal.CodeValidation {
			return exchange.Invalid(d)
		}
		p := problem.From(refused)
		p.Faults = d.Faults
		return p
	}
	if err != nil {
		return err
	}
	g.keeps(t, r)
	answerRecord(ctx, status, r)
	return nil
}

// deadline is the time that a request has. The till may hang up: what is begun is finished.
func (g *front) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), g.o.Deadline)
}

// read takes everything that it needs out of the request: none of fasthttp's bytes outlive the handler.
func (g *saleRoutes) read(ctx *fasthttp.RequestCtx, f *form.Form, req *engine.Request) (*form.Filled, error) {
	key, err := exchange.SingleHeader(&ctx.Request.Header, "Idempotency-Key")
	if err != nil {
		return nil, err
	}
	if key != nil {
		if len(key) == 0 || len(key) > 255 || strings.ContainsFunc(string(key), func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			return nil, problem.ForTill(fasthttp.StatusBadRequest, refusal.CodeValidation, "Idempotency-Key lleva de 1 a 255 caracteres ASCII imprimibles")
		}
		req.IdempotencyKey = string(key)
	}
	if req.Wait, err = preference(ctx); err != nil {
		return nil, err
	}
	v, err := exchange.Body(ctx)
	if err != nil {
		return nil, err
	}
	req.Digest, req.BytesDigest = v.Digest(), func() [32]byte { return sha256.Sum256(ctx.PostBody()) }
	d := f.Fill(v, g.o.PaymentCodes)
	req.Facts, req.TestContingency, req.Origin, req.Warnings = d.Facts, d.TestContingency, d.Origin, d.Warnings
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
			return 0, problem.ForTill(fasthttp.StatusBadRequest, refusal.CodeValidation, "Prefer: wait lleva segundos, de 1 a 60")
		}
		ctx.Response.Header.Set("Preference-Applied", "wait="+strconv.Itoa(n))
		return time.Duration(n) * time.Second, nil
	}
	return 0, nil
}
