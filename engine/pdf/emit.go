package pdf

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-pdf/fpdf"
)

// emit writes laid-out pages as a PDF.
func (p *Printer) emit(w io.Writer, v *view, pages []*page, code *matrix) error {
	f := fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: pages[0].w, Ht: pages[0].h}})
	f.SetCompression(false) // see deflated
	f.SetCatalogSort(true)
	f.SetCreationDate(v.issued)
	f.SetModificationDate(v.issued)
	f.SetTitle(v.title+" "+v.code, true)
	f.SetAuthor(v.emisor.name, true)
	f.SetLang("es-SV")
	f.SetMargins(0, 0, 0)
	f.SetAutoPageBreak(false, 0)
	extra, err := p.addFonts(f, pages)
	if err != nil {
		return fmt.Errorf("pdf: %w", err)
	}
	if p.logo != nil {
		f.RegisterImageOptionsReader("logo", fpdf.ImageOptions{ImageType: "PNG"}, bytes.NewReader(p.logo.png))
	}
	for _, pg := range pages {
		v.pause()
		f.AddPageFormat("P", fpdf.SizeType{Wd: pg.w, Ht: pg.h})
		for _, o := range pg.ops {
			switch o.kind {
			case opText:
				p.write(f, o, extra)
			case opFill:
				f.SetFillColor(int(o.style.ink.r), int(o.style.ink.g), int(o.style.ink.b))
				f.Rect(o.x, o.y, o.w, o.h, "F")
			case opLogo:
				f.ImageOptions("logo", o.x, o.y, o.w, o.h, false, fpdf.ImageOptions{ImageType: "PNG"}, 0, "")
			case opQR:
				f.RawWriteStr(code.path(o.x, pg.h-o.y-o.h, o.h))
			case opStamp:
				f.SetAlpha(0.16, "Normal")
				f.TransformBegin()
				f.TransformRotate(o.h, pg.w/2, o.y)
				p.write(f, op{x: pg.w/2 - o.w/2, y: o.y + o.style.size/3, text: o.text, style: o.style}, extra)
				f.TransformEnd()
				f.SetAlpha(1, "Normal")
			}
		}
	}
	var raw bytes.Buffer
	if err := f.Output(&raw); err != nil {
		return fmt.Errorf("pdf: writing: %w", err)
	}
	data, err := deflated(raw.Bytes(), v.pause)
	if err != nil {
		return fmt.Errorf("pdf: compressing: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("pdf: writing: %w", err)
	}
	return nil
}

// addFonts registers the core fonts, and the extra ones that the characters of these pages ask for. It answers the
// index of each extra character among those of its weight.
func (p *Printer) addFonts(f *fpdf.Fpdf, pages []*page) ([2]map[rune]int, error) {
	var found [2][]rune
	var extra [2]map[rune]int
	for _, pg := range pages {
		for _, o := range pg.ops {
			i := weight(o.style.bold)
			for _, r := range o.text {
				if r < 0x7f || p.fonts.code[r] != 0 {
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
		a := &p.fonts.faces[i]
		f.AddFontFromBytes(family(i, 0), "", a.core.def, a.core.file)
		n := 0
		for set := range slices.Chunk(found[i], perFont) {
			font, err := a.overflow(n, set)
			if err != nil {
				return extra, err
			}
			n++
			f.AddFontFromBytes(family(i, n), "", font.def, font.file)
		}
	}
	return extra, nil
}

// family names a font within fpdf: n is 0 for the core, then that of the extra ones.
func family(weight, n int) string { return string([]byte{"rb"[weight]}) + strconv.Itoa(n) }

// write draws one text, changing the font where its characters are in different ones.
func (p *Printer) write(f *fpdf.Fpdf, o op, extra [2]map[rune]int) {
	i := weight(o.style.bold)
	f.SetTextColor(int(o.style.ink.r), int(o.style.ink.g), int(o.style.ink.b))
	x, font := o.x, 0
	var run []byte
	from := 0
	flush := func(to int) {
		if len(run) > 0 {
			f.SetFont(family(i, font), "", o.style.size)
			f.Text(x, o.y, string(run))
			x += p.fonts.width(o.text[from:to], o.style.size, o.style.bold)
		}
		run, from = run[:0], to
	}
	for at, r := range o.text {
		next, c := 0, byte(r)
		if r >= 0x7f {
			if c = p.fonts.code[r]; c == 0 {
				next, c = 1+extra[i][r]/perFont, byte(32+extra[i][r]%perFont)
			}
		}
		if next != font {
			flush(at)
			font = next
		}
		run = append(run, c)
	}
	flush(len(o.text))
}

// path is the code as one filled path of the PDF within a square whose lower left corner is x, y. One path has no
// seams between its rectangles, whatever the viewer.
func (m *matrix) path(x, y, side float64) string {
	unit := side / float64(m.size+2*quiet)
	out := []byte("q 0 g\n")
	number := func(f float64) {
		out = strconv.AppendFloat(out, f, 'f', 3, 64)
		out = append(out, ' ')
	}
	for r := range m.size {
		for c := 0; c < m.size; c++ {
			from := c
			for c < m.size && m.dark[r*m.size+c] {
				c++
			}
			if c > from {
				number(x + unit*float64(quiet+from))
				number(y + unit*float64(quiet+m.size-1-r))
				number(unit * float64(c-from))
				number(unit)
				out = append(out, "re\n"...)
			}
		}
	}
	return string(append(out, "f Q"...))
}
