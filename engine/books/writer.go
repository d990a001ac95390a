package books

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Options of New.
type Options struct {
	Month    string // "2026-11"
	Settings Settings
	// Dir is a folder that is there and empty; the files are made in it.
	Dir string
	// Print draws a book as PDF and returns its pages; nil draws none.
	Print func(w io.Writer, t Table) (pages int, err error)
	// Volume is how many rows one PDF holds, default 10,000: a volume is what can be bound, and memory stays bounded.
	Volume int
	Made   string // when the books are made, for resumen.json
}

// Table is a VAT book as it is printed, or a volume of one.
type Table struct {
	Title   string
	Issuer  Issuer
	Month   string // "noviembre de 2026"
	Columns []string
	Right   []bool // columns of amounts
	Rows    [][]string
	Total   []string   // cells of the line of totals; nil in all volumes but the last
	Summary [][]string // what follows it: label and amount
	Folio   int        // number of the first page
	At      time.Time  // the first day of the month after: what the file says of its making, always the same
}

// Book collects a month. Memory grows by some 200 bytes a row of a file, whatever the size of the documents.
type Book struct {
	o      Options
	issuer Issuer
	test   bool // documents of the test ambiente
	spools map[*layout]*spool
	days   map[dayKey]*line
	series map[seriesKey]*line
	codes  [][16]byte
	files  map[*layout]*tally
	sum    summary
}

// dayKey is a row of annex 2: documents of one day with one type of income, of one establishment where Settings say so.
type dayKey struct {
	date, establishment string
	income              int
}

// seriesKey is a row of the book of consumers.
type seriesKey struct{ date, series string }

// line is what documents that share a row add up to.
type line struct {
	first, last               order
	firstCode, lastCode       string
	firstNumber, lastNumber   string
	exempt, nonSubject, taxed decimal.Decimal
	operation, documents      int
}

func (l *line) add(d *sealed, o order, s *share) {
	if l.documents == 0 || o.compare(l.first) < 0 {
		l.first, l.firstCode, l.firstNumber = o, d.Code, d.ControlNumber
	}
	if l.documents == 0 || o.compare(l.last) > 0 {
		l.last, l.lastCode, l.lastNumber = o, d.Code, d.ControlNumber
	}
	switch {
	case l.documents == 0:
		l.operation = s.operation
	case l.operation != s.operation:
		l.operation = mixed
	}
	l.documents++
	l.exempt, l.nonSubject, l.taxed = l.exempt.Add(s.exempt), l.nonSubject.Add(s.nonSubject), l.taxed.Add(s.taxed)
}

// tally is what a file holds.
type tally struct {
	rows, documents int
	sums            []decimal.Decimal // of layout.sums
}

// New begins the books of a month.
func New(o Options) (*Book, error) {
	if _, err := monthName(o.Month); err != nil {
		return nil, err
	}
	if err := o.Settings.Check(); err != nil {
		return nil, err
	}
	if o.Volume == 0 {
		o.Volume = 10_000
	}
	b := &Book{o: o, spools: make(map[*layout]*spool), days: make(map[dayKey]*line), series: make(map[seriesKey]*line), files: make(map[*layout]*tally)}
	b.sum.groups = make(map[groupKey]*group)
	for _, l := range layouts {
		b.files[l] = &tally{sums: make([]decimal.Decimal, len(l.sums))}
	}
	return b, nil
}

// Close removes what was collected aside. It may be called at any time, and again.
func (b *Book) Close() {
	for l, s := range b.spools {
		s.close()
		delete(b.spools, l)
	}
	for _, s := range []**spool{&b.sum.nowhere, &b.sum.noted} {
		if *s != nil {
			(*s).close()
			*s = nil
		}
	}
}

// Add takes a document of the month, or of an earlier one that was invalidated in it. Any order will do.
func (b *Book) Add(doc Document) error {
	d, err := read(doc)
	if err != nil {
		return err
	}
	if err := b.own(d); err != nil {
		return err
	}
	o, err := orderOf(d, d.Date)
	if err != nil {
		return err
	}
	p := place(d, b.o.Month, &b.o.Settings)
	if err := b.count(d, o, p); err != nil {
		return err
	}
	for i, r := range p.rows {
		o.tie = uint8(i)
		if err := b.put(r.file, o, r.cells); err != nil {
			return err
		}
	}
	for _, name := range p.names {
		for _, l := range layouts {
			if l.Name == name {
				b.files[l].documents++
			}
		}
	}
	if p.daily != nil {
		if err := b.daily(d, o, p.daily); err != nil {
			return err
		}
	}
	if p.sold != nil {
		return b.sold(d, o, p.sold)
	}
	return nil
}

// own refuses documents of another taxpayer or ambiente: books are of one.
func (b *Book) own(d *sealed) error {
	test := d.Identificacion.Ambiente != "01"
	switch {
	case b.issuer.NIT == "":
		b.issuer, b.test = d.Emisor, test
	case d.Emisor.NIT != b.issuer.NIT:
		return fmt.Errorf("document %s is of the taxpayer %s, others are of %s: books are of one taxpayer", d.Code, d.Emisor.NIT, b.issuer.NIT)
	case test != b.test:
		return fmt.Errorf("document %s is of ambiente %s, others are of the other one", d.Code, d.Identificacion.Ambiente)
	}
	if b.issuer.NRC == "" {
		b.issuer.NRC = d.Emisor.NRC
	}
	code, err := codeBytes(d.Code)
	b.codes = append(b.codes, code)
	return err
}

// put spools a row and adds its amounts up.
func (b *Book) put(l *layout, o order, cells []string) error {
	s := b.spools[l]
	if s == nil {
		var err error
		if s, err = newSpool(b.o.Dir); err != nil {
			return err
		}
		b.spools[l] = s
	}
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
		if amount.Abs().GreaterThanOrEqual(widest) {
			return fmt.Errorf("%s, column %s: %s: %w", l.Name, l.Columns[column].Letter, cells[column], errWide)
		}
		t.sums[i] = t.sums[i].Add(amount)
	}
	return s.add(o, cells)
}

func (b *Book) daily(d *sealed, o order, s *share) error {
	if s.adjust != "" {
		return b.put(annex02, o, s.annexCells(b.dayCode(d.Code), b.dayCode(d.Code)))
	}
	key := dayKey{date: s.date, income: s.income}
	if b.o.Settings.ByEstablishment {
		key.establishment = d.establishment
	}
	l := b.days[key]
	if l == nil {
		l = new(line)
		b.days[key] = l
	}
	l.add(d, o, s)
	return nil
}

func (b *Book) dayCode(code string) string {
	if b.o.Settings.DayHyphens {
		return code
	}
	return plain(code)
}

func (b *Book) sold(d *sealed, o order, s *share) error {
	series := ""
	if len(d.ControlNumber) == 31 {
		series = d.ControlNumber[7:15]
	}
	b.sum.vat = b.sum.vat.Add(vatWithin(d, s))
	if s.adjust != "" {
		var err error
		if o, err = orderOf(d, s.date); err != nil {
			return err
		}
		o.tie = 1
		return b.put(consumers, o, consumerCells(s.date, d.establishment, d.Code, d.Code, s.exempt, s.nonSubject, s.taxed, 1, s.adjust))
	}
	key := seriesKey{s.date, series}
	l := b.series[key]
	if l == nil {
		l = new(line)
		b.series[key] = l
	}
	l.add(d, o, s)
	return nil
}

// vatWithin is the VAT inside what a share adds to the consumers' sales.
func vatWithin(d *sealed, s *share) decimal.Decimal {
	if s.adjust != "" {
		return d.vat.Neg()
	}
	return d.vat
}

func consumerCells(date, establishment, first, last string, exempt, nonSubject, taxed decimal.Decimal, documents int, adjust string) []string {
	return []string{day(date), establishment, first, last, "", money(exempt), money(nonSubject), money(taxed), "0.00",
		money(exempt.Add(nonSubject).Add(taxed)), "0.00", strconv.Itoa(documents), text(adjust)}
}

// Finish writes the files. The folder holds them alone when it returns nil.
func (b *Book) Finish() error {
	defer b.Close()
	if err := b.twice(); err != nil {
		return err
	}
	if err := b.shared(); err != nil {
		return err
	}
	for _, l := range layouts {
		if err := b.write(l); err != nil {
			return err
		}
	}
	if err := b.print(); err != nil {
		return err
	}
	return b.summarise()
}

// twice refuses what was read twice, such as two backups of one branch: it would be declared twice.
func (b *Book) twice() error {
	slices.SortFunc(b.codes, func(x, y [16]byte) int { return cmp.Compare(string(x[:]), string(y[:])) })
	for i := 1; i < len(b.codes); i++ {
		if b.codes[i] == b.codes[i-1] {
			return fmt.Errorf("document %X is there twice: are two of the backups of one branch?", b.codes[i])
		}
	}
	return nil
}

// shared spools the rows that documents share.
func (b *Book) shared() error {
	for _, key := range slices.SortedFunc(maps.Keys(b.days), func(x, y dayKey) int {
		return cmp.Or(cmp.Compare(x.date, y.date), cmp.Compare(x.establishment, y.establishment), cmp.Compare(x.income, y.income))
	}) {
		l := b.days[key]
		s := share{date: key.date, exempt: l.exempt, nonSubject: l.nonSubject, taxed: l.taxed, operation: l.operation, income: key.income}
		o, err := dayOrder(key.date, key.establishment, uint64(key.income))
		if err != nil {
			return err
		}
		if err := b.put(annex02, o, s.annexCells(b.dayCode(l.firstCode), b.dayCode(l.lastCode))); err != nil {
			return err
		}
	}
	for key, l := range b.series {
		o, err := dayOrder(key.date, key.series, 0)
		if err != nil {
			return err
		}
		establishment := key.series[:min(4, len(key.series))]
		cells := consumerCells(key.date, establishment, l.firstNumber, l.lastNumber, l.exempt, l.nonSubject, l.taxed, l.documents, "")
		if err := b.put(consumers, o, cells); err != nil {
			return err
		}
	}
	return nil
}

// dayOrder puts a row of a day before the rows of its documents.
func dayOrder(date, series string, number uint64) (order, error) {
	o, err := orderOf(&sealed{hour: "00:00:00"}, date)
	copy(o.series[:], series)
	o.number = number
	return o, err
}

// each calls fn with the rows of a file in their order, numbered where the file numbers them.
func (b *Book) each(l *layout, fn func([]string) error) error {
	s := b.spools[l]
	if s == nil {
		return nil
	}
	n := 0
	return s.each(func(cells []string) error {
		if n++; l == taxpayers || l == f930 {
			cells[0] = strconv.Itoa(n)
		}
		return fn(cells)
	})
}

// write writes a file of rows. The annexes have no headings and no quotes; the books of people have headings, totals and a mark
// by which spreadsheets know UTF-8.
func (b *Book) write(l *layout) (err error) {
	f, err := os.Create(filepath.Join(b.o.Dir, l.Name))
	if err != nil {
		return fmt.Errorf("writing %s: %w", l.Name, err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("writing %s: %w", l.Name, err)
		}
	}()
	out := bufio.NewWriterSize(f, 1<<16)
	put := func(cells []string) error {
		s := strings.Join(cells, ";") + "\r\n"
		if !l.header && b.o.Settings.Windows {
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
	if err := b.each(l, put); err != nil {
		return err
	}
	if l.header {
		if err := put(b.totals(l)); err != nil {
			return err
		}
		for _, line := range b.reckoning(l) {
			if err := put(line); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}
