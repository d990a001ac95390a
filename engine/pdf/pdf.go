// Package pdf makes the printed version (versión legible) of a document from its bytes: a letter-size PDF, a thermal
// ticket as PDF, or a thermal ticket as ESC/POS commands. A document in contingency has no seal yet. The same document
// and options always give the same bytes.
//
// The content follows MF2 pp. 55-74: identification, both parties, third parties, related and associated documents,
// lines, summary, observations, page n of n, and the QR code of the public consultation (MT1 §5). Codes are printed in
// words; ivaItem, totalIva, psv, absent and null values, and zero amounts below the lines are not printed. Every schema
// generation is printed: a member is found under each of its names, and an unknown amount is printed under its name.
//
// view.go, items.go and summary.go turn a document into texts; letter.go and ticket.go lay out these texts, book.go the
// accountant's books. Package sheet measures texts, keeps the content of each page, and writes the PDF.
package pdf

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"rsc.io/qr"

	"dtegate/engine/pdf/sheet"
	"dtegate/rules/bundle"
)

// Layout is a size of paper.
type Layout uint8

// The layouts. A ticket's page is as long as its contents, up to 3 m; longer contents get more pages.
const (
	Letter   Layout = iota // 216 × 279 mm
	Ticket80               // thermal paper 80 mm wide; 72 mm are printed
	Ticket58               // thermal paper 58 mm wide; 48 mm are printed
)

var layoutNames = [...]string{"letter", "ticket80", "ticket58"}

// ParseLayout reads the name of a layout: letter, ticket80 or ticket58.
func ParseLayout(s string) (Layout, bool) {
	i := slices.Index(layoutNames[:], s)
	return Layout(max(0, i)), i >= 0
}

func (l Layout) String() string { return layoutNames[l] }

// Style is the look of an emisor's documents.
type Style struct {
	Logo   []byte // PNG, JPEG or GIF, at most 512 KiB and 2,000 pixels in each direction; nil: no logo
	Color  string // "#rrggbb" of headings and rules on letter size; "": a dark blue
	Footer string // one line at the end, such as a greeting; "": no line
}

// Options are the same for all documents of an emisor.
type Options struct {
	// Catalogue returns the text of a code of MH's catalogues: ("CAT-017", "01"), or of a code within its departamento:
	// ("CAT-013", "06/23"). An unknown code is printed unchanged. nil: no texts.
	Catalogue func(catalogue, code string) (text string, ok bool)
	// Type may be nil. It returns what is printed only for a type of document in a generation of its layout, or nil.
	Type  func(document string, generation int64) *bundle.View
	Style Style
}

// Printer renders documents. It is safe for concurrent use.
type Printer struct {
	o     Options
	fonts *sheet.Fonts
	ink   sheet.RGB // of Style.Color
	logo  *sheet.Logo
}

// New loads the fonts and the logo, in some 30 ms. It fails if the Style is not valid.
func New(o Options) (*Printer, error) {
	if o.Catalogue == nil {
		o.Catalogue = func(string, string) (string, bool) { return "", false }
	}
	if o.Type == nil {
		o.Type = func(string, int64) *bundle.View { return nil }
	}
	p := &Printer{o: o, ink: sheet.RGB{R: 22, G: 56, B: 100}}
	var err error
	if p.fonts, err = sheet.LoadFonts(); err != nil {
		return nil, fmt.Errorf("pdf: %w", err)
	}
	if c := o.Style.Color; c != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(c, "#"), 16, 32)
		if err != nil || len(c) != 7 || c[0] != '#' {
			return nil, fmt.Errorf("pdf: Style.Color: %q is not #rrggbb", c)
		}
		p.ink = sheet.RGB{R: uint8(n >> 16), G: uint8(n >> 8), B: uint8(n)}
	}
	if len(o.Style.Logo) > 0 {
		if p.logo, err = sheet.ReadLogo(o.Style.Logo); err != nil {
			return nil, fmt.Errorf("pdf: Style.Logo: %w", err)
		}
	}
	return p, nil
}

// Render writes the document as a PDF. It fails if the bytes are not a JSON object with codigoGeneracion and fecEmi, if
// seal and state contradict each other, or if w fails. Nothing is written before the layout is done.
func (p *Printer) Render(w io.Writer, d Document, layout Layout) error {
	v, code, err := p.prepare(d)
	if err != nil {
		return err
	}
	var pages []*sheet.Page
	if layout == Letter {
		pages = p.letter(v)
	} else {
		pages = p.ticket(p.receipt(v), layout, v.Pause)
	}
	return p.fonts.Write(w, sheet.File{Title: v.Title + " " + v.Code, Author: v.Emisor.Name, Made: v.Issued,
		Pages: pages, Logo: p.logo, Code: code, Pause: v.Pause})
}

// ESCPOS writes the document as commands for a thermal printer on paper of 80 or 58 mm; layout must not be Letter.
// Texts are in code page 850, which every such printer has. Most letters outside the code page lose their accents;
// other characters become question marks. The last command cuts the paper partially. Errors are those of Render.
func (p *Printer) ESCPOS(w io.Writer, d Document, layout Layout) error {
	v, _, err := p.prepare(d)
	if err != nil {
		return err
	}
	_, err = w.Write(escpos(p.receipt(v), v.URL, layout))
	return err
}

// Slip writes a slip as a PDF for thermal paper or as the commands of a printer. layout must not be Letter.
func (p *Printer) Slip(w io.Writer, s Slip, layout Layout, commands bool) error {
	parts := p.slip(s)
	if commands {
		_, err := w.Write(escpos(parts, "", layout))
		return err
	}
	pages := p.ticket(parts, layout, func() {})
	return p.fonts.Write(w, sheet.File{Title: s.Title, Author: s.Issuer, Made: s.Made, Pages: pages, Pause: func() {}})
}

func (p *Printer) prepare(d Document) (*View, *sheet.Code, error) {
	switch {
	case d.State == Contingency && d.Seal != "":
		return nil, nil, errors.New("pdf: Seal: a document in contingency has no seal")
	case d.State != Contingency && d.Seal == "":
		return nil, nil, errors.New("pdf: Seal: required")
	}
	v, err := p.view(d)
	if err != nil {
		return nil, nil, err
	}
	code, err := qr.Encode(v.URL, qr.M)
	if err != nil {
		return nil, nil, fmt.Errorf("pdf: QR of %d bytes: %w", len(v.URL), err)
	}
	return v, &sheet.Code{Size: code.Size, Dark: code.Black}, nil
}

// Logo returns the emisor's logo for a message, as an opaque PNG or nil, and its size on the page in pixels.
func (p *Printer) Logo() (picture []byte, width, height int) { return p.logo.Mailed() }
