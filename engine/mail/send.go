package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"unicode"

	"github.com/wneessen/go-mail/smtp"
)

// Kind is the result of an attempt.
type Kind uint8

const (
	// Later: it was not delivered for all that is known; another attempt may do.
	Later Kind = iota
	// Sent: the server answers for it from now on.
	Sent
	// Refused: no attempt at the same message can succeed.
	Refused
)

func (k Kind) String() string { return [...]string{"later", "sent", "refused"}[k] }

// Outcome is the result of one attempt.
type Outcome struct {
	Kind Kind
	// Doubtful, of Later: the whole message was handed over and no answer came. The server may have taken it.
	Doubtful bool
	// Setup, of Later: the server refuses this box and not the message (login, certificate, encryption, sender). It
	// stays so until somebody changes the configuration or the server.
	Setup bool
	// Code is the reply that decided, of RFC 5321 §4.2. 0: none.
	Code int
	// Refusals, of Refused: the addresses that the server does not take for good. To the others nothing was sent
	// either; a message without these addresses may succeed. Empty: the message itself is refused.
	Refusals []Refusal
	Err      error // of Later and Refused: why
}

// Refusal is the server's answer about one address.
type Refusal struct {
	Address string
	Code    int
	Text    string // the server's words, on one line, cut at 500 bytes
}

// errSetup marks what Outcome.Setup tells.
var errSetup = errors.New("the mail server does not take this sender")

// Send makes one attempt, with a connection of its own. It returns when the result is known, at the latest when ctx ends or the
// timeout passes.
func (s *Sender) Send(ctx context.Context, m Message) Outcome {
	raw, err := s.render(m)
	if err != nil {
		return Outcome{Kind: Refused, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return failed("connecting", 0, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	o := s.converse(conn, m.To, raw)
	if o.Err != nil && o.Code == 0 && ctx.Err() != nil {
		o.Err = fmt.Errorf("%w: %w", context.Cause(ctx), o.Err) // else it reads: use of closed connection
	}
	return o
}

// converse holds the whole conversation of RFC 5321 §3.
func (s *Sender) converse(conn *conn, to []string, raw []byte) Outcome {
	c, err := s.greet(conn)
	if err != nil {
		return failed("greeting", 0, err)
	}
	defer leave(c)
	if err := s.login(c); err != nil {
		return failed("logging in", 500, err)
	}
	if err := c.Mail("<" + s.options.From + ">"); err != nil {
		return failed("naming the sender", 500, err)
	}
	if o, ok := s.address(c, to); !ok {
		return o
	}
	w, err := c.Data()
	if err != nil {
		return refused("offering the message", err)
	}
	if _, err := w.Write(raw); err != nil {
		return failed("handing over the message", 0, err) // without its last line the server must forget it
	}
	// From the last line on until its answer, the server may or may not answer for the message. Close does not tell when
	// that line could not leave.
	if err := w.Close(); err != nil {
		o := refused("handing over the message", err)
		o.Doubtful = o.Code == 0 && !conn.broken
		return o
	}
	return Outcome{Kind: Sent, Code: 250}
}

// address names the receivers. Everybody must be taken: a message that went to some could not be tried again.
func (s *Sender) address(c *smtp.Client, to []string) (Outcome, bool) {
	var refusals []Refusal
	var first *Outcome
	for _, address := range to {
		err := c.Rcpt("<" + address + ">")
		if err == nil {
			continue
		}
		o := refused("naming the receiver", err)
		if o.Kind == Refused {
			refusals = append(refusals, Refusal{address, o.Code, words(err)})
		}
		if first == nil || first.Kind == Later {
			first = &o
		}
	}
	if first == nil {
		return Outcome{}, true
	}
	first.Refusals = refusals
	return *first, false
}

// leave says goodbye and does not wait for the answer, which would decide nothing.
func leave(c *smtp.Client) { _, _ = c.Text.Cmd("QUIT") }

// failed is an attempt that says nothing against the message. From the reply code given on (0: never) the server
// means the setup.
func failed(doing string, setup int, err error) Outcome {
	code := replyCode(err)
	var certificate *tls.CertificateVerificationError
	return Outcome{
		Kind: Later, Code: code, Err: fmt.Errorf("%s: %w", doing, replyText(err)),
		Setup: setup > 0 && code >= setup || errors.Is(err, errSetup) || errors.As(err, &certificate),
	}
}

// refused is an attempt at which the server refuses the message where it answers 5xx.
func refused(doing string, err error) Outcome {
	o := failed(doing, 0, err)
	if o.Code >= 500 {
		o.Kind = Refused
	}
	return o
}

// replyCode is the server's reply in an error; 0 when it gave none that SMTP knows.
func replyCode(err error) int {
	var reply *textproto.Error
	if errors.As(err, &reply) && reply.Code >= 400 && reply.Code <= 599 {
		return reply.Code
	}
	return 0
}

// replyText makes a server's reply fit for a log and a record.
func replyText(err error) error {
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return fmt.Errorf("%d %s", reply.Code, words(err))
	}
	return err
}

// words are what the server said, on one line.
func words(err error) string {
	var reply *textproto.Error
	if !errors.As(err, &reply) {
		return ""
	}
	return cut(flat(reply.Msg), maxHeader)
}

// flat is a text on one line: every run of spaces and control characters becomes a space, what is not UTF-8 U+FFFD.
func flat(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// cut shortens a text to the given number of bytes, at a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}
