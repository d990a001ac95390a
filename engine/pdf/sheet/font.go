package sheet

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-fonts/liberation/liberationsansbold"
	"github.com/go-fonts/liberation/liberationsansregular"
	"github.com/go-pdf/fpdf"
)

// missing is a visible box, printed for a character that the fonts lack.
const missing = '□'

// coreSet has the characters besides ASCII that suffice for nearly every document. The fonts with these characters are
// made only once; fpdf would parse and subset them for each document, in 20 ms.
const coreSet = "áéíóúüñçÁÉÍÓÚÜÑÇàèìòùâêîôûäëïöÀÈÌÒÙÂÊÎÔÛÄËÏÖ¡¿°ºª«»·×½¼¾²³§®©´¨£¢€–—‘’“”…•™"

// perFont is how many characters a simple font of a PDF can have, with the codes 32 to 255.
const perFont = 224

// Fonts are Liberation Sans, regular and bold: Latin, Greek, Cyrillic and Hebrew. Read-only once loaded.
type Fonts struct {
	faces [2]face
	code  map[rune]byte // WinAnsi codes of coreSet
}

type face struct {
	name    string
	file    []byte
	advance []uint16 // by character, in 1/1000 em; absent: the font lacks the character
	desc    fpdf.FontDescType
	core    program
}

// program is a font in the form that fpdf accepts: its definition and the compressed file.
type program struct{ def, file []byte }

const absent = 0xFFFF

// LoadFonts reads the font files and subsets them, in 30 ms. It fails only if the build is defective.
func LoadFonts() (*Fonts, error) {
	f := &Fonts{code: map[rune]byte{}}
	for i, r := range []rune(winAnsiHigh) {
		if strings.ContainsRune(coreSet, r) {
			f.code[r] = byte(0x80 + i)
		}
	}
	for i, src := range []struct {
		name string
		ttf  []byte
	}{{"LiberationSans", liberationsansregular.TTF}, {"LiberationSans-Bold", liberationsansbold.TTF}} {
		a := &f.faces[i]
		a.name, a.file = src.name, src.ttf
		if err := a.parse(); err != nil {
			return nil, fmt.Errorf("font %s: %w", a.name, err)
		}
		encoding := make([]rune, perFont)
		for c := rune(' '); c <= '~'; c++ {
			encoding[c-' '] = c
		}
		for r, c := range f.code {
			encoding[c-' '] = r
		}
		var err error
		if a.core, err = a.program("DTECOR", encoding, ""); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// winAnsiHigh is the upper half of the PDF's WinAnsiEncoding, from 0x80 on. A question mark is an unused code.
const winAnsiHigh = "€?‚ƒ„…†‡ˆ‰Š‹Œ?Ž??‘’“”•–—˜™š›œ?žŸ?¡¢£¤¥¦§¨©ª«¬?®¯°±²³´µ¶·¸¹º»¼½¾¿" +
	"ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"

func (f *Fonts) covers(r rune) bool {
	return r >= ' ' && r < 1<<16 && f.faces[0].advance[r] != absent && f.faces[1].advance[r] != absent
}

// Width returns the width of a cleaned text, in points.
func (f *Fonts) Width(s string, size float64, bold bool) float64 {
	advance := f.faces[weight(bold)].advance
	n := 0
	for _, r := range s {
		n += int(advance[r])
	}
	return float64(n) * size / 1000
}

func weight(bold bool) int {
	if bold {
		return 1
	}
	return 0
}

// parse reads the metrics. It fails only if the build is defective, because the fonts are part of the program.
func (a *face) parse() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading metrics: %v", r)
		}
	}()
	be := binary.BigEndian
	tables := map[string][]byte{}
	for i := range int(be.Uint16(a.file[4:])) {
		e := a.file[12+16*i:]
		tables[string(e[:4])] = a.file[be.Uint32(e[8:]):][:be.Uint32(e[12:])]
	}
	head, hhea, hmtx := tables["head"], tables["hhea"], tables["hmtx"]
	em := int(be.Uint16(head[18:]))
	scaled := func(b []byte) int { return int(int16(be.Uint16(b))) * 1000 / em }
	a.desc = fpdf.FontDescType{
		Ascent: scaled(hhea[4:]), Descent: scaled(hhea[6:]), CapHeight: scaled(tables["OS/2"][88:]),
		Flags: 32, StemV: 80, // nonsymbolic
	}
	if strings.HasSuffix(a.name, "Bold") {
		a.desc.StemV = 140
	}
	box := &a.desc.FontBBox
	box.Xmin, box.Ymin, box.Xmax, box.Ymax = scaled(head[36:]), scaled(head[38:]), scaled(head[40:]), scaled(head[42:])

	a.advance = make([]uint16, 1<<16)
	for r := range a.advance {
		a.advance[r] = absent
	}
	metrics := int(be.Uint16(hhea[34:]))
	characters(tables["cmap"], func(r rune, glyph int) {
		glyph = min(glyph, metrics-1)
		a.advance[r] = uint16((int(be.Uint16(hmtx[4*glyph:]))*1000 + em/2) / em)
	})
	if a.advance[missing] == absent {
		return fmt.Errorf("no %q", missing)
	}
	return nil
}

// characters calls yield for each character in the Unicode map of a font (cmap format 4).
func characters(cmap []byte, yield func(r rune, glyph int)) {
	be := binary.BigEndian
	for i := range int(be.Uint16(cmap[2:])) {
		e := cmap[4+8*i:]
		sub := cmap[be.Uint32(e[4:]):]
		if be.Uint16(e) != 3 || be.Uint16(e[2:]) != 1 || be.Uint16(sub) != 4 {
			continue
		}
		n := int(be.Uint16(sub[6:])) // twice the number of segments
		ends, starts, deltas, offsets := sub[14:], sub[16+n:], sub[16+2*n:], sub[16+3*n:]
		for s := 0; s < n; s += 2 {
			offset := int(be.Uint16(offsets[s:]))
			for c := int(be.Uint16(starts[s:])); c <= int(be.Uint16(ends[s:])) && c < 0xFFFF; c++ {
				glyph := c
				if offset != 0 {
					if glyph = int(be.Uint16(offsets[s+offset+2*(c-int(be.Uint16(starts[s:]))):])); glyph == 0 {
						continue
					}
				}
				if glyph = (glyph + int(be.Uint16(deltas[s:]))) & 0xFFFF; glyph != 0 {
					yield(rune(c), glyph)
				}
			}
		}
	}
}

// program subsets the face to the characters in encoding. Code 32+i draws encoding[i]; 0 is an unused code.
func (a *face) program(tag string, encoding []rune, differences string) (program, error) {
	widths := make([]int, 256)
	set := make([]rune, 0, len(encoding))
	for i, r := range encoding {
		if r != 0 {
			widths[32+i] = int(a.advance[r])
			set = append(set, r)
		}
	}
	file := fpdf.UTF8CutFont(a.file, string(set))
	def, err := json.Marshal(struct {
		Tp, Name     string
		Desc         fpdf.FontDescType
		Cw           []int
		Diff, File   string
		OriginalSize int
	}{"TrueType", tag + "+" + a.name, a.desc, widths, differences, tag + a.name + ".z", len(file)})
	if err != nil {
		return program{}, err
	}
	var z bytes.Buffer
	zw, err := zlib.NewWriterLevel(&z, zlib.BestCompression)
	if err == nil {
		_, err = zw.Write(file)
	}
	if err == nil {
		err = zw.Close()
	}
	return program{def, z.Bytes()}, err
}

// overflow makes extra font n, for up to perFont of the document's characters that are not in coreSet.
func (a *face) overflow(n int, set []rune) (program, error) {
	var diff strings.Builder
	diff.WriteString("32")
	for _, r := range set {
		fmt.Fprintf(&diff, " /uni%04X", r)
	}
	tag := "DTEX" + string([]byte{byte('A' + n/26%26), byte('A' + n%26)})
	p, err := a.program(tag, set, diff.String())
	if err != nil {
		return program{}, fmt.Errorf("font %s: extra set %d: %w", a.name, n, err)
	}
	return p, nil
}
