// Package authority speaks MH's protocol over HTTP: login, reception, query. A sending is Accepted, Rejected or
// Unknown. For Unknown, Outcome.Sent says whether MH may have received the document.
package authority

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"dtegate/engine/authority/connpool"
	"dtegate/engine/redacted"
)

// Options of New.
type Options struct {
	BaseURL   string        // "https://apitest.dtes.mh.gob.sv"
	NIT       string        // the user of the API: the issuer's NIT without hyphens
	Password  redacted.Text // of the API
	Ambiente  string        // CAT-001
	UserAgent string        // MH requires a User-Agent on every call (MT1 §4)
	// Transport sends requests. Default: a connpool.Link to BaseURL without Run, which connects when a request comes.
	Transport     http.RoundTripper
	Now           func() time.Time
	AnswerTimeout time.Duration // how long a call waits for MH's answer, default 8 s (MT1 §3.3)
	// Rehearsal accepts a simulated authority's seals in production. Without Rehearsal they give ErrSimulated.
	Rehearsal bool
}

// Client makes the calls to MH's service. It is safe for concurrent use.
type Client struct {
	options Options
	http    *http.Client
	metrics *metrics

	logins singleflight.Group

	mu      sync.Mutex // guards the fields below
	token   string
	expires time.Time
	refusal error // MH's latest refusal of the credentials; nil after a good login
	refused time.Time
	said    time.Time // MH's time in its latest answer
	heard   time.Time // when that answer came
}

// Time returns MH's time, zero before MH's first answer: the time in MH's latest answer plus the time since then. A
// change of the box's clock does not affect it. It lags MH's clock by up to a second plus the answer's delay.
func (c *Client) Time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.IsZero() {
		return time.Time{}
	}
	return c.said.Add(time.Since(c.heard))
}

// Format prints MH's address. Without Format, fmt would print the fields, with the password and the token.
func (c *Client) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "authority %s", c.options.BaseURL)
}

// New returns a client; it connects to nothing.
func New(o Options) *Client {
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 8*time.Second)
	if o.Transport == nil {
		o.Transport = connpool.New(connpool.Options{URL: o.BaseURL})
	}
	return &Client{options: o, metrics: newMetrics(), http: &http.Client{
		Transport: o.Transport,
		// A redirect could carry a document to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Kind is the result of a call.
type Kind uint8

const (
	// Unknown: MH gave no answer, or an answer that decides nothing.
	Unknown Kind = iota
	Accepted
	Rejected
	// NotFound, only for queries: MH does not have the document.
	NotFound
)

// Outcome is the result of one call.
type Outcome struct {
	Kind     Kind
	Response *Response // for Accepted, Rejected and ErrQuery; for NotFound if MH sent it; nil for a lot or its event
	// Sent, for Unknown: MH may have received the document. If Sent is false, MH certainly did not.
	Sent bool
	Err  error // why the result is Unknown
}

// CodeRegistered is the codigoMsg of a refused document whose code or number MH already has.
const CodeRegistered = "004"

// Response is MH's answer about a document (SPEC 2.3). Null texts are empty; Observaciones is never nil.
type Response struct {
	Version          int      `json:"version"`
	Ambiente         string   `json:"ambiente"`
	VersionApp       int      `json:"versionApp"`
	Estado           string   `json:"estado"`
	CodigoGeneracion string   `json:"codigoGeneracion"`
	SelloRecibido    string   `json:"selloRecibido"`
	FhProcesamiento  string   `json:"fhProcesamiento"`
	ClasificaMsg     string   `json:"clasificaMsg"`
	CodigoMsg        string   `json:"codigoMsg"`
	DescripcionMsg   string   `json:"descripcionMsg"`
	Observaciones    []string `json:"observaciones"`
}

// Submission is a document that is sent to MH (MT1 §4.2), or the event of an invalidation (MT1 §4.6).
type Submission struct {
	Document string // CAT-002; "" for an event
	Version  int    // identificacion.version
	Code     string // codigoGeneracion
	JWS      string
	SendID   int64 // idEnvio: any number
}

var (
	// ErrSimulated: an appliance in production received a seal of the simulated authority.
	ErrSimulated = errors.New("the seal is a simulated one, in production")
	// ErrAnswer: the answer does not have MH's form.
	ErrAnswer = errors.New("the answer is not one of MH's")
	// ErrQuery: MH refused the query itself. This proves nothing about the document.
	ErrQuery = errors.New("MH refuses the query")
)

// Submit sends a document, once more after a new login if MH refuses the token.
func (c *Client) Submit(ctx context.Context, s Submission) (o Outcome) {
	defer c.observe("submit", &o)()
	body := map[string]any{"ambiente": c.options.Ambiente, "idEnvio": s.SendID, "version": s.Version,
		"tipoDte": s.Document, "documento": s.JWS, "codigoGeneracion": s.Code}
	return c.send(ctx, "/fesv/recepciondte", body, s.Code)
}

// send posts a document or an event. The result is never NotFound.
func (c *Client) send(ctx context.Context, path string, body any, code string) Outcome {
	o := c.ask(ctx, path, body, code)
	if o.Kind == NotFound {
		return Outcome{Kind: Unknown, Sent: true, Err: ErrAnswer}
	}
	return o
}

// Invalidate sends the event of an invalidation once. The answer and its seal are about the event.
func (c *Client) Invalidate(ctx context.Context, e Submission) (o Outcome) {
	defer c.observe("invalidate", &o)()
	body := map[string]any{"ambiente": c.options.Ambiente, "idEnvio": e.SendID, "version": e.Version,
		"documento": e.JWS}
	return c.send(ctx, "/fesv/anulardte", body, e.Code)
}

// Query asks MH for the document with a code (MT1 §4.3). If Kind is Accepted, Response is about the document.
func (c *Client) Query(ctx context.Context, document, code string) (o Outcome) {
	defer c.observe("query", &o)()
	body := map[string]any{"nitEmisor": c.options.NIT, "tdte": document, "codigoGeneracion": code}
	if o = c.ask(ctx, "/fesv/recepcion/consultadte/", body, code); o.Kind == Rejected {
		return notFound(o)
	}
	return o
}

// notFound reads the refusal of a query. For an unknown code, the manual shows HTTP 400 and RECHAZADO, with a
// placeholder for codigoMsg (MT1 §4.3.1). RECHAZADO may also mean that MH has rejected the document: MH will reject a
// resend too. If MH refuses the query's own values (003, 006, 007, 095), MH may have the document.
func notFound(o Outcome) Outcome {
	switch o.Response.CodigoMsg {
	case "003", "006", "007", "095":
		return Outcome{Kind: Unknown, Response: o.Response, Sent: true,
			Err: fmt.Errorf("%w: %s %s", ErrQuery, o.Response.CodigoMsg, o.Response.DescripcionMsg)}
	}
	o.Kind = NotFound
	return o
}

// answer has the members of MH's answer, by name in small letters. A member may have any type: a sealed document counts
// as accepted even if codigoMsg is a number.
type answer map[string]json.RawMessage

func readAnswer(b []byte) (answer, error) {
	var members map[string]json.RawMessage
	err := json.Unmarshal(b, &members)
	a := make(answer, len(members))
	for name, value := range members {
		a[strings.ToLower(name)] = value
	}
	return a, err
}

// text returns a member as text: "" for null and for a missing member, the JSON of a number or another value.
func (a answer) text(name string) string { return textOf(a[strings.ToLower(name)]) }

func textOf(b json.RawMessage) string {
	s := ""
	if len(b) > 0 && json.Unmarshal(b, &s) != nil { // null leaves s empty
		s = string(b)
	}
	return bounded(s)
}

// number returns a member as a number, or 0 if it is not a number. No decision depends on the result.
func (a answer) number(name string) int {
	n, _ := strconv.Atoi(a.text(name))
	return n
}

// Limits of MH's texts, because records keep the texts, and tills and operators' terminals show them.
const (
	maxText  = 2000 // characters of one text; the longest text so far has some 300
	maxTexts = 100  // texts of one list
)

// bounded returns MH's text for records: one line without control characters, of at most maxText characters.
func bounded(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > maxText {
		s = string([]rune(s)[:maxText-1]) + "…"
	}
	return s
}

// texts returns a member that is a list of texts, a text or null, without the empty texts that MH adds.
func (a answer) texts(name string) []string {
	member := a[strings.ToLower(name)]
	var list []json.RawMessage
	if json.Unmarshal(member, &list) != nil {
		list = []json.RawMessage{member}
	}
	texts := []string{}
	for _, one := range list {
		if s := strings.TrimSpace(textOf(one)); s != "" {
			texts = append(texts, s)
		}
	}
	if more := len(texts) - maxTexts; more > 0 {
		texts = append(texts[:maxTexts:maxTexts], fmt.Sprintf("y %d observaciones más", more))
	}
	return texts
}

// Unreachable reports whether the outcome is Unknown and MH certainly has not received the document.
func (o Outcome) Unreachable() bool { return o.Kind == Unknown && !o.Sent }

// Reason returns the outcome's error as a text for people, at most 300 characters; "" without an error.
func (o Outcome) Reason() string {
	if o.Err == nil {
		return ""
	}
	s := []rune(o.Err.Error())
	return string(s[:min(len(s), 300)])
}

// NoRoute reports whether a call failed in looking up the host's name, or for lack of a route.
func NoRoute(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)
}

type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	logins   *prometheus.CounterVec
	up       prometheus.Gauge
	expiry   prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_authority_requests_total",
			Help: "Calls to MH by operation and result: accepted, rejected, not_found, unknown, unreachable, " +
				"simulated."}, []string{"operation", "result"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dte_authority_request_duration_seconds",
			Help: "Time of a call to MH, its login included.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1,
				2, 4, 8, 16}}, []string{"operation"}),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_authority_logins_total",
			Help: "Logins by result: ok, refused, unknown."}, []string{"result"}),
		up: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_authority_up",
			Help: "1 when the last call to MH was answered, 0 when it was not."}),
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_authority_token_expiry_timestamp_seconds",
			Help: "When the token of MH's API will be renewed, as Unix time; 0 before the first login."}),
	}
	for _, r := range []string{"ok", "refused", "unknown"} {
		m.logins.WithLabelValues(r)
	}
	return m
}

// observe begins to measure a call. It returns the function that counts the call's outcome.
func (c *Client) observe(operation string, o *Outcome) func() {
	began := c.options.Now()
	return func() { c.metrics.count(operation, *o, c.options.Now().Sub(began)) }
}

func (m *metrics) count(operation string, o Outcome, took time.Duration) {
	result := [...]string{Unknown: "unknown", Accepted: "accepted", Rejected: "rejected", NotFound: "not_found"}[o.Kind]
	switch {
	case errors.Is(o.Err, ErrSimulated):
		result = "simulated"
	case o.Kind == Unknown && !o.Sent:
		result = "unreachable"
	}
	m.requests.WithLabelValues(operation, result).Inc()
	m.latency.WithLabelValues(operation).Observe(took.Seconds())
	if o.Kind == Unknown {
		m.up.Set(0)
	} else {
		m.up.Set(1)
	}
}

func (c *Client) Collect(ch chan<- prometheus.Metric) {
	m := c.metrics
	for _, one := range []prometheus.Collector{m.requests, m.latency, m.logins, m.up, m.expiry} {
		one.Collect(ch)
	}
}

// maxAnswer is the largest answer that the client reads, in bytes.
const maxAnswer = 1 << 20

// ask posts a body and reads MH's answer about the document with a code.
func (c *Client) ask(ctx context.Context, path string, body any, code string) Outcome {
	status, answer, sent, err := c.exchange(ctx, http.MethodPost, path, body)
	if err != nil {
		return Outcome{Sent: sent, Err: err}
	}
	return c.decide(status, answer, code)
}

// exchange sends a request. If MH refuses the token, exchange logs in and sends the request once more.
func (c *Client) exchange(ctx context.Context, method, path string, body any) (status int, answer []byte, sent bool,
	err error) {
	var payload []byte
	if body != nil {
		if payload, err = json.Marshal(body); err != nil {
			return 0, nil, false, fmt.Errorf("encoding request: %w", err)
		}
	}
	for try := 0; ; try++ {
		token, err := c.authorize(ctx)
		if err != nil {
			return 0, nil, false, fmt.Errorf("logging in: %w", err)
		}
		status, answer, sent, err := c.request(ctx, method, path, "application/json", token, payload)
		if err != nil {
			return 0, nil, sent, err
		}
		if status == http.StatusUnauthorized {
			c.forget(token)
			if try == 0 {
				continue
			}
			return 0, nil, false, errors.New("MH refuses a token that it has just given")
		}
		return status, answer, true, nil
	}
}

// request sends one request. sent is false only if no byte of the request was written.
func (c *Client) request(ctx context.Context, method, path, contentType, token string, payload []byte) (status int,
	answer []byte, sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.AnswerTimeout)
	defer cancel()
	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{
		WroteHeaders: func() { wrote.Store(true) },
		WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Store(true) },
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method,
		strings.TrimSuffix(c.options.BaseURL, "/")+path, bytes.NewReader(payload))
	if err != nil {
		return 0, nil, false, fmt.Errorf("making request: %w", err)
	}
	// Without GetBody the transport cannot resend the body by itself, on another connection.
	req.GetBody = nil
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", c.options.UserAgent)
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, wrote.Load(), fmt.Errorf("asking MH: %w", err)
	}
	defer resp.Body.Close()
	if said, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		c.mu.Lock()
		c.said, c.heard = said, time.Now()
		c.mu.Unlock()
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(answer) > maxAnswer {
		return 0, nil, true, fmt.Errorf("reading MH's answer: %w", errors.Join(err, ErrAnswer))
	}
	return resp.StatusCode, answer, true, nil
}

// sello is the form of every seal seen so far: a year, a UUID without hyphens, four characters.
var sello = regexp.MustCompile(`^20\d\d[0-9A-F]{32}[A-Z0-9]{4}$`)

// decide reads an answer. If it is not MH's, or is about another document, the outcome is Unknown.
func (c *Client) decide(status int, answer []byte, code string) Outcome {
	// A 404 with an empty or JSON body is MH's answer; a 404 with a page is a proxy's.
	if status == http.StatusNotFound && len(bytes.TrimSpace(answer)) == 0 {
		return Outcome{Kind: NotFound}
	}
	a, err := readAnswer(answer)
	if err != nil {
		return undecided(status, "%.60q", answer)
	}
	r := a.response()
	if status == http.StatusNotFound && r.CodigoGeneracion == "" {
		return Outcome{Kind: NotFound}
	}
	if r.CodigoGeneracion != code {
		return undecided(status, "it is about %.60q", r.CodigoGeneracion)
	}
	switch {
	case status == http.StatusOK && r.Estado == "PROCESADO":
		if !sello.MatchString(r.SelloRecibido) {
			return undecided(status, "the seal %.60q has not MH's form", r.SelloRecibido)
		}
		return c.accepted(r.SelloRecibido, r)
	case (status == http.StatusOK || status == http.StatusBadRequest || status == http.StatusNotFound) &&
		r.Estado == "RECHAZADO" && r.SelloRecibido == "":
		return Outcome{Kind: Rejected, Response: r}
	}
	return undecided(status, "estado %.60q", r.Estado)
}

// undecided returns the outcome of an answer that decides nothing about the document.
func undecided(status int, format string, args ...any) Outcome {
	return Outcome{Sent: true, Err: fmt.Errorf("%w: HTTP %d: %s", ErrAnswer, status, fmt.Sprintf(format, args...))}
}

// accepted returns the outcome of an answer with a seal. Without Rehearsal a simulated seal in production is an error.
func (c *Client) accepted(seal string, r *Response) Outcome {
	if c.options.Ambiente == "01" && !c.options.Rehearsal && strings.HasSuffix(seal, "SIMU") {
		return Outcome{Sent: true, Err: ErrSimulated}
	}
	return Outcome{Kind: Accepted, Response: r}
}

func (a answer) response() *Response {
	return &Response{
		Version: a.number("version"), VersionApp: a.number("versionApp"), Ambiente: a.text("ambiente"),
		Estado: a.text("estado"), CodigoGeneracion: a.text("codigoGeneracion"), SelloRecibido: a.text("selloRecibido"),
		FhProcesamiento: a.text("fhProcesamiento"), ClasificaMsg: a.text("clasificaMsg"),
		CodigoMsg: a.text("codigoMsg"), DescripcionMsg: a.text("descripcionMsg"),
		Observaciones: a.texts("observaciones"),
	}
}
