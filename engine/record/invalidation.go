package record

import (
	"time"

	"dtegate/engine/authority"
)

// Invalidation is the event that takes a document back, as its record shows it.
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
	// TokenID asked for it; 0: an operator did, whom the trail names, or the record is of a time before tokens were kept.
	TokenID int64 `json:"token_id,omitempty"`
	// Doubtful: it may have reached MH.
	Doubtful bool `json:"doubtful,omitempty"`
}

// EstadoPending is an invalidation that MH has not answered yet; else it is one of the public states of a document.
const EstadoPending = "PENDING"

func (i *Invalidation) Pending() bool { return i != nil && i.Estado == EstadoPending }

func PartInvalidation(event string) string { return "invalidacion:" + event }

// Doubted is the event as whoever finds it pending must take it: a crash may have lost MH's answer.
func (i *Invalidation) Doubted() *Invalidation {
	event := *i
	event.Doubtful = true
	return &event
}
