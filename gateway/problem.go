package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/codes"
)

// statuses is the one table from the engine's codes to HTTP.
var statuses = map[string]int{
	refusal.CodeValidation:     fasthttp.StatusBadRequest,
	refusal.CodeKeyConflict:    fasthttp.StatusUnprocessableEntity,
	refusal.CodeNotFound:       fasthttp.StatusNotFound,
	refusal.CodeNoContingency:  fasthttp.StatusNotFound,
	refusal.CodeNotProcessed:   fasthttp.StatusConflict,
	refusal.CodeNotInvalidable: fasthttp.StatusConflict,
	refusal.CodeNotCorrectable: fasthttp.StatusConflict,
	refusal.CodeOriginType:     fasthttp.StatusBadRequest,
	refusal.CodeOriginStatus:   fasthttp.StatusBadRequest,
	refusal.CodeItemNotFound:   fasthttp.StatusBadRequest,
	refusal.CodeOverReturn:     fasthttp.StatusBadRequest,
	refusal.CodePermission:     fasthttp.StatusForbidden,
	refusal.CodeNoRecipient:    fasthttp.StatusConflict,
	refusal.CodeNotYet:         fasthttp.StatusConflict,
	refusal.CodeUnavailable:    fasthttp.StatusServiceUnavailable,
	refusal.CodeStorageFull:    fasthttp.StatusServiceUnavailable,
	refusal.CodeBusy:           fasthttp.StatusTooManyRequests,
	refusal.CodeClockWrong:     fasthttp.StatusServiceUnavailable,
	refusal.CodeStoreBehind:    fasthttp.StatusServiceUnavailable,
	refusal.CodeBoxReplaced:    fasthttp.StatusServiceUnavailable,
	refusal.CodePointClosed:    fasthttp.StatusServiceUnavailable,
	refusal.CodeRuleFailed:     fasthttp.StatusServiceUnavailable,
	refusal.CodeInternal:       fasthttp.StatusInternalServerError,
}

// Problem is an error as the tills see it.
type Problem struct {
	Status         int
	Type           string
	Message        string
	Faults         []dte.Fault // paths of the request
	RequiredFields []string    // SPEC section 7, RECEPTOR_VALIDATION_ERROR
	RetryAfter     time.Duration
	Document       string // IDEMPOTENCY_CONFLICT: codigoGeneracion of the document that the key made
	Operator       bool   // the texts are English
	English        string // the message for an operator; "": what the list of codes says
}

// forOperators marks a request of the operators' listener: who reads its answer reads English.
const forOperators = "operators"

// english is the problem for an operator. A text that was written for tills gives way to what the list of codes says.
func (p *Problem) english() *Problem {
	if p.Operator {
		return p
	}
	e := *p
	e.Message = codes.English(p.Type, p.Message, p.English)
	e.Faults = slices.Clone(p.Faults)
	for i := range e.Faults {
		if c, ok := codes.Find(e.Faults[i].Code); ok {
			e.Faults[i].Message = c.Meaning.EN
		}
	}
	return &e
}

// spanish is the problem for a till. A text that was written for operators gives way to what the list of codes says.
func (p *Problem) spanish() *Problem {
	if !p.Operator {
		return p
	}
	s := *p
	s.Message = codes.Spanish(p.Type)
	s.Faults = slices.Clone(p.Faults)
	for i := range s.Faults {
		s.Faults[i].Message = codes.Spanish(s.Faults[i].Code)
	}
	return &s
}

// OperatorText is an error for whoever runs the appliance: in English, with its code and its cause.
func OperatorText(err error) string {
	var e *refusal.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := e.Code + ": " + codes.OperatorMessage(e)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// operatorProblem is a problem that only operators meet, in English.
func operatorProblem(status int, kind, message string) *Problem {
	return &Problem{Status: status, Type: kind, Message: message, Operator: true}
}

func (p *Problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Type, p.Message) }

func problem(status int, kind, message string) *Problem {
	return &Problem{Status: status, Type: kind, Message: message}
}

// refuse makes HTTP of an error. What is not meant for the till goes to the log.
func (g *front) refuse(ctx *fasthttp.RequestCtx, route string, err error) {
	var p *Problem
	var e *refusal.Error
	switch {
	case errors.As(err, &p):
	case errors.As(err, &e):
		p = problemOf(e)
		if e.Code == refusal.CodeBusy {
			g.metrics.refused(listenerAPI, "printing")
		}
		if e.Err != nil {
			g.o.Logger.Error("request failed", "route", route, "type", e.Code, "error", e.Err)
		}
	default:
		g.o.Logger.Error("request failed", "route", route, "error", err)
		p = problem(fasthttp.StatusInternalServerError, refusal.CodeInternal, "Error interno")
	}
	g.slowed(ctx, p.Status)
	fail(ctx, p)
}

// problemOf is the engine's error as a problem.
func problemOf(e *refusal.Error) *Problem {
	return &Problem{Status: statuses[e.Code], Type: e.Code, Message: e.Message, Faults: e.Faults, RetryAfter: e.RetryAfter, Document: e.Document, Operator: e.Operator, English: e.English}
}

// renamed gives the faults of an engine's error the names that the request has for them.
func renamed(err error, rename func([]dte.Fault) []dte.Fault) error {
	var refused *refusal.Error
	if !errors.As(err, &refused) {
		return err
	}
	c := *refused
	c.Faults = rename(refused.Faults)
	return &c
}

// fail writes the error envelope.
func fail(ctx *fasthttp.RequestCtx, p *Problem) {
	ctx.SetUserValue(loggedError, p.Type)
	if ctx.UserValue(forOperators) != nil {
		p = p.english()
	} else {
		p = p.spanish()
	}
	b := append(ctx.Response.Body()[:0], `{"status":"error","type":`...)
	b = text(b, p.Type)
	b = text(append(b, `,"message":`...), p.Message)
	if len(p.RequiredFields) > 0 {
		b = texts(append(b, `,"requiredFields":`...), p.RequiredFields)
	}
	if p.Document != "" {
		b = text(append(b, `,"codigoGeneracion":`...), p.Document)
	}
	b = append(b, `,"errors":[`...)
	for i, f := range p.Faults {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"path":`...), f.Path)
		b = text(append(b, `,"code":`...), f.Code)
		b = append(text(append(b, `,"message":`...), f.Message), '}')
	}
	b = append(b, `]}`...)
	if p.RetryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(max(1, int(p.RetryAfter.Seconds()))))
	}
	if p.Status == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	}
	answer(ctx, p.Status, b)
}

func answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.SetBodyRaw(body)
}

// text and texts write JSON strings through the vocabulary's encoder.
func text(b []byte, s string) []byte { return dte.Str(s).Append(b) }

func texts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(b, s)
	}
	return append(b, ']')
}
