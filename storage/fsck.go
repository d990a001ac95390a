package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Report is the result of Fsck.
type Report struct {
	Documents int
	Series    int
	Last      map[string]uint64 // last number of each series
	Lost      []Lost            // numbers that were given up: not a contradiction
	// missing in all media from which the store was rebuilt: not a contradiction
	Missing  []Missing
	Problems []Problem  // empty for a sound store; at most MaxProblems
	Affected []Affected // documents that cannot be read completely; at most MaxProblems
}

// damaged reports whether a problem is damage. A store that is not settled, or disagrees with its mark, is not damaged.
func (r *Report) damaged() bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool {
		return p.Where != describeKey(keyRestored) && p.Where != markProblem
	})
}

// Problem is one contradiction or unreadable thing.
type Problem struct {
	Where  string // the row, or the file
	What   string
	Detail string // Pebble's own message, if any
}

// Affected is a document, or several of one series, that cannot be read completely.
type Affected struct {
	Series   string
	From, To uint64 // numbers
	Code     Code   // set if only one document is affected; zero: not known
	What     string // the unreadable part
}

func (p Problem) String() string { return p.Where + ": " + p.What }

// MaxProblems is the largest number of problems that Fsck lists.
const MaxProblems = 1000

// Fsck reads a snapshot of the store, and compares each row with all other rows about the same record: numbers without
// gap or duplicate, the journal's chain, the digests of records and parts, the indexes in both directions, and the
// mark. Fsck reads all data, and needs 16 bytes of memory for each record. Issuing may continue.
func (s *Store) Fsck(ctx context.Context) (*Report, error) {
	return use(s, "checking store", func() (*Report, error) {
		// Read the mark first: the store grows meanwhile, and must not be behind its mark.
		var marked *Head
		var markErr error
		if s.mark != nil {
			marked, markErr = s.mark.prove()
		}
		snapshot := s.db.NewSnapshot()
		report, err := fsck(ctx, snapshot, marked, markErr, nil)
		return report, errors.Join(err, snapshot.Close())
	})
}

// Check is Fsck for a store that is not open, even a store that Open refuses. It changes nothing.
func Check(ctx context.Context, o Options) (_ *Report, err error) {
	o.setDefaults()
	defer wrap(&err, "checking store %s", o.Dir)
	db, logless, err := openToCheck(&o)
	if err != nil {
		return nil, err
	}
	defer closing(&err, db)
	j, unjudged := newMarkJudge(db) // fsck reports the unreadable row
	state := j.look(o.FS, o.MarkPath)
	var markErr error
	switch {
	case state.said == nil, state.Kind == MarkOld && unjudged == nil:
		markErr = errors.New(state.What)
	case state.said.Store != j.id:
		markErr = fmt.Errorf("the mark is of store %x, this is store %x", state.said.Store, j.id)
	}
	report, err := fsck(ctx, db, state.said, markErr, nil)
	if err == nil && !report.damaged() { // find damaged blocks that have no rows
		err = eachTable(ctx, db, &o, nil, func(path string, bad error) {
			report.Problems = append(report.Problems, Problem{path, "is damaged where no row lies", bad.Error()})
		})
	}
	if err == nil && logless != nil {
		report.Problems = append([]Problem{*logless}, report.Problems...)
	}
	return report, err
}

// openToCheck opens a store for reading. If the log cannot be read, it opens only the tables and returns a Problem.
func openToCheck(o *Options) (db *pebble.DB, logless *Problem, err error) {
	db, err = openPebble(o, &damage{}, true)
	if !unreadable(err) || errors.Is(err, ErrNoStore) {
		return db, nil, err
	}
	at := *o
	at.FS = withoutLogs{o.FS}
	db, second := openPebble(&at, &damage{}, true)
	if second != nil { // the log is not the cause
		return nil, nil, Explain(err)
	}
	return db, &Problem{"log",
		"cannot be read: the latest changes are in it alone; what follows is checked without them", err.Error()}, nil
}

// withoutLogs hides a store's log.
type withoutLogs struct{ vfs.FS }

func (f withoutLogs) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") }), err
}

// checker reads one view of the store from its first row to its last.
type checker struct {
	ctx    context.Context
	r      pebble.Reader
	report *Report
	series map[uint32]*seriesCheck
	holes  *holes // rows that are known to be missing
	facts  *facts

	seriesBlind bool // a row of a series cannot be read
	countersSet int  // counter rows that the journals' changes set, minus the rows that exist

	progress     Progress // through the journal, most of the work
	links, total int64
}

// seriesCheck is the state of the check of one series' journal.
type seriesCheck struct {
	name  string
	row   Reach
	last  Reach // the series' row according to the journal's links so far
	blind bool  // the next part of the journal cannot be read

	nameless bool // the series' row, which has its name, cannot be read
}

// fsck reads every table once, from its first row to its last. It sums up the rows' statements about each record: see
// facts. Unreadable rows do not stop it. If a record's sum is not 0, a second walk finds which of its rows are wrong.
func fsck(ctx context.Context, r pebble.Reader, marked *Head, markErr error, progress Progress) (*Report, error) {
	c := &checker{ctx: ctx, r: r, report: &Report{Last: make(map[string]uint64)}, series: make(map[uint32]*seriesCheck),
		facts: newFacts(), progress: progress}
	c.holes, _ = readHoles(r) // the walk itself reports damaged rows
	c.facts.partial = c.holes.partial
	for _, step := range []struct {
		table byte
		row   func(key, value []byte) error
	}{
		{0, c.strangeRow},
		{tableMeta, c.metaRow},
		{tableSeries, c.seriesRow},
		{tableEntry, c.recordRow}, // before the journal: an entry names its latest link
		{tableJournal, c.journalRow},
		{tablePart, c.recordRow},
		{tableCode, c.recordRow},
		{tableIdem, c.recordRow},
		{tableDue, c.recordRow},
		{tableDay, c.recordRow},
		{tableCounter, c.counterRow},
		{tableFeed, c.feedRow},
		{tableLost, c.lostRow},
		{tableEnd, c.strangeRow},
	} {
		upper := []byte{step.table + 1}
		if step.table == tableEnd {
			upper = []byte{0xff, 0xff}
		}
		look := func(key, value []byte) error { return cmp.Or(ctx.Err(), step.row(key, value)) }
		if err := scanPast(r, []byte{step.table}, upper, look, c.blindSpot); err != nil {
			return nil, err
		}
	}
	c.journalEnd()
	if c.countersSet != 0 && (c.countersSet > 0 || !c.holes.unlinked()) { // a missing change may have set a counter
		c.problemAt("counters", "%d rows that no change has set", -c.countersSet)
	}
	if err := c.badRecords(); err != nil {
		return nil, err
	}
	c.checkMark(marked, markErr)
	return c.report, nil
}

// badRecords names the records whose rows do not agree.
func (c *checker) badRecords() error {
	bad := c.facts.bad()
	if len(bad) == 0 {
		return nil
	}
	c.facts.look(bad[:min(len(bad), MaxProblems)])
	for _, table := range recordTables {
		err := scanPast(c.r, []byte{table}, []byte{table + 1}, func(key, value []byte) error {
			c.facts.row(key, value)
			return c.ctx.Err()
		}, func(blindSpot) {})
		if err != nil {
			return err
		}
	}
	for _, id := range bad[:min(len(bad), MaxProblems)] {
		d := c.facts.looked[id]
		series := namelessSeries(d.sequence)
		if s := c.series[d.sequence]; s != nil {
			series = s.name
		}
		switch {
		case id == 0:
			c.problemAt("lost numbers", "are missing or altered, or no link of the journal gives them up")
		case d.sequence == 0:
			c.problem(entryKey(id), "no record has this id, and rows belong to it: %s", d.mismatch())
		default:
			c.problem(entryKey(id), "number %d of series %q is not as the journal has it: %s", d.number, series,
				d.mismatch())
			c.affects(Affected{Series: series, From: d.number, To: d.number, Code: d.code, What: d.mismatch()})
		}
	}
	return nil
}

func (c *checker) strangeRow(key, _ []byte) error {
	c.problem(key, "belongs to no table")
	return nil
}

func (c *checker) recordRow(key, value []byte) error {
	if key[0] == tableEntry {
		c.report.Documents++
	}
	if !c.facts.row(key, value) {
		c.problem(key, "is unreadable")
	}
	return nil
}

func (c *checker) metaRow(key, value []byte) error {
	if string(key) == string(keyRestored) {
		c.problem(key, "the store came from a backup and is not reconciled")
	} else if check := metaRows[string(key[1:])]; check == nil {
		c.problem(key, "is unknown")
	} else if !check(value) {
		c.problem(key, "is unreadable: %x", value)
	}
	return nil
}

// metaRows has, for each meta row, a function that reports whether its value is readable.
var metaRows = map[string]func(value []byte) bool{
	"layout":       func(b []byte) bool { return len(b) == 4 && be.Uint32(b) == layout },
	"store":        func(b []byte) bool { return len(b) == 16 },
	"beat":         holdsJSON[time.Time],
	"unsure":       holdsJSON[time.Time],
	"backup":       holdsJSON[time.Time],
	"feed":         holdsJSON[uint64],
	"segments":     holdsJSON[segmentsRow],
	"former":       holdsJSON[[][16]byte],
	"settled":      holdsJSON[[]Lead],
	"mark":         holdsJSON[markRow],
	"restorations": holdsJSON[[]Gap],
	"behind":       holdsJSON[[]Witness],
	"repairs":      holdsJSON[[]RepairRecord],
	"scrub":        holdsJSON[Scrub],
	"read":         holdsJSON[Reading],
}

func holdsJSON[T any](b []byte) bool { return json.Unmarshal(b, new(T)) == nil }

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
	c.series[row.Sequence] = &seriesCheck{name: name, row: row, last: Reach{Sequence: row.Sequence}}
	return nil
}

// journalRow checks the next link of a series' journal and adds the link to the facts. The journal is the reference for
// the rows, because its chain cannot be altered in one place only.
func (c *checker) journalRow(key, value []byte) error {
	if c.links++; c.progress != nil && c.links%1024 == 0 {
		c.progress(c.links, c.total)
	}
	l, err := decodeLink(value)
	if err != nil || len(key) != 13 {
		c.problem(key, "is unreadable, or has a strange key")
		return nil
	}
	sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
	s := c.series[sequence]
	if s == nil && !c.seriesBlind {
		c.problem(key, "belongs to no series")
		return nil
	}
	if s == nil {
		s = &seriesCheck{name: namelessSeries(sequence), blind: true, nameless: true}
		c.series[sequence] = s
	}
	if h := c.holes.row(sequence, s.last.Position+1); h.To > 0 && position == h.To+1 && l.Previous == h.Hash {
		// skip the links known to be missing
		s.last.Position, s.last.Hash, s.last.Last = h.To, h.Hash, max(s.last.Last, h.Numbers.To)
	}
	if s.blind { // the previous link is unreadable: trust this link
		s.blind = false
		s.last.Position, s.last.Hash = position-1, l.Previous
		if l.Op == opAppend && l.Number > s.last.Last+1 {
			c.affects(s.unseen(l.Number - 1))
			s.last.Last = l.Number - 1
		}
	}
	if position != s.last.Position+1 {
		c.problem(key, "follows position %d of series %q", s.last.Position, s.name)
	}
	if l.Previous != s.last.Hash {
		c.problem(key, "does not continue the chain of series %q", s.name)
	}
	first := l.Number
	if given := c.holes.row(sequence, position); l.Op == opSkip && given.digest == l.Entry {
		first = given.Numbers.From
		c.report.Lost = append(c.report.Lost, Lost{s.name, first, l.Number, time.Unix(0, l.At).UTC(), given.Reason})
	} else if l.Op == opSkip {
		first = s.last.Last + 1
	}
	switch {
	case l.Op == opAdvance:
	case first > s.last.Last+1:
		c.problem(key, "number %d of series %q follows %d: a gap", first, s.name, s.last.Last)
	case first <= s.last.Last || l.Number < first:
		c.problem(key, "number %d of series %q was used before: a duplicate", first, s.name)
	}
	if l.Op != opAdvance {
		s.last.Last = max(s.last.Last, l.Number)
	}
	s.last.Position, s.last.Hash = position, hashLink(key, value)
	if !c.facts.link(key, &l) {
		c.problem(key, "has the operation %d, and revision %d", l.Op, l.Revision)
	}
	return c.compareCounters(key, &l)
}

func (c *checker) compareCounters(key []byte, l *link) error {
	for _, v := range l.Counters {
		value, err := get(c.r, counterKey(v.Origin, v.Line))
		switch {
		case err != nil && !errors.Is(err, ErrNotFound) && !unreadable(err):
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

func (c *checker) journalEnd() {
	rows := make(map[string]Reach)
	for _, s := range c.series {
		rows[s.name] = s.row
	}
	c.report.Missing = c.holes.missing(rows, nil)
	for _, sequence := range slices.Sorted(maps.Keys(c.series)) {
		switch s := c.series[sequence]; {
		case s.nameless:
			s.row = s.last
		case s.blind && s.row.Last > s.last.Last: // the journal's end cannot be read
			c.affects(s.unseen(s.row.Last))
		case !s.blind && s.last != s.row:
			c.problem(seriesKey(s.name), "ends at number %d, position %d; its journal at %d, %d, or the hashes differ",
				s.row.Last, s.row.Position, s.last.Last, s.last.Position)
		}
	}
}

// counterRow counts a counter row: exactly one change in the journals must have set the counter to the row's revision.
func (c *checker) counterRow(key, value []byte) error {
	if len(key) != 21 || len(value) != counterSize {
		c.problem(key, "is unreadable")
		return nil
	}
	c.countersSet--
	return nil
}

func (c *checker) feedRow(key, value []byte) error {
	if id, _, ok := parseFeed(value); len(key) != 9 || !ok {
		c.problem(key, "is unreadable")
	} else if c.facts.of(id).revision < 2 {
		c.problem(key, "entry %d has not changed", id)
	}
	return nil
}

// lostRow adds a row of given-up numbers to the facts: a link of the journal must have given up these numbers.
func (c *checker) lostRow(key, value []byte) error {
	if len(key) != 13 {
		c.problem(key, "has a strange key")
	} else if row := c.holes.row(be.Uint32(key[1:]), be.Uint64(key[5:])); row.To == 0 && row.Partial == nil {
		c.facts.row(key, value)
	}
	return nil
}

func (c *checker) problem(key []byte, format string, args ...any) {
	c.problemAt(describeKey(key), format, args...)
}

func (c *checker) problemAt(where, format string, args ...any) {
	if len(c.report.Problems) < MaxProblems {
		c.report.Problems = append(c.report.Problems, Problem{Where: where, What: fmt.Sprintf(format, args...)})
	}
}

func (c *checker) affects(a Affected) {
	if len(c.report.Affected) < MaxProblems {
		c.report.Affected = append(c.report.Affected, a)
	}
}

// unseen returns the numbers after the last readable link of a series' journal, up to a number (to).
func (s *seriesCheck) unseen(to uint64) Affected {
	return Affected{Series: s.name, From: s.last.Last + 1, To: to, What: "their journal"}
}

// markProblem is the Where of a Problem with the mark.
const markProblem = "high-water mark"

// checkMark compares the store's numbers with the mark's content; err is the error of reading the mark. If both are
// nil, it checks nothing.
func (c *checker) checkMark(marked *Head, err error) {
	switch {
	case err != nil:
		c.problemAt(markProblem, "%v", err)
	case marked != nil:
		_, list, _ := Relate(numbersHead(marked.Store, c.report.Last, 0), marked) // reads no medium
		for _, l := range list {
			if l.There > l.Here {
				c.problemAt(markProblem, "says %d for series %q, which ends at %d: acknowledged records are missing",
					l.There, l.Series, l.Here)
			}
		}
	}
}

func describeKey(key []byte) string {
	if len(key) == 0 {
		return "row without a key"
	}
	tables := []string{"", "meta", "series", "journal", "entry", "part", "code", "key", "due", "counter", "feed",
		"lost", "day"}
	name := "unknown table"
	if int(key[0]) < len(tables) {
		name = tables[key[0]]
	}
	rest := key[1:]
	switch {
	case slices.Contains([]byte{tableMeta, tableSeries}, key[0]):
		return fmt.Sprintf("%s %q", name, rest)
	case key[0] == tableJournal && len(rest) == 12:
		return fmt.Sprintf("journal of series %d, position %d", be.Uint32(rest), be.Uint64(rest[4:]))
	case key[0] == tableEntry && len(rest) == 8:
		return fmt.Sprintf("entry %d", be.Uint64(rest))
	case key[0] == tablePart && len(rest) > 8:
		return fmt.Sprintf("part %q of entry %d", rest[8:], be.Uint64(rest))
	}
	return fmt.Sprintf("%s %X", name, rest)
}

// blindSpot reports an unreadable range of a table. If the range is in the journal, the check of the affected series
// continues after the range.
func (c *checker) blindSpot(h blindSpot) {
	what := "rows cannot be read"
	switch h.From[0] {
	case tableCode, tableIdem, tableDue, tableDay, tableCounter:
		what += "; they can be rebuilt from other rows"
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

// sequenceAt returns the sequence of the series in a journal's key, which may be short.
func sequenceAt(key []byte) uint32 {
	var b [5]byte
	copy(b[:], key)
	return be.Uint32(b[1:])
}

func namelessSeries(sequence uint32) string {
	return fmt.Sprintf("(series %d, whose name cannot be read)", sequence)
}
