package pdf

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"dtegate/engine/pdf/sheet"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden compares bytes and text of every type and layout with those that were looked at and approved. The digest
// holds for one release of Go, whose compressor wrote the bytes; the text holds always.
func TestGolden(t *testing.T) {
	p := printer(t)
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			d := fixture(t, f.name, f.state)
			var got strings.Builder
			release := strings.Join(strings.SplitN(runtime.Version(), ".", 3)[:2], ".")
			for l := Letter; l <= Ticket58; l++ {
				data := render(t, p, d, l)
				pages := p.pages(t, d, l)
				if w, s := written(t, data), said(pages); w != s {
					t.Errorf("%s: the PDF says\n%s\nand the layout\n%s", l, w, s)
				}
				fmt.Fprintf(&got, "== %s %s %x\n%s", l, release, sha256.Sum256(data), listing(pages))
				if l == Letter {
					continue
				}
				var b bytes.Buffer
				if err := p.ESCPOS(&b, d, l); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "== escpos %s %x\n%s", l, sha256.Sum256(b.Bytes()),
					strings.Join(interpret(t, b.Bytes()).lines, "\n")+"\n")
			}
			path := filepath.Join("testdata", f.name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, string(want), got.String(), release)
		})
	}
}

// compare reports the first line that differs. Digests of another release of Go are not compared.
func compare(t *testing.T, want, got, release string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if strings.HasPrefix(a, "== ") && !strings.HasPrefix(a, "== escpos") && !strings.Contains(a, " "+release+" ") {
			continue
		}
		if a != b {
			t.Fatalf("line %d:\nwant %s\ngot  %s", i+1, a, b)
		}
	}
}

// listing is the text of pages, one line for each height on the page.
func listing(pages []*sheet.Page) string {
	var out strings.Builder
	for i, pg := range pages {
		fmt.Fprintf(&out, "-- page %d, %.0f × %.0f\n", i+1, pg.W, pg.H)
		last := -1.0
		for _, o := range pg.Ops {
			if o.Text == "" {
				continue
			}
			switch {
			case o.Y == last:
				out.WriteString(" | ")
			case last >= 0:
				out.WriteByte('\n')
			}
			out.WriteString(o.Text)
			last = o.Y
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// TestRender_SameBytes renders in parallel with printers of their own.
func TestRender_SameBytes(t *testing.T) {
	a := printer(t)
	b, err := newPrinter()
	if err != nil {
		t.Fatal(err)
	}
	for l := Letter; l <= Ticket58; l++ {
		d := fixture(t, "dte03", Processed)
		// Characters of several extra fonts, so that the fonts' order matters.
		d.JSON = bytes.Replace(d.JSON, []byte("Ferretería y"), []byte("Łódź Ωμέγα Жук שלום y"), 1)
		want := render(t, a, d, l)
		got := make(chan []byte)
		for range 4 {
			go func() { got <- render(t, b, d, l) }()
		}
		for range 4 {
			if !bytes.Equal(<-got, want) {
				t.Errorf("%s: other bytes for the same document", l)
			}
		}
	}
}
