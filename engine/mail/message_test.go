package mail

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"testing"
	"time"
)

// part is a leaf of a message, decoded.
type part struct {
	kind, name string
	data       []byte
}

// leaves decodes a message by the standard library alone.
func leaves(t *testing.T, header func(string) string, body io.Reader) []part {
	t.Helper()
	kind, params, err := mime.ParseMediaType(header("Content-Type"))
	if err != nil {
		t.Fatalf("%q: %v", header("Content-Type"), err)
	}
	if strings.HasPrefix(kind, "multipart/") {
		var all []part
		r := multipart.NewReader(body, params["boundary"])
		for {
			p, err := r.NextRawPart()
			if err == io.EOF {
				return all
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, leaves(t, p.Header.Get, p)...)
		}
	}
	switch header("Content-Transfer-Encoding") {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	default:
		t.Errorf("transfer encoding %q", header("Content-Transfer-Encoding"))
	}
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	if d := header("Content-Disposition"); d != "" {
		disposition, p, err := mime.ParseMediaType(d)
		if err != nil || disposition != "attachment" || p["filename"] != params["name"] {
			t.Errorf("%q, %q: %v", d, header("Content-Type"), err)
		}
		name = p["filename"]
	}
	return []part{{kind, name, data}}
}

// A receiver reads what the branch wrote, whatever characters, lengths and line ends it contains.
func TestSend_Content(t *testing.T) {
	binary := make([]byte, 300_000)
	source := rand.NewChaCha8([32]byte{6})
	_, _ = source.Read(binary)
	m := Message{
		ID: "1@tienda.example", To: "maria@cliente.example", Date: time.Date(2026, 11, 21, 8, 30, 0, 0,
			time.UTC),
		Subject: "Factura nº 1 · ¿ñandú? · €" + strings.Repeat(" larga", 40),
		Text:    "Línea\n.\n..\nFrom mí\n" + strings.Repeat("ñ=", 5000) + "\r\nfin",
		HTML:    "<p>" + strings.Repeat("é", 3000) + "</p>\n.\n",
		Attachments: []Attachment{
			{"9F2C.pdf", "application/pdf", binary},
			{"año €.json", "application/json; charset=utf-8", []byte("{\"a\":\r\n.\r\n\"ñ\"}")},
			{"vacío", "application/octet-stream", nil},
			{strings.Repeat("larguísimo ", 30) + ".txt", "text/plain", []byte("\x00\r.\n")},
		},
	}
	s := serve(t, nil)
	var sent bytes.Buffer
	sender := s.sender(t, func(o *Options) { o.ReplyTo = "cobros@tienda.example"; o.Dial = s.tap(&sent, nil) })
	if o := sender.Send(t.Context(), m); o.Kind != Sent {
		t.Fatalf("%+v", o)
	}
	for line := range strings.SplitSeq(sent.String(), "\r\n") {
		if len(line) > 998 || strings.ContainsAny(line, "\r\n") || strings.ContainsFunc(line,
			func(r rune) bool { return r > '~' }) {
			t.Errorf("a line that not every server takes: %q", line)
		}
	}

	got, err := netmail.ReadMessage(bytes.NewReader(s.taken()[0].raw))
	if err != nil {
		t.Fatal(err)
	}
	var words mime.WordDecoder
	subject, err := words.DecodeHeader(got.Header.Get("Subject"))
	if err != nil || subject != m.Subject {
		t.Errorf("subject %q %v", subject, err)
	}
	from, err := got.Header.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name != "Ferretería El Ñandú" ||
		from[0].Address != "dte@tienda.example" {
		t.Errorf("from %v %v", from, err)
	}
	for name, want := range map[string]string{
		"To": "<maria@cliente.example>", "Reply-To": "<cobros@tienda.example>", "Message-Id": "<1@tienda.example>",
		"Date": "Sat, 21 Nov 2026 08:30:00 +0000", "Auto-Submitted": "auto-generated", "Mime-Version": "1.0",
		"User-Agent": "", "X-Mailer": "",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s: %q", name, v)
		}
	}

	parts := leaves(t, got.Header.Get, got.Body)
	want := []part{{"text/plain", "", []byte(strings.ReplaceAll(strings.ReplaceAll(m.Text, "\r\n", "\n"), "\n",
		"\r\n"))},
		{"text/html", "", []byte(strings.ReplaceAll(m.HTML, "\n", "\r\n"))}}
	for _, a := range m.Attachments {
		kind, _, _ := strings.Cut(a.ContentType, ";")
		want = append(want, part{kind, a.Name, a.Data})
	}
	if len(parts) != len(want) {
		t.Fatalf("%d parts", len(parts))
	}
	for i, w := range want {
		if p := parts[i]; p.kind != w.kind || p.name != w.name || !bytes.Equal(p.data, w.data) {
			t.Errorf("part %d: %s %q, %d bytes; want %s %q, %d", i, p.kind, p.name, len(p.data), w.kind, w.name,
				len(w.data))
		}
	}
}

// Without HTML and attachments the message is its text alone.
func TestSend_TextAlone(t *testing.T) {
	s := serve(t, nil)
	m := letterTo("a@x.example")
	m.HTML, m.Attachments = "", nil
	if o := s.sender(t, nil).Send(t.Context(), m); o.Kind != Sent {
		t.Fatalf("%+v", o)
	}
	got, err := netmail.ReadMessage(bytes.NewReader(s.taken()[0].raw))
	if err != nil {
		t.Fatal(err)
	}
	if p := leaves(t, got.Header.Get, got.Body); len(p) != 1 || p[0].kind != "text/plain" {
		t.Errorf("%+v", p)
	}
}

// No field adds a header, and what cannot be sent is named before a server is asked.
func TestSend_RefusedUnasked(t *testing.T) {
	sender, err := New(Options{Host: "mx.example", From: "dte@tienda.example",
		Dial: func(context.Context, string, string) (net.Conn, error) { panic("the server was asked") }})
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]func(*Message, string){
		"ID":      func(m *Message, s string) { m.ID = "1@x.example" + s },
		"To":      func(m *Message, s string) { m.To += s },
		"Subject": func(m *Message, s string) { m.Subject += s },
	}
	refuse := func(field string, m Message) {
		t.Helper()
		o := sender.Send(t.Context(), m)
		var f *FieldError
		if o.Kind != Refused || !errors.As(o.Err, &f) || f.Field != field {
			t.Errorf("%s: %+v", field, o)
		}
	}
	for field, add := range fields {
		for _, evil := range []string{"\r\nBcc: x@y.example", "\nBcc: x@y.example", "\rBcc: x@y.example",
			"\r\n\r\nbody", "\x00", "\x7f", "\u0085",
			"\xff", strings.Repeat("x", 1000)} {
			m := letterTo("a@x.example")
			add(&m, evil)
			refuse(field, m)
		}
	}
	for _, address := range []string{"", "a", "a@", "@x.example", "a b@x.example", "a@x.example>",
		"a@x.example, b@x.example", "<a@x.example>",
		"María <a@x.example>", "maría@x.example", "a@exámple", `"a b"@x.example`, "a@x.example SIZE=1",
		strings.Repeat("a", 65) + "@x.example"} {
		refuse("To", letterTo(address))
	}
	for _, id := range []string{"", "x", "@x", "x@", "a@b@c", "<a@b>", "a b@c", "a@b\t", "ñ@x"} {
		m := letterTo("a@x.example")
		m.ID = id
		refuse("ID", m)
	}
	m := letterTo("a@x.example")
	m.HTML = "\xff"
	refuse("Text", m)
}
