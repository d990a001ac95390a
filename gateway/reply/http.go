package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
)

// MaxBody is the largest JSON body, in bytes. A larger body is answered with 413.
const MaxBody = 1 << 20

// ErrTooLarge refuses a body that is larger than MaxBody.
var ErrTooLarge = problem.ForTill("TOO_LARGE", "El cuerpo supera 1 MiB (1048576 bytes)")

// Body returns a request's body: strict JSON, not compressed, at most MaxBody. Errors are 400, 413 and 415.
func Body(ctx *fasthttp.RequestCtx) (dte.Value, error) {
	kind, _, _ := strings.Cut(string(ctx.Request.Header.ContentType()), ";")
	if kind = strings.TrimSpace(kind); kind != "" && !strings.EqualFold(kind, "application/json") {
		return dte.Value{}, problem.ForTill("UNSUPPORTED_MEDIA_TYPE", "El cuerpo debe ser application/json")
	}
	for _, encoding := range ctx.Request.Header.PeekAll("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(string(encoding)), "identity") {
			return dte.Value{}, problem.ForTill("UNSUPPORTED_MEDIA_TYPE", "El cuerpo no se admite comprimido")
		}
	}
	b := ctx.PostBody()
	if len(b) > MaxBody {
		return dte.Value{}, ErrTooLarge
	}
	v, err := dte.Parse(b)
	if err != nil {
		return dte.Value{}, syntax(err, b)
	}
	return v, nil
}

// syntax returns the refusal of a body that is not strict JSON. Its fault names line and column, both counted from 1.
func syntax(err error, body []byte) *refusal.Error {
	e := problem.ForTill(refusal.CodeValidation, "El cuerpo no es JSON válido")
	if s, ok := errors.AsType[*dte.SyntaxError](err); ok {
		before := body[:min(max(0, int(s.Offset)), len(body))]
		line := bytes.LastIndexByte(before, '\n') + 1
		where := fmt.Sprintf(" (línea %d, columna %d)", bytes.Count(before, []byte("\n"))+1,
			utf8.RuneCount(before[line:])+1)
		e.Faults = []dte.Fault{{Path: s.Path, Code: s.Code, Message: form.Sentence(s.Message) + where}}
	}
	return e
}

// SingleHeader returns the value of a header, or nil. It refuses two headers of this name with 400, because a proxy may
// read one of them and the appliance the other.
func SingleHeader(h *fasthttp.RequestHeader, name string) ([]byte, error) {
	values := h.PeekAll(name)
	if len(values) > 1 {
		return nil, problem.ForTill(refusal.CodeValidation, "La solicitud lleva dos encabezados "+name)
	}
	return h.Peek(name), nil
}

// CheckQuery refuses, with 400, a query that has an unknown parameter or repeats a parameter: a misspelt filter would
// select everything. names are the parameters of the route.
func CheckQuery(ctx *fasthttp.RequestCtx, names []string) error {
	q := ctx.QueryArgs()
	if q.Len() == 0 {
		return nil
	}
	var faults []dte.Fault
	seen := make(map[string]bool, len(names))
	for key := range q.All() {
		name := string(key)
		switch {
		case len(faults) == form.MaxFaults:
		case !slices.Contains(names, name) && len(names) == 0:
			faults = append(faults, dte.Fault{Path: name, Code: dte.FaultUnknown,
				Message: "No se conoce: esta ruta no lleva parámetros"})
		case !slices.Contains(names, name):
			faults = append(faults, dte.Fault{Path: name, Code: dte.FaultUnknown,
				Message: "No se conoce; los parámetros son " + strings.Join(names, ", ")})
		case seen[name]:
			faults = append(faults, dte.Fault{Path: name, Code: dte.FaultDuplicate,
				Message: "El parámetro está dos veces"})
		}
		seen[name] = true
	}
	return problem.WrongParameters(faults)
}

// TerminalText makes a text from outside safe for a terminal: one line of printable characters, at most 200 bytes.
func TerminalText(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	return strings.TrimSpace(s)
}

// ForOperators is the key of the user value that marks a request to the operators' listener: answers in English.
const ForOperators = "operators"

// ErrorKind is the key of the user value with the answered error's code, for the access log.
const ErrorKind = "log.error"

// Fail answers with the error envelope. Retry-After is rounded up to whole seconds.
func Fail(ctx *fasthttp.RequestCtx, e *refusal.Error) {
	ctx.SetUserValue(ErrorKind, e.Code)
	if ctx.UserValue(ForOperators) != nil {
		e = problem.InEnglish(e)
	} else {
		e = problem.InSpanish(e)
	}
	if e.RetryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds())))))
	}
	status := problem.Status(e.Code)
	if status == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	}
	Answer(ctx, status, Problem(nil, e)) // nil: a new buffer, because the old body may be shared
}

// Answer sends JSON. body must not change until the answer is sent.
func Answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.SetBodyRaw(body)
}

func Show(ctx *fasthttp.RequestCtx, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	Answer(ctx, status, append(b, '\n'))
	return nil
}

// Secure sets the security headers of a page. policy is the page's Content-Security-Policy, see page.StatusPolicy.
func Secure(ctx *fasthttp.RequestCtx, policy string) {
	header := &ctx.Response.Header
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
}

// Language returns "es" or "en": from ?lang=, or else the first of these in Accept-Language, or else a given language.
func Language(ctx *fasthttp.RequestCtx, otherwise string) string {
	wanted := string(ctx.QueryArgs().Peek("lang")) + "," + string(ctx.Request.Header.Peek("Accept-Language"))
	for one := range strings.SplitSeq(wanted, ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(one), ";")
		tag, _, _ = strings.Cut(strings.ToLower(tag), "-")
		if tag == "es" || tag == "en" {
			return tag
		}
	}
	return otherwise
}

// Router finds the handler of a request. It answers an unknown path or method with a problem.
type Router struct{ *router.Router }

func NewRouter() Router {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		Fail(ctx, problem.ForTill("NOT_FOUND", "No existe esta ruta"))
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		Fail(ctx, problem.ForTill("METHOD_NOT_ALLOWED", "Esta ruta no admite el método"))
	}
	return Router{r}
}

// Read adds a route for GET and HEAD. The answer to HEAD has no body.
func (r Router) Read(path string, h fasthttp.RequestHandler) {
	r.GET(path, h)
	r.HEAD(path, h)
}
