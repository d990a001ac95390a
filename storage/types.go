package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is a record's state. The storage gives it no meaning or order.
type State uint8

// Code identifies a record for ever; the caller of Append chooses it.
type Code = [16]byte

// Part is a named piece of a record, written once and never changed. Name: 1 to 255 bytes.
type Part struct {
	Name string
	Data []byte
}

// Due puts a record in a queue at a time. Queue: 1 to 255 bytes. At is kept in UTC, to the nanosecond, from 1678 to
// 2262.
type Due struct {
	Queue string
	At    time.Time
}

// Idempotency names a request. A repeated request finds the record of the first. The store keeps a key as long as its
// record.
type Idempotency struct {
	Key    [32]byte // digest of the caller's key and of its scope
	Digest [32]byte // digest of the request's body
}

// Keys are what a new record depends on. Begin locks the idempotency key and the origins, not the series.
type Keys struct {
	Series      string // 1 to 255 bytes
	Idempotency *Idempotency
	// records whose counters the new record uses; their counters and states cannot change until the record is appended
	Origins []Code
}

// Counter is an amount kept for a line of an origin, for example the amount credited so far.
type Counter struct {
	Origin Code
	Line   uint32
	Value  int64 // absolute in a Draft, a difference in a Change
}

type Slot struct {
	Number     uint64 // in its series, from 1, no gaps
	ID         uint64 // in the store, from 1, growing; gaps are possible
	SequenceID uint32 // of the series, from 1
}

type Draft struct {
	Code     Code
	State    State
	Head     []byte
	Parts    []Part
	Due      *Due
	Days     []uint32  // the days that the record belongs to, as Day reads them; the store gives the numbers no meaning
	Counters []Counter // only counters of the records in Keys.Origins
}

// Entry is a record in its current state, without its parts.
type Entry struct {
	Code       Code
	ID, Number uint64
	SequenceID uint32
	Series     string
	State      State
	Revision   uint32 // 1 at Append, one more with each Advance
	Head       []byte
	Due        *Due
	Days       []uint32
}

type Change struct {
	To    State
	Head  []byte   // nil: the head does not change
	Parts []Part   // added; the record must not have a part of the same name
	Due   *Due     // replaces the old one; nil takes the record out of its queue
	Days  []uint32 // added to the record's days; a day is never removed
	// Counters are added to the stored counters: for example, a refused document gives back the amounts that it took.
	// If a sum overflows int64, Advance fails and changes nothing.
	Counters []Counter
	// Announce makes the change visible in Changes.
	Announce bool
}

func checkName(what, name string) error {
	if name == "" || len(name) > 255 {
		return fmt.Errorf("%s must have 1 to 255 bytes, not %d", what, len(name))
	}
	return nil
}

func checkParts(parts []Part) error {
	if len(parts) > 1000 {
		return fmt.Errorf("%d parts are more than 1000", len(parts))
	}
	for i, p := range parts {
		if err := checkName("part name", p.Name); err != nil {
			return err
		}
		if slices.ContainsFunc(parts[:i], func(q Part) bool { return q.Name == p.Name }) {
			return fmt.Errorf("part %q appears twice: %w", p.Name, ErrPartExists)
		}
	}
	return nil
}

var errDueRange = errors.New("due time is outside the years 1678 to 2262")

func checkDue(d *Due) error {
	if d == nil {
		return nil
	}
	if !time.Unix(0, d.At.UnixNano()).Equal(d.At) {
		return errDueRange
	}
	return checkName("queue", d.Queue)
}

// checkDays allows at most 255 days and no duplicates.
func checkDays(days []uint32) error {
	for i, day := range days {
		if i > 254 || slices.Contains(days[:i], day) {
			return fmt.Errorf("the %d days of the record are more than 255, or one of them appears twice", len(days))
		}
	}
	return nil
}

func (k *Keys) check() error {
	if len(k.Origins) > 1000 {
		return fmt.Errorf("%d origins are more than 1000", len(k.Origins))
	}
	return checkName("series", k.Series)
}

func (c *Change) check() error {
	return errors.Join(checkParts(c.Parts), checkDue(c.Due), checkCounters(c.Counters))
}

func (d *Draft) check(origins []Code) error {
	if slices.Contains(origins, d.Code) {
		return fmt.Errorf("record %X is its own origin", d.Code)
	}
	for _, c := range d.Counters {
		if !slices.Contains(origins, c.Origin) {
			return fmt.Errorf("counter of %X, which is not a locked origin", c.Origin)
		}
	}
	return errors.Join(checkParts(d.Parts), checkDue(d.Due), checkDays(d.Days), checkCounters(d.Counters))
}

func checkCounters(counters []Counter) error {
	if len(counters) > 65535 {
		return fmt.Errorf("%d counters are more than 65535", len(counters))
	}
	set := make(map[Counter]bool, len(counters))
	for _, c := range counters {
		c.Value = 0
		if set[c] {
			return fmt.Errorf("counter of %X line %d appears twice", c.Origin, c.Line)
		}
		set[c] = true
	}
	return nil
}

// origins returns the origins of the counters, each once.
func origins(counters []Counter) []Code {
	var codes []Code
	for _, c := range counters {
		if !slices.Contains(codes, c.Origin) {
			codes = append(codes, c.Origin)
		}
	}
	return codes
}
