package books

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"dtegate/engine/pdf"
)

// Options of New.
type Options struct {
	Month    string // "2026-11"
	Settings Settings
	Dir      string // an existing, empty folder for the files
	// Print draws a book as PDF and returns the number of its pages; nil: no PDFs.
	Print func(w io.Writer, t pdf.Book) (pages int, err error)
	// Volume is the largest number of rows in one PDF, default 10,000: a larger PDF needs much memory and binds badly.
	Volume   int
	Made     string // when the books are made, for resumen.json
	Received bool   // also make the annexes of suppliers' documents; see Receive
}

// Book collects the documents of a month. It takes some 400 bytes for each row of a file.
type Book struct {
	o        Options
	settings *Settings // Options.Settings with all defaults
	month    time.Time
	issuer   Issuer
	test     bool // documents of the test ambiente
	rows     map[*layout]*rows
	days     map[dayKey]*line
	series   map[seriesKey]*line
	codes    [][16]byte
	// received are the files of suppliers. made are the files of rows that Finish writes; with Options.Received, also
	// the annexes of suppliers' documents.
	received []ReceivedFile
	made     []*layout
	files    map[*layout]*tally
	sum      summary
}

// New begins the books of a month.
func New(o Options) (*Book, error) {
	month, err := time.Parse("2006-01", o.Month)
	if err != nil {
		return nil, fmt.Errorf("%q is not a month like 2026-11", o.Month)
	}
	o.Volume = cmp.Or(o.Volume, 10_000)
	b := &Book{o: o, settings: o.Settings.complete(), month: month, rows: make(map[*layout]*rows),
		days: make(map[dayKey]*line), series: make(map[seriesKey]*line), files: make(map[*layout]*tally)}
	b.sum.groups, b.sum.branches = make(map[groupKey]*group), make(map[int64]int)
	b.made = layouts
	if o.Received {
		b.made = slices.Concat(layouts, receivedLayouts)
	}
	for _, l := range b.made {
		b.rows[l] = new(rows)
		b.files[l] = &tally{sums: make([]decimal.Decimal, len(l.sums)), net: make([]decimal.Decimal, len(l.sums))}
	}
	return b, nil
}

// Add adds a document issued or invalidated in the month, in any order. Errors: ErrAltered; another issuer's document.
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
	p := place(d, b.o.Month, b.settings).limit()
	b.count(d, o, p)
	if err := b.addPlacement(o, p); err != nil {
		return err
	}
	if p.daily != nil {
		if err := b.daily(d, o, p.daily); err != nil {
			return err
		}
	}
	if p.sold != nil {
		return b.addSale(d, o, p.sold)
	}
	return nil
}

// addPlacement adds a document's own rows, and counts the document in its files.
func (b *Book) addPlacement(o order, p *placement) error {
	for i, r := range p.rows {
		o.tie = uint8(i)
		if err := b.put(r.file, o, r.cells); err != nil {
			return err
		}
	}
	for _, l := range p.files {
		b.files[l].documents++
	}
	return nil
}

// own returns an error if a document belongs to another taxpayer or ambiente. It notes the document's code.
func (b *Book) own(d *sealed) error {
	test := d.Identificacion.Ambiente != "01"
	switch {
	case len(d.JSON) == 0: // the store lost the bytes: the taxpayer is unknown
	case b.issuer.NIT == "":
		b.issuer, b.test = d.Emisor, test
	case d.Emisor.NIT != b.issuer.NIT:
		return fmt.Errorf("document %s is of the taxpayer %s, others are of %s: books are of one taxpayer", d.Code,
			d.Emisor.NIT, b.issuer.NIT)
	case test != b.test:
		return fmt.Errorf("document %s is of ambiente %s, the others are not", d.Code, d.Identificacion.Ambiente)
	}
	b.issuer.NRC = cmp.Or(b.issuer.NRC, d.Emisor.NRC)
	code, err := hex.DecodeString(plain(d.Code))
	if err != nil || len(code) != 16 {
		return fmt.Errorf("document %q: not a codigoGeneracion", d.Code)
	}
	b.codes = append(b.codes, [16]byte(code))
	return nil
}

// Finish writes the files. If it succeeds, the folder holds only these files.
func (b *Book) Finish() error {
	if err := b.refuseRepeated(); err != nil {
		return err
	}
	if err := b.shared(); err != nil {
		return err
	}
	for _, l := range b.made {
		if err := b.create(l.Name, func(out *bufio.Writer) error { return b.write(l, out) }); err != nil {
			return err
		}
	}
	if err := b.print(); err != nil {
		return err
	}
	return b.create(SummaryName, b.summarise)
}

// refuseRepeated returns an error if a document was added twice, for example from two backups of a branch.
func (b *Book) refuseRepeated() error {
	slices.SortFunc(b.codes, func(x, y [16]byte) int { return cmp.Compare(string(x[:]), string(y[:])) })
	for i := 1; i < len(b.codes); i++ {
		if b.codes[i] == b.codes[i-1] {
			return fmt.Errorf("document %X appears twice: are two of the backups from one branch?", b.codes[i])
		}
	}
	return nil
}
