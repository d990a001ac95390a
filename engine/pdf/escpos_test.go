package pdf

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// paperRoll is what a printer makes of the commands.
type paperRoll struct {
	lines []string
	fonts []byte   // of each line: 0 is A, 1 is B
	qr    []string // contents printed as QR codes
	cuts  int
	page  byte
	kanji bool // bytes above 0x7F would be Chinese
}

// interpret is a small printer of our own reading of the command reference. It fails on any command or control
// byte that it does not know.
func interpret(t testing.TB, data []byte) paperRoll {
	t.Helper()
	r := paperRoll{kanji: true, page: 0xFF}
	high := []rune(cp850High)
	var line strings.Builder
	var store string
	var font byte
	next := func(n int) []byte {
		if len(data) < n {
			t.Fatalf("escpos: cut short")
		}
		b := data[:n]
		data = data[n:]
		return b
	}
	for len(data) > 0 {
		switch c := next(1)[0]; c {
		case 0x1b:
			switch cmd := next(1)[0]; cmd {
			case '@':
				r.kanji, r.page = true, 0
			case 't':
				r.page = next(1)[0]
			case 'a', 'M', 'E':
				v := next(1)[0]
				if v > 1 {
					t.Fatalf("escpos: ESC %c %d", cmd, v)
				}
				if cmd == 'M' {
					font = v
				}
			default:
				t.Fatalf("escpos: ESC %q", cmd)
			}
		case 0x1c:
			if next(1)[0] != '.' {
				t.Fatal("escpos: FS")
			}
			r.kanji = false
		case 0x1d:
			switch cmd := next(1)[0]; cmd {
			case '!', 'B':
				next(1)
			case 'V':
				next(2)
				r.cuts++
			case '(':
				h := next(3)
				body := next(int(h[1]) | int(h[2])<<8)
				switch {
				case h[0] != 'k' || body[0] != 49:
					t.Fatalf("escpos: GS ( %q", h[0])
				case body[1] == 80:
					store = string(body[3:])
				case body[1] == 81:
					r.qr = append(r.qr, store)
				}
			default:
				t.Fatalf("escpos: GS %q", cmd)
			}
		case '\n':
			r.lines, r.fonts = append(r.lines, line.String()), append(r.fonts, font)
			line.Reset()
		default:
			switch {
			case c >= 0x80:
				line.WriteRune(high[c-0x80])
			case c >= ' ' && c <= '~':
				line.WriteByte(c)
			default:
				t.Fatalf("escpos: control byte %#x in the text", c)
			}
		}
	}
	return r
}

func TestESCPOS(t *testing.T) {
	p := printer(t)
	for _, f := range fixtures {
		for _, l := range []Layout{Ticket80, Ticket58} {
			d := fixture(t, f.name, f.state)
			var b bytes.Buffer
			if err := p.ESCPOS(&b, d, l); err != nil {
				t.Fatal(err)
			}
			r := interpret(t, b.Bytes())
			v, _, err := p.prepare(d)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.qr) != 1 || r.qr[0] != v.URL || r.cuts != 1 || r.page != 2 || r.kanji {
				t.Errorf("%s %s: QR %q, %d cuts, page %d, kanji %v", f.name, l, r.qr, r.cuts, r.page, r.kanji)
			}
			for i, s := range r.lines {
				if n := len([]rune(s)); n > posColumns[l][r.fonts[i]] {
					t.Errorf("%s %s: %d letters in %q", f.name, l, n, s)
				}
			}
			text := strings.Join(r.lines, "\n")
			for _, want := range []string{v.Title, v.Total.Value} {
				if !strings.Contains(text, want) {
					t.Errorf("%s %s: no %q in\n%s", f.name, l, want, text)
				}
			}
		}
	}
}

// TestESCPOS_Injection puts every byte and command that a name can hold into a name.
func TestESCPOS_Injection(t *testing.T) {
	d := fixture(t, "dte01", Processed)
	d.JSON = bytes.Replace(d.JSON, []byte("María José"),
		[]byte(`\u001bp\u0000\u001d(k\n\u001bi 日本 \u009b\u0007 “Łódź” €5 ı`), 1)
	var b bytes.Buffer
	if err := printer(t).ESCPOS(&b, d, Ticket80); err != nil {
		t.Fatal(err)
	}
	r := interpret(t, b.Bytes())
	if text := strings.Join(r.lines, " "); r.cuts != 1 || !strings.Contains(text, `p (k i ?? "Lód`) ||
		!strings.Contains(text, "EUR5 i") {
		t.Errorf("%d cuts:\n%s", r.cuts, text)
	}
}

func TestCodePage(t *testing.T) {
	if n := len([]rune(cp850High)); n != 128 {
		t.Fatalf("code page 850 has %d letters", n)
	}
	if got := cp850("ñÑáéíóúüÁÉÍÓÚÜ¿¡ºª"); !bytes.Equal(got,
		[]byte("\xa4\xa5\xa0\x82\xa1\xa2\xa3\x81\xb5\x90\xd6\xe0\xe9\x9a\xa8\xad\xa7\xa6")) {
		t.Errorf("% x", got)
	}
}

// TestSlip: a slip prints the texts that it is given, on both papers, as a PDF and as commands; letter size is refused.
func TestSlip(t *testing.T) {
	p := printer(t)
	s := Slip{Title: "CIERRE Z N.º 7", Issuer: "Abarrotes La Ceiba", Made: time.Unix(0, 0).UTC(), Trial: true,
		Head: Fields{{"Día", "02/12/2026"}},
		Blocks: []Block{{Title: "Formas de pago", Rows: Fields{{"01 Billetes y monedas", "$1,234.50"}}},
			{Title: "Vacío"}},
		Total: Field{"TOTAL NETO", "$1,234.50"}, Notes: []string{"Documentos posteriores: 1"}}
	for _, l := range []Layout{Ticket80, Ticket58} {
		var commands, again, file bytes.Buffer
		if err := errors.Join(p.Slip(&commands, s, l, true), p.Slip(&file, s, l, false), p.Slip(&again, s, l,
			false)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file.Bytes(), again.Bytes()) {
			t.Errorf("%s: two files of one slip differ", l)
		}
		lines := interpret(t, commands.Bytes()).lines
		for _, text := range []string{strings.Join(lines, "\n"), written(t, file.Bytes())} {
			for _, want := range []string{"CIERRE Z N.º 7", "Abarrotes La Ceiba", isTrial, "02/12/2026",
				"Formas de pago", "01 Billetes y monedas", "$1,234.50", "TOTAL NETO", "posteriores"} {
				if !strings.Contains(strings.Join(strings.Fields(text), ""), strings.ReplaceAll(want, " ", "")) {
					t.Errorf("%s: no %q in\n%s", l, want, text)
				}
			}
			if strings.Contains(text, "Vacío") {
				t.Errorf("%s: an empty block is printed", l)
			}
		}
	}
}

// TestPosPair: an amount is at the right end of the last line of its text; one that leaves less than a third of the line
// is on lines of its own.
func TestPosPair(t *testing.T) {
	for _, c := range []struct{ left, right, want string }{
		{"Total", "1.00", "Total           1.00"},
		{"Total de la venta", "1.00", "Total de la|venta           1.00"},
		{"", "1.00", "                1.00"},
		{"Pago", "1234567890123", "Pago   1234567890123"},
		{"Pago por", "1234567890123", "Pago|por    1234567890123"},
		{"Pago por", "12345678901234", "Pago por|12345678901234"},
		{"Pago", "1234567890 12345678901", "Pago|1234567890|12345678901"},
	} {
		if got := string(bytes.Join(posPair([]byte(c.left), []byte(c.right), 20), []byte("|"))); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.left, c.right, got, c.want)
		}
	}
}
