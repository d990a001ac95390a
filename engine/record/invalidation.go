package record

import (
	"time"

	"dtegate/engine/authority"
)

// Invalidation is the event that invalidates a document, as the document's record shows it.
type Invalidation struct {
	Code        string              `json:"code"` // of the event
	Estado      string              `json:"estado"`
	Kind        int64               `json:"kind"`
	Reason      string              `json:"reason"`
	Replacement string              `json:"replacement,omitempty"`
	At          time.Time           `json:"at"`
	Version     int                 `json:"version"`
	Rule        RuleRef             `json:"rule"`
	Response    *authority.Response `json:"response,omitempty"`
	// TokenID asked for it; 0: an operator did, whom the trail names, or the record is of a time before tokens were
	// kept.
	TokenID int64 `json:"token_id,omitempty"`
	// Doubtful: it may have reached MH.
	Doubtful bool `json:"doubtful,omitempty"`
}

// EstadoPending is the state of an invalidation that MH has not answered yet. An answered invalidation has one of the
// public states of a document.
const EstadoPending = "PENDING"

// Pending reports whether MH has not answered the event yet. It is false for nil.
func (i *Invalidation) Pending() bool { return i != nil && i.Estado == EstadoPending }

// PartInvalidation returns the name of the part that holds the JWS of an invalidation; event is its codigoGeneracion.
func PartInvalidation(event string) string { return "invalidacion:" + event }

// Doubted returns a pending event with Doubtful set: a crash may have lost MH's answer. Whoever finds a pending event
// in the store must use it in this form.
func (i *Invalidation) Doubted() *Invalidation {
	event := *i
	event.Doubtful = true
	return &event
}
