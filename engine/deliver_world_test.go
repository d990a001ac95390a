package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/mail"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
)

// postOffice is a real SMTP server on a network in memory. Its answers to a receiver can be set.
type postOffice struct {
	conns chan net.Conn

	mu      sync.Mutex
	down    bool
	mute    bool           // takes the message, and hangs up instead of answering for it
	replies map[string]int // to receivers
	sender  int            // to this box
	hold    chan struct{}  // if not nil, messages are answered for when it is closed
	letters []received
	asked   map[string]int // how often for each receiver
	dials   int
}

type received struct {
	id, subject string
	to          []string
	files       map[string][]byte
}

func (p *postOffice) dial(context.Context, string, string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials++
	if p.down {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

func (p *postOffice) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *postOffice) Close() error   { return nil }
func (p *postOffice) Addr() net.Addr { return &net.TCPAddr{} }

func (p *postOffice) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// taken returns the messages for which the server answered, and those that it accepted without an answer.
func (p *postOffice) taken() []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]received(nil), p.letters...)
}

// attempts returns how often a message for a receiver was offered.
func (p *postOffice) attempts(to string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[to]
}

// of returns the messages about a document.
func (p *postOffice) of(code string) (list []received) {
	for _, l := range p.taken() {
		if l.files[code+".json"] != nil {
			list = append(list, l)
		}
	}
	return list
}

type smtpSession struct {
	office *postOffice
	conn   *smtp.Conn
	to     []string
}

func (x *smtpSession) Reset()        {}
func (x *smtpSession) Logout() error { return nil }

func (x *smtpSession) Mail(string, *smtp.MailOptions) error {
	x.office.mu.Lock()
	defer x.office.mu.Unlock()
	if x.office.sender != 0 {
		return &smtp.SMTPError{Code: x.office.sender, EnhancedCode: smtp.NoEnhancedCode, Message: "not you"}
	}
	return nil
}

func (x *smtpSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.office.mu.Lock()
	code := x.office.replies[to]
	x.office.asked[to]++
	x.office.mu.Unlock()
	if code != 0 {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: "no"}
	}
	x.to = append(x.to, to)
	return nil
}

func (x *smtpSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := open(raw)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.NoEnhancedCode, Message: err.Error()}
	}
	m.to = x.to
	x.office.mu.Lock()
	x.office.letters = append(x.office.letters, m)
	mute, hold := x.office.mute, x.office.hold
	x.office.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if mute {
		return x.conn.Conn().Close()
	}
	return nil
}

// open reads a message and its attached files.
func open(raw []byte) (received, error) {
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return received{}, err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return received{}, err
	}
	r := received{id: m.Header.Get("Message-Id"), subject: subject, files: make(map[string][]byte)}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return received{}, err
	}
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := parts.NextPart()
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return received{}, err
		}
		if p.FileName() == "" {
			continue
		}
		if r.files[p.FileName()], err = io.ReadAll(base64.NewDecoder(base64.StdEncoding, p)); err != nil {
			return received{}, err
		}
	}
}

var testPrinter = sync.OnceValues(func() (*pdf.Printer, error) { return pdf.New(pdf.Options{}) })

// withMail starts the branch again with a mail server, and with an archive if there is one.
func withMail(t *testing.T, fn func(*box, *postOffice)) { withDelivery(t, nil, fn) }

func withDelivery(t *testing.T, shelf *bucket, fn func(*box, *postOffice)) {
	printer, err := testPrinter()
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(b *box) {
		p := &postOffice{conns: make(chan net.Conn, 64), replies: make(map[string]int), asked: make(map[string]int)}
		server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session,
			error) {
			return &smtpSession{office: p, conn: c}, nil
		}))
		server.Domain, server.ErrorLog = "mx.example", log.New(io.Discard, "", 0)
		serving := make(chan struct{})
		go func() { defer close(serving); _ = server.Serve(p) }()
		defer func() {
			b.stop()
			_ = server.Close()
			close(p.conns)
			<-serving
		}()
		sender, err := mail.New(mail.Options{Host: "mx.example", Security: mail.None, From: "dte@tienda.example",
			Dial: p.dial})
		if err != nil {
			t.Fatal(err)
		}
		b.close()
		b.delivery = outbox.Delivery{Printer: printer, Mail: sender, Domain: "tienda.example"}
		if shelf != nil {
			if b.delivery.Archive, err = archive.New(archive.Options{Endpoint: "http://s3.example",
				Bucket: "documentos", AccessKey: "a", Secret: "s",
				PathStyle: true, Transport: shelf}); err != nil {
				t.Fatal(err)
			}
		}
		b.start()
		fn(b, p)
	})
}

// bucket is the part of an S3 store that one object at a time needs; package archive proves the protocol.
type bucket struct {
	mu      sync.Mutex
	status  int // answered to everything, if not 0
	objects map[string][]byte
	sums    map[string]string
	tag     string // in the list
}

func newBucket() *bucket {
	return &bucket{objects: map[string][]byte{}, sums: map[string]string{}, tag: "1"}
}

func (s *bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	answer := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r,
		Body: http.NoBody}
	key := strings.TrimPrefix(r.URL.Path, "/documentos/")
	held, taken := s.objects[key]
	switch {
	case s.status != 0:
		answer.StatusCode = s.status
	case r.URL.Query().Get("list-type") == "2":
		var list strings.Builder
		for _, key := range slices.Sorted(maps.Keys(s.objects)) {
			if strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
				fmt.Fprintf(&list, `<Contents><Key>%s</Key><Size>%d</Size><ETag>%q</ETag></Contents>`, key,
					len(s.objects[key]), s.tag)
			}
		}
		answer.Header.Set("Content-Type", "application/xml")
		answer.Body = io.NopCloser(strings.NewReader(
			`<ListBucketResult><Name>documentos</Name><IsTruncated>false</IsTruncated>` + list.String() +
				`</ListBucketResult>`))
	case r.Method == http.MethodPut && taken:
		answer.StatusCode = http.StatusPreconditionFailed
	case r.Method == http.MethodPut:
		s.objects[key], s.sums[key] = body, r.Header.Get("x-amz-checksum-sha256")
		answer.Header.Set("ETag", `"1"`)
	case !taken:
		answer.StatusCode = http.StatusNotFound
	default:
		answer.ContentLength = int64(len(held))
		answer.Header.Set("Content-Length", fmt.Sprint(len(held)))
		answer.Header.Set("ETag", `"1"`)
		answer.Header.Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		answer.Header.Set("x-amz-checksum-sha256", s.sums[key])
		if r.Method == http.MethodGet {
			answer.Body = io.NopCloser(bytes.NewReader(held))
		}
	}
	return answer, nil
}

func (s *bucket) get(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

func (s *bucket) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

func (s *bucket) put(key, object, sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key], s.sums[key] = []byte(object), sum
}

func (s *bucket) answering(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// saleTo returns a voucher whose receiver has this address; "" is a sale to an unknown customer.
func saleTo(key, address string) Request {
	if address == "" {
		return invoice(key, item(1, "1", "11.30"))
	}
	r := voucher(key, item(1, "1", "10"))
	r.Facts = r.Facts.With("receptor", r.Facts.Get("receptor").With("correo", dte.Str(address)))
	return r
}

// delivery returns the deliveries that are owed now.
func (b *box) undelivered() outbox.Undelivered {
	b.t.Helper()
	o, err := owedBy(b.engine)
	if err != nil {
		b.t.Fatal(err)
	}
	return o.Delivery
}
