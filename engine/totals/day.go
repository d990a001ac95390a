package totals

import (
	"errors"
	"slices"

	"dtegate/engine/dte"
)

// day holds the documents of a day: 16 bytes each, by growing id.
type day struct {
	rows   []row
	groups []Group
	index  map[Group]uint16
	totals []Total // by group
}

// row is a document: its id, which is below 2^48, and its group.
type row struct {
	key    uint64 // id << 16 | group
	amount dte.Amount
}

func newDay() *day { return &day{index: make(map[Group]uint16)} }

var (
	errGroups = errors.New("more than 65535 points of sale, types and states")
	errID     = errors.New("an id beyond 2^48")
)

func (d *day) group(g Group) (uint16, error) {
	i, ok := d.index[g]
	if ok {
		return i, nil
	}
	if len(d.groups) > 1<<16-1 {
		return 0, errGroups
	}
	i = uint16(len(d.groups))
	d.groups, d.totals, d.index[g] = append(d.groups, g), append(d.totals, Total{}), i
	return i, nil
}

// firstAbove is the place of the first row above an id.
func (d *day) firstAbove(after uint64) int {
	i, _ := slices.BinarySearchFunc(d.rows, after+1, func(r row, id uint64) int {
		switch have := r.key >> 16; {
		case have < id:
			return -1
		case have > id:
			return 1
		}
		return 0
	})
	return i
}

// put writes a document, as it is now, in the place of what was known of it.
func (d *day) put(id uint64, r Row) error {
	if id >= 1<<48 {
		return errID
	}
	g, err := d.group(r.Group)
	if err != nil {
		return err
	}
	i := d.firstAbove(id - 1)
	if i < len(d.rows) && d.rows[i].key>>16 == id {
		was := &d.totals[uint16(d.rows[i].key)]
		was.Count--
		was.Amount.Sub(d.rows[i].amount)
	} else {
		d.rows = slices.Insert(d.rows, i, row{})
	}
	d.rows[i] = row{id<<16 | uint64(g), r.Amount}
	d.totals[g].Count++
	d.totals[g].Amount.Add(r.Amount)
	return nil
}

// page reads a page and its totals. Its work is that of the page and of the groups: rows of groups that the query does
// not choose are stepped over. The caller holds mu.
func (l *Ledger) page(q Query) *Page {
	p := &Page{Totals: make(map[Group]Total)}
	for _, name := range q.Days {
		d := l.days[name]
		wanted := make([]bool, len(d.groups))
		any := false
		for i, g := range d.groups {
			if t := d.totals[i]; t.Count > 0 && q.Match(g) {
				sum := p.Totals[g]
				sum.Count += t.Count
				sum.Amount.Merge(t.Amount)
				p.Totals[g], wanted[i], any = sum, true, true
			}
		}
		if any {
			p.gather(d, wanted, q)
		}
	}
	if p.More = len(p.IDs) > q.Limit; p.More {
		p.IDs = p.IDs[:q.Limit]
	}
	return p
}

// gather adds a day's ids to the page, which keeps the lowest Limit+1. The ids of two days may be mixed.
func (p *Page) gather(d *day, wanted []bool, q Query) {
	have := len(p.IDs)
	for _, r := range d.rows[d.firstAbove(q.After):] {
		id := r.key >> 16
		if have > q.Limit && id > p.IDs[have-1] || len(p.IDs)-have > q.Limit {
			break
		}
		if wanted[uint16(r.key)] && (q.Amount == nil || *q.Amount == r.amount) {
			p.IDs = append(p.IDs, id)
		}
	}
	slices.Sort(p.IDs)
	p.IDs = p.IDs[:min(len(p.IDs), q.Limit+1)]
}
