package authority

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/engine/authority/connpool"
)

func TestQuery_WhatDoesNotDeny(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		text   string
		want   Kind
	}{
		"404 with a page": {404, "<html>Not Found</html>", Unknown},
		"404 with text":   {404, "default backend - 404", Unknown},
		"404 about another document": {404, strings.Replace(body("RECHAZADO", "null", "014"), "FF84", "0000", 1),
			Unknown},
		"404 in MH's form":              {404, body("RECHAZADO", "null", "014"), NotFound},
		"404 of the application server": {404, `{"timestamp":"x","status":404,"error":"Not Found"}`, NotFound},
		"400 about another document": {400, strings.Replace(body("RECHAZADO", "null", "014"), "FF84", "0000", 1),
			Unknown},
		"400 without MH's form":          {400, `{"error":"Bad Request"}`, Unknown},
		"the query's values are refused": {400, body("RECHAZADO", "null", "006"), Unknown},
		"the issuer is not authorised":   {400, body("RECHAZADO", "null", "095"), Unknown},
		"a rejection that MH remembers":  {400, body("RECHAZADO", "null", "096"), NotFound},
		"a rejection with a seal":        {400, body("RECHAZADO", `"`+goodSeal+`"`, "096"), Unknown},
	} {
		client, _ := mh(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w,
				c.text)
		}, patient)
		if o := client.Query(t.Context(), "01", testCode); o.Kind != c.want || (o.Kind == Unknown && (o.Err == nil ||
			!o.Sent)) {
			t.Errorf("%s: got %+v", name, o)
		}
	}
}

// A seal counts, whatever the types of the other members are.
func TestDecide_OddTypes(t *testing.T) {
	client := New(Options{Now: time.Now, Ambiente: "00"})
	text := fmt.Sprintf(`{"version":"2","versionApp":2.5,"ambiente":0,"estado":"PROCESADO","codigoGeneracion":%q,"selloRecibido":%q,`+
		`"fhProcesamiento":{},"clasificaMsg":10,"codigoMsg":1,"descripcionMsg":["a"],"observaciones":"una sola"}`,
		testCode, goodSeal)
	o := client.decide(200, []byte(text), testCode)
	if o.Kind != Accepted || o.Response.Version != 2 || o.Response.CodigoMsg != "1" ||
		len(o.Response.Observaciones) != 1 {
		t.Fatalf("got %+v %+v", o, o.Response)
	}
	for _, bad := range []string{
		strings.Replace(text, `"`+goodSeal+`"`, "20219", 1), strings.Replace(text, `"PROCESADO"`, "1", 1), text + "{}",
		text[:len(text)-1], "null", "[]",
	} {
		if o := client.decide(200, []byte(bad), testCode); o.Kind != Unknown || !o.Sent {
			t.Errorf("%s: got %+v", bad, o)
		}
	}
}

func TestSubmit_AnswerTooLong(t *testing.T) {
	client, _ := mh(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, body("PROCESADO", `"`+goodSeal+`"`, "001")+strings.Repeat(" ", maxAnswer))
	}, nil)
	if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Unknown || !o.Sent {
		t.Fatalf("got %+v", o)
	}
}

// Every failure before the request is written proves that nothing was sent.
func TestSubmit_NoConnection(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never shakes hands
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	tls := httptest.NewTLSServer(http.NotFoundHandler()) // nobody trusts its certificate
	defer tls.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for name, url := range map[string]string{
		"mute handshake":     "https://" + mute.Addr().String(),
		"false certificate":  tls.URL,
		"tls to a plain one": strings.Replace(plain.URL, "http:", "https:", 1),
	} {
		client := New(Options{BaseURL: url, Now: time.Now, AnswerTimeout: time.Second,
			Transport: connpool.New(connpool.Options{URL: url, ConnectTimeout: 20 * time.Millisecond})})
		client.token, client.expires = "Bearer t", time.Now().Add(time.Hour)
		if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Unknown || o.Sent || o.Err == nil {
			t.Errorf("%s: got %+v", name, o)
		}
	}
}

// A kept connection that dies during the request: whatever the transport does, one Submit is at most one reception, and
// a reception is never reported as impossible.
func TestSubmit_KeptConnectionDies(t *testing.T) {
	var received, served atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil && len(b) > 0 {
			received.Add(1)
		}
		if served.Add(1)%2 == 0 { // the second request of each connection
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, body("PROCESADO", `"`+goodSeal+`"`, "001"))
	})}
	go server.Serve(l)
	defer server.Close()
	client := New(Options{BaseURL: "http://" + l.Addr().String(), Now: time.Now, Ambiente: "00"})
	client.token, client.expires = "Bearer t", time.Now().Add(time.Hour)
	for _, jws := range []string{"a.b.c", strings.Repeat("x", 20_000)} {
		for i := range 20 {
			before := received.Load()
			o := client.Submit(t.Context(), Submission{Code: testCode, JWS: jws})
			if n := received.Load() - before; n > 1 || (n == 1 && o.Kind == Unknown && !o.Sent) {
				t.Fatalf("call %d: %d receptions, outcome %+v", i, n, o)
			}
		}
	}
	if received.Load() != 40 {
		t.Errorf("%d receptions of 40", received.Load())
	}
}

// TestSubmitLot_Decides: a lot counts as received only if status, estado and MH's code all say so, and as refused only
// by a refusal. Any other answer leaves it open.
func TestSubmitLot_Decides(t *testing.T) {
	lot := func(status int, text string) (Outcome, string) {
		client, _ := mh(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, text)
		}, patient)
		o, code, _ := client.SubmitLot(t.Context(), "S", []string{"a.b.c"})
		return o, code
	}
	for _, status := range []int{200, 201, 400, 500} {
		for _, estado := range []string{"RECIBIDO", "RECHAZADO", "", "OTRO"} {
			for _, code := range []string{"L1", ""} {
				for _, id := range []string{"S", "", "other"} {
					text := fmt.Sprintf(
						`{"estado":%q,"idEnvio":%q,"codigoLote":%q,"codigoMsg":"1","descripcionMsg":"x","observaciones":[]}`, estado, id, code)
					o, got := lot(status, text)
					want, wantCode := Unknown, ""
					switch {
					case id == "other":
					case status == 200 && estado == "RECIBIDO" && code != "":
						want, wantCode = Accepted, code
					case (status == 200 || status == 400) && estado == "RECHAZADO":
						want = Rejected
					}
					if o.Kind != want || got != wantCode || want == Unknown && !o.Sent {
						t.Errorf("%d %s: %+v, code %q; want %v", status, text, o, got, want)
					}
				}
			}
		}
	}
}

// TestSender_Lost: what a restored branch does not know, at each bound of the time that its store has lost.
func TestSender_Lost(t *testing.T) {
	from := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	to, now := from.Add(time.Hour), from.Add(2*time.Hour)
	s := &Sender{Lost: []Span{{From: from, To: to}}, Now: func() time.Time { return now }, DoubtFor: 2 * time.Minute}
	for _, c := range []struct {
		at   time.Time
		lost bool
	}{{from.Add(-2*time.Minute - 1), false}, {from.Add(-2 * time.Minute), true}, {to, true},
		{to.Add(15 * time.Minute), true}, {to.Add(15*time.Minute + 1), false}} {
		if got := s.InLostTime(c.at); got != c.lost {
			t.Errorf("%v is in the lost time: %v", c.at, got)
		}
	}
	for _, c := range []struct {
		created, now time.Time
		until        time.Time // zero: it need not wait
		further      bool      // MH may know more about it
	}{
		{to, to, to.Add(15 * time.Minute), true},
		{to, to.Add(15*time.Minute - 1), to.Add(15 * time.Minute), true},
		{to, to.Add(15 * time.Minute), time.Time{}, true},
		{to.Add(1), to.Add(1), time.Time{}, false},
		{from.Add(-time.Hour), to, to.Add(15 * time.Minute), true},
		{to, to.Add(-time.Hour), time.Time{}, true}, // the clock was an hour ahead when the store was restored
	} {
		now = c.now
		if got := s.RestoredUntil(c.created); !got.Equal(c.until) {
			t.Errorf("created at %v, now %v: it waits until %v, want %v", c.created, c.now, got, c.until)
		}
		want := c.until
		if sent := c.now.Add(s.DoubtFor); sent.After(want) {
			want = sent
		}
		if got := s.Decidable(c.created, c.now); !got.Equal(want) {
			t.Errorf("created at %v, sent at %v: decidable from %v, want %v", c.created, c.now, got, want)
		}
		if got := s.MayBeFurther("A", c.created); got != c.further {
			t.Errorf("created at %v: MH may know more: %v", c.created, got)
		}
	}
}
