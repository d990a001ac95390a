package books

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"
)

// tally counts and sums the content of a file.
type tally struct {
	rows, documents int
	sums            []decimal.Decimal // of layout.sums
	net             []decimal.Decimal // the same sums after subtracting credit notes
}

// put keeps a row and adds its amounts to the file's sums.
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
		if !l.header && amount.Abs().GreaterThanOrEqual(widest) {
			return fmt.Errorf("%s, column %s: %s: %w", l.Name, l.Columns[column].Letter, cells[column], errWide)
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

// write writes a file of rows. The annexes have no headings and no quotes; the books for people have headings, totals
// and a byte order mark, by which spreadsheets recognise UTF-8.
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
	if err := b.eachRow(l, put); err != nil {
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
