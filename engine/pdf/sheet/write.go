// Package sheet measures and breaks texts, keeps the content of each page, and writes the pages as a PDF. Lengths are
// in points from the top left corner. The package does not depend on tax documents.
package sheet

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"slices"
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
	Pause         func() // called before each page; not nil
}

// A Code is a QR code: a square of Size modules, without its white border.
type Code struct {
	Size int
	Dark func(x, y int) bool
}

// Quiet is the white border of a QR code that scanners need, in modules (ISO/IEC 18004, 9.1).
const Quiet = 4

// path returns the code as a single path, without visible seams. The code fills a square of the given side, whose lower
// left corner is at x, y.
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
		pg.Ops = nil // fpdf keeps the page from here on
	}
	var plain bytes.Buffer
	if err = doc.Output(&plain); err == nil {
		_, err = w.Write(deflated(plain.Bytes(), d.Pause))
	}
	if err != nil {
		return fmt.Errorf("pdf: writing: %w", err)
	}
	return nil
}

var compressors = sync.Pool{New: func() any {
	z, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed) // the level exists
	return z
}}

// deflated compresses the pages of a PDF as fpdf would, with one compressor and a pause between pages: fpdf makes a
// compressor of 1 MiB for each page. The objects keep their numbers and their order; the table of their offsets is new.
func deflated(pdf []byte, pause func()) []byte {
	const entry = 20 // bytes of each object in the table
	var table, n int
	trailer := bytes.LastIndex(pdf, []byte("startxref\n"))
	_, _ = fmt.Sscanf(string(pdf[trailer:]), "startxref\n%d", &table)
	_, _ = fmt.Sscanf(string(pdf[table:]), "xref\n0 %d", &n)
	entries := pdf[bytes.Index(pdf[table:], []byte("0000000000 65535 f"))+table:][:n*entry]
	starts, order := make([]int, n), make([]int, n)
	for i := range order {
		order[i] = i
		starts[i], _ = strconv.Atoi(string(entries[i*entry:][:10])) // object 0, at 0, is the header
	}
	slices.SortFunc(order, func(a, b int) int { return starts[a] - starts[b] })
	starts, order = append(starts, table), append(order, n)
	var out, packed bytes.Buffer
	z := compressors.Get().(*zlib.Writer)
	defer compressors.Put(z)
	for k, i := range order[:n] {
		object := pdf[starts[i]:starts[order[k+1]]]
		copy(entries[i*entry:], fmt.Sprintf("%010d", out.Len()))
		head, rest, _ := bytes.Cut(object, []byte(">>\nstream\n"))
		length, page := bytes.CutPrefix(head, fmt.Appendf(nil, "%d 0 obj\n<</Length ", i))
		size, err := strconv.Atoi(string(length))
		if !page || err != nil {
			out.Write(object)
			continue
		}
		pause()
		packed.Reset()
		z.Reset(&packed)
		_, _ = z.Write(rest[:size]) // to memory
		_ = z.Close()
		fmt.Fprintf(&out, "%d 0 obj\n<</Filter /FlateDecode /Length %d>>\nstream\n%s%s", i, packed.Len(),
			packed.Bytes(), rest[size:])
	}
	table, rest := out.Len(), pdf[table:trailer]
	out.Write(rest)
	fmt.Fprintf(&out, "startxref\n%d\n%%%%EOF\n", table)
	return out.Bytes()
}

// addFonts registers the core fonts, and extra fonts for the other characters of these pages. For each weight, it
// returns the extra characters with their indexes.
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

// family returns a font's name within fpdf. n is the number of the extra font, 0 for a core font.
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
