// Package record defines the branch's stored records: their kinds, states and queues (this file), a document's head and
// view (head.go) and signed forms (forms.go), the walks (walk.go, lost.go), the issuer and its callers (parties.go).
package record

import (
	"context"
	"fmt"
	"slices"

	"dtegate/storage"
)

// States of a document. The numbers are stored: a state's number never changes, and is never used again.
const (
	// numbered, signed and durable, without an outcome yet; a running request or the recovery settles the document
	Signed      storage.State = 1
	Accepted    storage.State = 2 // MH gave its seal
	Rejected    storage.State = 3 // MH refused the document; its number stays spent (SPEC section 3)
	Deferred    storage.State = 4 // made in contingency form; MH does not have it yet
	Invalidated storage.State = 5 // MH accepted the document's invalidation
	Reported    storage.State = 6 // listed in a contingency event that MH sealed; MH has not decided the document yet
)

// States of the other records.
const (
	PeriodOpen  storage.State = 16 // the branch is in contingency
	PeriodEnded storage.State = 17

	EventSigned   storage.State = 32 // to be sent, perhaps again
	EventAccepted storage.State = 33 // sealed by MH; some of its documents are not moved yet
	EventRejected storage.State = 34 // refused by MH; its documents go into another event
	EventDone     storage.State = 35

	LotOpen storage.State = 48 // to be sent, or at MH
	LotDone storage.State = 49

	// a bundle that passed every check; the store keeps its bytes forever, because documents name the bundle
	RuleAdmitted storage.State = 64
	RuleStepBack storage.State = 65 // a change of the bundles in force: see rulestore.StepBack

	ActBegun storage.State = 80 // an act of a person on the branch: package audit
	ActEnded storage.State = 81

	LetterOpen   storage.State = 96 // to be sent
	LetterSent   storage.State = 97
	LetterFailed storage.State = 98 // refused for good, or given up

	DayClosed storage.State = 112 // the closing of a day of a point of sale; it never changes

	HookPlace storage.State = 128 // the webhook's position in the feed of late results
)

// Queues of the store's due index.
const (
	QueueSettle      = "settle"      // Signed: the recovery asks MH for the outcome
	QueueReport      = "report"      // Deferred: waits for a contingency event
	QueueForward     = "forward"     // Reported: the document itself must be sent to MH
	QueueInvalidate  = "invalidate"  // Accepted, with a signed invalidation that MH has not answered
	QueueCorrect     = "correct"     // Rejected after the sale: documents that can still be corrected
	QueueDeliver     = "deliver"     // to be mailed or archived: documents and letters
	QueueUndelivered = "undelivered" // given up, until retried, forgotten or resent: documents and letters
	QueuePeriod      = "period"      // the open period, and ended periods for at least two days
	QueueEvent       = "event"       // events until MH has decided and their documents are moved
	QueueLot         = "lot"         // lots until each of their documents has its result
	QueueRules       = "rules"       // every record of rules, forever
	QueueAudit       = "audit"       // every act, forever, newest first
	// records whose next step needs a lost piece, or that no event can list: see LostRecords
	QueueLost = "lost"
)

// row is one state: its public name, the queues of records in this state, and the states that may follow. The states of
// one kind of record differ only in their last four bits.
type row struct {
	state  storage.State
	estado string // SPEC section 3; "": no public name; lookups wait while a document is Signed
	queues []string
	next   []storage.State
}

func in(queues ...string) []string               { return queues }
func to(states ...storage.State) []storage.State { return states }

// table lists every state of every record. Move enforces it.
//
// A state may follow itself, when only the head, the queue or the parts change: a Signed document is put off; the
// invalidation or the delivery of an Accepted document changes; the time to correct a Rejected document ends. Deferred,
// Reported and Rejected become Accepted if MH turns out to have a form of the document.
var table = []row{
	{Signed, "", in(QueueSettle, QueueLost), to(Signed, Accepted, Rejected, Deferred)},
	{Accepted, EstadoProcessed, in(QueueInvalidate, QueueDeliver, QueueUndelivered, QueueLost),
		to(Accepted, Invalidated)},
	{Rejected, EstadoRejected, in(QueueCorrect, QueueLost), to(Rejected, Reported, Accepted)},
	{Deferred, EstadoContingency, in(QueueReport, QueueLost), to(Deferred, Reported, Accepted)},
	{Reported, EstadoContingency, in(QueueForward, QueueLost), to(Reported, Accepted, Rejected)},
	{Invalidated, EstadoInvalidated, in(QueueDeliver, QueueUndelivered, QueueLost), to(Invalidated)},

	{PeriodOpen, "", in(QueuePeriod), to(PeriodOpen, PeriodEnded)},
	{PeriodEnded, "", in(QueuePeriod), to(PeriodEnded, PeriodOpen)},

	{EventSigned, "", in(QueueEvent, QueueLost), to(EventSigned, EventAccepted, EventRejected)},
	{EventAccepted, "", in(QueueEvent, QueueLost), to(EventAccepted, EventDone)},
	{EventRejected, "", in(QueueEvent, QueueLost), to(EventRejected)},
	{EventDone, "", nil, nil},

	{LotOpen, "", in(QueueLot, QueueLost), to(LotOpen, LotDone)},
	{LotDone, "", nil, nil},

	{RuleAdmitted, "", in(QueueRules), to(RuleAdmitted)},
	{RuleStepBack, "", in(QueueRules), nil},

	{ActBegun, "", in(QueueAudit), to(ActEnded)},
	{ActEnded, "", in(QueueAudit), nil},

	{LetterOpen, "", in(QueueDeliver, QueueLost), to(LetterOpen, LetterSent, LetterFailed)},
	{LetterSent, "", nil, nil},
	{LetterFailed, "", in(QueueUndelivered), to(LetterOpen, LetterFailed)},

	{DayClosed, "", nil, nil},

	{HookPlace, "", nil, to(HookPlace)},
}

var rows = func() (rows [256]row) {
	for _, r := range table {
		rows[r.state] = r
	}
	return rows
}()

// IsDocument reports whether a record in this state is a document.
func IsDocument(s storage.State) bool { return s >= Signed && s <= Reported }

// Estado returns the public name of a document's state, or "".
func Estado(s storage.State) string { return rows[s].estado }

// Store changes the states of records: see storage.Store.
type Store interface {
	Advance(ctx context.Context, code storage.Code, from storage.State, c storage.Change) (storage.Entry, error)
}

// Move is the only way to change a record's state. The table must allow the step and the queue. Errors: the store's
// (see storage.Advance), or a step that the table lacks.
func Move(ctx context.Context, s Store, code storage.Code, from storage.State, c storage.Change) (storage.Entry,
	error) {
	if err := allowed(from, c); err != nil {
		return storage.Entry{}, err
	}
	return s.Advance(ctx, code, from, c)
}

func allowed(from storage.State, c storage.Change) error {
	switch {
	case !slices.Contains(rows[from].next, c.To):
		return fmt.Errorf("no transition from state %d to %d", from, c.To)
	case c.Due != nil && !slices.Contains(rows[c.To].queues, c.Due.Queue):
		return fmt.Errorf("a record in state %d does not wait in queue %q", c.To, c.Due.Queue)
	}
	return nil
}
