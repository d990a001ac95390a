package authority

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/cmdtest/skip"
)

const (
	testCode = "FF84E5DB-79C5-42CE-B415-EC510C53EFB5"
	goodSeal = "20219E9D4DC0292F4681AD759B0B0F5CA99DC23G"
)

// mh is a server with a login and one answer for everything else.
func mh(t *testing.T, answer http.HandlerFunc, change func(*Options)) (*Client, *atomic.Int32) {
	t.Helper()
	var logins atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /seguridad/auth", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("user") != "06140101901019" || r.FormValue("pwd") != "secreto" || r.UserAgent() != "dtegate" {
			fmt.Fprint(w, `{"status":"ERROR","error":"Unauthorized","message":"Usuario no valido"}`)
			return
		}
		fmt.Fprintf(w, `{"status":"OK","body":{"token":"Bearer t%d"}}`, logins.Add(1))
	})
	mux.HandleFunc("/", answer)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	o := Options{BaseURL: srv.URL, NIT: "06140101901019", Password: "secreto", Ambiente: "00", UserAgent: "dtegate",
		Now: time.Now, AnswerTimeout: time.Minute} // a busy machine must not change an outcome
	if change != nil {
		change(&o)
	}
	return New(o), &logins
}

// patient is for clients whose limits are not tested, not even that of a connection.
func patient(o *Options) { o.Transport = new(http.Transport) }

func body(estado, seal, codigo string) string {
	return fmt.Sprintf(`{"version":2,"ambiente":"00","versionApp":2,"estado":%q,"codigoGeneracion":%q,"selloRecibido":%s,"fhProcesamiento":null,"clasificaMsg":null,"codigoMsg":%q,"descripcionMsg":"x","observaciones":null}`,
		estado, testCode, seal, codigo)
}

func TestSubmit_Outcomes(t *testing.T) {
	quoted := `"` + goodSeal + `"`
	say := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); io.WriteString(w, text) }
	}
	hijack := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, text)
			conn.Close()
		}
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   Kind
	}{
		{"accepted", say(200, body("PROCESADO", quoted, "001")), Accepted},
		{"accepted with observations", say(200, body("PROCESADO", quoted, "002")), Accepted},
		{"rejected over 400", say(400, body("RECHAZADO", "null", "096")), Rejected},
		{"rejected over 200", say(200, body("RECHAZADO", "null", "096")), Rejected},
		{"a seal of another form", say(200, body("PROCESADO", `"123"`, "001")), Unknown},
		{"no seal", say(200, body("PROCESADO", "null", "001")), Unknown},
		{"about another document", say(200, strings.Replace(body("PROCESADO", quoted, "001"), "FF84", "0000", 1)),
			Unknown},
		{"400 of a proxy", say(400, "<html>Bad Request</html>"), Unknown},
		{"500", say(500, `{"message":"error"}`), Unknown},
		{"500 with a rejection's body", say(500, body("RECHAZADO", "null", "096")), Unknown},
		{"html over 200", say(200, "<html></html>"), Unknown},
		{"404", say(404, "not found"), Unknown},
		{"redirect", say(302, ""), Unknown},
		{"half an answer", hijack("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"version\":2,"), Unknown},
		{"cut", hijack(""), Unknown},
		{"silence", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() },
			Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := mh(t, c.answer, nil)
			if c.name == "silence" {
				client.options.AnswerTimeout = time.Second
				client.token, client.expires = "Bearer t", time.Now().Add(time.Hour)
			}
			o := client.Submit(context.Background(), Submission{Document: "01", Version: 2, Code: testCode,
				JWS: "a.b.c"})
			if o.Kind != c.want || (c.want == Unknown) != (o.Err != nil) || (c.want == Unknown && !o.Sent) {
				t.Fatalf("got %+v", o)
			}
			if o.Response != nil && o.Response.Observaciones == nil {
				t.Error("observaciones is nil")
			}
		})
	}
}

func TestSubmit_CertainlyNotReceived(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	client := New(Options{BaseURL: "http://" + ln.Addr().String(), Now: time.Now})
	client.token, client.expires = "Bearer t", time.Now().Add(time.Hour)
	if o := client.Submit(context.Background(), Submission{Code: testCode}); o.Kind != Unknown || o.Sent ||
		o.Err == nil {
		t.Fatalf("got %+v", o)
	}
}

// One Submit sends the document once, even if a kept connection turns out to be dead.
func TestSubmit_NeverTwiceOnTheWire(t *testing.T) {
	var received atomic.Int32
	client, _ := mh(t, func(w http.ResponseWriter, r *http.Request) {
		received.Add(1)
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
	}, nil)
	for i := range 20 {
		client.Submit(context.Background(), Submission{Code: testCode})
		if int(received.Load()) > i+1 {
			t.Fatalf("%d calls, %d receptions", i+1, received.Load())
		}
	}
}

func TestSubmit_TokenRenewedOnce(t *testing.T) {
	var calls atomic.Int32
	client, logins := mh(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("Authorization") != "Bearer t2" {
			w.WriteHeader(401)
			return
		}
		io.WriteString(w, body("PROCESADO", `"`+goodSeal+`"`, "001"))
	}, nil)
	if o := client.Submit(context.Background(), Submission{Code: testCode}); o.Kind != Accepted {
		t.Fatalf("got %+v", o)
	}
	if logins.Load() != 2 || calls.Load() != 2 {
		t.Fatalf("%d logins, %d calls", logins.Load(), calls.Load())
	}
	client.Submit(context.Background(), Submission{Code: testCode})
	if logins.Load() != 2 {
		t.Error("a good token was not kept")
	}
}

func TestSubmit_TokenAlwaysRefused(t *testing.T) {
	client, logins := mh(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, nil)
	o := client.Submit(context.Background(), Submission{Code: testCode})
	if o.Kind != Unknown || o.Sent || logins.Load() != 2 {
		t.Fatalf("got %+v after %d logins", o, logins.Load())
	}
}

func TestSubmit_WrongPassword(t *testing.T) {
	client, _ := mh(t, http.NotFound, func(o *Options) { o.Password = "otro" })
	o := client.Submit(context.Background(), Submission{Code: testCode})
	if o.Kind != Unknown || o.Sent || !errors.Is(o.Err, ErrCredentials) || strings.Contains(o.Err.Error(), "otro") {
		t.Fatalf("got %+v", o)
	}
}

// In production a simulator's seal is not accepted, whatever is asked: a document, a query, a lot, an event.
func TestClient_SimulatedSealInProduction(t *testing.T) {
	seal := `"2026` + strings.Repeat("A", 32) + `SIMU"`
	answer := func(w http.ResponseWriter, r *http.Request) {
		text := body("PROCESADO", seal, "001")
		switch {
		case r.URL.Path == "/fesv/contingencia":
			text = `{"estado":"RECIBIDO","fechaHora":"21/11/2026 12:00:00","mensaje":"x","selloRecibido":` + seal + `,"observaciones":[]}`
		case strings.HasPrefix(r.URL.Path, "/fesv/recepcion/consultadtelote/"):
			text = `{"procesados":[` + text + `],"rechazados":[]}`
		}
		io.WriteString(w, text)
	}
	for name, ask := range map[string]func(*Client) Outcome{
		"submit":     func(c *Client) Outcome { return c.Submit(t.Context(), Submission{Code: testCode}) },
		"query":      func(c *Client) Outcome { return c.Query(t.Context(), "01", testCode) },
		"invalidate": func(c *Client) Outcome { return c.Invalidate(t.Context(), Submission{Code: testCode}) },
		"contingency": func(c *Client) Outcome {
			o, r := c.Report(t.Context(), "a.b.c")
			if (r != nil) != (o.Kind == Accepted) {
				t.Errorf("the receipt is %+v with %+v", r, o)
			}
			return o
		},
		"lot": func(c *Client) Outcome {
			outcomes, err := c.QueryLot(t.Context(), "L")
			if len(outcomes) != 1 || err != nil {
				t.Errorf("%v %v", outcomes, err)
			}
			return outcomes[testCode]
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := mh(t, answer, func(o *Options) { o.Ambiente = "01" })
			if o := ask(client); o.Kind != Unknown || !errors.Is(o.Err, ErrSimulated) {
				t.Errorf("production took it: %+v", o)
			}
			client, _ = mh(t, answer, nil)
			if o := ask(client); o.Kind != Accepted {
				t.Errorf("test refused it: %+v", o)
			}
		})
	}
}

func TestQuery(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		text   string
		want   Kind
	}{
		"held":           {200, body("PROCESADO", `"`+goodSeal+`"`, "001"), Accepted},
		"not held":       {400, body("RECHAZADO", "null", "ERROR"), NotFound},
		"not held (404)": {404, "", NotFound},
		"502":            {502, "<html>", Unknown},
		"empty 200":      {200, "", Unknown},
	} {
		client, _ := mh(t, func(w http.ResponseWriter, r *http.Request) {
			var q map[string]string
			if json.NewDecoder(r.Body).Decode(&q) != nil || q["tdte"] != "01" || q["codigoGeneracion"] != testCode ||
				q["nitEmisor"] != "06140101901019" {
				t.Errorf("%s: asked %v", name, q)
			}
			w.WriteHeader(c.status)
			io.WriteString(w, c.text)
		}, patient)
		if o := client.Query(context.Background(), "01", testCode); o.Kind != c.want {
			t.Errorf("%s: got %+v", name, o)
		}
	}
}

// TestCounts: each call counts once, under its operation and its result, and shows whether MH answered. MH's
// refusal of a probe is an answer too.
func TestCounts(t *testing.T) {
	submit := func(c *Client) Kind { return c.Submit(t.Context(), Submission{Code: testCode}).Kind }
	query := func(c *Client) Kind { return c.Query(t.Context(), "01", testCode).Kind }
	probe := func(c *Client) Kind { return c.Probe(t.Context()).Kind }
	about := func(code, text string) string { return strings.ReplaceAll(text, testCode, code) }
	for name, c := range map[string]struct {
		ask    func(*Client) Kind
		status int
		text   string
		kind   Kind
		counts string
		up     float64
	}{
		"sealed":         {submit, 200, body("PROCESADO", `"`+goodSeal+`"`, "001"), Accepted, "submit/accepted", 1},
		"refused":        {submit, 400, body("RECHAZADO", "null", "099"), Rejected, "submit/rejected", 1},
		"a page":         {submit, 502, "<html>", Unknown, "submit/unknown", 0},
		"a forged seal":  {submit, 200, body("PROCESADO", `"`+goodSeal[:36]+`SIMU"`, "001"), Unknown, "submit/simulated", 0},
		"not held":       {query, 404, "", NotFound, "query/not_found", 1},
		"a wrong query":  {query, 400, body("RECHAZADO", "null", "003"), Unknown, "query/unknown", 0},
		"nobody":         {probe, 404, "", NotFound, "probe/not_found", 1},
		"a wrong probe":  {probe, 400, about(nobody, body("RECHAZADO", "null", "003")), Rejected, "probe/rejected", 1},
		"a probe's page": {probe, 502, "<html>", Unknown, "probe/unknown", 0},
		"no login":       {submit, 0, "", Unknown, "submit/unreachable", 0},
	} {
		client, _ := mh(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.text)
		}, func(o *Options) {
			if o.Ambiente = "01"; c.status == 0 {
				o.BaseURL = "http://127.0.0.1:1"
			}
		})
		if kind := c.ask(client); kind != c.kind {
			t.Errorf("%s: %v", name, kind)
		}
		counted, values := "", metrictest.Values(t, client)
		for metric, n := range values {
			if of, ok := strings.CutPrefix(metric, "dte_authority_requests_total/"); ok && n > 0 {
				counted += fmt.Sprint(of, " × ", n)
			}
		}
		if counted != c.counts+" × 1" || values["dte_authority_up"] != c.up {
			t.Errorf("%s: counted %s, up %v", name, counted, values["dte_authority_up"])
		}
	}
}

// Every body that MH really sent, if the oracle folder is beside the checkout.
func TestDecide_RealAnswers(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "mh", "examples", "_responses",
		"recepciondte_*.json"))
	if len(files) == 0 {
		skip.Test(t, skip.MHDocuments)
	}
	client := New(Options{Now: time.Now, Ambiente: "00"})
	for _, path := range files {
		b, _ := os.ReadFile(path)
		var f struct {
			HTTPStatus int             `json:"httpStatus"`
			Body       json.RawMessage `json:"body"`
		}
		var code struct {
			CodigoGeneracion string `json:"codigoGeneracion"`
		}
		if json.Unmarshal(b, &f) != nil || json.Unmarshal(f.Body, &code) != nil {
			t.Fatal(path)
		}
		want := Accepted
		if f.HTTPStatus == 400 {
			want = Rejected
		}
		if o := client.decide(f.HTTPStatus, f.Body, code.CodigoGeneracion); o.Kind != want {
			t.Errorf("%s: got %+v", filepath.Base(path), o)
		}
	}
}
