package storage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"time"
)

// The journal is the truth that the other rows are held against: its chain cannot be altered in one place only.

// journalCheck walks the journal of every series, and compares each link with what it is about.
type journalCheck struct {
	*checker
	compare     func(key []byte, l *link) error // with the record that a link is about
	countersSet int                             // counter rows that a change in the journal left so

	progress     Progress // of the journal, which is most of the work
	links, total int64
}

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
	case string(keyBeat), string(keyBackup), string(keyFeed):
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
	case string(keyHeld):
		if _, err := readHeld(c.r); err != nil {
			c.problem(key, "is unreadable")
		}
	case string(keyRead):
		if len(value) != 16 {
			c.problem(key, "has %d bytes", len(value))
		}
	case string(keySegments):
		if len(value) < 24 {
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

func (j *journalCheck) seriesRow(key, value []byte) error {
	j.report.Series++
	row, err := decodeSeries(value)
	if err != nil {
		j.problem(key, "is unreadable")
		return nil
	}
	name := string(key[1:])
	j.report.Last[name] = row.Last
	if other := j.series[row.Sequence]; other != nil {
		j.problem(key, "has the sequence %d of series %q", row.Sequence, other.name)
		return nil
	}
	j.total += int64(row.Position)
	j.series[row.Sequence] = &seriesCheck{name: name, row: row, last: seriesRow{Sequence: row.Sequence}}
	return nil
}

func (j *journalCheck) journalRow(key, value []byte) error {
	if j.links++; j.progress != nil && j.links%1024 == 0 {
		j.progress(j.links, j.total)
	}
	if len(key) != 13 {
		j.problem(key, "has a strange key")
		return nil
	}
	s := j.series[be.Uint32(key[1:])]
	if s == nil && j.seriesBlind {
		s = &seriesCheck{name: namelessSeries(be.Uint32(key[1:])), blind: true, nameless: true}
		j.series[be.Uint32(key[1:])] = s
	}
	if s == nil {
		j.problem(key, "belongs to no series")
		return nil
	}
	l, err := decodeLink(value)
	if err != nil {
		j.problem(key, "is unreadable")
		return nil
	}
	position := be.Uint64(key[5:])
	j.skipHole(s, position, &l)
	if s.blind { // what is before it cannot be read: its own word counts
		s.blind = false
		s.last.Position, s.last.Hash = position-1, l.Previous
		if l.Op == opAppend && l.Number > s.last.Last+1 {
			j.affects(Affected{Series: s.name, From: s.last.Last + 1, To: l.Number - 1, What: "their journal"})
			s.last.Last = l.Number - 1
		}
	}
	if position != s.last.Position+1 {
		j.problem(key, "follows position %d of series %q", s.last.Position, s.name)
	}
	if l.Previous != s.last.Hash {
		j.problem(key, "does not continue the chain of series %q", s.name)
	}
	s.last.Position, s.last.Hash = position, hashLink(key, value)
	if l.Op == opSkip {
		return j.skipLink(key, s, &l)
	}
	if l.Op == opAppend {
		switch {
		case l.Number > s.last.Last+1:
			j.problem(key, "number %d of series %q follows %d: a gap", l.Number, s.name, s.last.Last)
		case l.Number <= s.last.Last:
			j.problem(key, "number %d of series %q was used before: a duplicate", l.Number, s.name)
		}
		s.last.Last = max(s.last.Last, l.Number)
	}
	return j.compare(key, &l)
}

// skipHole goes over links that are known to be missing.
func (j *journalCheck) skipHole(s *seriesCheck, position uint64, l *link) {
	h, ok := j.holes.at[s.row.Sequence][s.last.Position+1]
	if !ok || position != h.To+1 || l.Previous != h.Hash {
		return
	}
	s.last.Position, s.last.Hash, s.last.Last = h.To, h.Hash, max(s.last.Last, h.Numbers.To)
}

// skipLink notes the numbers that a series gave up.
func (j *journalCheck) skipLink(key []byte, s *seriesCheck, l *link) error {
	row, err := j.get(lostKey(be.Uint32(key[1:]), be.Uint64(key[5:])))
	if err != nil {
		return err
	}
	lost, bad := decodeLost(row)
	switch {
	case row == nil || bad != nil || sha256.Sum256(row) != l.Entry:
		j.problem(key, "its lost numbers are missing or altered")
	case lost.From != s.last.Last+1 || lost.To != l.Number || lost.To < lost.From:
		j.problem(key, "gives up the numbers %d to %d of series %q, which is at %d", lost.From, lost.To, s.name,
			s.last.Last)
	default:
		j.report.Lost = append(j.report.Lost, Lost{s.name, lost.From, lost.To, time.Unix(0, l.At).UTC(), lost.Reason})
	}
	s.last.Last = max(s.last.Last, l.Number)
	return nil
}

// compareLink holds a link against the record that it is about.
func (j *journalCheck) compareLink(key []byte, l *link) error {
	if j.holes.partial[l.ID] {
		return j.compareCounters(key, l)
	}
	e, row, err := j.entry(l.ID)
	if err != nil {
		return err
	}
	if e == nil {
		j.problem(key, "number %d: its entry %d is missing", l.Number, l.ID)
		return nil
	}
	position, sequence := be.Uint64(key[5:]), be.Uint32(key[1:])
	if e.Code != l.Code || e.Number != l.Number || e.SequenceID != sequence {
		j.problem(key, "entry %d says %X, number %d of series %d; the journal %X, number %d", l.ID, e.Code, e.Number,
			e.SequenceID, l.Code, l.Number)
	}
	switch {
	case l.Op == opAppend && (e.Appended != position || l.Revision != 1):
		j.problem(key, "entry %d says that position %d made it", l.ID, e.Appended)
	case l.Op == opAdvance && (e.Appended >= position || l.Revision < 2), l.Op != opAppend && l.Op != opAdvance:
		j.problem(key, "is a change that cannot be, operation %d revision %d", l.Op, l.Revision)
	}
	switch {
	case e.Changed < position || e.Revision < l.Revision:
		j.problem(key, "entry %d does not have revision %d, it is at %d", l.ID, l.Revision, e.Revision)
	case e.Changed == position && (e.Revision != l.Revision || e.State != l.State || sha256.Sum256(row) != l.Entry):
		j.problem(key, "entry %d is not as this change left it: altered", l.ID)
	}
	for _, p := range l.Parts {
		data, err := j.get(partKey(l.ID, p.Name))
		switch {
		case err != nil:
			return err
		case data == nil:
			j.problem(key, "part %q of entry %d is missing", p.Name, l.ID)
		case sha256.Sum256(data) != p.Digest:
			j.problem(key, "part %q of entry %d is altered", p.Name, l.ID)
		}
	}
	return j.compareCounters(key, l)
}

func (j *journalCheck) compareCounters(key []byte, l *link) error {
	for _, v := range l.Counters {
		value, err := j.get(counterKey(v.Origin, v.Line))
		switch {
		case err != nil:
			return err
		case len(value) != counterSize || be.Uint64(value[8:]) < v.Revision:
			j.problem(key, "counter of %X line %d is missing or older", v.Origin, v.Line)
		case be.Uint64(value[8:]) == v.Revision:
			j.countersSet++
			if int64(be.Uint64(value)) != v.Value {
				j.problem(key, "counter of %X line %d is altered", v.Origin, v.Line)
			}
		}
	}
	return nil
}

func (j *journalCheck) journalEnd() error {
	rows := make(map[string]seriesRow)
	for _, s := range j.series {
		rows[s.name] = s.row
	}
	j.report.Missing = j.holes.missing(rows, nil)
	for _, sequence := range slices.Sorted(maps.Keys(j.series)) {
		s := j.series[sequence]
		if s.nameless {
			s.row = s.last
			continue
		}
		if s.blind && s.row.Last > s.last.Last { // its end cannot be read
			j.affects(Affected{Series: s.name, From: s.last.Last + 1, To: s.row.Last, What: "their journal"})
			continue
		}
		if s.last != s.row && !s.blind {
			j.problem(seriesKey(s.name), "ends at number %d, position %d; its journal at %d, %d, or the hashes differ",
				s.row.Last, s.row.Position, s.last.Last, s.last.Position)
		}
	}
	return nil
}

func (j *journalCheck) counterRow(key, value []byte) error {
	if len(key) != 21 || len(value) != counterSize {
		j.problem(key, "is unreadable")
		return nil
	}
	j.countersSet--
	return nil
}

// counterEnd: each counter row says how often it was set, and one change in the journals is that time.
func (j *journalCheck) counterEnd() error {
	if j.countersSet < 0 && len(j.holes.at) > 0 {
		return nil // a change that is missing may have set one
	}
	if j.countersSet != 0 {
		j.problemAt("counters", "%d rows that no change has set", -j.countersSet)
	}
	return nil
}

// Every row that is not the journal's, held against the rows that it speaks of.

func (c *checker) entryRow(key, value []byte) error {
	c.report.Documents++
	if len(key) != 9 {
		c.problem(key, "has a strange key")
		return nil
	}
	id := be.Uint64(key[1:])
	e, err := decodeEntry(id, value)
	if err != nil {
		c.problem(key, "is unreadable")
		return nil
	}
	// Both its first and its latest change are in the journal: nobody slipped the record in.
	for _, position := range slices.Compact([]uint64{e.Appended, e.Changed}) {
		if c.holes.partial[id] {
			break
		}
		row, err := c.get(journalKey(e.SequenceID, position))
		if err != nil {
			return err
		}
		if l, bad := decodeLink(row); row == nil || bad != nil || l.ID != id || l.Number != e.Number ||
			l.Code != e.Code {
			c.problem(key, "number %d of series %d is not in the journal at position %d", e.Number, e.SequenceID,
				position)
			break
		}
	}
	e.leads(func(lead, want []byte) {
		row, bad := c.get(lead)
		if err = errors.Join(err, bad); bad == nil && (row == nil || !bytes.Equal(row, want)) {
			c.problem(key, "its %s does not lead to it", describeKey(lead))
		}
	})
	return err
}

// partRow counts: that those are there which the journal names has been seen, so the right number means no others.
func (c *checker) partRow(key, _ []byte) error {
	if len(key) < 10 {
		c.problem(key, "has a strange key")
		return nil
	}
	if id := be.Uint64(key[1:]); id != c.partsOf {
		if err := c.partsEnd(); err != nil {
			return err
		}
		c.partsOf = id
	}
	c.parts++
	return nil
}

// partsEnd compares what partRow counted for one entry.
func (c *checker) partsEnd() error {
	count := c.parts
	c.parts = 0
	if count == 0 {
		return nil
	}
	key := entryKey(c.partsOf)
	e, _, err := c.entry(c.partsOf)
	switch {
	case err != nil:
		return err
	case e == nil:
		c.problem(key, "is missing, %d parts belong to it", count)
	case c.holes.partial[c.partsOf]:
	case e.Parts != count:
		c.problem(key, "has %d parts, not %d", count, e.Parts)
	}
	return nil
}

// leadRow: the record to which the row leads has the row.
func (c *checker) leadRow(key, value []byte) error {
	id, ok := leadsTo(key, value)
	if !ok {
		c.problem(key, "is unreadable")
		return nil
	}
	e, _, err := c.entry(id)
	if err == nil && (e == nil || !e.led(key, value)) {
		c.problem(key, "leads to entry %d, which does not have it", id)
	}
	return err
}

// feedRow: what was announced is there, and has changed at least once.
func (c *checker) feedRow(key, value []byte) error {
	id, _, ok := parseFeed(value)
	if len(key) != 9 || !ok {
		c.problem(key, "is unreadable")
		return nil
	}
	e, _, err := c.entry(id)
	if err == nil && (e == nil || e.Revision < 2) {
		c.problem(key, "entry %d has not changed", id)
	}
	return err
}

// lostRow: a link of the journal is what gave the numbers up; skipLink has compared the two.
func (c *checker) lostRow(key, _ []byte) error {
	if len(key) != 13 {
		c.problem(key, "has a strange key")
		return nil
	}
	if sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:]); c.holes.known(sequence, position) {
		return nil
	}
	row, err := c.get(append([]byte{tableJournal}, key[1:]...))
	if err != nil {
		return err
	}
	if l, bad := decodeLink(row); row == nil || bad != nil || l.Op != opSkip {
		c.problem(key, "the journal gives no numbers up there")
	}
	return nil
}
