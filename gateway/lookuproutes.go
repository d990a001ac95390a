package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// infos answers POST /dte/documentos-info (SPEC 4.10), in the order of the request.
func (g *Gateway) infos(c *call) error {
	v, err := reply.Body(c.ctx)
	if err != nil {
		return err
	}
	codes, d := form.Lookup(v)
	if len(d.Faults) > 0 {
		return d.Refusal()
	}
	found, err := g.o.Documents.Infos(c.deadline, codes, c.caller)
	if err != nil {
		return err
	}
	return c.answer(reply.Infos(found))
}

// Limits of a page of GET /dte/documentos.
const (
	pageDefault = 100
	pageMax     = 500
)

// list answers GET /dte/documentos with one page of the documents that match a period, point of sale, type and state,
// or a search, and with the totals of all pages.
func (g *Gateway) list(c *call) error {
	f := g.filter(&c.query, c.token)
	if err := c.query.err(); err != nil {
		return err
	}
	if readable := c.caller.Readable(); readable != nil {
		if len(f.Documents) == 0 {
			f.Documents = readable
		}
		if len(f.Documents) == 0 || slices.ContainsFunc(f.Documents,
			func(d string) bool { return !slices.Contains(readable, d) }) {
			return problem.ForTill(refusal.CodePermission,
				"El token no puede leer documentos de este tipo: necesita el permiso "+record.PermissionRead)
		}
	}
	leave, err := g.reads(c)
	if err != nil {
		return err
	}
	defer leave()
	found, err := g.o.Documents.List(c.deadline, f, c.caller)
	if err != nil {
		return err
	}
	return c.answer(reply.Listing(found))
}

// reads waits for the token's turn: only a few requests may read many documents at once. leave ends the turn.
func (g *Gateway) reads(c *call) (leave func(), err error) {
	leave, err = g.readers.Enter(c.deadline, c.token.ID)
	if busy, ok := errors.AsType[*fairqueue.Busy](err); ok {
		g.metrics.refused(listenerAPI, "readers")
		return nil, problem.TooMany(busy.Wait, "Demasiadas listas a la vez con este token")
	}
	if err != nil {
		return nil, &refusal.Error{Code: refusal.CodeUnavailable, RetryAfter: time.Second,
			Message: "Hay demasiadas listas a la vez"}
	}
	return leave, nil
}

var filters = []string{"desde", "hasta", "puntoVenta", "tipo", "estado", "cursor", "limite", "numeroControl",
	"receptor", "monto", "clave"}

var states = []string{record.EstadoProcessed, record.EstadoRejected, record.EstadoContingency, record.EstadoInvalidated}

// filter reads the query of GET /dte/documentos: desde and hasta (days of El Salvador, today by default), puntoVenta
// ("propio" or an id; all by default), tipo (types of CAT-002, separated by commas), estado, cursor, limite, and the
// values that searched reads.
func (g *Gateway) filter(q *query, t *Token) documents.Filter {
	today := dte.Date(g.o.Now())
	var f documents.Filter
	var from, to time.Time
	f.From, from = q.day("desde", today)
	f.To, to = q.day("hasta", max(f.From, today))
	if len(q.faults) == 0 && (to.Before(from) || to.Sub(from) > (documents.MaxDays-1)*24*time.Hour) {
		q.fault("hasta", dte.FaultFormat, fmt.Sprintf("Debe estar entre desde y %d días después", documents.MaxDays-1))
	}
	number := func(name string, base int, high, preset int64) int64 {
		return q.number(name, base, 1, high, preset, dte.FaultFormat, "No es válido")
	}
	f.Limit = int(number("limite", 10, pageMax, pageDefault))
	f.After = number("cursor", 36, 1<<62, 0)
	if f.PointID = t.Point.ID; q.text("puntoVenta") != "propio" {
		f.PointID = number("puntoVenta", 10, 1<<62, 0)
	}
	if v := q.text("tipo"); v != "" {
		f.Documents = strings.Split(v, ",")
		if slices.ContainsFunc(f.Documents, func(d string) bool { return record.TypeOf(d).Document == "" }) {
			q.fault("tipo", dte.FaultFormat, "Cada tipo debe ser uno de "+strings.Join(documentTypes(), ", "))
		}
	}
	if f.Estado = q.text("estado"); f.Estado != "" && !slices.Contains(states, f.Estado) {
		q.fault("estado", dte.FaultFormat, "Debe ser uno de "+strings.Join(states, ", "))
	}
	searched(&f, q)
	return f
}

// leastReceiver is the smallest number of letters and digits in a search for a receiver.
const leastReceiver = 3

// searched reads the values of a search: numeroControl, receptor (an identification number, or a part of the name),
// monto, and clave (an Idempotency-Key).
func searched(f *documents.Filter, q *query) {
	f.ControlNumber = strings.ToUpper(q.text("numeroControl"))
	if f.ControlNumber != "" && len(f.ControlNumber) != 31 {
		q.fault("numeroControl", dte.FaultFormat,
			"Debe ser el número de control completo: DTE-01-M001P001-000000000000001")
	}
	f.Receiver = strings.TrimSpace(q.text("receptor"))
	if q.args.Has("receptor") && (!utf8.ValidString(f.Receiver) ||
		utf8.RuneCountInString(record.Compact(f.Receiver)) < leastReceiver) {
		q.fault("receptor", dte.FaultFormat,
			"Debe llevar al menos tres letras del nombre, o el número del documento de identificación")
	}
	if v := q.text("monto"); v != "" {
		amount, err := dte.ParseAmount(v)
		if f.Amount = &amount; err != nil {
			q.fault("monto", dte.FaultFormat, "Debe ser un monto en dólares, como 11.30")
		}
	}
	f.Key = q.text("clave")
}

func documentTypes() (list []string) {
	for _, t := range record.Known() {
		list = append(list, t.Document)
	}
	return list
}

const maxWait = 60 * time.Second

// changes answers GET /dte/cambios?desde=CURSOR&wait=SECONDS with the late results (MH's decisions after the answer to
// the till) in order. The till sends the answer's siguiente as the next desde.
func (g *Gateway) changes(c *call) error {
	q := &c.query
	after := q.number("desde", 36, 0, math.MaxInt64, 0, dte.FaultFormat,
		"No es un cursor: use el siguiente de la respuesta anterior")
	wait := q.number("wait", 10, 0, int64(maxWait/time.Second), 0, dte.FaultRange,
		"Debe ser un número de segundos, de 0 a 60")
	if err := q.err(); err != nil {
		return err
	}
	until, cancel := context.WithTimeout(g.serving, time.Duration(wait)*time.Second)
	defer cancel()
	list, next, err := g.o.Documents.Changes(until, uint64(after), c.caller)
	if errors.Is(err, documents.ErrCursor) {
		q.fault("desde", dte.FaultRange,
			"El cursor no es de este equipo, o el equipo fue restaurado: empiece de nuevo, sin desde")
		return q.err()
	}
	if err != nil {
		return err
	}
	if _, err := g.authenticate(c.ctx); err != nil { // the token was revoked during the wait
		return err
	}
	return c.answer(reply.Changes(list, next))
}

func (g *Gateway) document(c *call) error {
	r, err := g.o.Documents.Document(c.deadline, c.code, c.caller)
	if err != nil {
		return err
	}
	return answerRecord(c.ctx, fasthttp.StatusOK, r)
}

func pathCode(ctx *fasthttp.RequestCtx) (dte.Code, error) {
	value, _ := ctx.UserValue("codigoGeneracion").(string)
	code, err := dte.ParseCode(value)
	if err != nil {
		return code, &refusal.Error{Code: refusal.CodeValidation,
			Message: "El código de generación no está bien escrito",
			Faults: []dte.Fault{{Path: "codigoGeneracion", Code: dte.FaultPattern,
				Message: "No es un código de generación: son 36 caracteres en cinco grupos, con guiones"}}}
	}
	return code, nil
}

// information answers GET /dte/information with the issuer, the token's point of sale and the token's permissions.
func (g *Gateway) information(c *call) error {
	return c.answer(reply.Issuer(g.o.Issuer, c.token.Point, c.token.Permissions))
}

// daily counts how many bytes each token has stored on a day of El Salvador, so that no till can fill the disk. After a
// restart, recall reads the counts from the store.
type daily struct {
	most int64

	mu   sync.Mutex
	day  string
	used map[int64]int64
}

// left returns 0 if a token may store more today, else the time until midnight.
func (d *daily) left(token int64, now time.Time) (wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn(now)
	if d.used[token] < d.most {
		return 0
	}
	local := now.In(dte.Zone)
	midnight := time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, 0, dte.Zone)
	return midnight.Sub(now)
}

// add counts bytes that a token has stored on a day, unless the day has ended.
func (d *daily) add(day string, token, bytes int64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turn(now); d.day == day {
		d.used[token] += bytes
	}
}

// turn starts a new count when the day changes. The caller holds mu.
func (d *daily) turn(now time.Time) {
	if day := dte.Date(now); day != d.day {
		d.day, d.used = day, make(map[int64]int64)
	}
}

func (g *Gateway) overQuota(wait time.Duration) error {
	g.metrics.refused(listenerAPI, "daily")
	return &refusal.Error{Code: "QUOTA_EXCEEDED", RetryAfter: wait,
		Message: "Este token ya guardó hoy todo lo que se le permite: avise a quien administra el equipo"}
}

// affordsLarge refuses n bytes of a body over 32 KiB from a token that sends such bodies too fast. It is called before
// these bytes are read, so that a flood of large bodies does not slow the other tokens.
func (g *Gateway) affordsLarge(token int64, n int) error {
	if wait := g.large.TakeMany(strconv.FormatInt(token, 10), n>>10, g.o.Now()); wait > 0 {
		return problem.TooMany(wait, "Demasiadas ventas grandes seguidas con este token")
	}
	return nil
}

// recall adds to g.daily the bytes that the tokens stored today before the start.
func (g *Gateway) recall(ctx context.Context) {
	if g.o.Usage == nil {
		return
	}
	now := g.o.Now()
	used, err := g.o.Usage(ctx, dte.Date(now))
	if err != nil {
		if ctx.Err() == nil {
			g.o.Logger.Error("the tokens' bytes of today begin anew", "error", err)
		}
		return
	}
	for token, bytes := range used {
		g.daily.add(dte.Date(now), token, bytes, g.o.Now())
	}
}

type query struct {
	args   *fasthttp.Args
	faults []dte.Fault
}

func (q *query) fault(name, code, message string) {
	q.faults = append(q.faults, dte.Fault{Path: name, Code: code, Message: message})
}

func (q *query) err() error { return problem.WrongParameters(q.faults) }

func (q *query) text(name string) string { return string(q.args.Peek(name)) }

func (q *query) day(name, preset string) (day string, at time.Time) {
	day = cmp.Or(q.text(name), preset)
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		q.fault(name, dte.FaultFormat, "Debe ser una fecha AAAA-MM-DD")
	}
	return day, at
}

// number reads a whole number from low to high, preset if the parameter is missing.
func (q *query) number(name string, base int, low, high, preset int64, code, message string) int64 {
	v := q.text(name)
	if v == "" {
		return preset
	}
	n, err := strconv.ParseInt(v, base, 64)
	if err != nil || n < low || n > high {
		q.fault(name, code, message)
	}
	return n
}

// pick reads one of the allowed words, preset if the parameter is missing.
func (q *query) pick(name, preset string, allowed ...string) string {
	v := q.text(name)
	switch {
	case v == "":
		return preset
	case !slices.Contains(allowed, v):
		q.fault(name, dte.FaultEnum, "Debe ser "+strings.Join(allowed, ", "))
	}
	return v
}
