// Package audit keeps the record of what people did to the branch: who, when, what, and what came of it. Each act is a
// record of the store, in a series of its own, so that its hash chain, its checks, its backups and its second copy are
// those of the documents.
package audit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/storage"
)

// States of the records. They share storage's space with those of documents.
const (
	begun storage.State = 80
	ended storage.State = 81
)

// queue indexes the acts, newest first; nothing takes them out.
const queue = "audit"

// Outcomes of an act. One without any was begun and the appliance ended before it did.
const (
	Done    = "done"
	Refused = "refused" // nothing was changed
	Failed  = "failed"  // it is not known how much was changed
)

// Act is what somebody did. It holds no secret.
type Act struct {
	Number  uint64    `json:"number"` // in the order in which they began, from 1
	At      time.Time `json:"at"`
	Who     string    `json:"who"`              // as the caller says; the admin token and From are what is known of him
	From    string    `json:"from"`             // an address, or the program on the box itself
	What    string    `json:"what"`             // token.new, rules.push, …
	Target  string    `json:"target,omitempty"` // of what
	Detail  string    `json:"detail,omitempty"`
	Outcome string    `json:"outcome,omitempty"`
	Error   string    `json:"error,omitempty"`
	// State is what the owner of the act wants to find again after a restart.
	State json.RawMessage `json:"state,omitempty"`
}

// Trail writes acts.
type Trail struct {
	store  *storage.Store
	series string
	now    func() time.Time
}

// New returns the trail of a store. ambiente is CAT-001.
func New(store *storage.Store, ambiente string, now func() time.Time) *Trail {
	return &Trail{store: store, series: ambiente + "/auditoria", now: now}
}

// Open is an act that has begun.
type Open struct {
	Act
	code storage.Code
}

// Begin records that an act begins, durably: what cannot be recorded is not to be done.
func (t *Trail) Begin(ctx context.Context, a Act) (*Open, error) {
	o := &Open{Act: a}
	return o, t.append(ctx, o, begun)
}

// Record records an act that is over.
func (t *Trail) Record(ctx context.Context, a Act) error {
	return t.append(ctx, &Open{Act: a}, ended)
}

func (t *Trail) append(ctx context.Context, o *Open, state storage.State) error {
	o.At = t.now().UTC()
	_, _ = rand.Read(o.code[:]) // never fails since Go 1.24
	_, err := t.store.Append(ctx, storage.Keys{Series: t.series}, func(slot storage.Slot) (storage.Draft, error) {
		o.Number = slot.Number
		head, err := json.Marshal(o.Act)
		return storage.Draft{Code: o.code, State: state, Head: head, Due: due(o.At)}, err
	})
	if err != nil {
		return fmt.Errorf("recording %s: %w", o.What, err)
	}
	return nil
}

// End records what came of an act that Begin recorded.
func (t *Trail) End(ctx context.Context, o *Open) error {
	head, err := json.Marshal(o.Act)
	if err == nil {
		_, err = t.store.Advance(ctx, o.code, begun, storage.Change{To: ended, Head: head, Due: due(o.At)})
	}
	if err != nil {
		return fmt.Errorf("recording what came of %s: %w", o.What, err)
	}
	return nil
}

// due sorts the newest first: storage gives a queue out by growing time.
func due(at time.Time) *storage.Due {
	return &storage.Due{Queue: queue, At: time.Unix(0, -at.UnixNano())}
}

// Acts returns the newest acts, at most limit, the newest first.
func (t *Trail) Acts(limit int) ([]Act, error) { return Read(t.store, limit) }

// Read is Acts of a store that nothing is written to.
func Read(store *storage.Store, limit int) ([]Act, error) {
	entries, err := store.Due(queue, time.Unix(0, 0), limit)
	if err != nil {
		return nil, fmt.Errorf("reading acts: %w", err)
	}
	acts := make([]Act, 0, len(entries))
	for _, e := range entries {
		var a Act
		if err := json.Unmarshal(e.Head, &a); err != nil {
			return nil, errors.Join(fmt.Errorf("act %d: %w", e.Number, storage.ErrCorrupt), err)
		}
		acts = append(acts, a)
	}
	return acts, nil
}

// Last is the newest act of a kind; nil when there is none.
func (t *Trail) Last(is func(*Act) bool) (*Act, error) {
	for limit := 64; ; limit *= 8 {
		acts, err := t.Acts(limit)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(acts, func(a Act) bool { return is(&a) }); i >= 0 {
			return &acts[i], nil
		}
		if len(acts) < limit {
			return nil, nil
		}
	}
}
