package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/reply"
	"dtegate/rules/bundle"
)

func (h *heard) Printed(_ context.Context, code dte.Code, c record.Caller, layout string, escpos bool) ([]byte,
	error) {
	h.asked += fmt.Sprint("print ", c.TokenID, " ", c.Point.BranchID, " ", layout, " ", escpos, "; ")
	return []byte("%PDF-"), h.err
}

func (h *heard) PrintSlip(_ context.Context, c record.Caller, s pdf.Slip, layout string, escpos bool) ([]byte, error) {
	h.asked += fmt.Sprint("; slip ", c.TokenID, " ", s.Title != "", " ", layout, " ", escpos)
	return []byte("%PDF-"), h.err
}

func (h *heard) Archivo(_ context.Context, _ dte.Code, c record.Caller) ([]byte, error) {
	h.asked += fmt.Sprint("read ", c.TokenID, "; ")
	return []byte("{}"), h.err
}

func (h *heard) Link(_ context.Context, _ dte.Code, c record.Caller, layout string, life time.Duration) (string,
	error) {
	h.asked += fmt.Sprint("link ", layout, " ", life, "; ")
	return h.archive, nil
}

func (h *heard) Resend(ctx context.Context, code dte.Code, to string, c record.Caller) (*outbox.Resent, error) {
	h.asked += fmt.Sprint("resend ", to, "; ")
	return h.said.Resend(ctx, code, to, c)
}

func (h *heard) Invalidate(_ context.Context, req engine.InvalidationRequest) (*record.View, error) {
	h.asked += fmt.Sprint("invalidate ", req.Code, " ", req.Kind, " ", req.Caller.TokenID, "; ")
	r, err := h.record()
	if err == nil && h.refuses {
		r.Estado = record.EstadoProcessed
		r.Invalidation.Estado = record.EstadoRejected
		r.Invalidation.Response = &authority.Response{Estado: "RECHAZADO", DescripcionMsg: "fuera de plazo"}
	}
	return r, err
}

func (h *heard) CheckInvalidation(context.Context, engine.InvalidationRequest) []dte.Fault {
	return []dte.Fault{{Path: "motivo.tipoAnulacion", Code: dte.FaultEnum, Message: "x"},
		{Path: "motivo.motivoAnulacion",
			Code: dte.FaultLength, Message: "y"}}
}

func (h *heard) Correct(_ context.Context, code dte.Code, req engine.Request) (*record.View, error) {
	h.asked += fmt.Sprint("correct ", code, " ", req.Document, "; ")
	return h.record()
}

func (h *heard) Validate(ctx context.Context, req engine.Request) (*engine.Validation, error) {
	h.asked += fmt.Sprint("validate ", req.Document, "; ")
	return h.said.Validate(ctx, req)
}

const anInvalidation = `{"tipoAnulacion":2,"motivo":"x","responsable":{"nombre":"Ana","tipoDocumento":"13",` +
	`"numDocumento":"012345678"},"solicita":{"nombre":"Ana","tipoDocumento":"13","numDocumento":"012345678"}}`

// TestEffects: what each request does at the engine, and what a refused one does not do.
func TestEffects(t *testing.T) {
	a := newAsker(Options{Now: time.Now, Limits: Limits{Rate: 1000}, PublicURL: "https://dte.example.com/",
		Slug: "tienda"},
		Token{ID: 1, Point: record.Point{ID: 5, BranchID: 7}, Permissions: []string{"FACTURA_CONSUMIDOR_FINAL",
			"ANULACION"}},
		Token{ID: 2, Permissions: []string{"CREDITO_FISCAL"}})
	refused := &refusal.Error{Code: refusal.CodePermission, Message: "no"}
	for name, c := range map[string]struct {
		token                int64
		method, path, body   string
		headers              []string
		err                  error
		status               int
		asked, answer, other string // other: what the answer lacks
	}{
		"validate": {1, "POST", "/dte/dte01", aSale, []string{"Prefer", "wait=5, Validate"}, nil, 200,
			"validate 01; ",
			`"valido":true`, ""},
		"an invalidation is not validated": {1, "POST", "/dte/invalidacion/" + saidCode, anInvalidation,
			[]string{"Prefer",
				"validate"}, nil, 400, "", "no se cambió nada", ""},
		"a correction is not validated": {1, "POST", "/dte/correccion/" + saidCode, aSale, []string{"Prefer",
			"validate"},
			nil, 400, "", "no se cambió nada", ""},
		"a resend is not validated": {1, "POST", "/dte/resend/" + saidCode, "", []string{"Prefer", "validate"},
			nil, 400, "",
			"no se cambió nada", ""},
		"a reading with Prefer": {1, "GET", "/dte/information", "", []string{"Prefer", "validate"}, nil, 200, "",
			"emisor",
			""},
		"correct": {1, "POST", "/dte/correccion/" + saidCode, aSale, nil, nil, 200, "correct " + saidCode + " 01; ",
			`"status":"success"`, ""},
		"correct without the type's permission": {2, "POST", "/dte/correccion/" + saidCode, aSale, nil, nil, 403, "",
			"FACTURA_CONSUMIDOR_FINAL", ""},
		"a sale without its permission": {2, "POST", "/dte/dte01", aSale, nil, nil, 403, "",
			"FACTURA_CONSUMIDOR_FINAL", ""},
		"an invalidation": {1, "POST", "/dte/invalidacion/" + strings.ToLower(saidCode), anInvalidation, nil, nil,
			200,
			"invalidate " + saidCode + " 2 1; ", `"status":"success"`, ""},
		"an invalidation without permission": {2, "POST", "/dte/invalidacion/" + saidCode, anInvalidation, nil,
			nil, 403, "",
			"ANULACION", ""},
		"a wrong invalidation": {1, "POST", "/dte/invalidacion/" + saidCode, `{"tipoAnulacion":9}`, nil, nil, 400, "",
			`"path":"motivo"`, `"path":"motivo.`},
		"a type that nobody knows": {1, "POST", "/dte/dte99", aSale, nil, nil, 404, "",
			"No existe esta ruta", ""},
		"a type that nobody knows, asked": {1, "GET", "/dte/dte99", "", nil, nil, 404, "", "No existe esta ruta",
			""},
		"below a type": {1, "GET", "/dte/dte01/1", "", nil, nil, 404, "",
			"No existe esta ruta", ""},
		"a type is not read": {1, "GET", "/dte/dte01", "", nil, nil, 405, "", "no admite el método",
			""},
		"what is read is not posted": {1, "POST", "/dte/documentos", "{}", nil, nil, 405, "",
			"no admite el método", ""},
		"what is posted is not read": {1, "GET", "/dte/documentos-info", "", nil, nil, 405, "", "no admite",
			""},
		"print": {1, "GET", "/dte/pdf/" + saidCode, "", nil, nil, 200,
			"print 1 7 letter false; ", "%PDF-", ""},
		"print for a thermal printer": {1, "GET", "/dte/pdf/" + saidCode + "?format=escpos", "", nil, nil,
			200, "print 1 7 ticket80 true; ", "%PDF-", ""},
		"print on 58 mm": {1, "GET", "/dte/pdf/" + saidCode + "?layout=ticket58", "", nil, nil,
			200, "print 1 7 ticket58 false; ", "%PDF-", ""},
		"a print that is refused": {1, "GET", "/dte/pdf/" + saidCode, "", nil, refused, 403,
			"print 1 7 letter false; ", "no", "%PDF-"},
		"the signed file": {1, "GET", "/dte/json/" + saidCode, "", nil, nil, 200, "read 1; ",
			"{}", ""},
		"a link": {1, "GET", "/dte/pdf/" + saidCode + "?format=url&layout=ticket80", "",
			nil, nil, 200, "link ticket80 5m0s; read 1; ",
			`"url":"https://dte.example.com/dte/descarga/` + saidCode + "?token=", ""},
		"a link to what may not be read": {1, "GET", "/dte/pdf/" + saidCode + "?format=url", "", nil, refused,
			403, "link letter 5m0s; read 1; ", "no", "url"},
		"a stored document": {1, "GET",
			"/tienda/DTES/test/2026/01/02/DTE01/json/" + saidCode + ".json", "", nil, nil, 200, "read 1; ", "{}", ""},
		"a stored print": {1, "GET",
			"/tienda/DTES/test/2026/01/02/DTE01/pdf/" + saidCode + ".pdf", "", nil, nil, 200,
			"print 1 7 letter false; ", "%PDF-", ""},
		"a stored file of another day": {1, "GET",
			"/tienda/DTES/test/2026/01/03/DTE01/pdf/" + saidCode + ".pdf", "", nil, nil, 404, "", "No existe", ""},
		"resend": {1, "POST", "/dte/resend/" + saidCode, "", nil, nil, 200, "resend ; ",
			"emailEnviado", ""},
		"resend to an address": {1, "POST", "/dte/resend/" + saidCode, `{"email":"a@b.example"}`, nil,
			nil, 200, "resend a@b.example; ", "emailEnviado", ""},
		"resend to what is no address": {1, "POST", "/dte/resend/" + saidCode, `{"email":"a"}`, nil, nil, 400,
			"", `"path":"email"`, ""},
		"a closing to read": {1, "GET", "/dte/cierre?fecha=2026-01-02", "", nil, nil, 200, "2026-01-02 false 5",
			`"clase":"X"`, ""},
		"a closing on paper": {1, "GET", "/dte/cierre?fecha=2026-01-02&format=view", "", nil, nil, 200,
			"2026-01-02 false 5; slip 1 true ticket80 false", "%PDF-", ""},
		"a closing on 58 mm": {1, "GET", "/dte/cierre?fecha=2026-01-02&format=download&layout=ticket58", "", nil, nil, 200,
			"2026-01-02 false 5; slip 1 true ticket58 false", "%PDF-", ""},
		"a closing for a thermal printer": {1, "GET", "/dte/cierre?fecha=2026-01-02&clase=X&format=escpos&layout=ticket58",
			"", nil, nil, 200, "2026-01-02 true 5; slip 1 true ticket58 true", "%PDF-", ""},
		"a closing that is refused": {1, "GET", "/dte/cierre?fecha=2026-01-02&format=view", "", nil, refused, 403,
			"2026-01-02 false 5", "no", "%PDF-"},
		"a closing with a body": {1, "POST", "/dte/cierre", `{"fecha":"x"}`, nil, nil, 400, "",
			"no lleva cuerpo", ""},
		"a closing with an empty body": {1, "POST", "/dte/cierre", " {} ", nil, nil, 201, "",
			`"status":"success"`, ""},
		"one catalogue, in lower case": {1, "GET", "/dte/catalogos/cat-014", "", nil, nil, 200, "",
			`"catalogo":"CAT-014"`, ""},
		"a catalogue that there is not": {1, "GET", "/dte/catalogos/CAT-015", "", nil, nil, 404, "", "No hay", ""},
		"a code that is none": {1, "GET", "/dte/documento/x", "", nil, nil, 400, "",
			"codigoGeneracion", ""},
		"a look-up of a hundred and one": {1, "POST", "/dte/documentos-info",
			`{"codigosGeneracion":["` + strings.Repeat(saidCode+`","`, 100) + saidCode + `"]}`, nil, nil, 400, "",
			"codigosGeneracion", ""},
		"a look-up of a hundred documents": {1, "POST", "/dte/documentos-info",
			`{"codigosGeneracion":["` + strings.Repeat(saidCode+`","`, 99) + saidCode + `"]}`, nil, nil, 200, "",
			"totalSolicitados", ""},
	} {
		a.heard.asked, a.heard.err, a.heard.closed = "", c.err, false
		ctx := a.ask(c.token, c.method, c.path, c.body, c.headers...)
		body := string(ctx.Response.Body())
		if ctx.Response.StatusCode() != c.status || a.heard.asked != c.asked || !strings.Contains(body, c.answer) ||
			c.other != "" && strings.Contains(body, c.other) {
			t.Errorf("%s: %d, the engine was asked %q: %s", name, ctx.Response.StatusCode(), a.heard.asked, body)
		}
	}
	a.heard.err, a.heard.refuses = nil, true
	ctx := a.ask(1, "POST", "/dte/invalidacion/"+saidCode, anInvalidation)
	if body := string(ctx.Response.Body()); ctx.Response.StatusCode() != 200 || !strings.HasPrefix(body,
		`{"status":"error","message":"Hacienda no aceptó la invalidación y el documento sigue vigente: fuera de plazo`) {
		t.Errorf("an invalidation that MH refused: %d %s", ctx.Response.StatusCode(), body)
	}
	a.heard.archive = "https://archive.example.com/x"
	if body := string(a.ask(1, "GET", "/dte/pdf/"+saidCode+"?format=url",
		"").Response.Body()); !strings.Contains(body,
		`"url":"https://archive.example.com/x","expiresIn":300`) {
		t.Errorf("a link into the archive: %s", body)
	}
}

// TestLinked: a link opens the document that it was made for, in its branch and layout, without a token, for five
// minutes.
func TestLinked(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	a := newAsker(Options{Now: func() time.Time { return now }}, Token{ID: 1, Point: record.Point{BranchID: 7}})
	body := string(a.ask(1, "GET", "/dte/pdf/"+saidCode+"?format=url&layout=ticket58", "", "Host",
		"caja:8080").Response.Body())
	_, link, _ := strings.Cut(body, `"url":"http://caja:8080`)
	link, _, _ = strings.Cut(link, `"`)
	for _, c := range []struct {
		path   string
		after  time.Duration
		status int
	}{
		{link, 0, 200}, {link + "x", 0, 403}, {strings.Replace(link, "ticket58", "letter", 1), 0, 403},
		{strings.Replace(link, saidCode, saidCode[:35]+"0", 1), 0, 403}, {strings.Replace(link, "?token=", "?x=",
			1), 0, 403},
		{"/dte/descarga/x", 0, 400}, {link, linkLife - time.Second, 200}, {link, linkLife, 403},
	} {
		now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(c.after)
		a.heard.asked = ""
		ctx := a.ask(9, "GET", c.path, "")
		want := map[bool]string{true: fmt.Sprint("print ", outbox.LinkHolders,
			" 7 ticket58 false; ")}[c.status == 200]
		if ctx.Response.StatusCode() != c.status || a.heard.asked != want {
			t.Errorf("%s after %v: %d, asked %q: %s", c.path, c.after, ctx.Response.StatusCode(), a.heard.asked,
				ctx.Response.Body())
		}
	}
}

// TestContract_Grows: a type that comes while the box runs is in the contract at the next request, and then no longer
// made anew.
func TestContract_Grows(t *testing.T) {
	issued := []*bundle.Type{record.TypeOf("01")}
	made := 0
	a := newAsker(Options{Now: time.Now, Issued: func() []*bundle.Type { made++; return issued }})
	page := func() []byte { return a.ask(9, "GET", "/openapi.json", "").Response.Body() }
	first, again := page(), page()
	issued = append(slices.Clip(issued), record.TypeOf("03"))
	grown := page()
	if &first[0] != &again[0] || bytes.Contains(first, []byte(`"/dte/dte03"`)) || !bytes.Contains(grown,
		[]byte(`"/dte/dte03"`)) || made < 3 {
		t.Errorf("%d bytes, %d bytes, then %d", len(first), len(again), len(grown))
	}
}

// TestDaily_SetBack: the bytes of a token count for the day that its clock shows, also after the clock was set back.
func TestDaily_SetBack(t *testing.T) {
	day := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	d := daily{most: 10}
	for _, c := range []struct {
		add   int64
		after time.Duration
		full  bool
	}{{9, 0, false}, {1, 0, true}, {0, 24 * time.Hour, false}, {10, 24 * time.Hour, true}, {9, 0, false}, {1, 0,
		true}} {
		now := day.Add(c.after)
		d.add(dte.Date(now), 1, c.add, now)
		d.add(dte.Date(now.Add(-24*time.Hour)), 1, 100, now) // of another day
		if wait := d.left(1, now); (wait > 0) != c.full || d.left(2, now) != 0 {
			t.Errorf("%+v: wait %v", c, wait)
		}
	}
}

// TestWrong_Logins: an operator's wrong token is a failed login; a till's is none, nor is a request without a token.
func TestWrong_Logins(t *testing.T) {
	a := newAsker(Options{Now: time.Now, Operators: adminapi.Options{AdminToken: [32]byte{1}}}, Token{ID: 1})
	for i, c := range []struct {
		listener string
		given    bool
		failed   float64
	}{{listenerAPI, true, 0}, {listenerOps, false, 0}, {listenerOps, true, 1}, {listenerAPI, true, 1}} {
		if err := a.g.wrong(new(fasthttp.RequestCtx), c.listener, c.given, "no"); err == nil {
			t.Error("it is right")
		}
		if n := metrictest.Value(t, a.g.logins.Counter(), "dte_admin_login_failures_total"); n != c.failed {
			t.Errorf("%d: %v failed logins, want %v", i, n, c.failed)
		}
	}
}

// TestReceived_Closes: after a request whose body was not read, the connection ends: its rest must not be the next
// request.
func TestReceived_Closes(t *testing.T) {
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"too large":         {fmt.Sprintf("x-api-token: 1\r\nContent-Length: %d\r\n", reply.MaxBody+1), 413},
		"two lengths":       {"x-api-token: 1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400},
		"an unknown coding": {"x-api-token: 1\r\nTransfer-Encoding: gzip\r\n", 400},
		"cut short":         {"x-api-token: 1\r\nContent-Length: 500\r\n", 400},
		"a stranger's":      {"x-api-token: 9\r\nContent-Length: 5\r\n", 401},
		"headers too large": {"x-api-token: 1\r\nPadding: " + strings.Repeat("x", 17<<10) + "\r\n", 431},
	} {
		a := newAsker(Options{Now: time.Now}, Token{ID: 1})
		body := strings.Repeat("x", map[bool]int{true: reply.MaxBody + 1, false: 4}[c.status == 413])
		w := &wire{in: bytes.NewReader([]byte("POST /dte/dte01 HTTP/1.1\r\nHost: x\r\n" + c.head + "\r\n" + body))}
		_ = a.g.api.ServeConn(w)
		answers := bufio.NewReader(&w.out)
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != c.status || !resp.Close {
			t.Errorf("%s: %d, closes %v: %v", name, resp.StatusCode, resp.Close, err)
		}
		if _, err := http.ReadResponse(answers, nil); err == nil {
			t.Errorf("%s: another answer follows", name)
		}
	}
}

// TestServe_Stops: a gateway that is told to stop while a sale still waits for MH stops after ten seconds, without an
// error; a listener that fails is one.
func TestServe_Stops(t *testing.T) {
	broken := errors.New("broken")
	if err := serve(t.Context(), new(fasthttp.Server), failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a broken listener: %v", err)
	}
	_ = new(fasthttp.ResponseHeader).Header() // starts fasthttp's clock outside of the bubble: it never ends
	synctest.Test(t, func(t *testing.T) {
		began, release := make(chan struct{}), make(chan struct{})
		s := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) { close(began); <-release }}
		p := pipe(make(chan net.Conn, 1))
		ctx, stop := context.WithCancel(t.Context())
		theirs, conn := net.Pipe()
		p <- theirs
		done := make(chan error, 1)
		go func() { done <- serve(ctx, s, p) }()
		go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
		<-began
		at := time.Now()
		stop()
		if err := <-done; err != nil || time.Since(at) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(at), err)
		}
		close(release)
		close(p)
		_ = conn.Close()
		time.Sleep(time.Minute) // fasthttp cleans up after itself
	})
}

type failing struct{ err error }

func (f failing) Accept() (net.Conn, error) { return nil, f.err }
func (failing) Close() error                { return nil }
func (failing) Addr() net.Addr              { return &net.TCPAddr{} }
