package engine

import (
	"fmt"

	"dtegate/storage"
)

// The states of a document inside the gateway. Values are stored: never renumber, never reuse.
const (
	// Signed: numbered, signed and durable, its outcome not known yet. Only a running request or the recovery
	// after a crash holds a document here.
	Signed storage.State = 1
	// Accepted: MH gave its seal.
	Accepted storage.State = 2
	// Rejected: MH refused it; its number stays spent (SPEC section 3).
	Rejected storage.State = 3
	// Deferred: made in contingency form, owed to MH.
	Deferred storage.State = 4
	// Invalidated: MH accepted the event that takes it back.
	Invalidated storage.State = 5
	// Reported: listed in a contingency event that MH sealed, its document not sent or not decided yet.
	Reported storage.State = 6
)

// isDocument tells documents from the other records of the store: periods, events, lots, rules.
func isDocument(s storage.State) bool { return s < periodOpen }

// transitions is the whole life of a document; move is the only function that changes a state.
var transitions = map[storage.State][]storage.State{
	Signed:   {Signed, Accepted, Rejected, Deferred}, // to itself: a restored branch puts it off
	Deferred: {Deferred, Reported, Accepted},         // to itself: what is known of it changes; Accepted: MH held the normal form
	Reported: {Reported, Accepted, Rejected},
	// to itself: it can no longer be corrected; Reported: it was; Accepted: MH accepted an earlier sending of it after all
	Rejected: {Rejected, Reported, Accepted},
	Accepted: {Accepted, Invalidated}, // to itself: an invalidation begins, or MH refuses it, or it is delivered
	// to itself: it is delivered
	Invalidated: {Invalidated},
}

// estados are the public names (SPEC section 3). Signed has none: lookups wait for its end.
var estados = map[storage.State]string{
	Accepted:    EstadoProcessed,
	Rejected:    EstadoRejected,
	Deferred:    EstadoContingency,
	Reported:    EstadoContingency,
	Invalidated: EstadoInvalidated,
}

func allowed(from, to storage.State) error {
	for _, next := range transitions[from] {
		if next == to {
			return nil
		}
	}
	return fmt.Errorf("no transition from state %d to %d", from, to)
}

// Queues of storage's due index.
const (
	// QueueSettle holds documents in Signed: whoever finds one asks MH what became of it.
	QueueSettle = "settle"
	// QueueReport holds documents in Deferred: owed to MH by a contingency event.
	QueueReport = "report"
	// QueueForward holds documents in Reported: owed to MH by themselves.
	QueueForward = "forward"
	// QueueInvalidate holds accepted documents whose invalidation is signed and not answered.
	QueueInvalidate = "invalidate"
	// queueCorrect holds documents that MH refused after the fact, until they can no longer be corrected.
	queueCorrect = "correct"
)
