// Package pdf makes the printed version (versión legible) of a sealed document from its bytes: a letter-size PDF,
// a thermal ticket as PDF, or a thermal ticket as ESC/POS commands. The same document and options give the same
// bytes, always: no clock, no chance, nothing from outside.
//
// What is printed follows MF2 pp. 55-74: identification, both parties, third parties, related and associated
// documents, lines, summary, observations, page n of n, and the QR code of the public consultation (MT1 §5). Codes
// are printed in words. ivaItem, totalIva and psv are not printed, as there. No code here knows a schema
// generation: members are looked for under all the names they have had, a summary amount with an unknown name is
// printed under that name, and what is absent, null or zero leaves no trace.
package pdf

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ConsultURL is MH's public consultation, the content of the QR code (MT1 §5).
const ConsultURL = "https://admin.factura.gob.sv/consultaPublica?ambiente={ambiente}&codGen={codigoGeneracion}&fechaEmi={fecEmi}"

// State is what a document is at the time of printing.
type State uint8

// The states that are printed. A rejected document has no printed version.
const (
	Processed   State = iota // sealed by MH
	Contingency              // issued in contingency, not sealed yet
	Invalidated              // sealed, and void since
)

// Document is what is printed.
type Document struct {
	JSON     []byte // the sealed bytes: the document as it was signed
	Seal     string // selloRecibido; "" exactly in the state Contingency
	Received string // fhProcesamiento as MH gave it, "01/12/2026 10:15:30"; may be ""
	State    State
	Note     string // printed with the mark INVALIDADO, such as the event's date and seal; may hold line breaks
	// Rest, if not nil, is called between two pieces of work, at each line and page, and may sleep: 2,000 lines take a tenth of a
	// second of the processor and more, and others want it too.
	Rest func()
}

// Layout is a size of paper.
type Layout uint8

// The layouts. A ticket's page is as long as its contents, in sheets of at most 3 m.
const (
	Letter   Layout = iota // 216 × 279 mm
	Ticket80               // thermal paper of 80 mm, 72 mm of them printed
	Ticket58               // thermal paper of 58 mm, 48 mm of them printed
)

var layoutNames = [...]string{"letter", "ticket80", "ticket58"}

// ParseLayout reads the name of a layout: letter, ticket80 or ticket58.
func ParseLayout(s string) (Layout, bool) {
	for i, n := range layoutNames {
		if n == s {
			return Layout(i), true
		}
	}
	return 0, false
}

func (l Layout) String() string {
	if int(l) < len(layoutNames) {
		return layoutNames[l]
	}
	return "layout " + strconv.Itoa(int(l))
}

// Style is how an emisor's papers look.
type Style struct {
	Logo   []byte // PNG, JPEG or GIF, at most 512 KiB and 2,000 pixels either way; nil: none
	Color  string // "#rrggbb" of headings and rules on letter size; "": a dark blue
	Footer string // one line at the end, such as a greeting; "": none
}

// Options are the same for all documents of an emisor.
type Options struct {
	// Catalogue gives the text of a code of MH's catalogues: ("CAT-017", "01"). Codes that repeat within each
	// departamento come with it: ("CAT-013", "06/23"), ("CAT-008", "06/14"). An unknown code is printed as it is.
	// nil knows none.
	Catalogue func(catalogue, code string) (text string, ok bool)
	// ConsultURL is the content of the QR code with {ambiente}, {codigoGeneracion} and {fecEmi} to be replaced.
	// "" is the constant ConsultURL.
	ConsultURL string
	Style      Style
}

// Printer renders documents. It is safe for concurrent use.
type Printer struct {
	fonts     *fonts
	catalogue func(catalogue, code string) (string, bool)
	consult   string
	look      Style
	ink       rgb // of Style.Color
	logo      *logo
}

// New loads the fonts and the logo, which takes some 30 ms, and fails on a Style that cannot be used.
func New(o Options) (*Printer, error) {
	p := &Printer{catalogue: o.Catalogue, consult: o.ConsultURL, look: o.Style, ink: rgb{22, 56, 100}}
	if p.catalogue == nil {
		p.catalogue = func(string, string) (string, bool) { return "", false }
	}
	if p.consult == "" {
		p.consult = ConsultURL
	}
	var err error
	if p.fonts, err = loadFonts(); err != nil {
		return nil, fmt.Errorf("pdf: %w", err)
	}
	if c := o.Style.Color; c != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(c, "#"), 16, 32)
		if err != nil || len(c) != 7 || c[0] != '#' {
			return nil, fmt.Errorf("pdf: Style.Color: %q is not #rrggbb", c)
		}
		p.ink = rgb{uint8(n >> 16), uint8(n >> 8), uint8(n)}
	}
	if len(o.Style.Logo) > 0 {
		if p.logo, err = readLogo(o.Style.Logo); err != nil {
			return nil, fmt.Errorf("pdf: Style.Logo: %w", err)
		}
	}
	return p, nil
}

// Render writes the document as a PDF. It fails if the bytes are no document (no JSON object, no codigoGeneracion
// or fecEmi), if seal and state contradict each other, or if w does; nothing is written before the layout is done.
func (p *Printer) Render(w io.Writer, d Document, layout Layout) error {
	v, code, err := p.prepare(d, layout)
	if err != nil {
		return err
	}
	var pages []*page
	if layout == Letter {
		pages = p.letter(v)
	} else {
		pages = p.ticket(v, layout)
	}
	return p.emit(w, v, pages, code)
}

// ESCPOS writes the document as commands for a thermal printer on paper of 80 or 58 mm: text in code page 850
// (ESC t 2, which every such printer has), the QR code by GS ( k, a partial cut at the end. Letters that the code
// page lacks lose their mark; other characters become a question mark. It fails as Render does, and for Letter.
func (p *Printer) ESCPOS(w io.Writer, d Document, layout Layout) error {
	if layout == Letter {
		return errors.New("pdf: layout: ESC/POS needs ticket80 or ticket58")
	}
	v, _, err := p.prepare(d, layout)
	if err != nil {
		return err
	}
	_, err = w.Write(escpos(p.receipt(v), v.url, layout))
	return err
}

// prepare checks what was asked and makes the view and the QR code.
func (p *Printer) prepare(d Document, layout Layout) (*view, *matrix, error) {
	switch {
	case layout > Ticket58:
		return nil, nil, fmt.Errorf("pdf: layout: unknown %s", layout)
	case d.State > Invalidated:
		return nil, nil, fmt.Errorf("pdf: State: unknown %d", d.State)
	case d.State == Contingency && d.Seal != "":
		return nil, nil, errors.New("pdf: Seal: a document in contingency has none")
	case d.State != Contingency && d.Seal == "":
		return nil, nil, errors.New("pdf: Seal: required")
	}
	v, err := p.view(d)
	if err != nil {
		return nil, nil, err
	}
	code, err := encode(v.url)
	if err != nil {
		return nil, nil, fmt.Errorf("pdf: QR of %d bytes: %w", len(v.url), err)
	}
	return v, code, nil
}
