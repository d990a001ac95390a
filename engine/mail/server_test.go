package mail

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// server is a real SMTP server on an in-memory network. Its hooks may be nil.
type server struct {
	*smtp.Server
	wire

	mail, data func() error
	rcpt       func(to string) error
	users      map[string]string // with passwords; nil: no AUTH
	busy       error             // the answer to a right password; nil: it is accepted

	mu      sync.Mutex
	letters []letter
	mails   int // how often MAIL FROM was said
}

// letter is a message for which the server answers.
type letter struct {
	from string
	to   []string
	raw  []byte
}

// serve starts a server; change may set it up before.
func serve(t *testing.T, change func(*server)) *server {
	t.Helper()
	s := &server{wire: wire{make(chan net.Conn), make(chan struct{})}}
	s.Server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{server: s},
			nil
	}))
	s.Domain = "mx.example"
	s.ErrorLog = log.New(io.Discard, "", 0)
	if change != nil {
		change(s)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = s.Serve(s.wire)
	}()
	t.Cleanup(func() {
		_ = s.Server.Close()
		<-stopped
	})
	return s
}

// taken returns the messages for which the server has answered so far.
func (s *server) taken() []letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.letters
}

// sender returns a sender to this server, without encryption unless change alters that.
func (s *server) sender(t *testing.T, change func(*Options)) *Sender {
	t.Helper()
	o := Options{Host: "mx.example", Security: None, From: "dte@tienda.example", FromName: "Ferretería El Ñandú",
		Dial: s.dial}
	if change != nil {
		change(&o)
	}
	sender, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

type session struct {
	server *server
	letter letter
}

func (x *session) Reset()        { x.letter = letter{} }
func (x *session) Logout() error { return nil }

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	x.server.mu.Lock()
	x.server.mails++
	x.server.mu.Unlock()
	x.letter.from = from
	return call(x.server.mail)
}

func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.letter.to = append(x.letter.to, to)
	if x.server.rcpt != nil {
		return x.server.rcpt(to)
	}
	return nil
}

func (x *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := call(x.server.data); err != nil {
		return err
	}
	x.letter.raw = raw
	x.server.mu.Lock()
	x.server.letters = append(x.server.letters, x.letter)
	x.server.mu.Unlock()
	return nil
}

func call(hook func() error) error {
	if hook == nil {
		return nil
	}
	return hook()
}

func (x *session) AuthMechanisms() []string {
	if x.server.users == nil {
		return nil
	}
	return []string{"LOGIN", "PLAIN"}
}

func (x *session) Auth(mechanism string) (sasl.Server, error) {
	check := func(_, user, password string) error {
		if want, ok := x.server.users[user]; !ok || want != password {
			return smtp.ErrAuthFailed
		}
		return x.server.busy
	}
	if mechanism == "PLAIN" {
		return sasl.NewPlainServer(check), nil
	}
	return nil, smtp.ErrAuthUnknownMechanism
}

// reply is a server's refusal.
func reply(code int, words string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: words}
}

// wire is a network of one listener.
type wire struct {
	conns chan net.Conn
	done  chan struct{}
}

func (w wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.done:
		return nil, errors.New("connection refused")
	}
}

func (w wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w wire) Close() error   { close(w.done); return nil }
func (w wire) Addr() net.Addr { return &net.TCPAddr{} }

// certified returns a certificate for a name, and the authority that vouches for it.
func certified(t *testing.T, name string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, roots
}

// letterTo returns a message as a branch sends it.
func letterTo(to string) Message {
	return Message{
		ID: "9F2C3B1A-0000-4000-8000-000000000001.1@tienda.example", To: to,
		Subject: "Factura nº 1 de Ferretería El Ñandú",
		Text:    "Adjunto su factura.\n.\n", HTML: "<p>Adjunto su factura.</p>",
		Date:        time.Date(2026, 11, 21, 8, 30, 0, 0, time.FixedZone("", -6*60*60)),
		Attachments: []Attachment{{"factura.json", "application/json", bytes.Repeat([]byte(`{"a":1}`), 40)}},
	}
}
