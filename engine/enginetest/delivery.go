package enginetest

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

	"dtegate/engine"
	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/mail"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
)

// PostOffice is a real SMTP server on a network in memory. Its answers to a receiver can be set.
type PostOffice struct {
	conns chan net.Conn

	mu      sync.Mutex
	Down    bool
	Mute    bool           // accepts the message, and hangs up instead of answering
	Replies map[string]int // SMTP codes by receiver: 0 accepts, -1 hangs up
	Sender  int            // SMTP code for this box as the sender: 0 accepts
	Hold    chan struct{}  // if not nil, messages are answered when this channel is closed
	letters []received
	asked   map[string]int // how often for each receiver
	Dials   int
}

type received struct {
	Id, Subject string
	To          []string
	Files       map[string][]byte
}

func (p *PostOffice) dial(context.Context, string, string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Dials++
	if p.Down {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

func (p *PostOffice) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *PostOffice) Close() error   { return nil }
func (p *PostOffice) Addr() net.Addr { return &net.TCPAddr{} }

func (p *PostOffice) Set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Taken returns the messages for which the server answered, and those that it accepted without an answer.
func (p *PostOffice) Taken() []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]received(nil), p.letters...)
}

// Attempts returns how often a message for a receiver was offered.
func (p *PostOffice) Attempts(to string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[to]
}

// Of returns the messages about a document.
func (p *PostOffice) Of(code string) (list []received) {
	for _, l := range p.Taken() {
		if l.Files[code+".json"] != nil {
			list = append(list, l)
		}
	}
	return list
}

type smtpSession struct {
	office *PostOffice
	conn   *smtp.Conn
	to     []string
}

func (x *smtpSession) Reset()        {}
func (x *smtpSession) Logout() error { return nil }

func (x *smtpSession) Mail(string, *smtp.MailOptions) error {
	x.office.mu.Lock()
	defer x.office.mu.Unlock()
	if x.office.Sender != 0 {
		return &smtp.SMTPError{Code: x.office.Sender, EnhancedCode: smtp.NoEnhancedCode, Message: "not you"}
	}
	return nil
}

func (x *smtpSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.office.mu.Lock()
	code := x.office.Replies[to]
	x.office.asked[to]++
	x.office.mu.Unlock()
	if code < 0 {
		return x.conn.Conn().Close()
	}
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
	m.To = x.to
	x.office.mu.Lock()
	x.office.letters = append(x.office.letters, m)
	mute, hold := x.office.Mute, x.office.Hold
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
	r := received{Id: m.Header.Get("Message-Id"), Subject: subject, Files: make(map[string][]byte)}
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
		if r.Files[p.FileName()], err = io.ReadAll(base64.NewDecoder(base64.StdEncoding, p)); err != nil {
			return received{}, err
		}
	}
}

var TestPrinter = sync.OnceValues(func() (*pdf.Printer, error) { return pdf.New(pdf.Options{}) })

// WithMail starts the branch again with a mail server, and with an archive if there is one.
func WithMail(t *testing.T, fn func(*Box, *PostOffice)) { WithDelivery(t, nil, fn) }

func WithDelivery(t *testing.T, shelf *Bucket, fn func(*Box, *PostOffice)) {
	printer, err := TestPrinter()
	if err != nil {
		t.Fatal(err)
	}
	InBubble(t, func(b *Box) {
		p := &PostOffice{conns: make(chan net.Conn, 64), Replies: make(map[string]int), asked: make(map[string]int)}
		server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session,
			error) {
			return &smtpSession{office: p, conn: c}, nil
		}))
		server.Domain, server.ErrorLog = "mx.example", log.New(io.Discard, "", 0)
		serving := make(chan struct{})
		go func() { defer close(serving); _ = server.Serve(p) }()
		defer func() {
			b.Stop()
			_ = server.Close()
			close(p.conns)
			<-serving
		}()
		sender, err := mail.New(mail.Options{Host: "mx.example", Security: mail.None, From: "dte@tienda.example",
			Dial: p.dial})
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		b.Delivery = outbox.Delivery{Printer: printer, Mail: sender, Domain: "tienda.example"}
		if shelf != nil {
			if b.Delivery.Archive, err = archive.New(archive.Options{Endpoint: "http://s3.example",
				Bucket: "documentos", AccessKey: "a", Secret: "s",
				PathStyle: true, Transport: shelf}); err != nil {
				t.Fatal(err)
			}
		}
		b.Start()
		fn(b, p)
	})
}

// Bucket is an S3 store in memory for single objects and lists. Package archive tests the protocol with real servers.
type Bucket struct {
	Mu      sync.Mutex
	status  int // answered to everything, if not 0
	Objects map[string][]byte
	Sums    map[string]string
	Tag     string // in the list
	// Fail, if set, decides which reads of an object fail.
	Fail func(key string) bool
}

func NewBucket() *Bucket {
	return &Bucket{Objects: map[string][]byte{}, Sums: map[string]string{}, Tag: "1"}
}

func (s *Bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	answer := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r,
		Body: http.NoBody}
	key := strings.TrimPrefix(r.URL.Path, "/documentos/")
	held, taken := s.Objects[key]
	switch {
	case s.status != 0:
		answer.StatusCode = s.status
	case s.Fail != nil && r.Method == http.MethodGet && taken && s.Fail(key):
		answer.StatusCode = http.StatusInternalServerError
	case r.URL.Query().Get("list-type") == "2":
		var list strings.Builder
		for _, key := range slices.Sorted(maps.Keys(s.Objects)) {
			if strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
				fmt.Fprintf(&list, `<Contents><Key>%s</Key><Size>%d</Size><ETag>%q</ETag></Contents>`, key,
					len(s.Objects[key]), s.Tag)
			}
		}
		answer.Header.Set("Content-Type", "application/xml")
		answer.Body = io.NopCloser(strings.NewReader(
			`<ListBucketResult><Name>documentos</Name><IsTruncated>false</IsTruncated>` + list.String() +
				`</ListBucketResult>`))
	case r.Method == http.MethodPut && taken:
		answer.StatusCode = http.StatusPreconditionFailed
	case r.Method == http.MethodPut:
		s.Objects[key], s.Sums[key] = body, r.Header.Get("x-amz-checksum-sha256")
		answer.Header.Set("ETag", `"1"`)
	case !taken:
		answer.StatusCode = http.StatusNotFound
	default:
		answer.ContentLength = int64(len(held))
		answer.Header.Set("Content-Length", fmt.Sprint(len(held)))
		answer.Header.Set("ETag", `"1"`)
		answer.Header.Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		answer.Header.Set("x-amz-checksum-sha256", s.Sums[key])
		if r.Method == http.MethodGet {
			answer.Body = io.NopCloser(bytes.NewReader(held))
		}
	}
	return answer, nil
}

func (s *Bucket) Get(key string) []byte {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Objects[key]
}

func (s *Bucket) Count() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Objects)
}

func (s *Bucket) Put(key, object, sum string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Objects[key], s.Sums[key] = []byte(object), sum
}

func (s *Bucket) Answering(status int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.status = status
}

// SaleTo returns a voucher whose receiver has this address; "" is a sale to an unknown customer.
func SaleTo(key, address string) engine.Request {
	if address == "" {
		return Invoice(key, Item(1, "1", "11.30"))
	}
	r := Voucher(key, Item(1, "1", "10"))
	r.Facts = r.Facts.With("receptor", r.Facts.Get("receptor").With("correo", dte.Str(address)))
	return r
}

// Undelivered counts the deliveries that are pending now.
func (b *Box) Undelivered() outbox.Undelivered {
	b.T.Helper()
	o, err := OwedBy(b.Engine)
	if err != nil {
		b.T.Fatal(err)
	}
	return o.Delivery
}
