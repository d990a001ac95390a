package mail

import (
	"bytes"
	"fmt"
	"mime"
	netmail "net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wneessen/go-mail"
)

// maxHeader bounds a text that becomes a header, in bytes. A line of a message holds 998 (RFC 5322 §2.1.1).
const maxHeader = 500

// Message is one message to one or more receivers.
type Message struct {
	// ID becomes the Message-ID, without its brackets: something@domain. Every attempt at this message bears the same.
	ID          string
	To          []string // addresses, without names
	Subject     string
	Text        string // required
	HTML        string // may be empty
	Attachments []Attachment
	Inline      []Attachment // pictures of HTML, which names each by its Name: cid:logo.png
	Date        time.Time    // when the message was written, the same in every attempt
}

// Attachment is a file within a message.
type Attachment struct {
	Name        string
	ContentType string // "application/pdf"
	Data        []byte
}

// FieldError names a field that cannot be sent, or cannot be configured. No server was asked.
type FieldError struct {
	Field string // of Message ("To[0]", "Attachments[1].Name") or of Options
	Text  string // what is wrong with it; it does not quote the field
}

func (e *FieldError) Error() string { return "mail: " + e.Field + " " + e.Text }

// render gives the bytes of the message. The error is a FieldError.
func (s *Sender) render(m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	msg.FromMailAddress(&netmail.Address{Name: s.options.FromName, Address: s.options.From})
	if s.options.ReplyTo != "" {
		msg.ReplyToMailAddress(&netmail.Address{Address: s.options.ReplyTo})
	}
	for _, to := range m.To {
		msg.AddToMailAddress(&netmail.Address{Address: to})
	}
	msg.SetMessageIDWithValue(m.ID)
	msg.SetDateWithValue(m.Date)
	msg.Subject(m.Subject)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: nobody's out-of-office answers it
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	if m.HTML != "" {
		msg.AddAlternativeString(mail.TypeTextHTML, m.HTML)
	}
	for _, a := range m.Inline {
		msg.EmbedReadSeeker(a.Name, bytes.NewReader(a.Data), mail.WithFileContentType(mail.ContentType(a.ContentType)), mail.WithFileContentID("<"+a.Name+">"))
	}
	for i, a := range m.Attachments {
		if err := attach(msg, i, a); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		return nil, &FieldError{"Message", "cannot be composed: " + err.Error()}
	}
	return b.Bytes(), nil
}

// attach writes both headers of the file itself: the library puts a name beyond ASCII into a form that many readers
// show as it is, instead of RFC 2231's.
func attach(msg *mail.Msg, i int, a Attachment) error {
	kind, params, err := mime.ParseMediaType(a.ContentType)
	if err != nil || !strings.Contains(kind, "/") {
		return &FieldError{fmt.Sprintf("Attachments[%d].ContentType", i), "is not a media type"}
	}
	params["name"] = a.Name
	msg.AttachReadSeeker(a.Name, bytes.NewReader(a.Data), func(f *mail.File) {
		f.Header.Set("Content-Type", mime.FormatMediaType(kind, params))
		f.Header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.Name}))
	})
	return nil
}

func (m *Message) check() error {
	if err := checkID(m.ID); err != nil {
		return err
	}
	if len(m.To) == 0 {
		return &FieldError{"To", "is empty"}
	}
	for i, to := range m.To {
		if err := checkAddress(fmt.Sprintf("To[%d]", i), to); err != nil {
			return err
		}
	}
	if m.Subject == "" {
		return &FieldError{"Subject", "is empty"}
	}
	if err := checkHeader("Subject", m.Subject); err != nil {
		return err
	}
	if m.Date.IsZero() {
		return &FieldError{"Date", "is not set"}
	}
	if m.Text == "" {
		return &FieldError{"Text", "is empty"}
	}
	if !utf8.ValidString(m.Text) {
		return &FieldError{"Text", "is not UTF-8"}
	}
	if !utf8.ValidString(m.HTML) {
		return &FieldError{"HTML", "is not UTF-8"}
	}
	for i, a := range m.Inline {
		if !isInlineName(a.Name) {
			return &FieldError{fmt.Sprintf("Inline[%d].Name", i), "is not letters, digits, hyphens and dots"}
		}
		if err := checkHeader(fmt.Sprintf("Inline[%d].ContentType", i), a.ContentType); err != nil {
			return err
		}
	}
	for i, a := range m.Attachments {
		field := fmt.Sprintf("Attachments[%d].", i)
		if a.Name == "" || strings.ContainsAny(a.Name, `/\`) {
			return &FieldError{field + "Name", "is not the name of a file"}
		}
		if err := checkHeader(field+"Name", a.Name); err != nil {
			return err
		}
		if err := checkHeader(field+"ContentType", a.ContentType); err != nil {
			return err
		}
	}
	return nil
}

// isInlineName returns whether a name can stand in a cid: address as it is.
func isInlineName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool { return r != '.' && notLabel(r) })
}

// checkHeader takes a text that will stand in a header: one line, not longer than a header can be.
func checkHeader(field, text string) error {
	switch {
	case !utf8.ValidString(text):
		return &FieldError{field, "is not UTF-8"}
	case strings.ContainsFunc(text, unicode.IsControl):
		return &FieldError{field, "holds a control character or a line break"}
	case len(text) > maxHeader:
		return &FieldError{field, fmt.Sprintf("is longer than %d bytes", maxHeader)}
	}
	return nil
}

// checkAddress takes a bare address in ASCII, as every server can carry it. MH's schemas know no other either; one
// beyond ASCII would need SMTPUTF8 on every server of its way.
func checkAddress(field, address string) error {
	if err := checkHeader(field, address); err != nil {
		return err
	}
	parsed, err := netmail.ParseAddress(address)
	if err != nil || parsed.Address != address || parsed.Name != "" || strings.ContainsFunc(address, notName) ||
		len(address) > 254 || strings.LastIndexByte(address, '@') > 64 { // RFC 5321 §4.5.3.1
		return &FieldError{field, "is not an e-mail address"}
	}
	return nil
}

// Mailable reports whether an address can be a receiver's: Send does not refuse its form, and its domain is a host's name of at
// least two labels (RFC 5321 §2.3.5), because a name of one label reaches no mailbox outside.
func Mailable(address string) bool {
	if checkAddress("To", address) != nil {
		return false
	}
	labels := strings.Split(address[strings.LastIndexByte(address, '@')+1:], ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.ContainsFunc(l, notLabel) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && (last[0] < '0' || last[0] > '9') // no top-level domain begins with a digit, every IPv4 address does
}

// notLabel tells a character that no label of a host's name holds (RFC 1123 §2.1).
func notLabel(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// checkID takes a msg-id without its brackets (RFC 5322 §3.6.4, without its obsolete forms).
func checkID(id string) error {
	left, right, ok := strings.Cut(id, "@")
	if !ok || left == "" || right == "" || len(id) > 250 ||
		strings.ContainsFunc(id, func(r rune) bool { return notName(r) || strings.ContainsRune(`<>()[]\,;:"`, r) }) ||
		strings.Contains(right, "@") {
		return &FieldError{"ID", "is not of the form something@domain"}
	}
	return nil
}
