// Package audit records the acts of people on the branch: who, when, what, and the outcome. The acts are one series of
// records in the store; the documents' hash chain, checks, backups and second copy thus cover the acts too. The
// chain proves only integrity: whoever can write a whole store can rebuild it. The box's mark on each act (package
// recordmac) proves authenticity.
package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/storage"
)

// Outcomes of an act. Without an outcome, the act is under way, or the appliance ended during the act.
const (
	Done    = "done"
	Nothing = "nothing" // there was nothing to change
	Refused = "refused" // nothing was changed
	Failed  = "failed"  // some changes may have been made
)

// Act is something that a person did. It contains no secret.
type Act struct {
	Number  uint64    `json:"number"` // in the order in which the acts began, from 1
	At      time.Time `json:"at"`
	Who     string    `json:"who"`              // the caller's own claim; only the admin token and From are verified
	From    string    `json:"from"`             // an address, or the program on the box itself
	What    string    `json:"what"`             // token.new, rules.push, …
	Target  string    `json:"target,omitempty"` // the object of the act
	Detail  string    `json:"detail,omitempty"`
	Outcome string    `json:"outcome,omitempty"`
	Error   string    `json:"error,omitempty"`
	// State is data that the code which recorded the act needs after a restart.
	State json.RawMessage `json:"state,omitempty"`
	// Authenticity is the result of checking the act's mark. It is not stored.
	Authenticity recordmac.Verdict `json:"authenticity,omitempty"`
}

// storedAct is a stored act. Its mark covers the previous act's code: the check finds acts that were removed or
// inserted, unless the newest acts were removed.
type storedAct struct {
	Act
	Previous string `json:"previous,omitempty"`
}

type Trail struct {
	store  *storage.Store
	series string
	box    *recordmac.Key
	now    func() time.Time

	mu    sync.Mutex   // one act is appended at a time
	last  storage.Code // code of the newest act
	known bool         // last is known
}

// New returns the trail of a store. ambiente is CAT-001. box marks the acts, unless it is nil.
func New(store *storage.Store, ambiente string, box *recordmac.Key, now func() time.Time) *Trail {
	return &Trail{store: store, series: ambiente + "/auditoria", box: box, now: now}
}

// Open is an act that has begun and has not ended.
type Open struct {
	Act
	code     storage.Code
	previous string
}

// Begin records that an act begins. After an error the act must not be done.
func (t *Trail) Begin(ctx context.Context, a Act) (*Open, error) {
	o := &Open{Act: a}
	return o, t.append(ctx, o, record.ActBegun)
}

// Record records an act that has ended.
func (t *Trail) Record(ctx context.Context, a Act) error {
	return t.append(ctx, &Open{Act: a}, record.ActEnded)
}

// Note is Record for a caller that continues after a failure. Note logs the failure.
func (t *Trail) Note(log *slog.Logger, a Act) {
	if err := t.Record(context.Background(), a); err != nil {
		log.Error("an act is not in the trail", "act", a.What, "who", a.Who, "target", a.Target, "error", err)
	}
}

func (t *Trail) append(ctx context.Context, o *Open, state storage.State) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.findLast(); err != nil {
		return fmt.Errorf("recording %s: %w", o.What, err)
	}
	o.At = t.now().UTC()
	_, _ = rand.Read(o.code[:]) // never fails since Go 1.24
	if t.last != (storage.Code{}) {
		o.previous = hex.EncodeToString(t.last[:])
	}
	if err := t.number(ctx, o, state); err != nil {
		t.known = false // the failed act may have been stored as the last
		return fmt.Errorf("recording %s: %w", o.What, err)
	}
	t.last = o.code
	return nil
}

// number gives an act its number, and stores the act with the box's mark. The mark covers the number.
func (t *Trail) number(ctx context.Context, o *Open, state storage.State) error {
	a, err := t.store.Begin(ctx, storage.Keys{Series: t.series})
	if err != nil {
		return err
	}
	defer a.Release()
	slot, err := a.Number()
	if err != nil {
		return err
	}
	o.Number = slot.Number
	head, err := t.head(o, state)
	if err != nil {
		return err
	}
	_, err = a.Append(storage.Draft{Code: o.code, State: state, Head: head, Due: due(o.At)})
	return err
}

// head returns the stored form of an act, with the box's mark.
func (t *Trail) head(o *Open, state storage.State) ([]byte, error) {
	r := storedAct{o.Act, o.previous}
	r.Authenticity = ""
	head, err := json.Marshal(r)
	return t.box.Mark(head, recordmac.Place{Series: t.series, Number: o.Number, Code: o.code, State: uint8(state)}), err
}

// recentActs is how many of the newest acts, by time, are searched for the highest number. If the clock was set back,
// the act with the latest time may not have the highest number.
const recentActs = 1000

func (t *Trail) findLast() error {
	if t.known {
		return nil
	}
	entries, err := t.store.Due(record.QueueAudit, time.Unix(0, 0), recentActs)
	if err != nil {
		return fmt.Errorf("reading acts: %w", err)
	}
	t.last = storage.Code{}
	var highest uint64
	for _, e := range entries {
		if e.Series == t.series && e.Number > highest {
			highest, t.last = e.Number, e.Code
		}
	}
	t.known = true
	return nil
}

// End records the outcome of an act that Begin recorded.
func (t *Trail) End(ctx context.Context, o *Open) error {
	head, err := t.head(o, record.ActEnded)
	if err == nil {
		_, err = record.Move(ctx, t.store, o.code, record.ActBegun, storage.Change{To: record.ActEnded, Head: head,
			Due: due(o.At)})
	}
	if err != nil {
		return fmt.Errorf("recording the outcome of %s: %w", o.What, err)
	}
	return nil
}

// due returns a due time that sorts the newest act first: the negative of the act's time.
func due(at time.Time) *storage.Due {
	return &storage.Due{Queue: record.QueueAudit, At: time.Unix(0, -at.UnixNano())}
}

// Acts returns the newest acts, at most limit, the newest first.
func (t *Trail) Acts(limit int) ([]Act, error) { return Read(t.store, t.box, limit) }

// Read is like Acts, for a store that is opened only for reading.
func Read(store *storage.Store, box *recordmac.Key, limit int) ([]Act, error) {
	entries, err := store.Due(record.QueueAudit, time.Unix(0, 0), limit)
	if err != nil {
		return nil, fmt.Errorf("reading acts: %w", err)
	}
	acts := make([]Act, 0, len(entries))
	for _, e := range entries {
		var a Act
		if err := json.Unmarshal(e.Head, &a); err != nil {
			return nil, errors.Join(fmt.Errorf("act %d: %w", e.Number, storage.ErrCorrupt), err)
		}
		a.Authenticity = check(box, &e)
		acts = append(acts, a)
	}
	return acts, nil
}

// Last returns the newest act for which accept returns true, or nil.
func (t *Trail) Last(accept func(*Act) bool) (*Act, error) {
	for limit := 64; ; limit *= 8 {
		acts, err := t.Acts(limit)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(acts, func(a Act) bool { return accept(&a) }); i >= 0 {
			return &acts[i], nil
		}
		if len(acts) < limit {
			return nil, nil
		}
	}
}

func check(box *recordmac.Key, e *storage.Entry) recordmac.Verdict {
	return box.Check(e.Head, recordmac.Place{Series: e.Series, Number: e.Number, Code: e.Code, State: uint8(e.State)})
}

// Authenticity is what the marks prove about the acts. Marks cannot show that the newest acts were removed.
type Authenticity struct {
	Acts     map[recordmac.Verdict]int
	Problems []string // the contradictions, in the order of the acts: rewritten, inserted or removed acts
}

// Authenticate checks the mark of every act of a store.
func Authenticate(store *storage.Store, box *recordmac.Key) (*Authenticity, error) {
	entries, err := store.Due(record.QueueAudit, time.Unix(0, 0), math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("reading acts: %w", err)
	}
	slices.SortFunc(entries, func(a, b storage.Entry) int {
		return cmp.Or(cmp.Compare(a.Series, b.Series), cmp.Compare(a.Number, b.Number))
	})
	a := &Authenticity{Acts: make(map[recordmac.Verdict]int)}
	var before storage.Code
	own := false // an earlier act has this box's mark
	for i, e := range entries {
		if i == 0 || e.Series != entries[i-1].Series {
			before, own = storage.Code{}, false
		}
		a.look(box, &e, before, own)
		own = own || check(box, &e) == recordmac.Own
		before = e.Code
	}
	return a, nil
}

func (a *Authenticity) look(box *recordmac.Key, e *storage.Entry, before storage.Code, own bool) {
	var r storedAct
	err := json.Unmarshal(e.Head, &r)
	verdict := check(box, e)
	a.Acts[verdict]++
	problem := func(format string, args ...any) {
		a.Problems = append(a.Problems, fmt.Sprintf("act %d (%q by %q): ", e.Number, r.What, r.Who)+fmt.Sprintf(format,
			args...))
	}
	previous := ""
	if before != (storage.Code{}) {
		previous = hex.EncodeToString(before[:])
	}
	switch {
	case err != nil:
		problem("it cannot be read: %v", err)
	case verdict == recordmac.Altered:
		problem("it was rewritten: it names this box, and is not as this box wrote it")
	case verdict != recordmac.Own && own:
		problem("it follows acts of this box and lacks its mark: it was rewritten or inserted")
	case verdict == recordmac.Own && r.Previous != previous:
		problem("this box wrote another act before it: acts were removed or inserted")
	}
}

func (a *Authenticity) String() string { return Sentence(a.Acts) }

// Sentence returns a text with the number of acts by kind of authenticity.
func Sentence(acts map[recordmac.Verdict]int) string {
	text := fmt.Sprintf("%d acts have this box's mark", acts[recordmac.Own])
	for _, p := range []struct {
		of   recordmac.Verdict
		text string
	}{{recordmac.None, ", %d came with a backup, or are older than the mark, and have no mark"},
		{recordmac.Other, ", %d came with a backup and have another box's"},
		{recordmac.Altered, ", %d WERE REWRITTEN"}} {
		if n := acts[p.of]; n > 0 {
			text += fmt.Sprintf(p.text, n)
		}
	}
	return text
}

const actRepair = "store.repair"

// maxDetail is the greatest length of a repair's text, in bytes.
const maxDetail = 1000

// RecordRepairs records each repair of the store that the trail lacks, once. The store keeps the list of unrecorded
// repairs even if the process ends. RecordRepairs does nothing before the store is settled: until then nobody may write
// to the store.
func (t *Trail) RecordRepairs(ctx context.Context, who, from string) error {
	if t.store.Restored() != nil || t.store.Behind() != nil {
		return nil
	}
	list, err := t.store.Unrecorded()
	if err != nil || len(list) == 0 {
		return err
	}
	for _, r := range list {
		last, err := t.Last(func(a *Act) bool { return a.What == actRepair && a.Target == r.Damaged })
		if err == nil && last == nil {
			err = t.Record(ctx, Act{Who: who, From: from, What: actRepair, Target: r.Damaged, Detail: RepairText(r),
				Outcome: Done})
		}
		if err != nil {
			return err
		}
	}
	// If we crash here, the next call finds the repairs in the trail and does not record them again.
	return t.store.Recorded()
}

// RepairText describes a repair: the rows taken from each medium, and the missing rows.
func RepairText(r storage.RepairRecord) string {
	var of []string
	for _, s := range r.Sources {
		of = append(of, fmt.Sprintf("%d rows of %s", s.Taken, s.Name))
	}
	text := fmt.Sprintf("repaired on %s: %s; the damaged store is in %s", r.At.Format("2006-01-02 15:04:05Z"),
		strings.Join(of, ", "), r.Damaged)
	for _, m := range r.Missing {
		text += "; missing: " + m
	}
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "")
	}
	return text
}
