// Package sheet measures and breaks texts, keeps the content of each page, and writes the pages as a PDF. Lengths are
// in points from the top left corner. The package does not depend on tax documents.
package sheet

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/go-pdf/fpdf"
)

// File is the content of a PDF.
type File struct {
	Title, Author string
	Made          time.Time
	Pages         []*Page
	Logo          *Logo  // may be nil
	Code          *Code  // nil if no page has a code
	Pause         func() // called between two pieces of work
}

// A Code is a QR code: a square of Size modules, without its white border.
type Code struct {
	Size int
	Dark func(x, y int) bool
}

// Quiet is the white border of a QR code that scanners need, in modules (ISO/IEC 18004, 9.1).
const Quiet = 4

// path returns the code as one filled path of the PDF within a square whose lower left corner is x, y. No viewer shows
// seams between the rectangles of a single path.
func (c *Code) path(x, y, side float64) string {
	unit := side / float64(c.Size+2*Quiet)
	out := []byte("q 0 g\n")
	number := func(f float64) {
		out = strconv.AppendFloat(out, f, 'f', 3, 64)
		out = append(out, ' ')
	}
	for row := range c.Size {
		for column := 0; column < c.Size; column++ {
			from := column
			for column < c.Size && c.Dark(column, row) {
				column++
			}
			if column > from {
				number(x + unit*float64(Quiet+from))
				number(y + unit*float64(Quiet+c.Size-1-row))
				number(unit * float64(column-from))
				number(unit)
				out = append(out, "re\n"...)
			}
		}
	}
	return string(append(out, "f Q"...))
}

// Write writes a PDF with these fonts.
func (f *Fonts) Write(w io.Writer, d File) error {
	pages := d.Pages
	doc := fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: pages[0].W, Ht: pages[0].H}})
	doc.SetCompression(false) // see deflated
	doc.SetCatalogSort(true)
	doc.SetCreationDate(d.Made)
	doc.SetModificationDate(d.Made)
	doc.SetTitle(d.Title, true)
	doc.SetAuthor(d.Author, true)
	doc.SetLang("es-SV")
	doc.SetMargins(0, 0, 0)
	doc.SetAutoPageBreak(false, 0)
	extra, err := f.addFonts(doc, pages)
	if err != nil {
		return fmt.Errorf("pdf: %w", err)
	}
	if d.Logo != nil {
		doc.RegisterImageOptionsReader("logo", fpdf.ImageOptions{ImageType: "PNG"}, bytes.NewReader(d.Logo.png))
	}
	for _, pg := range pages {
		d.Pause()
		doc.AddPageFormat("P", fpdf.SizeType{Wd: pg.W, Ht: pg.H})
		for _, o := range pg.Ops {
			switch o.Kind {
			case OpText:
				f.writeText(doc, o, extra)
			case OpFill:
				doc.SetFillColor(int(o.Style.Ink.R), int(o.Style.Ink.G), int(o.Style.Ink.B))
				doc.Rect(o.X, o.Y, o.W, o.H, "F")
			case OpLogo:
				doc.ImageOptions("logo", o.X, o.Y, o.W, o.H, false, fpdf.ImageOptions{ImageType: "PNG"}, 0, "")
			case OpQR:
				doc.RawWriteStr(d.Code.path(o.X, pg.H-o.Y-o.H, o.H))
			case OpStamp:
				doc.SetAlpha(0.16, "Normal")
				doc.TransformBegin()
				doc.TransformRotate(o.H, pg.W/2, o.Y)
				f.writeText(doc, Op{X: pg.W/2 - o.W/2, Y: o.Y + o.Style.Size/3, Text: o.Text, Style: o.Style}, extra)
				doc.TransformEnd()
				doc.SetAlpha(1, "Normal")
			}
		}
	}
	var raw bytes.Buffer
	if err := doc.Output(&raw); err != nil {
		return fmt.Errorf("pdf: writing: %w", err)
	}
	data, err := deflated(raw.Bytes(), d.Pause)
	if err != nil {
		return fmt.Errorf("pdf: compressing: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("pdf: writing: %w", err)
	}
	return nil
}

// addFonts registers the core fonts, and extra fonts for the other characters of these pages. It returns the index of
// each extra character among the extra characters of its weight.
func (f *Fonts) addFonts(doc *fpdf.Fpdf, pages []*Page) ([2]map[rune]int, error) {
	var found [2][]rune
	var extra [2]map[rune]int
	for _, pg := range pages {
		for _, o := range pg.Ops {
			i := weight(o.Style.Bold)
			for _, r := range o.Text {
				if r < 0x7f || f.code[r] != 0 {
					continue
				}
				if _, known := extra[i][r]; !known {
					if extra[i] == nil {
						extra[i] = map[rune]int{}
					}
					extra[i][r] = len(found[i])
					found[i] = append(found[i], r)
				}
			}
		}
	}
	for i := range found {
		a := &f.faces[i]
		doc.AddFontFromBytes(family(i, 0), "", a.core.def, a.core.file)
		n := 0
		for set := range slices.Chunk(found[i], perFont) {
			font, err := a.overflow(n, set)
			if err != nil {
				return extra, err
			}
			n++
			doc.AddFontFromBytes(family(i, n), "", font.def, font.file)
		}
	}
	return extra, nil
}

// family returns a font's name within fpdf: n is 0 for the core, then the number of the extra font.
func family(weight, n int) string { return string([]byte{"rb"[weight]}) + strconv.Itoa(n) }

// writeText draws one text, and changes the font between characters of different fonts.
func (f *Fonts) writeText(doc *fpdf.Fpdf, o Op, extra [2]map[rune]int) {
	i := weight(o.Style.Bold)
	doc.SetTextColor(int(o.Style.Ink.R), int(o.Style.Ink.G), int(o.Style.Ink.B))
	x, font := o.X, 0
	var run []byte
	from := 0
	flush := func(to int) {
		if len(run) > 0 {
			doc.SetFont(family(i, font), "", o.Style.Size)
			doc.Text(x, o.Y, string(run))
			x += f.Width(o.Text[from:to], o.Style.Size, o.Style.Bold)
		}
		run, from = run[:0], to
	}
	for at, r := range o.Text {
		next, c := 0, byte(r)
		if r >= 0x7f {
			if c = f.code[r]; c == 0 {
				next, c = 1+extra[i][r]/perFont, byte(32+extra[i][r]%perFont)
			}
		}
		if next != font {
			flush(at)
			font = next
		}
		run = append(run, c)
	}
	flush(len(o.Text))
}

// errForm means that fpdf wrote a PDF in a form that this package does not expect.
var errForm = errors.New("fpdf wrote a PDF in a form that is not known here")

var compressors = sync.Pool{New: func() any {
	z, _ := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed) // BestSpeed is a valid level
	return z
}}

// deflated compresses the pages of a PDF that fpdf wrote without compression, and returns the bytes that fpdf would
// have written with compression. fpdf makes a compressor of 1 MiB for each page and throws it away: half of the memory
// that a document of 2,000 lines allocates, and half of the garbage collector's work. It calls pause after each page.
func deflated(raw []byte, pause func()) ([]byte, error) {
	const before, open = "obj\n", "<</Length "
	var out, packed bytes.Buffer
	z := compressors.Get().(*zlib.Writer)
	defer compressors.Put(z)
	var moves []move
	end := bytes.LastIndex(raw, []byte("\nxref\n")) + 1
	from := 0
	for {
		at := bytes.Index(raw[from:end], []byte(before+open))
		if at < 0 {
			break
		}
		at += from + len(before)
		length, rest, ok := bytes.Cut(raw[at+len(open):end], []byte(">>\nstream\n"))
		digits, more, _ := bytes.Cut(length, []byte("\n"))
		n, err := strconv.Atoi(string(digits))
		if err != nil || !ok || n < 0 || n > len(rest) || !bytes.HasPrefix(rest[n:], []byte("\nendstream\n")) {
			return nil, errForm
		}
		if len(more) > 0 { // a font, compressed
			out.Write(raw[from : end-len(rest)+n])
			from = end - len(rest) + n
			continue
		}
		packed.Reset()
		z.Reset(&packed)
		if _, err := z.Write(rest[:n]); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		out.Write(raw[from:at])
		fmt.Fprintf(&out, "<</Filter /FlateDecode /Length %d>>\nstream\n", packed.Len())
		out.Write(packed.Bytes())
		from = end - len(rest) + n
		moves = append(moves, move{from, out.Len() - from})
		pause()
	}
	out.Write(raw[from:end])
	return references(out.Bytes(), raw[end:], moves)
}

// move means that the bytes from the offset from on in one PDF are by bytes further on in the other PDF.
type move struct{ from, by int }

// references appends the table of the objects' offsets and the trailer to the objects of a PDF after the compression of
// its pages.
func references(out, table []byte, moves []move) ([]byte, error) {
	begin := len(out)
	const head, line, free = "xref\n0 ", "0000000000 00000 n \n", "0000000000 65535 f \n"
	numbers, found := bytes.CutPrefix(table, []byte(head))
	count, rest, ok := bytes.Cut(numbers, []byte("\n"))
	n, err := strconv.Atoi(string(count))
	if err != nil || !found || !ok || n < 1 || !bytes.HasPrefix(rest, []byte(free)) || len(rest)/len(line) < n {
		return nil, errForm
	}
	out = append(out, table[:len(table)-len(rest)+len(free)]...)
	for i := 1; i < n; i++ {
		entry := rest[i*len(line) : (i+1)*len(line)]
		at, err := strconv.Atoi(string(entry[:10]))
		if err != nil {
			return nil, errForm
		}
		if j := sort.Search(len(moves), func(j int) bool { return moves[j].from > at }); j > 0 {
			at += moves[j-1].by
		}
		out = append(fmt.Appendf(out, "%010d", at), entry[10:]...)
	}
	trailer, last, ok := bytes.Cut(rest[n*len(line):], []byte("startxref\n"))
	if !ok || !bytes.HasSuffix(last, []byte("\n%%EOF\n")) {
		return nil, errForm
	}
	return fmt.Appendf(append(out, trailer...), "startxref\n%d\n%%%%EOF\n", begin), nil
}
