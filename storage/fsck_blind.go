package storage

import (
	"errors"
	"fmt"
)

// What fsck does where the disk returns no rows: it goes on, and says whose they are.

// unreadableRow is a row that another one speaks of and that cannot be read.
type unreadableRow struct {
	key []byte
	err error
}

func (u *unreadableRow) Error() string { return fmt.Sprintf("%s: %v", describeKey(u.key), u.err) }
func (u *unreadableRow) Unwrap() error { return u.err }

// readable takes a row's check that ended at another row that cannot be read: the document is affected.
func (c *checker) readable(key, value []byte, err error) error {
	var u *unreadableRow
	if !errors.As(err, &u) {
		return err
	}
	what := describeKey(u.key)
	if len(key) == 0 {
		c.problemAt(what, "cannot be read")
		return nil
	}
	c.problem(key, "%s cannot be read", what)
	if a, ok := c.document(key, value); ok {
		a.What = what
		c.affects(a)
	}
	return nil
}

// document tells whose a row is.
func (c *checker) document(key, value []byte) (a Affected, ok bool) {
	var sequence uint32
	switch key[0] {
	case tableJournal:
		l, err := decodeLink(value)
		if err != nil || l.Op == opSkip {
			return a, false
		}
		sequence, a.From, a.Code = be.Uint32(key[1:]), l.Number, l.Code
	case tableEntry:
		e, err := decodeEntry(be.Uint64(key[1:]), value)
		if err != nil {
			return a, false
		}
		sequence, a.From, a.Code = e.SequenceID, e.Number, e.Code
	default:
		return a, false
	}
	a.To = a.From
	if s := c.series[sequence]; s != nil {
		a.Series = s.name
	} else {
		a.Series = namelessSeries(sequence)
	}
	return a, true
}

func (c *checker) affects(a Affected) {
	n := len(c.report.Affected)
	if n > 0 && c.report.Affected[n-1].Code == a.Code && a.Code != (Code{}) || n >= MaxProblems {
		return // its other links
	}
	c.report.Affected = append(c.report.Affected, a)
}

// blindSpot reports a stretch of a table. Of the journal, the series in it go on behind it.
func (c *checker) blindSpot(h blindSpot) {
	what := "rows cannot be read"
	switch h.From[0] {
	case tableCode, tableIdem, tableDue, tableCounter:
		what += "; they can be made anew of the others"
	case tableSeries:
		c.seriesBlind = true
	case tableJournal:
		first, last := sequenceAt(h.From), sequenceAt(h.To)
		if len(h.To) == 0 || h.To[0] != tableJournal {
			last = ^uint32(0)
		}
		for sequence, s := range c.series {
			if sequence >= first && sequence <= last {
				s.blind = true
			}
		}
	}
	if len(c.report.Problems) < MaxProblems {
		where := fmt.Sprintf("%s to %s", describeKey(h.From), describeKey(h.To))
		c.report.Problems = append(c.report.Problems, Problem{where, what, h.Why.Error()})
	}
}

// sequenceAt is the series that a journal's key begins in.
func sequenceAt(key []byte) uint32 {
	b := make([]byte, 4)
	if len(key) > 1 {
		copy(b, key[1:])
	}
	return be.Uint32(b)
}

func namelessSeries(sequence uint32) string {
	return fmt.Sprintf("(series %d, whose name cannot be read)", sequence)
}
