package gateway

import (
	"context"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// document answers GET /dte/documento/:codigoGeneracion with the stored record.
func (g *documentRoutes) document(ctx *fasthttp.RequestCtx, t *Token) error {
	code, err := pathCode(ctx)
	if err != nil {
		return err
	}
	deadline, cancel := context.WithTimeout(context.Background(), g.o.Deadline)
	defer cancel()
	r, err := g.o.Documents.Document(deadline, code, g.caller(ctx, t))
	if err != nil {
		return err
	}
	answerRecord(ctx, fasthttp.StatusOK, r)
	return nil
}

// pathCode is the generation code that a path names.
func pathCode(ctx *fasthttp.RequestCtx) (dte.Code, error) {
	value, _ := ctx.UserValue("codigoGeneracion").(string)
	code, err := dte.ParseCode(value)
	if err != nil {
		return code, &problem.Problem{Status: fasthttp.StatusBadRequest, Type: refusal.CodeValidation, Message: "El código de generación no está bien escrito",
			Faults: []dte.Fault{{Path: "codigoGeneracion", Code: dte.FaultPattern, Message: "No es un código de generación: son 36 caracteres en cinco grupos, con guiones"}}}
	}
	return code, nil
}

// information answers GET /dte/information: the issuer as the token's point of sale shows it, and what it may do.
func (g *documentRoutes) information(ctx *fasthttp.RequestCtx, t *Token) error {
	exchange.Answer(ctx, fasthttp.StatusOK, reply.Issuer(g.info, t.Point, t.Permissions))
	return nil
}
