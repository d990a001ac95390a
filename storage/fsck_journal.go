package storage

import (
	"crypto/sha256"
	"maps"
	"slices"
	"time"
)

// The journal is the truth that the other rows are held against: its chain cannot be altered in one place only.

func (c *checker) metaRow(key, value []byte) error {
	switch string(key) {
	case string(keyLayout):
		if len(value) != 4 || be.Uint32(value) != layout {
			c.problem(key, "is %x, not %d", value, layout)
		}
	case string(keyStore):
		if len(value) != 16 {
			c.problem(key, "has %d bytes", len(value))
		}
	case string(keyBeat), string(keyBackup):
		if len(value) != 8 {
			c.problem(key, "has %d bytes", len(value))
		}
	case string(keyGaps):
		if _, err := decodeGaps(value); err != nil {
			c.problem(key, "is unreadable")
		}
	case string(keyBehind):
		if _, err := readBehind(c.r); err != nil {
			c.problem(key, "is unreadable")
		}
	case string(keyRead):
		if len(value) != 16 {
			c.problem(key, "has %d bytes", len(value))
		}
	case string(keyRepairs):
		if _, err := readRepairs(c.r); err != nil {
			c.problem(key, "is unreadable")
		}
	case string(keyFormer):
		if len(value)%16 != 0 {
			c.problem(key, "has %d bytes", len(value))
		}
	case string(keyScrub):
		if _, err := decodeScrub(value); err != nil {
			c.problem(key, "is unreadable")
		}
	case string(keyMark):
		if _, err := decodeMarkRow(value); err != nil {
			c.problem(key, "is unreadable")
		}
	case string(keyRestored):
		c.problem(key, "the store came from a backup and is not reconciled")
	default:
		c.problem(key, "is unknown")
	}
	return nil
}

func (c *checker) seriesRow(key, value []byte) error {
	c.report.Series++
	row, err := decodeSeries(value)
	if err != nil {
		c.problem(key, "is unreadable")
		return nil
	}
	name := string(key[1:])
	c.report.Last[name] = row.Last
	if other := c.series[row.Sequence]; other != nil {
		c.problem(key, "has the sequence %d of series %q", row.Sequence, other.name)
		return nil
	}
	c.total += int64(row.Position)
	c.series[row.Sequence] = &seriesCheck{name: name, row: row, last: seriesRow{Sequence: row.Sequence}}
	return nil
}

func (c *checker) journalRow(key, value []byte) error {
	if c.links++; c.progress != nil && c.links%1024 == 0 {
		c.progress(c.links, c.total)
	}
	if len(key) != 13 {
		c.problem(key, "has a strange key")
		return nil
	}
	s := c.series[be.Uint32(key[1:])]
	if s == nil && c.seriesBlind {
		s = &seriesCheck{name: namelessSeries(be.Uint32(key[1:])), blind: true, nameless: true}
		c.series[be.Uint32(key[1:])] = s
	}
	if s == nil {
		c.problem(key, "belongs to no series")
		return nil
	}
	l, err := decodeLink(value)
	if err != nil {
		c.problem(key, "is unreadable")
		return nil
	}
	position := be.Uint64(key[5:])
	c.skipHole(s, position, &l)
	if s.blind { // what is before it cannot be read: its own word counts
		s.blind = false
		s.last.Position, s.last.Hash = position-1, l.Previous
		if l.Op == opAppend && l.Number > s.last.Last+1 {
			c.affects(Affected{Series: s.name, From: s.last.Last + 1, To: l.Number - 1, What: "their journal"})
			s.last.Last = l.Number - 1
		}
	}
	if position != s.last.Position+1 {
		c.problem(key, "follows position %d of series %q", s.last.Position, s.name)
	}
	if l.Previous != s.last.Hash {
		c.problem(key, "does not continue the chain of series %q", s.name)
	}
	s.last.Position, s.last.Hash = position, hashLink(key, value)
	if l.Op == opSkip {
		return c.skipLink(key, s, &l)
	}
	if l.Op == opAppend {
		switch {
		case l.Number > s.last.Last+1:
			c.problem(key, "number %d of series %q follows %d: a gap", l.Number, s.name, s.last.Last)
		case l.Number <= s.last.Last:
			c.problem(key, "number %d of series %q was used before: a duplicate", l.Number, s.name)
		}
		s.last.Last = max(s.last.Last, l.Number)
	}
	return c.compare(key, &l)
}

// skipHole goes over links that are known to be missing.
func (c *checker) skipHole(s *seriesCheck, position uint64, l *link) {
	h, ok := c.holes.at[s.row.Sequence][s.last.Position+1]
	if !ok || position != h.To+1 || l.Previous != h.Hash {
		return
	}
	s.last.Position, s.last.Hash, s.last.Last = h.To, h.Hash, max(s.last.Last, h.Numbers.To)
}

// skipLink notes the numbers that a series gave up.
func (c *checker) skipLink(key []byte, s *seriesCheck, l *link) error {
	row, err := c.get(lostKey(be.Uint32(key[1:]), be.Uint64(key[5:])))
	if err != nil {
		return err
	}
	lost, bad := decodeLost(row)
	switch {
	case row == nil || bad != nil || sha256.Sum256(row) != l.Entry:
		c.problem(key, "its lost numbers are missing or altered")
	case lost.From != s.last.Last+1 || lost.To != l.Number || lost.To < lost.From:
		c.problem(key, "gives up the numbers %d to %d of series %q, which is at %d", lost.From, lost.To, s.name, s.last.Last)
	default:
		c.report.Lost = append(c.report.Lost, Lost{s.name, lost.From, lost.To, time.Unix(0, l.At).UTC(), lost.Reason})
	}
	s.last.Last = max(s.last.Last, l.Number)
	return nil
}

// compareLink holds a link against the record that it is about.
func (c *checker) compareLink(key []byte, l *link) error {
	if c.holes.partial[l.ID] {
		return c.compareCounters(key, l)
	}
	e, row, err := c.entry(l.ID)
	if err != nil {
		return err
	}
	if e == nil {
		c.problem(key, "number %d: its entry %d is missing", l.Number, l.ID)
		return nil
	}
	position, sequence := be.Uint64(key[5:]), be.Uint32(key[1:])
	if e.Code != l.Code || e.Number != l.Number || e.SequenceID != sequence {
		c.problem(key, "entry %d says %X, number %d of series %d; the journal %X, number %d", l.ID, e.Code, e.Number, e.SequenceID, l.Code, l.Number)
	}
	switch {
	case l.Op == opAppend && (e.Appended != position || l.Revision != 1):
		c.problem(key, "entry %d says that position %d made it", l.ID, e.Appended)
	case l.Op == opAdvance && (e.Appended >= position || l.Revision < 2), l.Op != opAppend && l.Op != opAdvance:
		c.problem(key, "is a change that cannot be, operation %d revision %d", l.Op, l.Revision)
	}
	switch {
	case e.Changed < position || e.Revision < l.Revision:
		c.problem(key, "entry %d does not have revision %d, it is at %d", l.ID, l.Revision, e.Revision)
	case e.Changed == position && (e.Revision != l.Revision || e.State != l.State || sha256.Sum256(row) != l.Entry):
		c.problem(key, "entry %d is not as this change left it: altered", l.ID)
	}
	for _, p := range l.Parts {
		data, err := c.get(partKey(l.ID, p.Name))
		switch {
		case err != nil:
			return err
		case data == nil:
			c.problem(key, "part %q of entry %d is missing", p.Name, l.ID)
		case sha256.Sum256(data) != p.Digest:
			c.problem(key, "part %q of entry %d is altered", p.Name, l.ID)
		}
	}
	return c.compareCounters(key, l)
}

func (c *checker) compareCounters(key []byte, l *link) error {
	for _, v := range l.Counters {
		value, err := c.get(counterKey(v.Origin, v.Line))
		switch {
		case err != nil:
			return err
		case len(value) != counterSize || be.Uint64(value[8:]) < v.Revision:
			c.problem(key, "counter of %X line %d is missing or older", v.Origin, v.Line)
		case be.Uint64(value[8:]) == v.Revision:
			c.countersSet++
			if int64(be.Uint64(value)) != v.Value {
				c.problem(key, "counter of %X line %d is altered", v.Origin, v.Line)
			}
		}
	}
	return nil
}

func (c *checker) journalEnd() error {
	rows := make(map[string]seriesRow)
	for _, s := range c.series {
		rows[s.name] = s.row
	}
	c.report.Missing = c.holes.missing(rows, nil)
	for _, sequence := range slices.Sorted(maps.Keys(c.series)) {
		s := c.series[sequence]
		if s.nameless {
			s.row = s.last
			continue
		}
		if s.blind && s.row.Last > s.last.Last { // its end cannot be read
			c.affects(Affected{Series: s.name, From: s.last.Last + 1, To: s.row.Last, What: "their journal"})
			continue
		}
		if s.last != s.row && !s.blind {
			c.problem(seriesKey(s.name), "ends at number %d, position %d; its journal at %d, %d, or the hashes differ",
				s.row.Last, s.row.Position, s.last.Last, s.last.Position)
		}
	}
	return nil
}
