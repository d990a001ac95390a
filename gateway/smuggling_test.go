package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp/fasthttputil"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/gateway/adminapi"

	"github.com/valyala/fasthttp"
)

// wire is a connection that brings the given bytes and then ends, and keeps what is answered.
type wire struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (w *wire) Read(b []byte) (int, error)       { return w.in.Read(b) }
func (w *wire) Write(b []byte) (int, error)      { return w.out.Write(b) }
func (w *wire) Close() error                     { return nil }
func (w *wire) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (w *wire) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// answeredOn sends bytes over a connection of the tills' listener. It returns how many requests were answered with the
// connection kept, and the status of the last answer.
func answeredOn(t *testing.T, s *fasthttp.Server, sent []byte) (kept, last int) {
	w := &wire{in: bytes.NewReader(sent)}
	_ = s.ServeConn(w) // the answer says what its error says
	in := bufio.NewReader(&w.out)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return kept, last
		}
		if resp.StatusCode == http.StatusContinue {
			continue
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatalf("an answer is cut off: %v", err)
		}
		if last = resp.StatusCode; !resp.Close {
			kept++
		}
	}
}

// length is how a reader of HTTP in front of the appliance may find the end of a request.
type length int

const (
	byLength length = iota // by Content-Length where there is one, else by Transfer-Encoding
	byChunks               // by Transfer-Encoding where there is one, whatever its value, else by Content-Length
)

// requestsIn counts the requests that such a reader finds, as far as it can: a lenient one, for which a header's name
// may have any case and spaces around it. ends are where each of them ends.
func requestsIn(b []byte, by length) (ends []int) {
	for at := 0; ; {
		head := bytes.Index(b[at:], []byte("\r\n\r\n"))
		if head < 0 {
			return ends
		}
		size, chunks, sized := 0, false, false
		for _, line := range strings.Split(string(b[at:at+head]), "\n")[1:] {
			name, value, _ := strings.Cut(line, ":")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "Content-Length"):
				n, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil || n < 0 {
					return ends
				}
				size, sized = n, true
			case strings.EqualFold(name, "Transfer-Encoding"):
				chunks = true
			}
		}
		body := at + head + 4
		if chunks && (by == byChunks || !sized) {
			n := chunked(b[body:])
			if n < 0 {
				return ends
			}
			at = body + n
		} else {
			at = body + size
		}
		if at > len(b) || at < body {
			return ends
		}
		ends = append(ends, at)
	}
}

// chunked is how long a body in chunks is, without extensions; -1 when it is none.
func chunked(b []byte) int {
	for at := 0; ; {
		line, _, ok := bytes.Cut(b[at:], []byte("\r\n"))
		n, err := strconv.ParseUint(string(line), 16, 20)
		if !ok || err != nil {
			return -1
		}
		at += len(line) + 2
		if n == 0 { // trailers, and an empty line
			end := bytes.Index(b[at-2:], []byte("\r\n\r\n"))
			if end < 0 {
				return -1
			}
			return at + 2 + end
		}
		at += int(n) + 2
		if at > len(b) || string(b[at-2:at]) != "\r\n" {
			return -1
		}
	}
}

const canary = "GET /dte/information HTTP/1.1\r\nHost: x\r\n\r\n"

// FuzzRequestHeads: what one reader takes for a body is never a request to the appliance. The appliance answers and
// keeps the connection only for requests whose end every reader finds in the same place; after others it closes it.
func FuzzRequestHeads(f *testing.F) {
	g := New(Options{Sales: new(said), Documents: new(said), Outbox: new(said), Tokens: tokensOf("may"), Now: time.Now})
	post := "POST /dte/dte01 HTTP/1.1\r\nHost: x\r\nx-api-token: may\r\n"
	for _, head := range []string{
		"Content-Length: 2\r\n\r\n{}",
		"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"Content-Length: 48\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"content-length: 5\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
		"Content-Length: 3\r\nTransfer-Encoding: identity\r\n\r\n{} ",
		"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
		"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
		"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx-api-token: may\r\n\r\n",
		"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 45\r\n\r\n--x\r\nContent-Disposition: " +
			"form-data; name=a\r\n\r\n",
	} {
		f.Add([]byte(post + head))
		f.Add([]byte(strings.Replace(post, "POST /dte/dte01", "GET /docs", 1) + head))
		f.Add([]byte(strings.Replace(post, "token: may", "token: no", 1) + head))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		sent = append(sent, canary+canary...)
		kept, last := answeredOn(t, g.api, sent)
		a, b := requestsIn(sent, byLength), requestsIn(sent, byChunks)
		same := 0
		for same < len(a) && same < len(b) && a[same] == b[same] {
			same++
		}
		if kept > same {
			t.Errorf("%d requests are answered and the connection is kept (the last one %d), but readers agree on "+
				"%d\n%q", kept, last, same, sent)
		}
	})
}

// TestSmuggling: a request that says in two ways where it ends is refused, whatever its body is.
func TestSmuggling(t *testing.T) {
	g := New(Options{Sales: new(said), Documents: new(said), Outbox: new(said), Tokens: tokensOf("may"), Now: time.Now})
	for _, body := range []string{"0\r\n\r\n", "2\r\n{}\r\n0\r\n\r\n"} {
		for _, fields := range [][]string{
			{"Transfer-Encoding: chunked", "Content-Length: " + strconv.Itoa(len(body)+len(canary))},
			{"Transfer-Encoding: chunked", "Content-Length: 0"},
			{"transfer-ENCODING:chunked", "content-length:" + strconv.Itoa(len(body))},
			{"Transfer-Encoding: identity", "Content-Length: 0"},
		} {
			for range 2 {
				slices.Reverse(fields)
				for _, first := range []string{"POST /dte/dte01", "GET /docs", "GET /dte/information",
					"DELETE /nothing"} {
					request := fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nx-api-token: may\r\n%s\r\n\r\n%s", first,
						strings.Join(fields, "\r\n"), body)
					if kept, last := answeredOn(t, g.api, []byte(request+canary)); kept != 0 ||
						last != http.StatusBadRequest {
						t.Errorf("%q: %d kept, the last answer is %d", request, kept, last)
					}
				}
			}
		}
	}
}

// TestSmuggling_Lines: a reader may take a line feed alone, or a header on two lines, for the end of the headers, for a
// header of its own, or for neither. Such a request is refused, and nothing after it is read.
func TestSmuggling_Lines(t *testing.T) {
	g := New(Options{Sales: new(said), Documents: new(said), Outbox: new(said), Tokens: tokensOf("may"), Now: time.Now})
	for _, s := range []string{"X: y\r\n Content-Length: 42\r\n\r\n", "X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n",
		"Content-Length:\r\n 42\r\n\r\n", "Idempotency-Key: a\r\n b\r\n\r\n", "X: y\n\n", "X: y\r\n\n",
		"X: y\nTransfer-Encoding: chunked\r\n\r\n", "X: y\nContent-Length: 42\n\n"} {
		if kept, last := answeredOn(t, g.api, []byte("GET /dte/information HTTP/1.1\r\nHost: x\r\nx-api-token: may\r\n"+
			s+canary)); kept != 0 || last != http.StatusBadRequest {
			t.Errorf("%q: %d kept, the last answer is %d", s, kept, last)
		}
	}
}

// A stranger's body is not read, whatever its path: the answer is that the token is missing.
func TestReceived_Strangers(t *testing.T) {
	g := New(Options{Sales: new(said), Documents: new(said), Outbox: new(said), Tokens: tokensOf("may"), Now: time.Now,
		Operators: adminapi.Options{AdminToken: [32]byte{1}}})
	for _, s := range []*fasthttp.Server{g.api, g.ops} {
		for _, first := range []string{"POST /dte/dte01", "POST /nothing", "POST /metrics", "GET /docs"} {
			if kept, last := answeredOn(t, s, []byte(first+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{"+
				canary)); kept != 0 || last != http.StatusUnauthorized {
				t.Errorf("%s: %d kept, the last answer is %d", first, kept, last)
			}
		}
	}
	if kept, last := answeredOn(t, g.api, []byte("GET /docs HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"+
		canary)); kept != 2 || last != http.StatusUnauthorized {
		t.Errorf("an empty body: %d kept, the last answer is %d", kept, last)
	}
}

// A token is added between the two look-ups of one request: nothing of the body was read, and the answer is not a
// success.
func TestReceived_NewToken(t *testing.T) {
	g := New(Options{Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	l := &side{name: listenerAPI, sender: func(*fasthttp.RequestHeader) (int64, bool) { return 0, false },
		admit: func(*fasthttp.RequestCtx) error { return nil },
		bound: func(*fasthttp.RequestHeader) (int, time.Duration) { return 1 << 20, 0 }}
	h := g.received(l, func(*fasthttp.RequestCtx) { t.Error("it is handled without its body") })
	ln := fasthttputil.NewInmemoryListener()
	defer ln.Close()
	s := &fasthttp.Server{Handler: h, StreamRequestBody: true, HeaderReceived: l.announced}
	go func() { _ = s.Serve(ln) }()
	c, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(
		"POST /dte01 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{\"a\":\"b\"}")); err != nil {
		t.Fatal(err)
	}
	var resp fasthttp.Response
	if err := resp.Read(bufio.NewReader(c)); err != nil || resp.StatusCode() != 503 ||
		len(resp.Header.Peek("Retry-After")) == 0 || len(resp.Body()) == 0 {
		t.Errorf("%d %s: %v", resp.StatusCode(), resp.Body(), err)
	}
}
