package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	netmail "net/mail"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/rogpeppe/go-internal/testscript"

	"dtegate/cmd/cmdtest"
)

// inbox is a real SMTP server of this process.
type inbox struct {
	mu      sync.Mutex
	code    int // answered to every receiver, if not 0
	letters []mailed
}

type mailed struct {
	To      []string `json:"to"`
	Subject string   `json:"subject"`
	ID      string   `json:"id"`
	Files   []string `json:"files"`
}

// withInbox gives a mail server to a branch that has not started yet.
func (b *branch) withInbox() *inbox {
	b.t.Helper()
	box, ln := new(inbox), cmdtest.Listen(b.t)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &inboxSession{box: box},
			nil
	}))
	server.ErrorLog = log.New(io.Discard, "", 0)
	go func() { _ = server.Serve(ln) }()
	b.t.Cleanup(func() { _ = server.Close() })
	b.section(fmt.Sprintf("[mail]\nhost = \"127.0.0.1\"\nport = %d\nsecurity = \"none\"\nfrom = "+
		"\"dte@tienda.example\"\n", ln.Addr().(*net.TCPAddr).Port))
	return box
}

func (box *inbox) answer(code int) {
	box.mu.Lock()
	defer box.mu.Unlock()
	box.code = code
}

type inboxSession struct {
	box *inbox
	to  []string
}

func (x *inboxSession) Reset()                               {}
func (x *inboxSession) Logout() error                        { return nil }
func (x *inboxSession) Mail(string, *smtp.MailOptions) error { return nil }

func (x *inboxSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.box.mu.Lock()
	defer x.box.mu.Unlock()
	x.to = append(x.to, to)
	if x.box.code != 0 {
		return &smtp.SMTPError{Code: x.box.code, EnhancedCode: smtp.NoEnhancedCode, Message: "no"}
	}
	return nil
}

func (x *inboxSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	got := mailed{To: x.to, ID: m.Header.Get("Message-Id")}
	if got.Subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		return err
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := parts.NextPart()
		if err != nil {
			break
		}
		if name := p.FileName(); name != "" {
			got.Files = append(got.Files, name)
		}
	}
	x.box.mu.Lock()
	defer x.box.mu.Unlock()
	x.box.letters = append(x.box.letters, got)
	return nil
}

// mailed N waits for N messages in all; field then reads them, the last first.
func (s *story) mailed(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b []byte
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) {
		s.inbox.mu.Lock()
		n := len(s.inbox.letters)
		last := make([]mailed, n)
		for i, l := range s.inbox.letters {
			last[n-1-i] = l
		}
		s.inbox.mu.Unlock()
		if n > want || n < want && time.Now().After(deadline) {
			ts.Fatalf("%d messages, want %d: %+v", n, want, last)
		}
		if n == want {
			b, err = json.Marshal(last)
			break
		}
	}
	s.take(ts, http.StatusOK, b, err)
}

// answers CODE is the mail server's answer to every receiver; 0: it accepts them.
func (s *story) answers(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	s.inbox.answer(code)
}

// fetch PATH|URL [NAME VALUE] gets a file: a path with the token, a URL as somebody who has only the URL.
func (s *story) fetch(ts *testscript.TestScript, _ bool, args []string) {
	url := args[0]
	if strings.HasPrefix(url, "/") {
		url = "http://" + s.b.api + url
	}
	req, err := http.NewRequest(http.MethodGet, url, nil)
	ts.Check(err)
	if url != args[0] {
		req.Header.Set("x-api-token", testToken+"1")
	}
	if len(args) == 3 {
		req.Header.Set(args[1], args[2])
	}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	s.take(ts, resp.StatusCode, b, err)
	s.header = resp.Header
}

// header NAME VALUE of what was fetched; without a value it is kept in $NAME.
func (s *story) headerIs(ts *testscript.TestScript, _ bool, args []string) {
	got := s.header.Get(args[0])
	if len(args) == 1 {
		ts.Setenv(args[0], got)
	} else if got != args[1] {
		ts.Fatalf("%s is %q, want %q", args[0], got, args[1])
	}
}

// begins TEXT: so does the answer.
func (s *story) begins(ts *testscript.TestScript, neg bool, args []string) {
	if strings.HasPrefix(string(s.raw), args[0]) == neg {
		ts.Fatalf("the answer is %.60q", s.raw)
	}
}

// A link with any altered character opens nothing, and no other document.
func TestLink_Tampered(t *testing.T) {
	b := newBranch(t)
	b.start()
	defer b.stop()
	one, other := b.sold(sale10), b.sold(sale10)
	_, answer, err := b.get("/dte/pdf/"+one.Code+"?format=url", 1)
	var data struct {
		Data struct {
			URL       string
			ExpiresIn int
		}
	}
	if err != nil || json.Unmarshal(answer, &data) != nil || data.Data.ExpiresIn != 300 {
		t.Fatalf("%v %s", err, answer)
	}
	tries := 0
	status := func(url string) int {
		tries++ // from an address of its own: strangers who try many links are slowed down
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(tries))}}
		each := &http.Client{Transport: &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true}}
		resp, err := each.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	link := data.Data.URL
	if got := status(link); got != http.StatusOK {
		t.Fatalf("the link gives %d", got)
	}
	if got := status(strings.Replace(link, one.Code, other.Code, 1)); got != http.StatusForbidden {
		t.Errorf("another document gives %d", got)
	}
	for i := strings.Index(link, "token=") + len("token="); i < len(link); i++ {
		c := byte('A')
		if link[i] == c {
			c = 'B'
		}
		if got := status(link[:i] + string(c) + link[i+1:]); got != http.StatusForbidden {
			t.Errorf("with %c at %d it gives %d", c, i, got)
		}
	}
	if got := status(strings.Replace(link, "letter", "ticket80", 1)); got != http.StatusForbidden {
		t.Errorf("another layout gives %d", got)
	}
}

// A document has the same bytes on every way that leads to it, and no way leads to another branch's document.
func TestDelivery_Ways(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	t.Cleanup(b.kill)
	sold := b.sold(sale10)
	code := sold.Code
	var r struct {
		Data struct {
			Base64 []byte
			URL    string
		}
	}
	read := func(b []byte) {
		t.Helper()
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatalf("%v %s", err, b)
		}
	}
	get := func(path string, want int) []byte {
		t.Helper()
		status, answer, err := b.get(path, 1)
		if err != nil || status != want || want == http.StatusNotFound && !strings.Contains(string(answer),
			`"type":"DOCUMENT_NOT_FOUND"`) {
			t.Errorf("%s gives %d %v %.200s", path, status, err, answer)
		}
		return answer
	}
	pdf, legal := get("/dte/pdf/"+code, http.StatusOK), get("/dte/json/"+code, http.StatusOK)
	read(get("/dte/pdf/"+code+"?format=base64", http.StatusOK))
	read(get("/dte/pdf/"+code+"?format=url", http.StatusOK))
	link := strings.TrimPrefix(r.Data.URL, "http://"+b.api)
	for way, got := range map[string][]byte{"view": get("/dte/pdf/"+code+"?format=view", http.StatusOK),
		"letter":   get("/dte/pdf/"+code+"?layout=letter", http.StatusOK),
		"download": get("/dte/pdf/"+code+"?format=download", http.StatusOK), "base64": r.Data.Base64, "url": get(link,
			http.StatusOK),
		"dtePdfUrl": get("/"+sold.PDFURL, http.StatusOK)} {
		if !bytes.Equal(got, pdf) || len(got) < 1000 {
			t.Errorf("%s is another PDF, of %d bytes", way, len(got))
		}
	}
	if !bytes.Equal(get("/"+sold.JSONURL, http.StatusOK), legal) {
		t.Error("dteJsonUrl is another file")
	}

	b.stop()
	b.reconfigure("branch = {id = 3}", "branch = {id = 4}")
	b.start()
	for _, path := range []string{"/dte/pdf/" + code, "/dte/pdf/" + code + "?format=download", "/dte/pdf/" + code +
		"?format=base64", "/dte/pdf/" + code + "?format=url",
		"/dte/pdf/" + code + "?format=escpos", "/dte/json/" + code, "/" + sold.JSONURL, "/" + sold.PDFURL} {
		get(path, http.StatusNotFound)
	}
	if status, answer, err := b.post("/dte/resend/"+code, 1, "", `{"email":"eva@example.com"}`); err != nil ||
		status != http.StatusNotFound {
		t.Errorf("a resend gives %d %v %s", status, err, answer)
	}
	get(link, http.StatusOK) // whoever has the link may open it, during its life
	b.stop()
}

// printed returns the readable version, as a till gets it.
func (b *bench) printed(t *testing.T) {
	line := `{"codigo":"A-0001","descripcion":"Artículo de la línea, con un nombre de largo usual","cantidad":3,"precioUnitario":6.95}`
	for _, c := range []struct {
		name, layout string
		lines, times int
		limit        float64
	}{{"PDF, letter, 2,000 lines", "letter", 2000, 5, 1500}, {"PDF, ticket of 80 mm, 10 lines", "ticket80", 10, 50, 5},
		{"PDF, ticket of 58 mm, 10 lines", "ticket58", 10, 50, 5}} {
		body := `{"receptor":{"nombre":"Ana Morales","tipoDocumento":"13","numDocumento":"012345678"},"items":[` +
			strings.Repeat(line+",", c.lines-1) + line + `],"condicionOperacion":1}`
		path, least := "/dte/pdf/"+b.sold(body).Code+"?layout="+c.layout, time.Hour
		for range c.times {
			least = min(least, timed(func() {
				if status, _, err := b.get(path, 1); err != nil || status != http.StatusOK {
					t.Fatalf("%d %v", status, err)
				}
			}))
		}
		b.row(c.name+", over HTTP (the quickest)", float64(least)/1e6, c.limit, "ms")
	}
}
