package gateway

import (
	"context"
	"errors"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/refusal"
)

// correct answers POST /dte/correccion/:codigoGeneracion: the sale as it should have been, in the body of the document's
// own endpoint. It takes the permission of the document.
func (g *Gateway) correct(ctx *fasthttp.RequestCtx, t *Token) error {
	code, err := pathCode(ctx)
	if err != nil {
		return err
	}
	deadline, cancel := context.WithTimeout(context.Background(), g.o.Deadline)
	defer cancel()
	r, err := g.o.Engine.Document(deadline, code, g.caller(ctx, t))
	if err != nil {
		return err
	}
	if err := t.permit(r.Document); err != nil {
		return err
	}
	if err := g.affords(t); err != nil {
		return err
	}
	e := endpoints[r.Document]
	req := engine.Request{Document: r.Document, Caller: g.caller(ctx, t)}
	d, err := g.read(ctx, e, &req)
	if err != nil {
		return err
	}
	if len(d.faults) > 0 {
		return g.wholly(deadline, d, req)
	}
	r, err = g.o.Engine.Correct(deadline, code, req)
	var refused *refusal.Error
	if errors.As(err, &refused) && len(refused.Faults) > 0 {
		d.merge(refused.Faults)
		return e.invalid(d.faults)
	}
	if err != nil {
		return err
	}
	g.keeps(t, r)
	answerRecord(ctx, fasthttp.StatusOK, r)
	return nil
}
