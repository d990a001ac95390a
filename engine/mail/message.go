package mail

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"mime"
	netmail "net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wneessen/go-mail"
)

// maxHeader limits a text that becomes a header, in bytes. A line of a message may have 998 bytes (RFC 5322 §2.1.1).
const maxHeader = 500

// Message is one message to one receiver.
type Message struct {
	// ID becomes the Message-ID, without its brackets: something@domain, the same in every attempt.
	ID          string
	To          string // address, without a name
	Subject     string
	Text        string // required
	HTML        string // may be empty
	Attachments []Attachment
	Inline      []Attachment // pictures; HTML refers to them by Name: cid:logo.png
	Date        time.Time    // when the message was written, the same in every attempt
}

// Attachment is a file within a message.
type Attachment struct {
	Name        string
	ContentType string // "application/pdf"
	Data        []byte
}

// FieldError names an unusable field or option. No server was contacted.
type FieldError struct {
	Field string // of Message or of Options
	Text  string // what is wrong with the field, without its content
}

func (e *FieldError) Error() string { return "mail: " + e.Field + " " + e.Text }

// render returns the bytes of the message. The error is a FieldError.
func (s *Sender) render(m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	msg.FromMailAddress(&netmail.Address{Name: s.options.FromName, Address: s.options.From})
	if s.options.ReplyTo != "" {
		msg.ReplyToMailAddress(&netmail.Address{Address: s.options.ReplyTo})
	}
	msg.AddToMailAddress(&netmail.Address{Address: m.To})
	msg.SetMessageIDWithValue(m.ID)
	msg.SetDateWithValue(m.Date)
	msg.Subject(m.Subject)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: prevents out-of-office answers
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	if m.HTML != "" {
		msg.AddAlternativeString(mail.TypeTextHTML, m.HTML)
	}
	for _, a := range m.Inline {
		msg.EmbedReadSeeker(a.Name, bytes.NewReader(a.Data), mail.WithFileContentType(mail.ContentType(a.ContentType)),
			mail.WithFileContentID("<"+a.Name+">"))
	}
	for _, a := range m.Attachments {
		attach(msg, a)
	}
	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		return nil, &FieldError{"Message", "cannot be composed: " + err.Error()}
	}
	return b.Bytes(), nil
}

// attach adds a file, with its name in both headers as in RFC 2231: many readers do not decode the library's form.
func attach(msg *mail.Msg, a Attachment) {
	kind, params, _ := mime.ParseMediaType(a.ContentType) // the type is the program's own text, and valid
	params["name"] = a.Name
	msg.AttachReadSeeker(a.Name, bytes.NewReader(a.Data), func(f *mail.File) {
		f.Header.Set("Content-Type", mime.FormatMediaType(kind, params))
		f.Header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.Name}))
	})
}

// check refuses unusable fields. The fields come from a document, and must not inject a header.
func (m *Message) check() error {
	err := cmp.Or(checkID(m.ID), checkAddress("To", m.To), checkHeader("Subject", m.Subject))
	if err == nil && !utf8.ValidString(m.Text+m.HTML) {
		return &FieldError{"Text", "is not UTF-8"}
	}
	return err
}

// checkHeader returns an error unless the text fits in a header: one line of limited length.
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

// checkAddress accepts only a bare ASCII address. MH's schemas allow no other. A non-ASCII address would need SMTPUTF8
// on every server of the message's route.
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

// Mailable reports whether an address can be a receiver's. Send must accept the address, and the domain must have at
// least two labels (RFC 5321 §2.3.5), because a name of one label reaches no mailbox on the Internet.
func Mailable(address string) bool {
	if checkAddress("To", address) != nil {
		return false
	}
	labels := strings.Split(address[strings.LastIndexByte(address, '@')+1:], ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.ContainsFunc(l, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') // RFC 1123 §2.1
		}) {
			return false
		}
	}
	last := labels[len(labels)-1]
	// Top-level domains do not begin with a digit; the last part of an IPv4 address does
	return len(labels) > 1 && (last[0] < '0' || last[0] > '9')
}

// checkID accepts a msg-id without its brackets (RFC 5322 §3.6.4, without its obsolete forms).
func checkID(id string) error {
	left, right, ok := strings.Cut(id, "@")
	if !ok || left == "" || right == "" || len(id) > 250 ||
		strings.ContainsFunc(id, func(r rune) bool { return notName(r) || strings.ContainsRune(`<>()[]\,;:"`, r) }) ||
		strings.Contains(right, "@") {
		return &FieldError{"ID", "is not of the form something@domain"}
	}
	return nil
}

// State is the state of a message's document.
type State uint8

const (
	Processed   State = iota // sealed by MH
	Contingency              // issued in contingency: signed, not yet sealed
	Invalidated              // invalidated at MH
)

// Facts are the contents of a message about a document. Compose escapes the special characters of HTML.
type Facts struct {
	State State
	Test  bool // ambiente 00

	Document string // the type in words, as CAT-002 names it: "Comprobante de crédito fiscal"
	Number   string // numeroControl; empty for a retorno
	Code     string // codigoGeneracion
	Seal     string // selloRecibido; empty in contingency
	Date     string // fecEmi, in the receiver's format
	Total    string // in USD, in the receiver's format: "1,234.50"
	Emisor   string // name
	Receptor string // name; may be empty
	Consult  string // URL of MH's public consultation; only http and https are used

	Look Look
}

// Look is the appearance of an emisor's messages. Tax, Phone and Greeting are in the plain text too.
type Look struct {
	Trade    string // the emisor's trade name, for the head of the page; empty: Facts.Emisor
	Tax      string // the emisor's NIT, as people write it; may be empty
	Phone    string // the emisor's telephone, as people write it; may be empty
	Color    string // "#rrggbb" of the head's bar; "" or anything else: a dark blue
	Greeting string // one line after the salutation; may be empty
	// Logo is the Name of a picture in Inline, or ""; the message shows it with width and height, in pixels.
	Logo                  string
	LogoWidth, LogoHeight int
}

// legends are shown above the facts. The text about contingency is that of the readable version (MF2 pp.4, 19).
var legends = map[State]string{
	Contingency: "Modelo diferido, transmisión por contingencia: el documento está firmado y todavía no lleva el " +
		"sello de recepción del Ministerio de Hacienda. El emisor lo transmitirá en cuanto se restablezca el servicio.",
	Invalidated: "DOCUMENTO INVALIDADO: el emisor lo invalidó ante el Ministerio de Hacienda.",
}

const testLegend = "AMBIENTE DE PRUEBAS: este documento no tiene validez fiscal."

// Compose writes a message in Spanish: its subject, and the same content as plain text and as HTML. It uses no template
// package, because the linker would then keep every method, and the appliance would be 6 MB larger.
func Compose(f Facts) (subject, text, page string) {
	f.flatten()
	subject = f.Document + " " + f.Number
	if f.Number == "" {
		subject = f.Document + " " + f.Code
	}
	switch f.State {
	case Contingency:
		subject += " (contingencia)"
	case Invalidated:
		subject = "INVALIDADO: " + subject
	}
	if f.Test {
		subject = "[PRUEBAS] " + subject
	}
	subject = cut(subject+" de "+f.Emisor, maxHeader)
	return subject, f.text(), f.page()
}

func (f *Facts) flatten() {
	l := &f.Look
	for _, s := range []*string{&f.Document, &f.Number, &f.Code, &f.Seal, &f.Date, &f.Total, &f.Emisor, &f.Receptor,
		&l.Trade, &l.Tax, &l.Phone, &l.Greeting} {
		*s = flat(*s)
	}
	if u, err := url.Parse(f.Consult); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		f.Consult = ""
	}
	if len(l.Color) != 7 || l.Color[0] != '#' || strings.Trim(l.Color[1:], "0123456789abcdefABCDEF") != "" {
		l.Color = "#163864"
	}
}

// salutation returns the salutation. The receiver's title and sex are unknown.
func (f *Facts) salutation() string {
	if f.Receptor == "" {
		return "Estimado cliente:"
	}
	return "Estimado cliente, " + f.Receptor + ":"
}

func (f *Facts) sender() string {
	s := f.Emisor
	if f.Look.Tax != "" {
		s += ", NIT " + f.Look.Tax
	}
	if f.Look.Phone != "" {
		s += ", teléfono " + f.Look.Phone
	}
	return s
}

func (f *Facts) notices() []string {
	var n []string
	if f.Test {
		n = append(n, testLegend)
	}
	if l := legends[f.State]; l != "" {
		n = append(n, l)
	}
	return n
}

func (f *Facts) rows() [][2]string {
	all := [][2]string{
		{"Documento", f.Document},
		{"Número de control", f.Number},
		{"Código de generación", f.Code},
		{"Sello de recepción", f.Seal},
		{"Fecha de emisión", f.Date},
		{"Total (USD)", f.Total},
		{"Emisor", f.Emisor},
		{"Receptor", f.Receptor},
	}
	return slices.DeleteFunc(all, func(r [2]string) bool { return r[1] == "" })
}

const (
	opening = "Adjunto encontrará su documento tributario electrónico: la versión legible (PDF) y el archivo DTE " +
		"(JSON), que es el documento legal. Consérvelos."
	closing = "Este mensaje se envió automáticamente."
)

// consulting returns the text before the link. MH shows a document issued in contingency only after it was sent.
func (f *Facts) consulting() string {
	if f.State == Contingency {
		return "Una vez transmitido, podrá comprobarlo en la consulta pública del Ministerio de Hacienda:"
	}
	return "Puede comprobarlo en la consulta pública del Ministerio de Hacienda:"
}

func (f *Facts) text() string {
	var b strings.Builder
	for _, n := range f.notices() {
		fmt.Fprintf(&b, "%s\n\n", n)
	}
	fmt.Fprintf(&b, "%s\n\n", f.salutation())
	if f.Look.Greeting != "" {
		fmt.Fprintf(&b, "%s\n\n", f.Look.Greeting)
	}
	fmt.Fprintf(&b, "%s\n\n", opening)
	for _, r := range f.rows() {
		fmt.Fprintf(&b, "%s: %s\n", r[0], r[1])
	}
	if f.Consult != "" {
		fmt.Fprintf(&b, "\n%s\n%s\n", f.consulting(), f.Consult)
	}
	fmt.Fprintf(&b, "\n%s\n%s\n", f.sender(), closing)
	return b.String()
}

// page returns the HTML. It is also well-formed XML: the test reads it as XML.
func (f *Facts) page() string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n" +
		`<html lang="es"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>` +
		`<meta name="color-scheme" content="light dark"/><title>` +
		html.EscapeString(f.Document) + "</title></head>\n" +
		`<body style="margin:0;font-family:Arial,Helvetica,sans-serif;font-size:15px;line-height:1.5">` + "\n" +
		`<div style="max-width:640px;padding:16px">` + "\n")
	b.WriteString(f.head())
	for _, n := range f.notices() {
		b.WriteString(`<p style="padding:12px;border:2px solid #b45309;font-weight:bold">` + html.EscapeString(n) +
			"</p>\n")
	}
	b.WriteString("<p>" + html.EscapeString(f.salutation()) + "</p>\n")
	if f.Look.Greeting != "" {
		b.WriteString("<p>" + html.EscapeString(f.Look.Greeting) + "</p>\n")
	}
	b.WriteString("<p>" + opening + "</p>\n" + `<table style="border-collapse:collapse">` + "\n")
	for _, r := range f.rows() {
		b.WriteString(`<tr><th scope="row" style="padding:4px 16px 4px 0;text-align:left;vertical-align:top">` + r[0] +
			`</th><td style="padding:4px 0;overflow-wrap:anywhere">` + html.EscapeString(r[1]) + "</td></tr>\n")
	}
	b.WriteString("</table>\n")
	if f.Consult != "" {
		u := html.EscapeString(f.Consult)
		b.WriteString("<p>" + f.consulting() + `<br/><a style="overflow-wrap:anywhere" href="` + u + `">` + u +
			"</a></p>\n")
	}
	b.WriteString(`<p style="font-size:13px">` + html.EscapeString(f.sender()) + "<br/>" + closing +
		"</p>\n</div>\n</body></html>\n")
	return b.String()
}

// head returns the emisor's logo, on white, and name, above a bar of Look.Color.
func (f *Facts) head() string {
	l := &f.Look
	name := html.EscapeString(cmp.Or(l.Trade, f.Emisor))
	out := `<div style="margin-bottom:16px;padding-bottom:12px;border-bottom:4px solid ` + l.Color + `">`
	if l.Logo != "" {
		out += fmt.Sprintf(`<img src="cid:%s" width="%d" height="%d" alt="" style="display:block;margin-bottom:8px;`+
			`background:#ffffff"/>`, html.EscapeString(l.Logo), l.LogoWidth, l.LogoHeight)
	}
	return out + `<b style="font-size:18px">` + name + "</b></div>\n"
}
