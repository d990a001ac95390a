package storage

import (
	"slices"
)

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
		if l, bad := decodeLink(row); row == nil || bad != nil || l.ID != id || l.Number != e.Number || l.Code != e.Code {
			c.problem(key, "number %d of series %d is not in the journal at position %d", e.Number, e.SequenceID, position)
			break
		}
	}
	if row, err := c.get(codeKey(e.Code)); err != nil {
		return err
	} else if len(row) != 8 || be.Uint64(row) != id {
		c.problem(key, "its code %X does not lead to it", e.Code)
	}
	if k := e.Idempotency; k != nil {
		row, err := c.get(idemKey(k.Key))
		if err != nil {
			return err
		}
		if len(row) != 40 || be.Uint64(row) != id || [32]byte(row[8:]) != k.Digest {
			c.problem(key, "its idempotency key %X does not lead to it", k.Key)
		}
	}
	if due := e.due(); due != nil {
		if row, err := c.get(due); err != nil {
			return err
		} else if row == nil {
			c.problem(key, "is due in queue %q, which does not have it", e.Due.Queue)
		}
	}
	return nil
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

func (c *checker) codeRow(key, value []byte) error {
	if len(key) != 17 || len(value) != 8 {
		c.problem(key, "is unreadable")
		return nil
	}
	e, _, err := c.entry(be.Uint64(value))
	if err == nil && (e == nil || e.Code != Code(key[1:])) {
		c.problem(key, "leads to entry %d, which does not have it", be.Uint64(value))
	}
	return err
}

func (c *checker) idemRow(key, value []byte) error {
	if len(key) != 33 || len(value) != 40 {
		c.problem(key, "is unreadable")
		return nil
	}
	e, _, err := c.entry(be.Uint64(value))
	if err == nil && (e == nil || e.Idempotency == nil || e.Idempotency.Key != [32]byte(key[1:])) {
		c.problem(key, "leads to entry %d, which does not have it", be.Uint64(value))
	}
	return err
}

func (c *checker) dueRow(key, value []byte) error {
	_, _, id, ok := parseDueKey(key)
	if !ok || len(value) != 0 {
		c.problem(key, "is unreadable")
		return nil
	}
	e, _, err := c.entry(id)
	if err == nil && (e == nil || string(e.due()) != string(key)) {
		c.problem(key, "entry %d is not due then", id)
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
