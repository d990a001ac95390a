package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

var (
	// ErrNotFound: the record, part or key does not exist.
	ErrNotFound = errors.New("not found")
	// ErrKeyTaken: a record with this idempotency key exists; Lookup returns it. No number was spent.
	ErrKeyTaken = errors.New("idempotency key is taken")
	// ErrCodeTaken: a record with this code exists. No number was spent.
	ErrCodeTaken = errors.New("code is taken")
	// ErrTurn: a record with a lower number in the series was not stored; therefore this number is not the next one. No
	// number was spent.
	ErrTurn = errors.New("an earlier record of its series was not stored")
	// ErrPartExists: a part of that name exists. Parts are written once.
	ErrPartExists = errors.New("part exists")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrExists: Create or Backup would replace an existing file or folder.
	ErrExists = errors.New("something is there already")
	// ErrNoStore: Open found no store. Open never makes a store, because a mistyped path would restart numbering at 1.
	ErrNoStore = errors.New("no store")
	// ErrLayout: another version of this package wrote the store. Nothing was read or changed.
	ErrLayout = errors.New("another version of dted wrote the store")
	// ErrMark: the high-water mark is missing, unreadable, old or another store's. Issuing could use numbers twice.
	ErrMark = errors.New("store and high-water mark do not agree")
	// ErrForeign: according to Options.Ours, the documents of a store or of another medium are another branch's.
	ErrForeign = errors.New("another branch's")
	// ErrInUse: another process has the store open, most likely the appliance.
	ErrInUse = errors.New("store is in use: the appliance must be stopped first")
	// ErrReadOnly: the store was opened for reading only.
	ErrReadOnly = errors.New("store is open for reading only")
	// ErrRestored: the store was rebuilt from other media, and Settle has not yet decided which numbers were spent.
	ErrRestored = errors.New("store was rebuilt from other media and its numbers are not settled")
	// ErrBehind: another medium knows more of this store's history than the store; see Store.Behind. The store's next
	// numbers may be used already.
	ErrBehind = errors.New("another medium knows more than the store")
	// ErrMissing: documents or numbers are lost, and no person has accepted the loss.
	ErrMissing = errors.New("a loss is not accepted")
	// ErrDiverged: a medium has another history than the store; therefore its records cannot be used.
	ErrDiverged = errors.New("a medium holds another history")
	// ErrUnreadable: a medium does not return its data, so its content is unknown. A later read may succeed.
	ErrUnreadable = errors.New("the medium cannot be read")
	// ErrNotMounted: the second copy's medium is no longer mounted.
	ErrNotMounted = errors.New("the second copy's medium is not mounted")
	// ErrCorrupt: rows contradict each other or the disk returned damaged blocks. The store takes no new record.
	ErrCorrupt = errors.New("store is damaged")
)

// ConflictError reports that a record was not in the state that Advance expected.
type ConflictError struct {
	Have State // the record's state
}

func (e *ConflictError) Error() string { return fmt.Sprintf("record is in state %d", e.Have) }

// damagedError is ErrCorrupt for a person: the damaged file, the remedy, and then the storage engine's own message.
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
	// listAdvice is the advice when Pebble's manifest (its list of tables) or the marker that names the current
	// manifest is damaged: Pebble then opens nothing, although the tables and the log still exist.
	listAdvice = "dtectl recover rebuilds the store from its tables, its log and the other media"
)

// explanation is the meaning of a Pebble error. Pebble's errors differ only in their text.
type explanation struct {
	text *regexp.Regexp
	what string // a template for Regexp.Expand
	help string
}

// openErrors explains Pebble's errors at Open, readErrors its errors at damaged rows. The first match counts; the last
// entry of readErrors matches every error.
var (
	openErrors = []explanation{
		{regexp.MustCompile(`file (\d+) \(type sstable\) unknown`),
			"its list of tables names $1.sst, which is not there", listAdvice},
		{regexp.MustCompile(`(\d+): object size mismatch .*: (\d+) \(disk\) != (\d+) \(MANIFEST\)`),
			"$1.sst is $2 bytes long, and its list of tables says $3", listAdvice},
		{regexp.MustCompile(`MANIFEST-\d+`), "its list of tables, $0, cannot be read", listAdvice},
		{regexp.MustCompile(`is not pristine`),
			"marker.format-version…, which says how to read its tables, is gone", listAdvice},
		{regexp.MustCompile(`replaying WAL`), "its log cannot be read", repairAdvice},
	}
	readErrors = []explanation{
		{regexp.MustCompile(`\d{6,}\.(?:sst|log)`), "$0 cannot be read", repairAdvice},
		{regexp.MustCompile(`file (\d{6,})`), "$1.sst cannot be read", repairAdvice},
		{regexp.MustCompile(``), "its rows contradict each other", repairAdvice},
	}
)

// explained returns an error as a damagedError, or nil if list has no explanation.
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

// Explain adds to an error of a damaged store the file and the remedy, in one line. It returns other errors unchanged.
func Explain(err error) error {
	var said *damagedError
	if errors.As(err, &said) || !errors.Is(damaged(err), ErrCorrupt) {
		return err
	}
	return explained(err, readErrors)
}

func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// closing closes c and adds the error of Close to err.
func closing(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }

// oneLine joins the lines of an error and omits repeated and meaningless lines.
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

// damage remembers the first sign that the disk does not return what was written: an error of Pebble, a row that does
// not decode, a failed read. From then on the store takes no new record.
type damage struct{ first atomic.Pointer[string] }

func (d *damage) err() error {
	if first := d.first.Load(); first != nil {
		return fmt.Errorf("%w: %s", ErrCorrupt, *first)
	}
	return nil
}

// Health returns nil while the store can take a new record; else ErrCorrupt, ErrTables, ErrRestored, ErrBehind or
// ErrReadOnly. Health reads no disk and is cheap enough for any probe.
func (s *Store) Health() error {
	return cmp.Or(s.writable(), s.o.tables.err())
}

// suspect notes damage if the medium caused the error of a call.
func (s *Store) suspect(err error) {
	if unreadable(err) {
		s.o.damaged(s.damage, err.Error())
	}
}
