package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/apitest"
	"dtegate/gateway/door"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
	"dtegate/rules/bundle"
)

// said is an engine that answers as the test says: the contract is about HTTP, and no real engine fails in every way on
// demand.
type said struct {
	err    error
	stored int64 // bytes of each document
	closed bool  // the day is closed, until it is closed again
	known  bool  // every key is known
}

const saidCode = "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F"

func (s *said) record() (*record.View, error) {
	if s.err != nil {
		return nil, s.err
	}
	return &record.View{ID: 1, Document: "01", Tipo: "FACTURA_CONSUMIDOR_FINAL", Code: saidCode,
		ControlNumber: "DTE-01-M001P001-000000000000001",
		Estado:        record.EstadoInvalidated, Ambiente: "TEST", Total: "1.00",
		JSON: []byte(`{"identificacion":{},"emisor":{},"cuerpoDocumento":[]}`), JWS: []byte("a.b.c"),
		JSONURL:        "tienda/DTES/test/2026/01/02/DTE01/json/" + saidCode + ".json",
		PDFURL:         "tienda/DTES/test/2026/01/02/DTE01/pdf/" + saidCode + ".pdf",
		SequenceNumber: "1", Stored: s.stored, CreatedAt: time.Unix(1, 0),
		Invalidation: &record.Invalidation{Code: saidCode, Estado: "PROCESSED", Kind: 2, At: time.Unix(2, 0),
			Response: &authority.Response{Estado: "PROCESADO", SelloRecibido: "x"}}}, nil
}
func (s *said) Issue(context.Context, engine.Request) (*record.View, error) { return s.record() }
func (s *said) Repeated(context.Context, engine.Request) (*record.View, error) {
	if s.known {
		return s.record()
	}
	return nil, nil
}
func (s *said) Document(context.Context, dte.Code, record.Caller) (*record.View, error) {
	return s.record()
}
func (s *said) Validate(context.Context, engine.Request) (*engine.Validation, error) {
	return &engine.Validation{Document: "01", Total: "1.00", JSON: []byte(`{"cuerpoDocumento":[],"resumen":{}}`)}, s.err
}
func (s *said) CodeLists() *dte.Catalogues {
	c, err := dte.ParseCatalogues(
		[]byte(`{"version":"1","source":"test","catalogues":{"CAT-014":{"name":"Unidad","values":{"59":"Unidad"}}}}`))
	if err != nil {
		panic(err)
	}
	return c
}
func (s *said) Check(context.Context, engine.Request) []dte.Fault { return nil }
func (s *said) TypeOf(r *record.View) *bundle.Type                { return record.TypeOf(r.Document) }
func (s *said) Correct(context.Context, dte.Code, engine.Request) (*record.View, error) {
	return s.record()
}
func (s *said) CheckInvalidation(context.Context, engine.InvalidationRequest) []dte.Fault { return nil }
func (s *said) Invalidate(context.Context, engine.InvalidationRequest) (*record.View, error) {
	return s.record()
}
func (s *said) Infos(_ context.Context, codes []dte.Code, _ record.Caller) ([]documents.Info, error) {
	return []documents.Info{{Code: saidCode}}, s.err
}
func (s *said) List(context.Context, documents.Filter, record.Caller) (*documents.Listing, error) {
	return &documents.Listing{Totals: []documents.Total{{Tipo: "RETORNO", Estado: "PROCESSED", Count: 1,
		Amount: "1.00"}},
		Lines: []documents.Line{{ID: 1, Tipo: "RETORNO", Document: "18", Code: saidCode, Estado: "PROCESSED",
			Date: "2026-01-02"}}}, s.err
}
func (s *said) Changes(context.Context, uint64, record.Caller) ([]documents.Late, uint64, error) {
	return []documents.Late{{Cursor: 7, Info: documents.Info{Code: saidCode, Estado: "REJECTED", Tipo: "RETORNO"},
		Text: "no"}}, 7, s.err
}
func (s *said) Closing(_ context.Context, date string, _ bool, _ int64, _ record.Caller,
	_ time.Time) (*documents.Closing, error) {
	return &documents.Closing{Kind: "X", Date: date, Ambiente: "TEST", Establishment: "M001", PointOfSale: "P001",
		Groups: []documents.ClosingGroup{},
		Series: []documents.ClosingSeries{}, Payments: []documents.ClosingPayment{}}, s.err
}
func (s *said) CloseDay(ctx context.Context, date string, c record.Caller) (*documents.Closing, bool, error) {
	s.closed = !s.closed
	z, err := s.Closing(ctx, date, false, 0, c, time.Time{})
	return z, s.closed, err
}
func (s *said) PrintSlip(context.Context, record.Caller, pdf.Slip, string, bool) ([]byte, error) {
	return []byte("%PDF-"), s.err
}
func (s *said) Printed(context.Context, dte.Code, record.Caller, string, bool) ([]byte, error) {
	return []byte("%PDF-"), s.err
}
func (s *said) Archivo(context.Context, dte.Code, record.Caller) ([]byte, error) {
	return []byte(`{}`), s.err
}
func (s *said) Link(context.Context, dte.Code, record.Caller, string, time.Duration) (string, error) {
	return "", s.err
}
func (s *said) Resend(context.Context, dte.Code, string, record.Caller) (*outbox.Resent, error) {
	return &outbox.Resent{Code: saidCode, To: "a@example.com", Tipo: "RETORNO", Estado: "PROCESSED"}, s.err
}

// TestContract_Answers asks every operation in every way and holds each answer against the contract; every documented
// status of every operation is seen.
func TestContract_Answers(t *testing.T) {
	contract, err := apitest.Parse(contractText)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte("secret of the test")
	// The clock stands still during an operation: else a bucket that the test has emptied could fill before the next
	// request.
	var clock atomic.Int64
	now := func() time.Time { return time.Unix(clock.Load(), 0) }
	doc := contractOf(t)
	all := []string{"ANULACION"}
	for _, kind := range record.Known() {
		if kind.Permission != "" {
			all = append(all, kind.Permission)
		}
	}
	table := NewTokenTable(secret, []Token{{ID: 1, Hash: keyed("may", secret), Permissions: all},
		{ID: 2, Hash: keyed("may not", secret)}, {ID: 3, Hash: keyed("spent", secret)}})
	fake := new(said)
	g := New(Options{Sales: fake, Documents: fake, Outbox: fake, Tokens: table, Slug: "tienda",
		Access: Access{OwnTypes: true}, Now: now, Limits: Limits{Rate: 1, Burst: 5000},
		Issuer: shownIssuer()})
	url := served(t, g.Serve)
	client := &http.Client{Transport: contract.Transport(&http.Transport{MaxConnsPerHost: 1})}
	ask := func(method, path, body string, headers ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(strings.ToUpper(method), url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(req)
		for n := 0; n < 10 && errors.Is(err, syscall.EPIPE); n++ { // refused before all of the body was written
			req.Body, _ = req.GetBody()
			resp, err = client.Do(req)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	fill := strings.NewReplacer("{catalogo}", "CAT-014", "{codigoGeneracion}", saidCode, "{emisor}", "tienda",
		"{ambiente}", "test", "{anio}", "2026", "{mes}", "01",
		"{dia}", "02", "{dte}", "DTE01", "{formato}", "json", "{archivo}", saidCode+".json")
	for _, item := range doc.Get("paths").Members() {
		for _, o := range item.Value.Members() {
			clock.Add(int64(time.Hour / time.Second)) // every bucket is full again
			method, path := o.Name, fill.Replace(item.Name)
			body := string(exampleOf(o.Value.Get("requestBody").Get("content").Get("application/json")).Append(nil))
			if !o.Value.Get("requestBody").Exists() {
				body = ""
			}
			if item.Name == "/dte/descarga/{codigoGeneracion}" {
				path += "?token=" + table.pass(parsed(t, saidCode), "letter", 0, now().Add(time.Minute))
			}
			may := []string{"x-api-token", "may", "Prefer", "wait=60"}
			// The request succeeds, then succeeds for a caller who has the answer already.
			if tag := ask(method, path, body, may...).Header.Get("ETag"); tag != "" {
				ask(method, path, body, append(may, "If-None-Match", tag)...)
			}
			// The caller has no token, has two, or lacks the permission.
			ask(method, path, body)
			if status := ask(method, path, body, append(may, "Authorization", "Bearer other")...).StatusCode; status !=
				http.StatusBadRequest && o.Value.Get("responses").Get("401").Exists() {
				t.Errorf("%s with two tokens: %d", path, status)
			}
			refusedStatus := ask(method, path, body, "x-api-token", "may not").StatusCode
			// The engine knows what a return takes and who may read or mail what; a download's pass is its own
			// permission.
			if inner := strings.HasPrefix(path, "/dte/retorno") || method == "get" && path != "/dte/documentos" ||
				strings.HasPrefix(path, "/dte/resend"); o.Value.Get("responses").Get("403").Exists() && !inner &&
				refusedStatus != http.StatusForbidden {
				t.Errorf("%s without its permission: %d", path, refusedStatus)
			}
			ask(method, strings.Replace(path, "?token=", "?token=x", 1), body, may...)
			for g.pace.Take("3", now()) == 0 {
			}
			ask(method, path, body, "x-api-token", "spent")
			for g.strange.Take("127.0.0.1", now()) == 0 {
			}
			ask(method, path, body, may...) // strangers asked too often
			g.strange = door.NewBuckets(strangersRate, time.Second, strangersBurst)
			// The request is wrong.
			ask(method, strings.Replace(path, saidCode, "nothing", 1), body, may...)
			ask(method, path+"?x=y", body, may...)
			if status := ask(method, strings.Replace(path, "/01/02/", "/01/03/", 1), body, may...).StatusCode; status !=
				http.StatusNotFound && strings.Contains(path, "/01/02/") {
				t.Errorf("%s under another day: %d", path, status)
			}
			if path == "/dte/documentos" {
				for until, want := range map[string]int{"2026-01-31": http.StatusOK, "2026-02-01": http.StatusBadRequest} {
					if status := ask(method, path+"?desde=2026-01-01&hasta="+until, body, may...).StatusCode; status != want {
						t.Errorf("a list until %s: %d", until, status)
					}
				}
			}
			ask(method, path, body, append(may, "Padding", strings.Repeat("x", 17<<10))...)
			if method == "post" {
				ask(method, path, "{", may...)
				ask(method, path, strings.Repeat(" ", reply.MaxBody+1), may...)
				ask(method, path, body, append(may, "Content-Type", "text/plain")...)
			}
			// The engine refuses, each code where it belongs.
			for _, r := range o.Value.Get("responses").Members() {
				codes := follow(t, doc, r.Value).Get("content").Get("application/json").Get("schema").Get(
					"properties").Get("type").Get("enum")
				for _, code := range itemsOf(codes) {
					if problem.Status(code) != 0 && code != "TOO_LARGE" { // which is the gateway's own
						g.resends = door.NewBuckets(resendsOfDocument, time.Minute, resendsOfDocument)
						g.resendsBy = door.NewBuckets(resendsByToken, time.Minute, resendsByToken)
						fake.err = &refusal.Error{Code: code, Message: "no", RetryAfter: time.Second}
						ask(method, path, body, may...)
					}
				}
			}
			fake.err = nil
			if strings.HasPrefix(path, "/dte/resend/") {
				for range resendsOfDocument + 1 {
					ask(method, path, body, may...)
				}
			}
		}
	}
	ask("get", "/dte/pdf/"+saidCode+"?format=url", "", "x-api-token", "may")
	ask("get", "/dte/pdf/"+saidCode+"?format=base64", "", "x-api-token", "may")
	for _, kind := range record.Known() {
		path := "/dte/" + kind.Path
		ask("post", path,
			string(exampleOf(doc.Get("paths").Get(path).Get("post").Get("requestBody").Get("content").Get(
				"application/json")).Append(nil)),
			"x-api-token", "may", "Prefer", "validate")
	}
	for _, format := range []string{"view", "download", "escpos"} {
		tag := ask("get", "/dte/cierre?format="+format, "", "x-api-token", "may").Header.Get("ETag")
		ask("get", "/dte/cierre?format="+format, "", "x-api-token", "may", "If-None-Match", tag)
	}
	ask("post", "/dte/cierre", "", "x-api-token", "may")
	ask("get", "/dte/catalogos/CAT-999", "", "x-api-token", "may")
	ask("get", "/nowhere", "")
	ask("delete", "/dte/information", "")
	for _, f := range contract.Faults() {
		t.Error(f)
	}
	for _, u := range contract.Unseen(false) {
		t.Error("never seen:", u)
	}
}

// TestRequireKey: where the box wants a key, a sale without one is refused before anything is made of it; validating
// needs none.
func TestRequireKey(t *testing.T) {
	secret, fake := []byte("secret of the test"), new(said)
	table := NewTokenTable(secret, []Token{{ID: 1, Hash: keyed("may", secret),
		Permissions: []string{"FACTURA_CONSUMIDOR_FINAL"}}})
	url := served(t, New(Options{Sales: fake, Documents: fake, Outbox: fake, Tokens: table, Now: time.Now,
		RequireKey: true}).Serve)
	for headers, want := range map[string]int{"": 400, "Idempotency-Key: 1": 201, "Prefer: validate": 200} {
		req, err := http.NewRequest(http.MethodPost, url+"/dte/dte01", strings.NewReader(
			`{"receptor":{},"items":[{"descripcion":"Café","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-api-token", "may")
		req.Header.Set("Content-Type", "application/json")
		if name, value, ok := strings.Cut(headers, ": "); ok {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == 400 && !strings.Contains(string(body),
			`"path":"Idempotency-Key","code":"REQUIRED"`) {
			t.Errorf("%q: %d %s", headers, resp.StatusCode, body)
		}
	}
}

// TestIssue_Repeated: a sale that today's form refuses, or that no form describes any more, is answered with its document
// if its key was used, and a correction is read in the form of the document's day: today's may be newer than the sale.
func TestIssue_Repeated(t *testing.T) {
	kind, form := *record.TypeAt("dte01"), *record.TypeAt("dte01").Form
	form.Members = append(slices.Clip(form.Members), bundle.Member{Name: "vendedor", Required: true})
	for _, c := range []struct {
		form *bundle.Form
		want int
	}{{&form, 400}, {nil, 409}} {
		fake, now := new(said), kind
		now.Form = c.form
		g := New(Options{Sales: fake, Documents: fake, Outbox: fake, Tokens: tokensOf("may"), Now: time.Now,
			Types: func(string) *bundle.Type { return &now }})
		s := &shared{Gateway: g, t: t}
		for _, known := range []bool{false, true} {
			fake.known = known
			want := map[bool]int{false: c.want, true: 201}[known]
			if got, kind, _ := s.ask("POST", "/dte/dte01", "may", 0); got != want {
				t.Errorf("known %v: %d %s, want %d", known, got, kind, want)
			}
		}
		// A document is corrected in the form of its day.
		if got, kind, _ := s.ask("POST", "/dte/correccion/"+saidCode, "may", 0); got != 200 {
			t.Errorf("a correction: %d %s", got, kind)
		}
	}
}

// shownIssuer is an issuer of empty texts, with every member of the contract.
func shownIssuer() reply.Information {
	i := reply.Information{"id", int64(0), "clientId", int64(0), "ambiente", "TEST", "createdAt", time.Unix(1, 0)}
	for name := range strings.FieldsSeq("nit nrc nombre nombreComercial codigoActividad actividadEconomica direccion " +
		"tipoEstablecimiento departamento municipio distrito telefono correo logoUrl colorPrincipal colorSecundario " +
		"colorFondo") {
		i = append(i, name, "")
	}
	return i
}
