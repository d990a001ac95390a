package sheet

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/go-pdf/fpdf"
)

// TestDeflated: the bytes are those that fpdf writes when it compresses, whatever the pages hold; a PDF of another form
// is refused and not spoiled.
func TestDeflated(t *testing.T) {
	written := func(compress bool) []byte {
		f := fpdf.New("P", "mm", "A4", "")
		f.SetCompression(compress)
		f.SetCatalogSort(true)
		f.SetCreationDate(time.Unix(1, 0))
		f.SetModificationDate(time.Unix(1, 0))
		f.SetFont("Helvetica", "", 8)
		for range 30 {
			f.AddPage()
			for _, s := range []string{"stream", "endstream", "obj", "<</Length 5>>", "xref", "0000000123 00000 n ",
				"startxref", "%%EOF", "áéíóú \\ ( )"} {
				f.MultiCell(0, 4, s+"\n"+s, "", "", false)
				f.RawWriteStr("% obj\n<</Length 7>>\nstream\n123\nendstream\n% \nxref\n0 9")
			}
		}
		f.AddPage()
		var b bytes.Buffer
		if err := f.Output(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	raw, want := written(false), written(true)
	pages := 0
	got, err := deflated(raw, func() { pages++ })
	if err != nil || !bytes.Equal(got, want) || pages != 31 {
		t.Errorf("%d bytes of %d pages, want %d: %v", len(got), pages, len(want), err)
	}
	for _, change := range []struct{ from, to string }{{"/Length ", "/Length 9"}, {"\nxref\n", "\nxfer\n"},
		{"0000000000 65535 f ", "0000000000 65535 x "}, {"startxref", "startxfer"}} {
		if _, err := deflated(bytes.ReplaceAll(raw, []byte(change.from), []byte(change.to)), func() {}); !errors.Is(err,
			errForm) {
			t.Errorf("with %q for %q: %v", change.to, change.from, err)
		}
	}
	for n := range 200 { // cut anywhere near its end, or its beginning
		for _, cut := range [][]byte{raw[:len(raw)-1-n], raw[:n*7]} {
			if _, err := deflated(cut, func() {}); err == nil {
				t.Fatalf("what was cut to %d bytes of %d is taken", len(cut), len(raw))
			}
		}
	}
}
