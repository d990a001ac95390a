package pdf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/pdf/sheet"
)

// box is the place that an op covers: for a text, its line from the highest to the lowest letter of the font.
type box struct {
	x0, y0, x1, y1 float64
	op             sheet.Op
}

// boxes returns the boxes of a page, from top to bottom.
func boxes(pg *sheet.Page) []box {
	var out []box
	for _, o := range pg.Ops {
		switch o.Kind {
		case sheet.OpText:
			out = append(out, box{o.X, o.Y - sheet.Ascent*o.Style.Size, o.X + o.W, o.Y + sheet.Descent*o.Style.Size, o})
		case sheet.OpLogo, sheet.OpQR:
			out = append(out, box{o.X, o.Y, o.X + o.W, o.Y + o.H, o})
		}
	}
	slices.SortStableFunc(out, func(a, b box) int { return cmp.Compare(a.y0, b.y0) })
	return out
}

// checkBoxes fails where a text, the logo or the QR code leaves the printed area or touches another.
func checkBoxes(t *testing.T, name string, f *sheet.Fonts, pages []*sheet.Page, layout Layout) {
	t.Helper()
	side := float64(margin)
	if layout != Letter {
		side = papers[layout].side
	}
	const slack = 0.05
	for n, pg := range pages {
		all := boxes(pg)
		for i, a := range all {
			if a.x0 < side-slack || a.x1 > pg.W-side+slack || a.y0 < 3 || a.y1 > pg.H-3 {
				t.Fatalf("%s page %d: %q at %.1f–%.1f, %.1f–%.1f leaves the page of %.0f × %.0f", name, n+1, a.op.Text,
					a.x0, a.x1, a.y0, a.y1, pg.W, pg.H)
			}
			if w := f.Width(a.op.Text, a.op.Style.Size, a.op.Style.Bold); a.op.Kind == sheet.OpText &&
				w > a.op.W+slack {
				t.Fatalf("%s: %q takes %.1f, not %.1f", name, a.op.Text, w, a.op.W)
			}
			if a.op.Kind == sheet.OpText && a.op.Style.Size < sizeMin {
				t.Fatalf("%s: %q at %.1f points", name, a.op.Text, a.op.Style.Size)
			}
			for j := i + 1; j < len(all) && all[j].y0 < a.y1-slack; j++ {
				if b := &all[j]; a.x0 < b.x1-slack && b.x0 < a.x1-slack {
					t.Fatalf("%s page %d: %q (%.1f–%.1f, %.1f–%.1f) is over %q (%.1f–%.1f, %.1f–%.1f)", name, n+1,
						a.op.Text, a.x0, a.x1, a.y0, a.y1, b.op.Text, b.x0, b.x1, b.y0, b.y1)
				}
			}
		}
	}
}

// checkWhole fails if a text of the document has lost a word. In a table the lines of several cells alternate.
func checkWhole(t *testing.T, name string, pages []*sheet.Page, texts ...string) {
	t.Helper()
	var all strings.Builder
	for _, pg := range pages {
		for _, o := range pg.Ops {
			all.WriteString(squeeze(o.Text))
		}
	}
	for _, s := range texts {
		for w := range strings.FieldsSeq(s) {
			if !strings.Contains(all.String(), w) {
				t.Errorf("%s: %q of %q is missing", name, w, s)
			}
		}
	}
}

func TestBoxes(t *testing.T) {
	p := printer(t)
	for _, f := range fixtures {
		for l := Letter; l <= Ticket58; l++ {
			checkBoxes(t, f.name+" "+l.String(), p.fonts, p.pages(t, fixture(t, f.name, f.state), l), l)
		}
	}
}

// TestBoxes_Examples makes the same checks on MH's and the trade's documents, where they are at hand.
func TestBoxes_Examples(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/mh/examples/[01]*/*.json")
	if len(files) == 0 {
		skip.Test(t, skip.MHDocuments)
	}
	p := printer(t)
	for _, file := range files {
		if strings.HasSuffix(file, ".response.json") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for l := Letter; l <= Ticket58; l++ {
			checkBoxes(t, filepath.Base(file), p.fonts, p.pages(t, Document{JSON: data, Seal: seal}, l), l)
		}
	}
}

// absurd replaces every text of a fixture, except codes that decide what is printed.
func absurd(t *testing.T, name string, text string) []byte {
	t.Helper()
	keep := map[string]bool{"tipoDte": true, "tipoEvento": true, "codigoGeneracion": true, "fecEmi": true,
		"ambiente": true, "version": true, "uniMedida": true, "departamento": true, "municipio": true, "distrito": true}
	var tree any
	d := json.NewDecoder(bytes.NewReader(fixture(t, name, Processed).JSON))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	var walk func(v any, key string) any
	walk = func(v any, key string) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k], k)
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i], key)
			}
		case string:
			if !keep[key] {
				return text
			}
		case json.Number:
			if !keep[key] && !strings.HasPrefix(key, "tipo") && key != "numItem" {
				return json.Number("99999999999.99999999")
			}
		}
		return v
	}
	out, err := json.Marshal(walk(tree, ""))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBoxes_Absurd prints words that no line can hold, and amounts as wide as they come.
func TestBoxes_Absurd(t *testing.T) {
	alone(t)
	p := printer(t)
	texts := map[string]string{
		"word":  strings.Repeat("W", 500),
		"many":  strings.Repeat("palabra corta ", 250),
		"mixed": "日本" + strings.Repeat("á-", 120) + " " + strings.Repeat("Żółć ", 60),
		"long":  strings.Repeat("x", 20_000),
	}
	for kind, text := range texts {
		for _, f := range fixtures {
			if kind != "word" && f.name != "dte03" && f.name != "dte07" {
				continue
			}
			data := absurd(t, f.name, text)
			for l := Letter; l <= Ticket58; l++ {
				d := Document{JSON: data, Seal: text, Received: text, State: Invalidated, Note: text}
				name := fmt.Sprintf("%s %s %s", f.name, kind, l)
				pages := p.pages(t, d, l)
				checkBoxes(t, name, p.fonts, pages, l)
				if kind == "word" {
					checkWhole(t, name, pages, "99,999,999,999.99999999")
				}
				if kind == "mixed" { // fonts of its own
					render(t, p, d, l)
				}
			}
		}
	}
}

// TestWhole_Amounts: no amount is broken between lines, not even the widest that a document can hold.
func TestWhole_Amounts(t *testing.T) {
	p := printer(t)
	d := fixture(t, "dte03", Processed)
	d.JSON = bytes.Replace(d.JSON, []byte("8.84955752"), []byte("99999999999.99999999"), 1)
	d.JSON = bytes.Replace(d.JSON, []byte("1061.9469024"), []byte("98888888888.88888888"), 1)
	texts := map[string]bool{}
	for _, pg := range p.pages(t, d, Letter) {
		for _, o := range pg.Ops {
			texts[o.Text] = true
		}
	}
	for _, want := range []string{"99,999,999,999.99999999", "98,888,888,888.88888888", "$1,648.94"} {
		if !texts[want] {
			t.Errorf("%s is not in one piece", want)
		}
	}
}

// TestWhole: every text of a document is printed in full, however long.
func TestWhole(t *testing.T) {
	p := printer(t)
	d := fixture(t, "dte03", Processed)
	long := ""
	for i := range 150 {
		long += fmt.Sprintf("palabra%d ", i)
	}
	d.JSON = bytes.Replace(d.JSON, []byte("Arena de río"), []byte(long), 1)
	for l := Letter; l <= Ticket58; l++ {
		checkWhole(t, l.String(), p.pages(t, d, l), seal, "Ferretería y Construcciones Güiscoyol, S.A. de C.V.",
			"DTE-03-M001P002-000000000000021", "Orden de compra 2026-0417", "Cementos de Oriente, S.A.", "$1,648.94",
			"MIL SEISCIENTOS CUARENTA Y OCHO 94/100 USD", "Transferencia-Depósito Bancario", "30 Días", "Íngrid Ávila",
			"preguntar por el ingeniero Argüello", "La Libertad Sur", "03/12/2026 09:41:07", "A crédito",
			"Nota de remisión", long)
	}
}
