package storage

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

var (
	// ErrNotFound: no such record, part or key.
	ErrNotFound = errors.New("not found")
	// ErrKeyTaken: the idempotency key has made a record already; Lookup returns it. No number was spent.
	ErrKeyTaken = errors.New("idempotency key is taken")
	// ErrCodeTaken: the code has a record already. No number was spent.
	ErrCodeTaken = errors.New("code is taken")
	// ErrTurn: a record with a lower number of the same series could not be made, so this number is not the next one.
	// No number was spent.
	ErrTurn = errors.New("a record before this one in its series was not made")
	// ErrPartExists: a part of that name exists. Parts are written once.
	ErrPartExists = errors.New("part exists")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrExists: Create found something in the place of the store or of its mark.
	ErrExists = errors.New("something is there already")
	// ErrNoStore: Open found no store. It never makes one, so that a mistyped path cannot restart numbering at 1.
	ErrNoStore = errors.New("no store")
	// ErrMark: the store is behind its high-water mark (acknowledged records are missing), or the mark is missing,
	// unreadable or another store's. To continue issuing could use numbers twice.
	ErrMark = errors.New("store and high-water mark do not agree")
	// ErrInUse: another process has the store open, most likely the appliance.
	ErrInUse = errors.New("store is in use")
	// ErrReadOnly: the store was opened for reading only.
	ErrReadOnly = errors.New("store is open to read only")
	// ErrRestored: the store was made of other media, and Settle has not yet settled which numbers were spent.
	ErrRestored = errors.New("store was made of other media and its numbers are not settled")
	// ErrBehind: another medium knows more of this store's history than the store; see Store.Behind. To take more
	// numbers would use numbers twice.
	ErrBehind = errors.New("another medium knows more than the store")
	// ErrMissing: documents or numbers are lost, and nobody has accepted that by their numbers.
	ErrMissing = errors.New("a loss is not accepted")
	// ErrDiverged: a second copy holds another history than the store, so nothing can be taken from it.
	ErrDiverged = errors.New("the second copy holds another history")
	// ErrUnreadable: a medium does not return what lies on it, and nobody knows what that is. It may answer later.
	ErrUnreadable = errors.New("the medium cannot be read")
	// ErrNotMounted: the second copy's medium is not mounted where it was.
	ErrNotMounted = errors.New("the second copy's medium is not mounted")
	// ErrCorrupt: rows contradict each other or the disk returned damaged blocks. Nothing more is written.
	ErrCorrupt = errors.New("store is damaged")
)

// ConflictError reports that a record was not in the state from which Advance should move it.
type ConflictError struct {
	Have State // the state it is in
}

func (e *ConflictError) Error() string { return fmt.Sprintf("record is in state %d", e.Have) }

// damagedError is ErrCorrupt for a person: which file is damaged, what helps, and the storage engine's own words
// behind.
type damagedError struct {
	what, help string
	err        error
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("%v: %s; %s (%s)", ErrCorrupt, e.what, e.help, oneLine(e.err.Error()))
}

func (e *damagedError) Unwrap() []error { return []error{ErrCorrupt, e.err} }

const (
	// repairAdvice is the advice for a store that can still be opened for reading.
	repairAdvice = "dtectl fsck names the documents, dtectl recover takes them from the other media"
	// listAdvice is what helps where Pebble's manifest, in which it lists its tables, or the marker that says which
	// manifest counts, is damaged: without them Pebble opens nothing; the tables and the log are there all the same.
	listAdvice = "dtectl recover makes the store anew of its tables, its log and the other media"
)

// explanation is what an error of Pebble means, told apart by its text alone.
type explanation struct {
	text *regexp.Regexp
	what string // as Regexp.Expand reads it
	help string
}

// openErrors are Pebble's at an Open; readErrors those of a damaged row, the last one without a file.
var (
	openErrors = []explanation{
		{regexp.MustCompile(`file (\d+) \(type sstable\) unknown`),
			"its list of tables names $1.sst, which is not there", listAdvice},
		{regexp.MustCompile(`(\d+): object size mismatch .*: (\d+) \(disk\) != (\d+) \(MANIFEST\)`),
			"$1.sst is $2 bytes long, and its list of tables says $3", listAdvice},
		{regexp.MustCompile(`MANIFEST-\d+`), "its list of tables, $0, cannot be read", listAdvice},
		{regexp.MustCompile(`is not pristine`),
			"marker.format-version…, which says how its tables are to be read, is gone", listAdvice},
		{regexp.MustCompile(`replaying WAL`), "its log cannot be read", repairAdvice},
	}
	readErrors = []explanation{
		{regexp.MustCompile(`\d{6,}\.(?:sst|log)`), "$0 cannot be read", repairAdvice},
		{regexp.MustCompile(`file (\d{6,})`), "$1.sst cannot be read", repairAdvice},
		{regexp.MustCompile(``), "its rows contradict each other", repairAdvice},
	}
)

// explained returns an error as a damagedError; nil if it is none of those in a list.
func explained(err error, list []explanation) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, e := range list {
		if at := e.text.FindStringSubmatchIndex(text); at != nil {
			return &damagedError{string(e.text.ExpandString(nil, e.what, text, at)), e.help, err}
		}
	}
	return nil
}

// Explain adds to an error of a damaged store the file concerned and the remedy, in one line. It returns other errors
// unchanged.
func Explain(err error) error {
	var said *damagedError
	if errors.As(err, &said) || !errors.Is(damaged(err), ErrCorrupt) {
		return err
	}
	return explained(err, readErrors)
}

// oneLine joins the lines of an error, each once, without what says nothing.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "<corruption detail carrier>" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// damage remembers the first sign that the disk does not return what was written: Pebble's word, a row of ours that
// does not decode, a read that fails. From then on nothing new is stored: "corruption stops issuing, loudly".
type damage struct {
	first  atomic.Pointer[string]
	blocks badBlocks
}

func (d *damage) err() error {
	if first := d.first.Load(); first != nil {
		return fmt.Errorf("%w: %s", ErrCorrupt, *first)
	}
	return nil
}

// note remembers a message, and says whether it is the first.
func (d *damage) note(message string) bool { return d.first.CompareAndSwap(nil, &message) }

// Health is nil while the store can take a new record: ErrCorrupt, ErrTables, ErrRestored, ErrReadOnly. It reads no
// disk and costs almost nothing: a probe may call it at any rate.
func (s *Store) Health() error {
	if err := s.writable(); err != nil {
		return err
	}
	if s.tables != nil {
		return s.tables.err()
	}
	return nil
}

// suspect looks at an error of a call: one that the medium made is remembered.
func (s *Store) suspect(err error) {
	if unreadable(err) && s.damage.note(err.Error()) {
		s.o.Logger.Error("store is damaged", "error", err.Error())
	}
}
