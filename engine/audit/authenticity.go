package audit

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"dtegate/engine/record"
	"dtegate/engine/vouch"
	"dtegate/storage"
)

// Whose mark an act bears: Act.Authenticity.
const (
	Own     = "own"     // this box wrote the act so
	None    = "none"    // the act bears no mark: it is older than the box's key, or it came in a backup
	Other   = "other"   // the mark is another box's: the act came in a backup, and nobody here can tell whether it is genuine
	Altered = "altered" // the act names this box and is not as this box wrote it
)

var verdicts = map[vouch.Verdict]string{vouch.Own: Own, vouch.None: None, vouch.Other: Other, vouch.Altered: Altered}

func check(box *vouch.Key, e *storage.Entry) vouch.Verdict {
	return box.Check(e.Head, vouch.Place{Series: e.Series, Number: e.Number, Code: e.Code, State: uint8(e.State)})
}

// Authenticity is what the marks prove about the acts of a store. They prove nothing about acts that were cut off at the end: a
// trail without its newest acts looks like an older trail.
type Authenticity struct {
	Acts map[string]int // by Own, None, Other and Altered
	// Problems are the contradictions: acts that were rewritten, put in or taken out. In the order of the acts.
	Problems []string
}

// Authenticate checks the mark of every act of a store.
func Authenticate(store *storage.Store, box *vouch.Key) (*Authenticity, error) {
	entries, err := store.Due(record.QueueAudit, time.Unix(0, 0), math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("reading acts: %w", err)
	}
	slices.SortFunc(entries, func(a, b storage.Entry) int {
		return cmp.Or(cmp.Compare(a.Series, b.Series), cmp.Compare(a.Number, b.Number))
	})
	a := &Authenticity{Acts: make(map[string]int)}
	var before storage.Code
	own := false // an act before bears this box's mark
	for i, e := range entries {
		if i == 0 || e.Series != entries[i-1].Series {
			before, own = storage.Code{}, false
		}
		a.look(box, &e, before, own)
		own = own || check(box, &e) == vouch.Own
		before = e.Code
	}
	return a, nil
}

func (a *Authenticity) look(box *vouch.Key, e *storage.Entry, before storage.Code, own bool) {
	var r storedAct
	err := json.Unmarshal(e.Head, &r)
	verdict := check(box, e)
	a.Acts[verdicts[verdict]]++
	problem := func(format string, args ...any) {
		a.Problems = append(a.Problems, fmt.Sprintf("act %d (%q by %q): ", e.Number, r.What, r.Who)+fmt.Sprintf(format, args...))
	}
	previous := ""
	if before != (storage.Code{}) {
		previous = hex.EncodeToString(before[:])
	}
	switch {
	case err != nil:
		problem("it cannot be read: %v", err)
	case verdict == vouch.Altered:
		problem("it was rewritten: it names this box, and is not as this box wrote it")
	case verdict != vouch.Own && own:
		problem("it stands behind acts of this box and does not bear its mark: it was rewritten, or put in")
	case verdict == vouch.Own && r.Previous != previous:
		problem("the act before it is not the one that this box wrote before it: acts were taken out, or put in")
	}
}

// String returns a text for people.
func (a *Authenticity) String() string {
	return Sentence(a.Acts)
}

// Sentence returns a text: how many acts have whose mark.
func Sentence(acts map[string]int) string {
	parts := []string{fmt.Sprintf("%d acts bear this box's mark", acts[Own])}
	if n := acts[None]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d came with a backup, or are older than the mark, and bear none", n))
	}
	if n := acts[Other]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d came with a backup and bear another box's", n))
	}
	if n := acts[Altered]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d WERE REWRITTEN", n))
	}
	return strings.Join(parts, ", ")
}
