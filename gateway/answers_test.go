package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/door"
)

// TestCredential: a token comes in one of two headers, or in both if they agree.
func TestCredential(t *testing.T) {
	for _, c := range []struct{ own, authorization, want string }{
		{"", "", ""}, {"a", "", "a"}, {"", "Bearer a", "a"}, {"", "bearer a", "a"}, {"", "BEARER  a ", "a"},
		{"", "Basic a", ""}, {"", "a", ""}, {"a", "Bearer a", "a"}, {"a", "Basic b", "a"}, {"a", "Bearer b", "refused"},
		{"a", "Bearer ", "a"},
	} {
		var h fasthttp.RequestHeader
		if c.own != "" {
			h.Set("x-api-token", c.own)
		}
		if c.authorization != "" {
			h.Set("Authorization", c.authorization)
		}
		token, err := credential(&h)
		if err != nil {
			token = "refused"
		}
		if token != c.want {
			t.Errorf("%+v: %q", c, token)
		}
	}
}

// TestSale_Faults: what the engine finds wrong has the names of the request, whichever request it is and whichever code
// the refusal has; a validation is not answered with the sale of a used key.
func TestSale_Faults(t *testing.T) {
	a := newAsker(Options{Now: time.Now, Limits: Limits{Rate: 1000}, PaymentCodes: map[string]string{"03": "04"}},
		Token{ID: 1, Permissions: []string{"FACTURA_CONSUMIDOR_FINAL", "ANULACION"}})
	for _, code := range []string{refusal.CodeValidation, refusal.CodeOriginType} {
		for _, c := range []struct{ path, prefer, body, found, told string }{
			{"/dte/dte01", "", aSale, "cuerpoDocumento[0].precioUni", "items[0].precioUnitario"},
			{"/dte/dte01", "validate", aSale, "cuerpoDocumento[0].precioUni", "items[0].precioUnitario"},
			{"/dte/dte01", "", aSale, "resumen.pagos[0].codigo", "pago.codigo"},
			{"/dte/invalidacion/" + saidCode, "", anInvalidation, "motivo.motivoAnulacion", "motivo"},
			{"/dte/invalidacion/" + saidCode, "", anInvalidation, "motivo.tipoAnulacion", "tipoAnulacion"},
			{"/dte/invalidacion/" + saidCode, "", anInvalidation, "motivo.numDocSolicita", "solicita.numDocumento"},
			{"/dte/invalidacion/" + saidCode, "", anInvalidation, "motivo.tipDocResponsable",
				"responsable.tipoDocumento"},
			{"/dte/invalidacion/" + saidCode, "", anInvalidation, "documento.codigoGeneracionR",
				"codigoGeneracionReemplazo"},
		} {
			a.heard.err = &refusal.Error{Code: code, Message: "no", Faults: []dte.Fault{{Path: c.found,
				Code: dte.FaultRange, Message: "Es poco"}}}
			body := string(a.ask(1, "POST", c.path, c.body, "Prefer", c.prefer).Response.Body())
			if !strings.Contains(body, `"type":"`+code+`"`) || !strings.Contains(body, `"path":"`+c.told+
				`","code":"RANGE","message":"Es poco"`) {
				t.Errorf("%s of %s: %s", code, c.path, body)
			}
		}
	}
	a.heard.err, a.heard.known = nil, true
	for prefer, want := range map[string]int{"validate": 400, "wait=5": 201} {
		ctx := a.ask(1, "POST", "/dte/dte01", "{}", "Idempotency-Key", "k", "Prefer", prefer)
		if got := ctx.Response.StatusCode(); got != want {
			t.Errorf("a used key and a wrong body, %s: %d", prefer, got)
		}
	}
	paid := strings.Replace(aSale, `"condicionOperacion":1`, `"condicionOperacion":1,"testContingencia":true,`+
		`"pago":{"codigo":"03"}`, 1)
	code := func() string {
		return a.heard.sale.Facts.Get("resumen").Get("pagos").Index(0).Get("codigo").Text()
	}
	a.ask(1, "POST", "/dte/dte01", paid)
	if s := a.heard.sale; code() != "04" || len(s.Warnings) != 0 || !s.TestContingency || s.Document != "01" ||
		s.Caller.TokenID != 1 || !s.Body.Get("pago").Exists() {
		t.Errorf("payment_codes: code %q, %+v", code(), s)
	}
	a = newAsker(Options{Now: time.Now}, Token{ID: 1, Permissions: []string{"FACTURA_CONSUMIDOR_FINAL"}})
	a.ask(1, "POST", "/dte/dte01", paid)
	if code() != "03" || len(a.heard.sale.Warnings) != 1 {
		t.Errorf("without payment_codes: code %q, warnings %q", code(), a.heard.sale.Warnings)
	}
	a.heard.err = documents.ErrCursor
	if ctx := a.ask(1, "GET", "/dte/cambios?desde=7", ""); ctx.Response.StatusCode() != 400 ||
		!strings.Contains(string(ctx.Response.Body()), `"path":"desde"`) {
		t.Errorf("a cursor of another box: %d %s", ctx.Response.StatusCode(), ctx.Response.Body())
	}
}

// TestAnswer_Headers: the headers on which browsers and caches rely, by the kind of answer.
func TestAnswer_Headers(t *testing.T) {
	registry := prometheus.NewRegistry()
	a := newAsker(Options{Now: time.Now, Registry: registry, Access: Access{OwnTypes: true}}, Token{ID: 1,
		Permissions: []string{record.PermissionRead}}, Token{ID: 2, Permissions: []string{"FACTURA_CONSUMIDOR_FINAL"}})
	link := string(a.ask(1, "GET", "/dte/pdf/"+saidCode+"?format=url", "").Response.Body())
	_, link, _ = strings.Cut(link, "/dte/descarga/")
	link, _, _ = strings.Cut(link, `"`)
	for _, c := range []struct {
		path, name, want string // want: how the header begins
	}{
		{"/docs", "Content-Security-Policy", "default-src 'none'"}, {"/docs", "Content-Type", "text/html"},
		{"/docs", "Vary", "Accept-Language"}, {"/openapi.json", "Content-Security-Policy", ""},
		{"/openapi.json", "Content-Type", "application/json"}, {"/openapi.json", "Content-Disposition",
			`inline; filename="openapi.json"`}, {"/dte/descarga/" + link, "Referrer-Policy", "no-referrer"},
		{"/dte/descarga/" + link, "Content-Disposition", `inline; filename="` + saidCode + `.pdf"`},
		{"/dte/pdf/" + saidCode, "Content-Disposition", `inline; filename="` + saidCode + `.pdf"`},
		{"/dte/pdf/" + saidCode, "X-Content-Type-Options", "nosniff"},
		{"/dte/pdf/" + saidCode, "Cache-Control", "private, no-cache"},
		{"/dte/pdf/" + saidCode + "?format=download", "Content-Disposition", `attachment; filename="` + saidCode + `.pdf"`},
		{"/dte/pdf/" + saidCode + "?format=escpos", "Content-Disposition", `attachment; filename="` + saidCode +
			`.escpos"`}, {"/dte/pdf/" + saidCode + "?format=escpos", "Content-Type", "application/octet-stream"},
		{"/dte/json/" + saidCode, "Content-Disposition", `attachment; filename="` + saidCode + `.json"`},
		{"/dte/cierre?format=download&fecha=2026-11-20", "Content-Disposition",
			`attachment; filename="cierre-M001P001-2026-11-20.pdf"`},
		{"/dte/cierre?format=escpos&fecha=2026-11-20", "Content-Disposition",
			`attachment; filename="cierre-M001P001-2026-11-20.escpos"`},
		{"/dte/cierre?format=escpos", "Content-Type", "application/octet-stream"},
		{"/dte/cierre?format=view&fecha=2026-11-20", "Content-Disposition",
			`inline; filename="cierre-M001P001-2026-11-20.pdf"`},
		{"/dte/cierre?format=view", "Content-Type", "application/pdf"}, {"/dte/cierre", "Content-Type", "application/json"},
		{"/dte/cierre", "Content-Disposition", ""},
		{"/dte/information", "Cache-Control", "no-store"}, {"/dte/information", "Content-Type", "application/json"},
	} {
		ctx := a.ask(1, "GET", c.path, "")
		got := string(ctx.Response.Header.Peek(c.name))
		if ctx.Response.StatusCode() != 200 || !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %d, %s: %q, want %q", c.path, ctx.Response.StatusCode(), c.name, got, c.want)
		}
	}
	for method, want := range map[string]int{"GET": 403, "POST": 403} {
		if got := a.ask(2, method, "/dte/cierre", "").Response.StatusCode(); got != want {
			t.Errorf("%s of a closing by a token of one type: %d", method, got)
		}
	}
	a.ask(9, "GET", "/dte/information", "")
	values := metrictest.Values(t, a.g.metrics.requests)
	for _, want := range []string{"2xx//dte/information 2", "4xx//dte/information 1", "4xx//dte/cierre 2",
		"2xx//dte/cierre 7"} {
		name, n, _ := strings.Cut(want, " ")
		if got := fmt.Sprint(values["dte_http_requests_total/"+name]); got != n {
			t.Errorf("%s requests of %s, want %s: %v", got, name, n, values)
		}
	}
}

// TestBounds: how many requests of each kind pass at once.
func TestBounds(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	g := newAsker(Options{Now: func() time.Time { return now }}).g
	few := newAsker(Options{Now: func() time.Time { return now }, Limits: Limits{Rate: 1, Burst: 3, Large: 1 << 11}}).g
	for name, c := range map[string]struct {
		bucket *door.Buckets
		want   int
		soon   int // that pass a second later
	}{
		"requests": {g.pace, 200, 50}, "requests of few": {few.pace, 3, 1}, "wrong tokens": {g.wrongs, 60, 1},
		"strangers": {g.strange, 40, 5}, "all strangers": {g.allStrange, 160, 20}, "insistent": {g.insistent, 40, 10},
		"KiB of large sales": {g.large, 8 << 10, 1 << 10}, "of few": {few.large, 1 << 10, 2},
		"resends of a document": {g.resends, 5, 0}, "resends of a token": {g.resendsBy, 30, 0},
	} {
		n, soon := 0, 0
		for c.bucket.Take("x", now) == 0 {
			n++
		}
		for c.bucket.Take("x", now.Add(time.Second)) == 0 {
			soon++
		}
		if n != c.want || soon != c.soon {
			t.Errorf("%s: %d at once and %d a second later, want %d and %d", name, n, soon, c.want, c.soon)
		}
	}
	if g.daily.most != 1<<30 {
		t.Errorf("%d bytes a day", g.daily.most)
	}
}

// TestRefuse_Logged: a failure is logged with its cause; a refusal, or a printer that is busy, is not.
func TestRefuse_Logged(t *testing.T) {
	var log bytes.Buffer
	o := Options{Now: time.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, c := range []struct {
		err    error
		status int
		logged string // "": nothing
	}{
		{errors.New("disk"), 500, "error=disk"}, {&refusal.Error{Code: "NOT_FOUND"}, 404, ""},
		{&refusal.Error{Code: refusal.CodeBusy, Err: &fairqueue.Busy{}}, 429, ""},
		{&refusal.Error{Code: refusal.CodeUnavailable, Err: errors.New("full")}, 503, "type=" + refusal.CodeUnavailable},
	} {
		log.Reset()
		ctx, g := new(fasthttp.RequestCtx), newAsker(o).g
		g.refuse(ctx, "/dte/x", c.err)
		busy := metrictest.Values(t, g.metrics.refusals)["dte_http_refused_total/api/printing"]
		if got := log.String(); ctx.Response.StatusCode() != c.status || (got == "") != (c.logged == "") ||
			!strings.Contains(got, c.logged) || (busy == 1) != (c.status == 429) {
			t.Errorf("%v: %d, %v busy, logged %s", c.err, ctx.Response.StatusCode(), busy, got)
		}
	}
	for _, stopped := range []bool{false, true} {
		log.Reset()
		o.Usage = func(context.Context, string) (map[int64]int64, error) { return nil, errors.New("unread") }
		ctx, cancel := context.WithCancel(t.Context())
		if stopped {
			cancel()
		}
		newAsker(o).g.recall(ctx)
		cancel()
		if got := log.String(); (got == "") != stopped {
			t.Errorf("stopped %v: today's bytes are not known, logged %q", stopped, got)
		}
	}
}

// sealed is an encrypted connection to the loopback address.
type sealed struct{ net.Conn }

func (sealed) Handshake() error                     { return nil }
func (sealed) ConnectionState() tls.ConnectionState { return tls.ConnectionState{} }
func (sealed) LocalAddr() net.Addr                  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (sealed) RemoteAddr() net.Addr                 { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// plainly is a connection to the loopback address that is not encrypted.
type plainly struct{ net.Conn }

func (plainly) LocalAddr() net.Addr  { return sealed{}.LocalAddr() }
func (plainly) RemoteAddr() net.Addr { return sealed{}.RemoteAddr() }

// TestOwnHost: over plain HTTP to this machine, a page of another name does not get the operators' answers; over TLS
// the certificate has the names.
func TestOwnHost(t *testing.T) {
	g := newAsker(Options{Now: time.Now}).g
	for _, c := range []struct {
		conn   net.Conn
		host   string
		called bool
	}{{plainly{}, "evil.example", false}, {plainly{}, "localhost:8081", true}, {plainly{}, "127.0.0.1:8081", true},
		{sealed{}, "evil.example", true}} {
		called, ctx := false, new(fasthttp.RequestCtx)
		ctx.Init2(c.conn, nil, false)
		ctx.Request.Header.SetHost(c.host)
		g.ownHost(func(*fasthttp.RequestCtx) { called = true })(ctx)
		if called != c.called || !called && ctx.Response.StatusCode() != 404 {
			t.Errorf("%T to %s: called %v, %d", c.conn, c.host, called, ctx.Response.StatusCode())
		}
	}
}
