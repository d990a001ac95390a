package pdf

import (
	"bytes"
	"compress/zlib"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
	"dtegate/engine/pdf/sheet"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

const seal = "2026A1B2C3D4E5F60718293A4B5C6D7E8F90ABCD"

// fixtures are our own documents of every type, with the state in which each is printed.
var fixtures = []struct {
	name  string
	state State
}{
	{"dte01", Processed}, {"dte01-contingency", Contingency}, {"dte03", Processed}, {"dte03-previous", Invalidated},
	{"dte05", Processed}, {"dte06", Processed}, {"dte07", Processed}, {"dte14", Processed},
	{"dte14-previous", Contingency}, {"dte18", Processed},
}

func fixture(t testing.TB, name string, state State) Document {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	d := Document{JSON: data, State: state}
	if state != Contingency {
		d.Seal, d.Received = seal, "03/12/2026 09:41:09"
	}
	if state == Invalidated {
		d.Note = "Invalidado el 15/10/2025 a las 16:20:00\nEvento 77AA88BB-99CC-4DDD-8EEE-FF0011223344\nMotivo: " +
			"rescindir de la operación realizada"
	}
	return d
}

// printer has the real catalogues and a logo with a transparent ground. One serves all tests.
func printer(t testing.TB) *Printer {
	t.Helper()
	p, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var shared = sync.OnceValues(newPrinter)

func newPrinter() (*Printer, error) {
	raw, err := os.ReadFile("../../plugins/catalogues/catalogues.json")
	if err != nil {
		return nil, err
	}
	cat, err := dte.ParseCatalogues(raw)
	if err != nil {
		return nil, err
	}
	views := map[string]*bundle.View{}
	for _, t := range plugins.Types() {
		views[t.Document] = t.View
	}
	return New(Options{Catalogue: cat.Lookup, Type: func(document string, _ int64) *bundle.View { return views[document] },
		Style: Style{Logo: picture(), Color: "#7a1f2b", Footer: "¡Gracias por su compra!"}})
}

// picture is a ring on a transparent ground.
func picture() []byte {
	img := image.NewNRGBA(image.Rect(0, 0, 160, 120))
	for y := range 120 {
		for x := range 160 {
			if dx, dy := x-80, y-60; dx*dx+dy*dy < 55*55 && dx*dx+dy*dy > 30*30 {
				img.Set(x, y, color.NRGBA{122, 31, 43, 255})
			}
		}
	}
	var b bytes.Buffer
	png.Encode(&b, img) // into memory
	return b.Bytes()
}

// pages lays a document out without writing it.
func (p *Printer) pages(t testing.TB, d Document, layout Layout) []*sheet.Page {
	t.Helper()
	v, _, err := p.prepare(d)
	if err != nil {
		t.Fatal(err)
	}
	if layout == Letter {
		return p.letter(v)
	}
	return p.ticket(p.receipt(v), layout, v.Pause)
}

func render(t testing.TB, p *Printer, d Document, layout Layout) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Render(&b, d, layout); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// alone skips a long test that runs nothing in parallel when the race detector would make it ten times longer.
func alone(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "race detector", "nothing to race with")
	}
}

var (
	streams = regexp.MustCompile(`(?s)stream\r?\n(.*?)\nendstream`) // the last byte of a stream may be a \r
	shown   = regexp.MustCompile(`(?s)\(((?:\\.|[^\\()])*)\) Tj`)
	escaped = regexp.MustCompile(`\\(.)`)
)

// winAnsi is the upper half of the PDF's WinAnsiEncoding, as in the standard.
const winAnsi = "€?‚ƒ„…†‡ˆ‰Š‹Œ?Ž??‘’“”•–—˜™š›œ?žŸ?¡¢£¤¥¦§¨©ª«¬?®¯°±²³´µ¶·¸¹º»¼½¾¿" +
	"ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"

// written is what the PDF's own page contents show in the core fonts, decoded independently of the layout.
func written(t testing.TB, pdf []byte) string {
	t.Helper()
	var out strings.Builder
	high := []rune(winAnsi)
	for _, s := range streams.FindAllSubmatch(pdf, -1) {
		z, err := zlib.NewReader(bytes.NewReader(s[1]))
		if err != nil {
			continue
		}
		content, err := io.ReadAll(z)
		if err != nil || !bytes.Contains(content, []byte(" Tj")) {
			continue
		}
		for _, m := range shown.FindAllSubmatch(content, -1) {
			for _, c := range escaped.ReplaceAll(m[1], []byte("$1")) {
				if c < 0x80 {
					out.WriteByte(c)
				} else {
					out.WriteRune(high[c-0x80])
				}
			}
		}
	}
	return out.String()
}

// said is all text of the pages in drawing order.
func said(pages []*sheet.Page) string {
	var out strings.Builder
	for _, pg := range pages {
		for _, o := range pg.Ops {
			out.WriteString(o.Text)
		}
	}
	return out.String()
}

// squeeze removes the spaces.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }
