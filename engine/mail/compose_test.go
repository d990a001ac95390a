package mail

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func facts() Facts {
	return Facts{
		Document: "Comprobante de crédito fiscal", Number: "DTE-03-M001P001-000000000000042",
		Code: "9F2C3B1A-0000-4000-8000-000000000001", Seal: "2026ABCDEF0123456789ABCDEF0123456789SIMU",
		Date:  "21/11/2026",
		Total: "1,234.50", Emisor: "Ferretería El Ñandú, S.A. de C.V.", Receptor: "María Peña",
		Consult: "https://admin.factura.gob.sv/consultaPublica?ambiente=00&codGen=9F2C3B1A-0000-4000-8000-000000000001&fechaEmi=2026-11-21",
	}
}

func TestCompose(t *testing.T) {
	subject, text, page := Compose(facts())
	if subject != "Comprobante de crédito fiscal DTE-03-M001P001-000000000000042 de Ferretería El Ñandú, S.A. de C.V." {
		t.Errorf("%q", subject)
	}
	const want = `Estimado cliente, María Peña:

Adjunto encontrará su documento tributario electrónico: la versión legible (PDF) y el archivo DTE (JSON), que es el documento legal. Consérvelos.

Documento: Comprobante de crédito fiscal
Número de control: DTE-03-M001P001-000000000000042
Código de generación: 9F2C3B1A-0000-4000-8000-000000000001
Sello de recepción: 2026ABCDEF0123456789ABCDEF0123456789SIMU
Fecha de emisión: 21/11/2026
Total (USD): 1,234.50
Emisor: Ferretería El Ñandú, S.A. de C.V.
Receptor: María Peña

Puede comprobarlo en la consulta pública del Ministerio de Hacienda:
https://admin.factura.gob.sv/consultaPublica?ambiente=00&codGen=9F2C3B1A-0000-4000-8000-000000000001&fechaEmi=2026-11-21

Ferretería El Ñandú, S.A. de C.V.
Este mensaje se envió automáticamente.
`
	if text != want {
		t.Errorf("%s", text)
	}
	elements, words := read(t, page)
	for line := range strings.Lines(want) { // the page says the same
		for piece := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), ": ") {
			if !strings.Contains(words, strings.TrimSuffix(piece, ":")) {
				t.Errorf("the page lacks %q", piece)
			}
		}
	}
	if !strings.Contains(elements, " href="+facts().Consult) {
		t.Errorf("%s", elements)
	}
}

func TestCompose_States(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*Facts)
		subject, text string // what they begin with
		without       string
	}{
		"processed": {func(f *Facts) {}, "Comprobante", "Estimado cliente", "contingencia"},
		"contingency": {func(f *Facts) { f.State, f.Seal = Contingency, "" },
			"Comprobante de crédito fiscal DTE-03-M001P001-000000000000042 (contingencia) de",
			"Modelo diferido, transmisión por contingencia", "Puede comprobarlo"},
		"invalidated": {func(f *Facts) { f.State = Invalidated }, "INVALIDADO: Comprobante", "DOCUMENTO INVALIDADO",
			"contingencia"},
		"test": {func(f *Facts) { f.Test, f.State = true, Invalidated }, "[PRUEBAS] INVALIDADO: ",
			"AMBIENTE DE PRUEBAS", "contingencia"},
		"retorno": {func(f *Facts) { f.Document, f.Number = "Evento de retorno", "" },
			"Evento de retorno 9F2C3B1A-0000-4000-8000-000000000001 de", "Estimado cliente", "Número de control"},
		"no receptor": {func(f *Facts) { f.Receptor = "" }, "Comprobante", "Estimado cliente:\n", "Receptor"},
	} {
		f := facts()
		c.change(&f)
		subject, text, page := Compose(f)
		_, words := read(t, page)
		if !strings.HasPrefix(subject, c.subject) || !strings.HasPrefix(text, c.text) ||
			strings.Contains(text, c.without) {
			t.Errorf("%s: %q\n%s", name, subject, text)
		}
		if legend, _, _ := strings.Cut(text, "\n"); !strings.Contains(words, legend) ||
			strings.Contains(words, strings.TrimSuffix(c.without, ":")) {
			t.Errorf("%s: %s", name, words)
		}
	}
}

// Whatever a name contains, the page has the same elements, the text the same lines, and the subject can be sent.
func TestCompose_Hostile(t *testing.T) {
	plain, text, page := Compose(facts())
	elements, _ := read(t, page)
	for _, evil := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='x`, `&lt;b&gt;&amp;`,
		`</td></tr></table>`, `]]><!--`,
		"línea\r\nBcc: x@y.example", "a\u2028b\u0085c\x00d", "\xff\xfe", `{{.Code}} %s %d`, strings.Repeat("ñ", 3000),
	} {
		f := facts()
		f.Document, f.Number, f.Code, f.Seal, f.Date, f.Total, f.Emisor, f.Receptor = evil, evil, evil, evil, evil,
			evil, evil, evil
		s, x, p := Compose(f)
		if err := checkHeader("Subject", s); err != nil || plain == s {
			t.Errorf("%q: %v", evil, err)
		}
		if strings.Count(x, "\n") != strings.Count(text, "\n") || strings.ContainsAny(x, "\r\x00\u2028\u0085") {
			t.Errorf("%q: lines of %q", evil, x)
		}
		got, words := read(t, p)
		if got != elements {
			t.Errorf("%q: elements %s", evil, got)
		}
		if !strings.Contains(words, flat(evil)) {
			t.Errorf("%q is not in the page as it is", evil)
		}
	}
	for _, link := range []string{"javascript:alert(1)", "data:text/html,x", "//x.example", "", "https:",
		"https://x.example/\r\n"} {
		f := facts()
		f.Consult = link
		if _, x, p := Compose(f); strings.Contains(p, "href") || strings.Contains(x, "consulta") {
			t.Errorf("%q: %s", link, x)
		}
	}
	f := facts()
	f.Consult = `https://x.example/"><script>`
	if got, _ := read(t, second(Compose(f))); got != strings.ReplaceAll(elements, facts().Consult, f.Consult) {
		t.Error(got)
	}
}

func second(_, _, page string) string { return page }

// read returns the elements of a page with their attributes, and its words.
func read(t *testing.T, page string) (elements, words string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(page, "<!DOCTYPE html>")))
	var e, w strings.Builder
	for {
		token, err := d.Token()
		if err == io.EOF {
			return e.String(), w.String()
		}
		if err != nil {
			t.Fatalf("%v in %s", err, page)
		}
		switch x := token.(type) {
		case xml.StartElement:
			fmt.Fprintf(&e, "<%s", x.Name.Local)
			for _, a := range x.Attr {
				fmt.Fprintf(&e, " %s=%s", a.Name.Local, a.Value)
			}
			e.WriteString(">")
		case xml.EndElement:
			e.WriteString("</" + x.Name.Local + ">")
		case xml.CharData:
			w.Write(x)
		default:
			t.Errorf("a %T in the page", x)
		}
	}
}

// TestCompose_Look: the emisor's logo, colour, name, greeting and contact are in the page, its words in the text; their
// content stays in its place.
func TestCompose_Look(t *testing.T) {
	f := facts()
	f.Look = Look{Trade: "El Ñandú & Cía.", Tax: "0614-050607-101-8", Phone: "2222-4150", Color: "#7a1f2b",
		Greeting: "¡Gracias por <su> compra!\nVuelva", Logo: "logo.png", LogoWidth: 107, LogoHeight: 80}
	_, text, page := Compose(f)
	elements, words := read(t, page)
	for _, want := range []string{"¡Gracias por <su> compra! Vuelva", "NIT 0614-050607-101-8", "teléfono 2222-4150"} {
		if !strings.Contains(text, want) || !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s\n%s", want, text, words)
		}
	}
	for _, want := range []string{"src=cid:logo.png", "width=107", "height=80", "border-bottom:4px solid #7a1f2b"} {
		if !strings.Contains(elements, want) {
			t.Errorf("no %q in %s", want, elements)
		}
	}
	if !strings.Contains(words, "El Ñandú & Cía.") {
		t.Errorf("%s", words)
	}
	f.Look = Look{Color: `red"><script>`}
	if _, _, page := Compose(f); strings.Contains(page, "script") || !strings.Contains(page, "#163864") ||
		strings.Contains(page, "<img") {
		t.Errorf("%s", page)
	}
}

// TestInline: the picture of a page is a part of the message, under the name that the page uses, and no attachment.
func TestInline(t *testing.T) {
	s, err := New(Options{Host: "mail.example", From: "dte@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	m := Message{ID: "a@example.com", To: "b@example.com", Subject: "x", Text: "x",
		HTML: `<img src="cid:logo.png"/>`, Date: time.Unix(1e9, 0),
		Inline:      []Attachment{{Name: "logo.png", ContentType: "image/png", Data: []byte("PNG")}},
		Attachments: []Attachment{{Name: "a.pdf", ContentType: "application/pdf", Data: []byte("PDF")}}}
	b, err := s.render(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"multipart/related", "Content-Id: <logo.png>", "Content-Disposition: inline",
		"Content-Type: image/png"} {
		if !strings.Contains(strings.ToLower(string(b)), strings.ToLower(want)) {
			t.Errorf("no %q in\n%s", want, b)
		}
	}
}
