package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"dtegate/engine/dte"
	"dtegate/storage"
)

// Whenever is the latest time of a record in a queue; reading up to it returns all records.
var Whenever = time.Unix(0, math.MaxInt64)

// PutOff reports whether a record for MH must wait. Such a record waits less than two hours: a later time is from a
// clock that was ahead, and the record is due.
func PutOff(entry storage.Entry, now time.Time) bool {
	return entry.Due.At.After(now) && entry.Due.At.Before(now.Add(2*time.Hour))
}

// Due returns the records of a queue that are due, earliest first, at most limit of them. See PutOff.
func Due(store *storage.Store, queue string, now time.Time, limit int) ([]storage.Entry, error) {
	entries, err := store.Due(queue, Whenever, limit)
	return slices.DeleteFunc(entries, func(entry storage.Entry) bool { return PutOff(entry, now) }), err
}

// MaxCounted is the most records of one queue that are counted.
const MaxCounted = 100_000

// ErrLost means that the store no longer has what the next step of a record needs: a part, or a readable head. The
// cause is a repair or a rebuild with accepted losses, or a record of another program version. If a store returns other
// bytes than were written, the error is storage.ErrCorrupt instead, and the store accepts no change.
var ErrLost = errors.New("the store has lost a piece of the record")

// Part returns a part of a record that the store has, or ErrLost.
func Part(store *storage.Store, code storage.Code, name string) ([]byte, error) {
	data, err := store.Part(code, name)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("%w: part %q of %s", ErrLost, name, dte.Code(code))
	}
	return data, err
}

// Lost is a record that was taken out of its queue because a piece of it is lost.
type Lost struct {
	Code    string `json:"codigoGeneracion"` // or the code of a record that is not a document
	Control string `json:"numeroControl,omitempty"`
	Series  string `json:"series"` // the record's series in the store
	Number  uint64 `json:"number"` // in the series
	Queue   string `json:"queue"`  // in which the record waited; "" if its head cannot be read
	Why     string `json:"why,omitempty"`
}

// Name returns a record's name for people: control number and code, or series, number and code.
func (l *Lost) Name() string {
	if l.Control != "" {
		return l.Control + " " + l.Code
	}
	return fmt.Sprintf("%s %d %s", l.Series, l.Number, l.Code)
}

// LostRecords moves records that lack a piece to QueueLost, so that other records do not wait for them. The moved
// records keep their state and due time. Each start of the program, and each new bundle of contingency events, moves
// them back: the cause may be gone. LostRecords is safe for concurrent use.
type LostRecords struct {
	store *storage.Store
	log   *slog.Logger

	mu   sync.Mutex
	why  map[storage.Code]string // the errors of the records that were set aside since this start
	rest []Lost                  // lost records that Retry found; some may also be in QueueLost
}

func NewLostRecords(store *storage.Store, log *slog.Logger) *LostRecords {
	return &LostRecords{store: store, log: log, why: make(map[storage.Code]string)}
}

// SetAside moves a record to QueueLost, unless it has changed since it was read. why is for people and the log.
func (l *LostRecords) SetAside(ctx context.Context, entry storage.Entry, why error) error {
	stored, err := l.store.Get(entry.Code)
	if err != nil || stored.Revision != entry.Revision || stored.Due == nil || stored.Due.Queue == QueueLost {
		return err
	}
	if err := l.requeue(ctx, stored, QueueLost); err != nil {
		return fmt.Errorf("setting record %s aside: %w", dte.Code(entry.Code), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.why[entry.Code]; !again {
		l.log.Error("a record is set aside, the others go on", "code", dte.Code(entry.Code).String(), "series",
			stored.Series, "number", stored.Number, "queue", stored.Due.Queue, "error", why)
	}
	l.why[entry.Code] = why.Error()
	return nil
}

// Skip sets a record aside if err wraps ErrLost, and returns any other error.
func (l *LostRecords) Skip(ctx context.Context, entry storage.Entry, err error) error {
	if errors.Is(err, ErrLost) {
		return l.SetAside(ctx, entry, err)
	}
	return err
}

// Retry moves all lost records back to their queues. The next step sets a record aside again if the piece is still
// lost. Retry also finds records lost as a whole and documents without a signed form, for List.
func (l *LostRecords) Retry(ctx context.Context) error {
	entries, err := l.store.Due(QueueLost, Whenever, MaxCounted)
	if err != nil {
		return fmt.Errorf("reading queue %s: %w", QueueLost, err)
	}
	for _, entry := range entries {
		if queue := queueOf(entry); queue != "" {
			if err := l.requeue(ctx, entry, queue); err != nil {
				return fmt.Errorf("trying lost record %s again: %w", dte.Code(entry.Code), err)
			}
		}
	}
	incomplete, err := l.store.Incomplete()
	if err != nil {
		return err
	}
	var rest []Lost
	for _, a := range incomplete {
		lost := Lost{Code: dte.Code(a.Code).String(), Series: a.Series, Number: a.From}
		entry, err := l.store.Get(a.Code)
		if err == nil && IsDocument(entry.State) {
			var h *Head
			if h, err = DecodeHead(entry); err == nil {
				lost.Control = h.ControlNumber
				_, err = SignedForm(l.store, entry.Code, h)
			}
		}
		switch {
		case errors.Is(err, storage.ErrNotFound):
			lost.Why = "the store has lost the record"
		case errors.Is(err, ErrLost):
			lost.Why = err.Error()
		case err != nil:
			return err
		default:
			continue // the signed form is intact; other pieces are seldom needed
		}
		rest = append(rest, lost)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = rest
	return nil
}

// Forget removes from QueueLost a record that people have settled, and reports whether the record was there.
func (l *LostRecords) Forget(ctx context.Context, code storage.Code) (bool, error) {
	entry, err := l.store.Get(code)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (entry.Due == nil || entry.Due.Queue != QueueLost) {
		return false, nil
	}
	if err == nil {
		_, err = Move(ctx, l.store, code, entry.State, storage.Change{To: entry.State})
	}
	return err == nil, err
}

// requeue moves a record to another queue, unless the record's state has changed.
func (l *LostRecords) requeue(ctx context.Context, entry storage.Entry, queue string) error {
	_, err := Move(context.WithoutCancel(ctx), l.store, entry.Code, entry.State, storage.Change{To: entry.State,
		Due: &storage.Due{Queue: queue, At: entry.Due.At}})
	if _, conflict := errors.AsType[*storage.ConflictError](err); conflict {
		return nil
	}
	return err
}

// List counts the records in QueueLost (total) and returns at most limit lost records: those in QueueLost first, then
// the others that Retry found.
func (l *LostRecords) List(limit int) (total int, list []Lost, err error) {
	entries, err := l.store.Due(QueueLost, Whenever, MaxCounted)
	if err != nil {
		return 0, nil, fmt.Errorf("reading queue %s: %w", QueueLost, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, entry := range entries[:min(limit, len(entries))] {
		lost := Lost{Code: dte.Code(entry.Code).String(), Series: entry.Series, Number: entry.Number,
			Queue: queueOf(entry), Why: l.why[entry.Code]}
		if h, err := DecodeHead(entry); err == nil && IsDocument(entry.State) {
			lost.Control = h.ControlNumber
		}
		list = append(list, lost)
	}
	for _, lost := range l.rest {
		if len(list) < limit && !slices.ContainsFunc(list, func(l Lost) bool { return l.Code == lost.Code }) {
			list = append(list, lost)
		}
	}
	return len(entries), list, nil
}

// queueOf returns the queue in which a lost record waited, or "". If records in its state wait in several queues, the
// record's head shows which.
func queueOf(entry storage.Entry) string {
	queues := slices.DeleteFunc(slices.Clone(rows[entry.State].queues),
		func(queue string) bool { return queue == QueueLost })
	if len(queues) == 1 {
		return queues[0]
	}
	if h, err := DecodeHead(entry); err == nil {
		if h.Invalidation.Pending() {
			return QueueInvalidate
		}
		if due := h.Delivery.Due(); due != nil {
			return due.Queue
		}
	}
	return ""
}
