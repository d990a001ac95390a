package pdf

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rsc.io/qr"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
	"dtegate/engine/pdf/qrtest"
	"dtegate/engine/pdf/sheet"
)

// consultations are what the QR codes of the fixtures must say, written out by hand.
var consultations = map[string]string{
	"dte01": "https://admin.factura.gob.sv/consultaPublica?ambiente=01&codGen=3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01&fechaEmi=2026-12-03",
	"dte18": "https://admin.factura.gob.sv/consultaPublica?ambiente=01&codGen=34E8172A-95B6-41D2-B304-8F9001122310&fechaEmi=2026-12-03",
}

var (
	qrPath = regexp.MustCompile(`(?s)q 0 g\n(.*?)f Q`)
	qrRect = regexp.MustCompile(`([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+) re`)
)

// TestQR_Written takes the code from the bytes of the PDF, in pure Go.
func TestQR_Written(t *testing.T) {
	p := printer(t)
	for name, want := range consultations {
		for l := Letter; l <= Ticket58; l++ {
			found := 0
			for _, s := range streams.FindAllSubmatch(render(t, p, fixture(t, name, Processed), l), -1) {
				z, err := zlib.NewReader(bytes.NewReader(s[1]))
				if err != nil {
					continue
				}
				content, err := io.ReadAll(z)
				if err != nil {
					continue
				}
				for _, m := range qrPath.FindAllSubmatch(content, -1) {
					found++
					if got := qrtest.Decode(t, repaint(m[1])); got != want {
						t.Errorf("%s %s: %q", name, l, got)
					}
				}
			}
			if found != 1 {
				t.Errorf("%s %s: %d codes", name, l, found)
			}
		}
	}
}

// TestQR_Lengths decodes codes of many lengths: the library always takes mask 0, which a scanner must read whatever the
// content.
func TestQR_Lengths(t *testing.T) {
	for n := 1; n <= 666; n += 5 {
		text := strings.ToValidUTF8(strings.Repeat("aZ9-/?&=é", 80)[:n], "")
		code, err := qr.Encode(text, qr.M)
		if err != nil {
			t.Fatal(err)
		}
		picture := qrtest.Paint(code.Size+2*sheet.Quiet, func(x, y int) bool {
			return code.Black(x-sheet.Quiet,
				y-sheet.Quiet)
		})
		if got := qrtest.Decode(t, picture); got != text {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
}

// repaint draws the rectangles of a path on a grid of their height.
func repaint(path []byte) image.Image {
	var rects [][4]float64
	left, top := 1e9, 0.0
	for _, m := range qrRect.FindAllSubmatch(path, -1) {
		var r [4]float64
		for i := range r {
			r[i], _ = strconv.ParseFloat(string(m[i+1]), 64)
		}
		rects = append(rects, r)
		left, top = min(left, r[0]), max(top, r[1]+r[3])
	}
	dark, size := map[[2]int]bool{}, 0
	for _, r := range rects {
		unit := r[3]
		x, y := int((r[0]-left)/unit+0.5), int((top-r[1]-unit)/unit+0.5)
		for i := range int(r[2]/unit + 0.5) {
			dark[[2]int{x + i, y}] = true
			size = max(size, x+i+1)
		}
	}
	return qrtest.Paint(size+2*sheet.Quiet, func(x, y int) bool {
		return dark[[2]int{x - sheet.Quiet,
			y - sheet.Quiet}]
	})
}

func saved(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "document.pdf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestQR_Scanned rasterises pages at the 203 dpi of a thermal printer and scans them, the stamp over them included.
func TestQR_Scanned(t *testing.T) {
	raster, scan := skip.Program(t, "pdftoppm"), skip.Program(t, "zbarimg")
	p := printer(t)
	for _, name := range []string{"dte01", "dte03-previous"} {
		d := fixture(t, name, Invalidated)
		v, _, err := p.prepare(d)
		if err != nil {
			t.Fatal(err)
		}
		if want, ok := consultations[name]; ok && v.URL != want {
			t.Errorf("%s: %s", name, v.URL)
		}
		for l := Letter; l <= Ticket58; l++ {
			path := saved(t, render(t, p, d, l))
			if out, err := exec.Command(raster, "-r", "203", "-mono", "-l", "1", path,
				path).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			images, _ := filepath.Glob(path + "-*.pbm")
			out, err := exec.Command(scan, append([]string{"-q", "--raw"}, images...)...).Output()
			if got := strings.TrimSpace(string(out)); err != nil || got != v.URL {
				t.Errorf("%s %s: scanned %q, %v", name, l, got, err)
			}
		}
	}
}

var number = regexp.MustCompile(`-?\$?\d[\d,]*(\.\d+)?`)

// TestAmounts_Poppler compares the numbers that another program reads in the PDF with those of the document: every
// amount of the lines and the summary is there, on a ticket rounded, and no amount that the document does not have.
func TestAmounts_Poppler(t *testing.T) {
	pdftotext := skip.Program(t, "pdftotext")
	p := printer(t)
	for _, f := range fixtures {
		d := fixture(t, f.name, f.state)
		want := amounts(t, d.JSON)
		for l := Letter; l <= Ticket58; l++ {
			out, err := exec.Command(pdftotext, "-layout", "-enc", "UTF-8", saved(t, render(t, p, d, l)), "-").Output()
			if err != nil {
				t.Fatal(err)
			}
			got := map[dte.Amount]bool{}
			for _, s := range number.FindAllString(string(out), -1) {
				a, err := dte.ParseAmount(strings.NewReplacer("$", "", ",", "").Replace(s))
				if err != nil {
					continue // part of a code
				}
				if got[a] = true; strings.Contains(s, "$") && !want[a] && !strings.Contains(string(out), s+" Ctvs") {
					t.Errorf("%s %s: %s is not in the document", f.name, l, s)
				}
			}
			ticket := func(a dte.Amount) bool { // a line of a ticket shows cents, and a price four decimals
				const four dte.Amount = dte.Scale / 10_000
				return l != Letter && (got[a.Round2()] || got[(a+four/2)/four*four])
			}
			for a := range want {
				if !got[a] && !ticket(a) {
					t.Errorf("%s %s: %s is missing in\n%s", f.name, l, a, out)
				}
			}
		}
	}
}

// amounts are the numbers of a document that must be printed.
func amounts(t *testing.T, data []byte) map[dte.Amount]bool {
	t.Helper()
	v, err := dte.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	codes := []string{"numItem", "tipoItem", "uniMedida", "tipoGeneracion", "condicionOperacion"}
	out := map[dte.Amount]bool{}
	var walk func(v dte.Value, name string)
	walk = func(v dte.Value, name string) {
		switch v.Kind() {
		case dte.KindObject:
			for _, m := range v.Members() {
				walk(m.Value, m.Name)
			}
		case dte.KindArray:
			for i := range v.Len() {
				walk(v.Index(i), name)
			}
		case dte.KindNumber:
			a, err := v.Amount()
			if err != nil {
				t.Fatal(err)
			}
			if a != 0 && !slices.Contains(codes, name) && !slices.Contains([]string{"ivaItem", "totalIva", "psv"},
				name) {
				out[a] = true
			}
		}
	}
	walk(v.Get("cuerpoDocumento"), "")
	walk(v.Get("resumen"), "")
	return out
}

// TestPDF_Valid gives the files to tools that complain about a bad PDF.
func TestPDF_Valid(t *testing.T) {
	info := skip.Program(t, "pdfinfo")
	p := printer(t)
	d := fixture(t, "dte03", Processed)
	d.JSON = bytes.Replace(d.JSON, []byte("Ferretería y"), []byte("Łódź Ωμέγα 日本 y"), 1)
	out, err := exec.Command(info, saved(t, render(t, p, d, Letter))).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Pages:           2") || strings.Contains(string(out), "rror") ||
		!strings.Contains(string(out), "COMPROBANTE DE CRÉDITO FISCAL C7D1A0B3") {
		t.Errorf("%v: %s", err, out)
	}
	if text, err := exec.LookPath("pdftotext"); err == nil {
		out, _ := exec.Command(text, "-enc", "UTF-8", saved(t, render(t, p, d, Letter)), "-").Output()
		if !strings.Contains(string(out), "Łódź Ωμέγα □□ y Construcciones Güiscoyol") {
			t.Errorf("extra characters do not come back: %s", out)
		}
	}
}

// TestRender_Offsets: a reader finds each object by the table at the end, and each page is compressed.
func TestRender_Offsets(t *testing.T) {
	p := printer(t)
	for l := Letter; l <= Ticket58; l++ {
		b := render(t, p, lengthened(t, "dte03", 60), l)
		var at, n int
		tail := b[bytes.LastIndex(b, []byte("startxref")):]
		if _, err := fmt.Sscanf(string(tail), "startxref\n%d\n%%%%EOF\n", &at); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(b[at:]), "xref\n0 %d\n", &n); err != nil || n < 8 {
			t.Fatal(n, err)
		}
		for i, line := range strings.Split(string(b[at:]), "\n")[3:][:n-1] {
			offset, err := strconv.Atoi(line[:10])
			if err != nil || !bytes.HasPrefix(b[offset:], fmt.Appendf(nil, "%d 0 obj\n", i+1)) {
				t.Errorf("%s: object %d is not at %q: %v", l, i+1, line, err)
			}
		}
		if bytes.Contains(b, []byte(" Tj")) {
			t.Errorf("%s: a page is not compressed", l)
		}
	}
}
