// Package mail sends one message once over SMTP and returns the result: [Sent], [Refused] or [Later]. Package outbox decides which
// message is due, how often it is tried and when it is given up.
//
// The bytes of two attempts at one message bear the same Message-ID, so that a server or a mailbox that drops
// duplicates can do so when an attempt ended in doubt.
package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"
)

// Secret is a password; it prints redacted.
type Secret string

const redacted = "[redacted]"

func (Secret) String() string       { return redacted }
func (Secret) GoString() string     { return redacted }
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from encoders (JSON, TOML), Format from the verbs that String does not reach.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Secret) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, redacted) }

// Security is the protection of the connection to the mail server.
type Security string

const (
	// Mandatory encrypts or does not send: from the first byte on port 465 (RFC 8314), by STARTTLS on any other.
	Mandatory Security = "mandatory"
	// Opportunistic takes STARTTLS where the server offers it. Somebody in between can take the offer away, and reads
	// what is sent then; a password is never sent so.
	Opportunistic Security = "starttls"
	// None is for a server on the same machine.
	None Security = "none"
)

// Options of New.
type Options struct {
	Host     string   // name of the server, which its certificate must bear
	Port     int      // default 587
	Security Security // default Mandatory

	User     string // empty: no login
	Password Secret

	From     string // address that messages come from, and that bounces return to
	FromName string // the emisor's name; may be empty
	ReplyTo  string // address; empty: none

	// Hello is the name that the sender gives itself. Default: the domain of From.
	Hello string
	// Timeout is how long an attempt may take in all. Default 2 min: a message of 1 MB over a line of 100 kbit/s.
	Timeout time.Duration
	// Roots are the certificates that vouch for the server's. Default: the system's.
	Roots *x509.CertPool
	// Dial connects. Default: a net.Dialer's DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Sender sends messages to one server. It is safe for concurrent use.
type Sender struct {
	options Options
	tls     *tls.Config
}

// New returns a sender; it connects to nothing. An error names the option that cannot be used.
func New(o Options) (*Sender, error) {
	o.Port = cmp.Or(o.Port, 587)
	o.Security = cmp.Or(o.Security, Mandatory)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Hello == "" {
		_, o.Hello, _ = strings.Cut(o.From, "@")
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return &Sender{options: o, tls: &tls.Config{ServerName: o.Host, RootCAs: o.Roots, MinVersion: tls.VersionTLS12}}, nil
}

func (o *Options) check() error {
	if o.Host == "" || strings.ContainsFunc(o.Host, notName) {
		return &FieldError{"Host", "is not the name of a server"}
	}
	if o.Port < 1 || o.Port > 65535 {
		return &FieldError{"Port", "is not a port"}
	}
	switch o.Security {
	case Mandatory, Opportunistic, None:
	default:
		return &FieldError{"Security", fmt.Sprintf("is none of %s, %s, %s", Mandatory, Opportunistic, None)}
	}
	if strings.ContainsFunc(o.Hello, notName) {
		return &FieldError{"Hello", "is not the name of a machine"}
	}
	if err := checkAddress("From", o.From); err != nil {
		return err
	}
	if err := checkHeader("FromName", o.FromName); err != nil {
		return err
	}
	if o.ReplyTo != "" {
		return checkAddress("ReplyTo", o.ReplyTo)
	}
	return nil
}

// notName tells a character that the name or the address of a machine cannot hold.
func notName(r rune) bool { return r <= ' ' || r > '~' }

// Format prints the server's address. fmt would otherwise print the fields, which hold the password.
func (s *Sender) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "mail server %s:%d", s.options.Host, s.options.Port)
}
