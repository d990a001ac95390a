package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/record"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/door"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// heard is a branch that remembers what it was asked.
type heard struct {
	*said
	filter  documents.Filter
	sale    engine.Request
	asked   string
	archive string // the address of a link into the archive
	refuses bool   // MH refuses invalidations
}

func (h *heard) List(ctx context.Context, f documents.Filter, c record.Caller) (*documents.Listing, error) {
	h.filter = f
	return h.said.List(ctx, f, c)
}

func (h *heard) Changes(ctx context.Context, after uint64, c record.Caller) ([]documents.Late, uint64, error) {
	left := time.Duration(0)
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end).Round(time.Second)
	}
	h.asked = fmt.Sprint(after, " ", left)
	return h.said.Changes(ctx, after, c)
}

func (h *heard) Closing(ctx context.Context, date string, asX bool, point int64, c record.Caller,
	now time.Time) (*documents.Closing, error) {
	h.asked = fmt.Sprint(date, " ", asX, " ", point)
	return h.said.Closing(ctx, date, asX, point, c, now)
}

func (h *heard) Issue(ctx context.Context, req engine.Request) (*record.View, error) {
	h.sale = req
	return h.said.Issue(ctx, req)
}

// asker calls a gateway's routes without a wire.
type asker struct {
	g     *Gateway
	heard *heard
}

func newAsker(o Options, tokens ...Token) *asker {
	secret := []byte("secret of the test")
	for i := range tokens {
		tokens[i].Hash = keyed(fmt.Sprint(tokens[i].ID), secret)
	}
	h := &heard{said: new(said)}
	o.Sales, o.Documents, o.Outbox, o.Tokens = h, h, h, NewTokenTable(secret, tokens)
	return &asker{New(o), h}
}

func (a *asker) ask(token int64, method, uri, body string, headers ...string) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	ctx.Request.Header.SetMethod(method)
	ctx.Request.SetRequestURI(uri)
	ctx.Request.SetBodyString(body)
	if token != 0 {
		ctx.Request.Header.Set("x-api-token", fmt.Sprint(token))
	}
	for i := 0; i < len(headers); i += 2 {
		ctx.Request.Header.Add(headers[i], headers[i+1])
	}
	a.g.routes().Handler(ctx)
	return ctx
}

// TestParameters: each parameter at its bounds and just beyond them; a refusal names the parameter, and the engine
// learns what was asked.
func TestParameters(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC) // the 21st in El Salvador
	a := newAsker(Options{Now: func() time.Time { return now }, Limits: Limits{Rate: 1000}},
		Token{ID: 1, Point: record.Point{ID: 5}})
	for _, c := range []struct{ path, good, bad string }{ // the last parameter is the bad one
		{"documentos", "limite=1 limite=500", "limite=0 limite=501 limite=x limite=1.0 limite=1&limite=1 otro=1"},
		{"documentos", "cursor=z", "cursor=0 cursor=-1 cursor=*"},
		{"documentos", "puntoVenta=7 puntoVenta=propio", "puntoVenta=0 puntoVenta=M001P001"},
		{"documentos", "desde=2026-11-22 hasta=2026-11-21 desde=2026-10-01&hasta=2026-10-31", "desde=2026-13-01 " +
			"hasta=2026-11-20 desde=2026-11-20&hasta=2026-11-19 desde=2026-10-01&hasta=2026-11-01"},
		{"documentos", "tipo=01 tipo=01,03", "tipo=01,02 tipo=1"},
		{"documentos", "estado=PROCESSED estado=INVALIDATED estado=REJECTED estado=CONTINGENCIA", "estado=processed"},
		{"documentos", "numeroControl=DTE-01-M001P001-000000000000001", "numeroControl=DTE-01-M001P001-00000000000001"},
		{"documentos", "receptor=ab%C3%B1", "receptor=ab receptor=a+%20b receptor=abc%ff receptor="},
		{"documentos", "monto=11.30 clave=x", "monto=11,30"},
		{"cambios", "desde=0 desde=1y2p0ij32e8e7 wait=0 wait=60", "desde=-1 desde=1y2p0ij32e8e8 wait=61 wait=-1"},
		{"cierre", "clase= fecha=2026-11-21 clase=X puntoVenta=propio puntoVenta=7",
			"fecha=2026-11-22 fecha=ayer clase=Z puntoVenta=0"},
		{"cierre", "format=view format=escpos format=download layout=ticket58", "format=pdf layout=letter"},
		{"pdf/" + saidCode, "format=view layout=ticket80 format=url format=escpos&layout=ticket58",
			"format=pdf layout=A4 format=escpos&layout=letter"},
	} {
		for status, queries := range map[int]string{http.StatusOK: c.good, http.StatusBadRequest: c.bad} {
			for query := range strings.FieldsSeq(queries) {
				ctx := a.ask(1, "GET", "/dte/"+c.path+"?"+query, "")
				name, _, _ := strings.Cut(query[strings.LastIndexByte(query, '&')+1:], "=")
				if got := ctx.Response.StatusCode(); got != status || status == http.StatusBadRequest &&
					!strings.Contains(string(ctx.Response.Body()), `"path":"`+name+`"`) {
					t.Errorf("%s?%s: %d %s", c.path, query, got, ctx.Response.Body())
				}
			}
		}
	}
	if status := a.ask(1, "POST", "/dte/cierre?fecha=2026-11-22", "").Response.StatusCode(); status != 400 {
		t.Errorf("tomorrow is closed: %d", status)
	}
	for query, want := range map[string]string{
		"": "{[] 0 0  2026-11-21 2026-11-21 100}", "limite=7&cursor=z": "{[] 0 35  2026-11-21 2026-11-21 7}",
		"puntoVenta=propio&estado=REJECTED": "{[] 5 0 REJECTED 2026-11-21 2026-11-21 100}",
		"puntoVenta=7&tipo=03,01":           "{[03 01] 7 0  2026-11-21 2026-11-21 100}",
		"desde=2026-11-25":                  "{[] 0 0  2026-11-25 2026-11-25 100}",
		"desde=2026-11-01&hasta=2026-11-02": "{[] 0 0  2026-11-01 2026-11-02 100}",
	} {
		a.ask(1, "GET", "/dte/documentos?"+query, "")
		f := a.heard.filter
		if got := fmt.Sprint(struct {
			documents        []string
			point, after     int64
			estado, from, to string
			limit            int
		}{f.Documents, f.PointID, f.After, f.Estado, f.From, f.To, f.Limit}); got != want {
			t.Errorf("%q asks for %s, want %s", query, got, want)
		}
	}
	a.ask(1, "GET", "/dte/documentos?numeroControl=dte-01-m001p001-000000000000001&receptor=+Ana+P&monto=1.5&clave=k", "")
	if f := a.heard.filter; f.ControlNumber != "DTE-01-M001P001-000000000000001" || f.Receiver != "Ana P" ||
		f.Amount == nil || f.Amount.String() != "1.5" || f.Key != "k" {
		t.Errorf("a search asks for %+v", f)
	}
	for query, want := range map[string]string{"cambios": "0 0s", "cambios?desde=z&wait=7": "35 7s",
		"cierre": "2026-11-21 false 5", "cierre?clase=X&puntoVenta=7&fecha=2026-11-20": "2026-11-20 true 7",
		"cierre?puntoVenta=propio": "2026-11-21 false 5"} {
		if a.ask(1, "GET", "/dte/"+query, ""); a.heard.asked != want {
			t.Errorf("%s asks for %q, want %q", query, a.heard.asked, want)
		}
	}
}

// TestList_Readable: with access.reading = "permission", a token lists the types that it issues, and no list has a type
// beside them.
func TestList_Readable(t *testing.T) {
	a := newAsker(Options{Now: time.Now, Access: Access{OwnTypes: true}, Limits: Limits{Rate: 1000}},
		Token{ID: 1, Permissions: []string{"FACTURA_CONSUMIDOR_FINAL", "CREDITO_FISCAL"}},
		Token{ID: 2, Permissions: []string{"ANULACION"}}, Token{ID: 3, Permissions: []string{record.PermissionRead}})
	for _, c := range []struct {
		token  int64
		query  string
		status int
		types  string
	}{
		{1, "", 200, "[01 03]"}, {1, "?tipo=03", 200, "[03]"}, {1, "?tipo=03,01", 200, "[03 01]"}, {1, "?tipo=05", 403, ""},
		{1, "?tipo=01,05", 403, ""}, {1, "?tipo=05,01,03", 403, ""}, {2, "", 403, ""}, {2, "?tipo=01", 403, ""},
		{3, "", 200, "[]"}, {3, "?tipo=05,01", 200, "[05 01]"},
	} {
		status := a.ask(c.token, "GET", "/dte/documentos"+c.query, "").Response.StatusCode()
		if status != c.status || status == 200 && fmt.Sprint(a.heard.filter.Documents) != c.types {
			t.Errorf("token %d, %q: %d, types %v", c.token, c.query, status, a.heard.filter.Documents)
		}
	}
}

// TestCaller: what a token may read and whom it may mail, by the two settings and its permissions.
func TestCaller(t *testing.T) {
	for _, c := range []struct {
		access     Access
		permission string
		own, mails bool
	}{
		{Access{}, "ANULACION", false, false}, {Access{OwnTypes: true}, "ANULACION", true, false},
		{Access{OwnTypes: true}, record.PermissionRead, false, false}, {Access{MailAnywhere: true}, "ANULACION", false, true},
		{Access{}, record.PermissionMail, false, true}, {Access{OwnTypes: true}, record.PermissionMail, true, true},
	} {
		k := Token{ID: 3, Point: record.Point{ID: 4, BranchID: 5}, Permissions: []string{"X", c.permission}}
		got := newAsker(Options{Now: time.Now, Access: c.access}).g.caller(new(fasthttp.RequestCtx), &k)
		want := record.Caller{TokenID: 3, Point: k.Point, Permissions: k.Permissions, From: "0.0.0.0", OwnTypes: c.own,
			MailsOthers: c.mails}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%+v, %s: %+v", c.access, c.permission, got)
		}
	}
}

const aSale = `{"receptor":{},"items":[{"descripcion":"Café","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`

// TestSale_Headers: the headers of a sale at their bounds, and what of them reaches the engine.
func TestSale_Headers(t *testing.T) {
	a := newAsker(Options{Now: time.Now, Limits: Limits{Rate: 1000}},
		Token{ID: 1, Permissions: []string{"FACTURA_CONSUMIDOR_FINAL"}})
	for _, c := range []struct {
		name, value string
		status      int
		wait        time.Duration
	}{
		{"Idempotency-Key", "a", 201, 0}, {"Idempotency-Key", strings.Repeat("k", 255), 201, 0},
		{"Idempotency-Key", strings.Repeat("k", 256), 400, 0}, {"Idempotency-Key", "", 400, 0},
		{"Idempotency-Key", "~ !", 201, 0}, {"Idempotency-Key", "a\x7f", 400, 0}, {"Idempotency-Key", "a\x1f", 400, 0},
		{"Idempotency-Key", "ñ", 400, 0}, {"Prefer", "wait=1", 201, time.Second}, {"Prefer", "wait=60", 201, time.Minute},
		{"Prefer", "wait=61", 400, 0}, {"Prefer", "wait=0", 400, 0}, {"Prefer", "wait=x", 400, 0},
		{"Prefer", `respond-async, Wait = "7"`, 201, 7 * time.Second}, {"Prefer", "waits=7", 201, 0},
	} {
		a.heard.sale = engine.Request{}
		ctx := a.ask(1, "POST", "/dte/dte01", aSale, c.name, c.value)
		key, applied := "", ""
		if c.status == 201 && c.name == "Idempotency-Key" {
			key = c.value
		}
		if c.wait > 0 {
			applied = fmt.Sprintf("wait=%d", c.wait/time.Second)
		}
		if s := a.heard.sale; ctx.Response.StatusCode() != c.status || s.IdempotencyKey != key || s.Wait != c.wait ||
			string(ctx.Response.Header.Peek("Preference-Applied")) != applied {
			t.Errorf("%s: %.20q: %d; the engine has key %.20q, wait %v; applied %q", c.name, c.value,
				ctx.Response.StatusCode(), s.IdempotencyKey, s.Wait, ctx.Response.Header.Peek("Preference-Applied"))
		}
	}
	ctx := a.ask(1, "POST", "/dte/dte01", aSale, "Idempotency-Key", "a", "Idempotency-Key", "a")
	if status := ctx.Response.StatusCode(); status != 400 {
		t.Errorf("two keys: %d", status)
	}
}

// TestAnnounced: how much and how long a request may send, by its sender and its path.
func TestAnnounced(t *testing.T) {
	admin := adminapi.Options{AdminToken: sha256.Sum256([]byte("admin"))}
	a := newAsker(Options{Now: time.Now, Operators: admin}, Token{ID: 1})
	for _, c := range []struct {
		ops         bool
		path, token string
		most        int
		long        time.Duration
	}{
		{false, "/dte/dte01", "1", reply.MaxBody, 0}, {false, "/dte/dte01", "2", strangersBody, 0},
		{false, "/admin/rules", "1", reply.MaxBody, 0}, {false, "/dte/dte01", "", strangersBody, 0},
		{true, "/admin/rules", "admin", adminapi.MaxBundle, 2 * time.Minute},
		{true, "/admin/rules/shadow?for=1h", "admin", adminapi.MaxBundle, 2 * time.Minute},
		{true, "/admin/tokens", "admin", reply.MaxBody, 0}, {true, "/admin/rules", "1", strangersBody, 0},
		{true, "/admin/rules", "", strangersBody, 0},
	} {
		var h fasthttp.RequestHeader
		h.SetRequestURI(c.path)
		if c.token != "" {
			h.Set("Authorization", "Bearer "+c.token)
		}
		s := map[bool]*fasthttp.Server{false: a.g.api, true: a.g.ops}[c.ops]
		if got := s.HeaderReceived(&h); got.MaxRequestBodySize != c.most || got.ReadTimeout != c.long {
			t.Errorf("%s of %q: %d bytes, %v", c.path, c.token, got.MaxRequestBodySize, got.ReadTimeout)
		}
	}
}

// TestRefusalOf: each reason why a body is not read has its label and its answer.
func TestRefusalOf(t *testing.T) {
	for err, want := range map[error]string{door.ErrTooLarge: "size TOO_LARGE",
		&fasthttp.ErrSmallBuffer{}: "size TOO_LARGE",
		door.ErrShare:              "body_share RATE_LIMITED", door.ErrFull: "bodies UNAVAILABLE",
		os.ErrDeadlineExceeded:            "slow TIMEOUT",
		problem.TooMany(time.Second, "x"): "large RATE_LIMITED", io.ErrUnexpectedEOF: "malformed VALIDATION_ERROR"} {
		for _, err := range []error{err, fmt.Errorf("reading: %w", err)} {
			if reason, e := refusalOf(err); reason+" "+e.Code != want {
				t.Errorf("%v: %s %s, want %s", err, reason, e.Code, want)
			}
		}
	}
}

// TestRefusals_Counted: each refusal counts once, under its own reason. Requests without any token are no wrong tokens:
// however many a forgotten program sends, a till of the same network is told of its own mistake.
func TestRefusals_Counted(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for reason, c := range map[string]struct {
		before int // requests that are not refused so
		status int
		ask    func(*asker) *fasthttp.RequestCtx
	}{
		"rate":  {2, 429, func(a *asker) *fasthttp.RequestCtx { return a.ask(1, "GET", "/dte/information", "") }},
		"daily": {1, 429, func(a *asker) *fasthttp.RequestCtx { return a.ask(2, "POST", "/dte/dte01", aSale) }},
		"token": {0, 401, func(a *asker) *fasthttp.RequestCtx { return a.ask(9, "GET", "/dte/information", "") }},
		"wrong_tokens": {wrongBurst, 429, func(a *asker) *fasthttp.RequestCtx {
			return a.ask(9, "GET", "/dte/information", "")
		}},
		"token without any": {wrongBurst, 401, func(a *asker) *fasthttp.RequestCtx {
			return a.ask(0, "GET", "/dte/information", "")
		}},
		"strangers": {strangersBurst, 429, func(a *asker) *fasthttp.RequestCtx {
			return a.ask(9, "GET", "/docs?lang=xx", "")
		}},
		"strangers of a link": {strangersBurst, 429, func(a *asker) *fasthttp.RequestCtx {
			return a.ask(0, "GET", "/dte/descarga/"+saidCode+"?token=guess", "")
		}},
	} {
		registry := prometheus.NewRegistry()
		a := newAsker(Options{Now: func() time.Time { return now }, Registry: registry, Limits: Limits{Rate: 1, Burst: 2,
			Daily: 1}}, Token{ID: 1}, Token{ID: 2, Permissions: []string{"FACTURA_CONSUMIDOR_FINAL"}})
		a.heard.stored = 1
		counts := func() map[string]float64 {
			all := make(map[string]float64)
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if v := m.GetCounter().GetValue(); f.GetName() == "dte_http_refused_total" && v > 0 {
						all[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = v
					}
				}
			}
			return all
		}
		for range c.before {
			c.ask(a)
		}
		before := counts()
		if status := c.ask(a).Response.StatusCode(); status != c.status {
			t.Errorf("%s: %d", reason, status)
		}
		after := counts()
		label := "api " + strings.Fields(reason)[0]
		if after[label]--; after[label] == 0 {
			delete(after, label)
		}
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%s: counted %v, then with one more %v", reason, before, after)
		}
	}
}
