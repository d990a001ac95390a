package books

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// order sorts documents by the second of issue, then by series, type and number. It depends only on the document,
// therefore documents that are read in any order give the same files.
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
		o.number, _ = strconv.ParseUint(d.ControlNumber[16:], 10, 64) // 0, which sorts first, if it is not a number
	}
	kind, _ := strconv.ParseUint(d.Type, 10, 8)
	o.kind = uint8(kind)
	return o, nil
}

// rows are the lines of a file in memory.
type rows []placed

type placed struct {
	order
	line string // the cells, separated by unit
}

// unit separates the cells of a row. Cells contain no control characters, because text removes them.
const unit = "\x1f"

func (r *rows) add(o order, cells ...string) { *r = append(*r, placed{o, strings.Join(cells, unit)}) }

// each calls fn with the rows in their order.
func (r rows) each(fn func(cells []string) error) error {
	slices.SortStableFunc(r, func(a, b placed) int { return a.compare(b.order) })
	for _, p := range r {
		if err := fn(strings.Split(p.line, unit)); err != nil {
			return err
		}
	}
	return nil
}
