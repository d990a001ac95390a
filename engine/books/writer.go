package books

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/shopspring/decimal"

	"dtegate/engine/dte"
)

type tally struct {
	rows, documents int
	sums            []decimal.Decimal // of layout.sums
	net             []decimal.Decimal // the same sums after subtracting credit notes
}

func (b *Book) put(l *layout, o order, cells []string) error {
	t := b.files[l]
	t.rows++
	for i, column := range l.sums {
		if cells[column] == "" {
			continue
		}
		amount, err := decimal.NewFromString(cells[column])
		if err != nil {
			return fmt.Errorf("%s, column %s: %w", l.Name, l.Columns[column].Letter, err)
		}
		t.sums[i] = t.sums[i].Add(amount)
		if l.notesAt > 0 && cells[l.notesAt] == "05" {
			amount = amount.Neg()
		}
		t.net[i] = t.net[i].Add(amount)
	}
	b.rows[l].add(o, cells...)
	return nil
}

// eachRow calls fn with the rows of a file in their order. It numbers the rows if the file has a column for the number.
func (b *Book) eachRow(l *layout, fn func([]string) error) error {
	n := 0
	return b.rows[l].each(func(cells []string) error {
		if n++; l.Columns[0].Name == "No." || l == f930 {
			cells[0] = strconv.Itoa(n)
		}
		return fn(cells)
	})
}

// create makes a file of the books; fill writes its content.
func (b *Book) create(name string, fill func(*bufio.Writer) error) error {
	f, err := os.Create(filepath.Join(b.o.Dir, name))
	if err == nil {
		out := bufio.NewWriterSize(f, 1<<16)
		err = cmp.Or(fill(out), out.Flush(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// write writes a file of rows. The annexes have no headings and no quotes; the books for people have headings, totals
// and a byte order mark, for spreadsheets.
func (b *Book) write(l *layout, out *bufio.Writer) error {
	put := func(cells []string) error {
		safe := make([]string, len(cells))
		for i, c := range cells {
			safe[i] = cell(c)
		}
		s := strings.Join(safe, ";") + "\r\n"
		if !l.header && b.settings.Encoding == "windows-1252" {
			s = string(windows1252(s))
		}
		_, err := out.WriteString(s)
		return err
	}
	if l.header {
		_, _ = out.WriteString("\ufeff")
		if err := b.heading(l, put); err != nil {
			return err
		}
	}
	if err := b.eachRow(l, put); err != nil || !l.header {
		return err
	}
	for _, line := range append([][]string{b.totals(l)}, b.reckoning(l)...) {
		if err := put(line); err != nil {
			return err
		}
	}
	return nil
}

// order sorts documents by second of issue, series, type and number: the order of reading does not change the files.
type order struct {
	second int64
	series [8]byte // establishment and point of sale
	number uint64
	kind   uint8 // CAT-002
	tie    uint8
}

func (o order) compare(b order) int {
	return cmp.Or(cmp.Compare(o.second, b.second), cmp.Compare(string(o.series[:]), string(b.series[:])),
		cmp.Compare(o.kind, b.kind), cmp.Compare(o.number, b.number), cmp.Compare(o.tie, b.tie))
}

func orderOf(d *sealed, date string) (order, error) {
	at, err := time.Parse("2006-01-02 15:04:05", date+" "+d.hour)
	if err != nil {
		return order{}, fmt.Errorf("document %s: its date and hour: %w", d.Code, err)
	}
	o := order{second: at.Unix()}
	if len(d.ControlNumber) == 31 {
		copy(o.series[:], d.ControlNumber[7:15])
		o.number, _ = strconv.ParseUint(d.ControlNumber[16:], 10, 64) // without a number: 0, the first
	}
	kind, _ := strconv.ParseUint(d.Type, 10, 8)
	o.kind = uint8(kind)
	return o, nil
}

type rows []placed

type placed struct {
	order
	line string // the cells, with the character unit between them
}

// unit separates the cells of a row. No cell contains it: names pass through text, other cells have a checked form.
const unit = "\x1f"

func (r *rows) add(o order, cells ...string) { *r = append(*r, placed{o, strings.Join(cells, unit)}) }

func (r rows) each(fn func(cells []string) error) error {
	slices.SortStableFunc(r, func(a, b placed) int { return a.compare(b.order) })
	for _, p := range r {
		if err := fn(strings.Split(p.line, unit)); err != nil {
			return err
		}
	}
	return nil
}

// widest is the first amount that fits no column: "Numérico de 10 caracteres … (Ejemplo: 1000000000.00)" (p. 2).
var widest = decimal.New(1, 10)

// money writes an amount with two decimals. Like MH's system (p. 2), it cuts further decimals.
func money(d decimal.Decimal) string {
	d = d.Truncate(2)
	if d.IsZero() {
		return "0.00" // never -0.00
	}
	return d.StringFixed(2)
}

// day writes yyyy-mm-dd as DD/MM/AAAA (p. 1).
func day(date string) string { return dte.FormatDay(date) }

func plain(s string) string { return strings.ReplaceAll(s, "-", "") }

// digits returns only the digits and letters of a person's number, without hyphens and spaces.
func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) || unicode.IsLetter(r) {
			return r
		}
		return -1
	}, s)
}

// text returns a name for a cell: without characters that end a cell or a line or need quotes, and without a start that
// a spreadsheet reads as a formula. “"La Ceiba", S.A.” becomes La Ceiba, S.A.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == ';':
			return ','
		case r == '"':
			return -1
		case unicode.IsSpace(r), !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, s)
	return strings.TrimLeft(strings.Join(strings.Fields(s), " "), "=+-@＝＋－＠﹦﹢﹣﹫−'–—‘’ ")
}

// cell returns a cell for a file: a number unchanged, any other content through the function text: spreadsheets
// therefore read no cell as a formula. Every cell of every file passes through here.
func cell(s string) string {
	if _, err := decimal.NewFromString(s); err == nil {
		return s
	}
	return text(s)
}

// windows1252 encodes s. Curly apostrophes and dashes become ' and -; all other characters that Latin-1 lacks become ?
func windows1252(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		switch {
		case r < 0x80 || r >= 0xA0 && r <= 0xFF:
			b = append(b, byte(r))
		case strings.ContainsRune("‘’", r):
			b = append(b, '\'')
		case strings.ContainsRune("–—", r):
			b = append(b, '-')
		default:
			b = append(b, '?')
		}
	}
	return b
}
