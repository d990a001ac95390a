// Package mail sends one message once over SMTP and returns the result: [Sent], [Refused] or [Later]. Package outbox
// decides when a message is due, how often it is tried and when it is given up.
//
// All attempts at one message have the same Message-ID. A server or mailbox can thus remove a duplicate after an
// attempt with an unknown result.
package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail/smtp"

	"dtegate/engine/redacted"
)

// Security is the protection of the connection to the mail server.
type Security string

const (
	// Mandatory sends only with encryption: from the first byte on port 465 (RFC 8314), by STARTTLS on any other port.
	Mandatory Security = "mandatory"
	// Opportunistic uses STARTTLS if the server offers it. An attacker in between can remove the offer and read the
	// message, but never a password.
	Opportunistic Security = "starttls"
	// None sends without encryption, to a server on the same machine.
	None Security = "none"
)

// Options of New.
type Options struct {
	Host     string   // name of the server, as in its certificate
	Port     int      // default 587
	Security Security // default Mandatory

	User     string // empty: no login
	Password redacted.Text

	From     string // address of the sender, to which bounces return
	FromName string // the emisor's name; may be empty
	ReplyTo  string // address; empty: no Reply-To

	// Timeout is the longest total time of an attempt. Default 2 min: a message of 1 MB takes that long at 100 kbit/s.
	Timeout time.Duration
	// Roots are the accepted authorities for the server's certificate. Default: the system's.
	Roots *x509.CertPool
	// Dial connects. Default: a net.Dialer's DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Sender sends messages to one server. It is safe for concurrent use.
type Sender struct {
	options Options
	tls     *tls.Config
}

// New returns a sender; it connects to nothing. An error names the option at fault.
func New(o Options) (*Sender, error) {
	o.Port = cmp.Or(o.Port, 587)
	o.Security = cmp.Or(o.Security, Mandatory)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return &Sender{options: o, tls: &tls.Config{ServerName: o.Host, RootCAs: o.Roots, MinVersion: tls.VersionTLS12}},
		nil
}

func (o *Options) check() error {
	switch {
	case o.Host == "" || strings.ContainsFunc(o.Host, notName):
		return &FieldError{"Host", "is not the name of a server"}
	case o.Port < 1 || o.Port > 65535:
		return &FieldError{"Port", "is not a port"}
	case !slices.Contains([]Security{Mandatory, Opportunistic, None}, o.Security):
		return &FieldError{"Security", fmt.Sprintf("is none of %s, %s, %s", Mandatory, Opportunistic, None)}
	}
	return cmp.Or(checkAddress("From", o.From), checkHeader("FromName", o.FromName),
		checkAddress("ReplyTo", cmp.Or(o.ReplyTo, o.From)))
}

// notName reports whether a character is forbidden in the name or the address of a machine.
func notName(r rune) bool { return r <= ' ' || r > '~' }

// Format prints the server's address. Without Format, fmt would print the fields, with the password.
func (s *Sender) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "mail server %s:%d", s.options.Host, s.options.Port)
}

// Kind is the result of an attempt.
type Kind uint8

const (
	// Later: another attempt may succeed; the message was probably not delivered.
	Later Kind = iota
	// Sent: the server is responsible for the message from now on.
	Sent
	// Refused: no attempt at the same message can succeed.
	Refused
)

func (k Kind) String() string { return [...]string{"later", "sent", "refused"}[k] }

// Outcome is the result of one attempt.
type Outcome struct {
	Kind Kind
	// Doubtful, for Later: the whole message was sent without an answer. The server may have accepted it.
	Doubtful bool
	// Setup, for Later: the server refuses this box, not the message, until somebody changes the settings.
	Setup bool
	// Code is the deciding reply code (RFC 5321 §4.2). 0: no reply.
	Code int
	Err  error // for Later and Refused: the cause
}

var errSetup = errors.New("the mail server does not accept this sender")

// Send makes one attempt, with a new connection, within the timeout.
func (s *Sender) Send(ctx context.Context, m Message) Outcome {
	text, err := s.render(m)
	if err != nil {
		return Outcome{Kind: Refused, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	raw, err := s.options.Dial(ctx, "tcp", net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port)))
	if err != nil {
		return failed("connecting", 0, err)
	}
	conn := &conn{Conn: raw, replies: io.LimitReader(raw, maxReplies)}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	o := s.converse(conn, m.To, text)
	if o.Err != nil && o.Code == 0 && ctx.Err() != nil {
		// Replaces the misleading error "use of closed connection"
		o.Err = fmt.Errorf("%w: %w", context.Cause(ctx), o.Err)
	}
	return o
}

// converse goes through the whole conversation of RFC 5321 §3.
func (s *Sender) converse(conn *conn, to string, raw []byte) Outcome {
	c, err := s.greet(conn)
	if err != nil {
		return failed("greeting", 0, err)
	}
	defer func() { _, _ = c.Text.Cmd("QUIT") }() // the reply does not matter
	if err := s.login(c); err != nil {
		return failed("logging in", 500, err)
	}
	if err := c.Mail("<" + s.options.From + ">"); err != nil {
		return failed("naming the sender", 500, err)
	}
	if err := c.Rcpt("<" + to + ">"); err != nil {
		return refused("naming the receiver", err)
	}
	w, err := c.Data()
	if err != nil {
		return refused("offering the message", err)
	}
	if _, err := w.Write(raw); err != nil {
		return failed("handing over the message", 0, err) // the server must discard a message without its last line
	}
	// Between the last line and its reply, the server may have accepted the message.
	if err := w.Close(); err != nil {
		o := refused("handing over the message", err)
		o.Doubtful = o.Code == 0 && !conn.broken
		return o
	}
	return Outcome{Kind: Sent, Code: 250}
}

// failed returns the outcome of an attempt that failed for a reason other than the message. Outcome.Setup is set for a
// wrong certificate, for errSetup and, if setup is not 0, for reply codes from setup on. The reply becomes one line.
func failed(doing string, setup int, err error) Outcome {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	o := Outcome{Setup: certificate || errors.Is(err, errSetup)}
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		if reply.Code >= 400 && reply.Code <= 599 {
			o.Code = reply.Code
		}
		err = fmt.Errorf("%d %s", reply.Code, cut(flat(reply.Msg), maxHeader))
	}
	o.Err, o.Setup = fmt.Errorf("%s: %w", doing, err), o.Setup || setup > 0 && o.Code >= setup
	return o
}

// refused returns the outcome of an attempt that failed at the receiver or the message: Refused for 5xx, else Later.
func refused(doing string, err error) Outcome {
	o := failed(doing, 0, err)
	if o.Code >= 500 {
		o.Kind = Refused
	}
	return o
}

// flat returns a text on one line, with one space between words; invalid UTF-8 becomes U+FFFD.
func flat(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// cut shortens a text to the given number of bytes, between two characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// portTLS is the port on which a server speaks TLS from the first byte (RFC 8314 §3.3).
const portTLS = 465

const maxReplies = 1 << 20

// conn is a connection that limits what the other side may send.
type conn struct {
	net.Conn
	replies io.Reader
	broken  bool // a write failed
}

func (c *conn) Read(p []byte) (int, error) { return c.replies.Read(p) }

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.broken = c.broken || err != nil
	return n, err
}

// greet opens the conversation, with the encryption that Security requires. Send closes conn, not the client.
func (s *Sender) greet(conn *conn) (*smtp.Client, error) {
	implicit := s.options.Security == Mandatory && s.options.Port == portTLS
	var speaks net.Conn = conn
	if implicit {
		speaks = tls.Client(conn, s.tls)
	}
	c, err := smtp.NewClient(speaks, s.options.Host)
	if err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(s.options.From, "@")
	if err := c.Hello(domain); err != nil {
		return nil, err
	}
	if implicit || s.options.Security == None {
		return c, nil
	}
	if offered, _ := c.Extension("STARTTLS"); !offered {
		if s.options.Security == Mandatory {
			return nil, fmt.Errorf("%w: it offers no STARTTLS", errSetup)
		}
		return c, nil
	}
	return c, c.StartTLS(s.tls)
}

// login authenticates the sender. Without encryption no method may transmit the password.
func (s *Sender) login(c *smtp.Client) error {
	if s.options.User == "" {
		return nil
	}
	_, offered := c.Extension("AUTH")
	mechanisms := strings.Fields(strings.ToUpper(offered))
	user, password, host := s.options.User, string(s.options.Password), s.options.Host
	for _, m := range []struct {
		name string
		auth smtp.Auth
	}{
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(user, password)},
		{"PLAIN", smtp.PlainAuth("", user, password, host, false)},
		{"LOGIN", smtp.LoginAuth(user, password, host, false)},
	} {
		if !slices.Contains(mechanisms, m.name) {
			continue
		}
		_, encrypted := c.TLSConnectionState()
		if !encrypted && m.name != "SCRAM-SHA-256" {
			break
		}
		return c.Auth(m.auth)
	}
	return fmt.Errorf("%w: it offers no way to log in that keeps the password secret", errSetup)
}
