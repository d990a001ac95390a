package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Report is what Fsck found.
type Report struct {
	Documents int
	Series    int
	Last      map[string]uint64 // last number of each series
	Lost      []Lost            // numbers that were given up: this is no contradiction
	// what a damaged second copy lacked when the store was rebuilt from it: no contradiction either
	Missing  []Missing
	Problems []Problem  // none in a sound store; at most MaxProblems
	Affected []Affected // documents of which something cannot be read; at most MaxProblems
}

// Problem is one contradiction, or one thing that cannot be read.
type Problem struct {
	Where  string // the row, or the file
	What   string
	Detail string // Pebble's own words, where it has any
}

// Affected is a document, or several of one series, that cannot be read completely.
type Affected struct {
	Series   string
	From, To uint64 // numbers
	Code     Code   // of the one document; zero: not known
	What     string // what cannot be read
}

func (p Problem) String() string { return p.Where + ": " + p.What }

// MaxProblems is the largest number of problems that Fsck lists.
const MaxProblems = 1000

// Fsck reads every row of the store, as it is at one moment, and compares it with all other rows about the same thing:
// numbers without gap or duplicate, the journal's chain, the digests of records and parts, the indexes in both
// directions, and the mark. It reads all data and needs memory for the series only. Issuing may continue meanwhile.
func (s *Store) Fsck(ctx context.Context) (*Report, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("checking store: %w", err)
	}
	defer s.leave()
	// The mark first: the store only grows after it.
	var marked reached
	var markErr error
	if s.mark != nil {
		marked, markErr = s.mark.prove()
	}
	snapshot := s.db.NewSnapshot()
	report, err := fsck(ctx, snapshot, marked, markErr, nil)
	if err = errors.Join(err, snapshot.Close()); err != nil {
		return nil, fmt.Errorf("checking store: %w", err)
	}
	return report, nil
}

// Check is Fsck for a store that is not open, also for a store that Open refuses. It changes nothing.
func Check(ctx context.Context, o Options) (*Report, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	db, logless, err := openToCheck(&o)
	if err != nil {
		return nil, fmt.Errorf("checking store %s: %w", o.Dir, err)
	}
	marked, of, markErr := readMark(o.FS, o.MarkPath)
	if id, err := get(db, keyStore); markErr == nil && err != nil {
		markErr = errors.New("was compared with nothing: the store's identity cannot be read")
	} else if markErr == nil && string(id) != string(of[:]) {
		markErr = fmt.Errorf("the mark is of store %x, this is store %x", of, id)
	}
	if j, err := newMarkJudge(db); err == nil && markErr == nil { // else the walk says what cannot be read
		if state := j.look(o.FS, o.MarkPath); state.Kind == MarkOld {
			markErr = errors.New(state.What)
		}
	}
	report, err := fsck(ctx, db, marked, markErr, nil)
	if err == nil && len(report.Problems) == 0 { // blocks that hold no row of ours
		err = eachTable(ctx, db, &o, nil, func(path string, bad error) {
			report.Problems = append(report.Problems, Problem{path, "is damaged where no row lies", bad.Error()})
		})
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("checking store %s: %w", o.Dir, err)
	}
	if logless != nil {
		report.Problems = append([]Problem{*logless}, report.Problems...)
	}
	return report, nil
}

// openToCheck opens a store to read. Of one whose log cannot be read, it opens the tables alone, and says so.
func openToCheck(o *Options) (db *pebble.DB, logless *Problem, err error) {
	o.anyLayout = true
	db, err = openPebble(o, &damage{}, true)
	if err == nil {
		if wrong := checkLayout(db); wrong != nil && !unreadable(wrong) {
			return nil, nil, errors.Join(wrong, db.Close())
		}
	}
	if !unreadable(err) || errors.Is(err, ErrNoStore) {
		return db, nil, err
	}
	at := *o
	at.FS = withoutLogs{o.FS}
	db, second := openPebble(&at, &damage{}, true)
	if second != nil { // it is not the log
		return nil, nil, Explain(err)
	}
	return db, &Problem{"log",
		"cannot be read: the latest changes are in it alone; what follows is checked without them", err.Error()}, nil
}

// withoutLogs hides a store's log.
type withoutLogs struct{ vfs.FS }

// List implements vfs.FS.
func (f withoutLogs) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") }), err
}

// Unwrap implements vfs.FS.
func (f withoutLogs) Unwrap() vfs.FS { return f.FS }

// checker walks one view of the store, and checks the rows that are not the journal's.
type checker struct {
	ctx    context.Context
	r      pebble.Reader
	report *Report
	rows   int
	series map[uint32]*seriesCheck

	holes *holes // what is known to be missing

	partsOf     uint64 // the entry whose parts are being counted
	parts       uint32
	seriesBlind bool // rows of series cannot be read
}

func newChecker(ctx context.Context, r pebble.Reader) *checker {
	c := &checker{ctx: ctx, r: r, report: &Report{Last: make(map[string]uint64)}, series: make(map[uint32]*seriesCheck)}
	var err error
	if c.holes, err = readHoles(r); err != nil {
		c.problemAt("lost numbers", "%v", err)
	}
	return c
}

// seriesCheck is how far the walk through a series' journal has come.
type seriesCheck struct {
	name  string
	row   seriesRow
	last  seriesRow // what the journal up to here adds up to
	blind bool      // what comes next of the journal cannot be read

	nameless bool // neither can its row
}

// fsck tells the quick way whether all is well, and the slow one what is not. What cannot be read does not end it.
func fsck(ctx context.Context, r pebble.Reader, marked reached, markErr error, progress Progress) (*Report, error) {
	report, sound, err := quickFsck(ctx, r, marked, markErr, progress)
	if sound || err != nil && !unreadable(err) {
		return report, err
	}
	if report, err = slowFsck(ctx, r, marked, markErr); err == nil && len(report.Problems) == 0 {
		report.Problems = []Problem{{Where: "store", What: "its tables do not agree, and no row tells which is wrong"}}
	}
	return report, err
}

// slowFsck looks up, for every row, the rows that it speaks of.
func slowFsck(ctx context.Context, r pebble.Reader, marked reached, markErr error) (*Report, error) {
	c := newChecker(ctx, r)
	j := &journalCheck{checker: c}
	j.compare = j.compareLink
	steps := []struct {
		table byte
		row   func(key, value []byte) error
		end   func() error
	}{
		{tableMeta, c.metaRow, nil},
		{tableSeries, j.seriesRow, nil},
		{tableJournal, j.journalRow, j.journalEnd},
		{tableEntry, c.entryRow, nil},
		{tablePart, c.partRow, c.partsEnd},
		{tableCode, c.leadRow, nil},
		{tableIdem, c.leadRow, nil},
		{tableDue, c.leadRow, nil},
		{tableDay, c.leadRow, nil},
		{tableCounter, j.counterRow, j.counterEnd},
		{tableFeed, c.feedRow, nil},
		{tableLost, c.lostRow, nil},
	}
	for _, step := range steps {
		if err := scanPast(r, []byte{step.table}, []byte{step.table + 1}, c.watchRows(step.row),
			c.blindSpot); err != nil {
			return nil, err
		}
		if step.end != nil {
			if err := c.readable(nil, nil, step.end()); err != nil {
				return nil, err
			}
		}
	}
	if err := c.strangeRows(); err != nil {
		return nil, err
	}
	c.checkMark(marked, markErr)
	return c.report, nil
}

// strangeRows reports what is in no table.
func (c *checker) strangeRows() error {
	for _, bounds := range [][2][]byte{{nil, {tableMeta}}, {{tableEnd}, nil}} {
		if bounds[1] == nil {
			bounds[1] = []byte{0xff, 0xff}
		}
		err := scanPast(c.r, bounds[0], bounds[1], c.watchRows(func(key, _ []byte) error {
			c.problem(key, "belongs to no table")
			return nil
		}), c.blindSpot)
		if err != nil {
			return err
		}
	}
	return nil
}

// watchRows looks at the context now and then.
func (c *checker) watchRows(row func(key, value []byte) error) func(key, value []byte) error {
	return func(key, value []byte) error {
		if c.rows++; c.rows%1024 == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		return c.readable(key, value, row(key, value))
	}
}

func (c *checker) problem(key []byte, format string, args ...any) {
	c.problemAt(describeKey(key), format, args...)
}

func (c *checker) problemAt(where, format string, args ...any) {
	if len(c.report.Problems) < MaxProblems {
		c.report.Problems = append(c.report.Problems, Problem{Where: where, What: fmt.Sprintf(format, args...)})
	}
}

// get reads a row; nil when it is not there. What cannot be read is an unreadableRow.
func (c *checker) get(key []byte) ([]byte, error) {
	row, err := get(c.r, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil && unreadable(err):
		return nil, &unreadableRow{key, err}
	}
	return row, err
}

// entry reads an entry, nil when it is missing or unreadable: entryRow reports that.
func (c *checker) entry(id uint64) (*entryRow, []byte, error) {
	row, err := c.get(entryKey(id))
	if err != nil || row == nil {
		return nil, nil, err
	}
	if e, err := decodeEntry(id, row); err == nil {
		return &e, row, nil
	}
	return nil, row, nil
}

// markProblem is where a Problem lies that the mark knows of.
const markProblem = "high-water mark"

func (c *checker) checkMark(marked reached, err error) {
	const where = markProblem
	if err != nil {
		c.problemAt(where, "%v", err)
		return
	}
	here := numbersHead([16]byte{}, nil, 0)
	for _, s := range c.series {
		here.Series[s.name] = Reach{Last: s.row.Last}
	}
	there := marked.head([16]byte{})
	_, list, _ := Relate(here, there) // heads of numbers: no medium is read
	for _, l := range list {
		_, known := here.Series[l.Series]
		switch {
		case l.There <= l.Here: // what the store has more
		case !known && c.seriesBlind:
			c.problemAt(where, "says %d for series %s, whose row cannot be read", l.There, l.Series)
		case !known:
			c.problemAt(where, "says %d for series %s, which the store does not have", l.There, l.Series)
		default:
			c.problemAt(where, "says %d for series %q, which ends at %d: acknowledged records are missing", l.There,
				l.Series, l.Here)
		}
	}
}

// describeKey names a row for a person.
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
	case tableCode, tableIdem, tableDue, tableDay, tableCounter:
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
