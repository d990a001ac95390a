package record

import (
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Counters of an origin: 1 to 2,000 are the quantities returned of its lines, and then come these.
const (
	LineActive   = 1 << 24 // notes and returns that stand against it: they block its invalidation
	LineCredited = LineActive + 1
	LineReturned = LineActive + 16 // amounts of returned lines, by kind
)

// Draw is an amount that a document takes from a counter of its origin.
type Draw struct {
	Line   uint32 `json:"line"`
	Amount int64  `json:"amount"` // 1e-8 of a unit or of a USD
}

// Effect returns the changes of an origin's counters that a document's change of state makes. from is 0 if the document
// is appended. A credit note and a return take their draws when they are signed, in contingency too, and give them back
// if MH refuses them or they are invalidated. A debit note adds room only while MH has accepted it.
func Effect(how bundle.Effect, from, to storage.State, draws []Draw, origin storage.Code) []storage.Counter {
	weight := func(s storage.State) (drawn, active int64) {
		switch {
		case s == 0 || s == Rejected || s == Invalidated:
			return 0, 0
		case how == bundle.Debits && s == Accepted:
			return -1, 1
		case how == bundle.Debits:
			return 0, 1
		}
		return 1, 1
	}
	drawnBefore, activeBefore := weight(from)
	drawnAfter, activeAfter := weight(to)
	var counters []storage.Counter
	if n := activeAfter - activeBefore; n != 0 {
		counters = append(counters, storage.Counter{Origin: origin, Line: LineActive, Value: n})
	}
	if n := drawnAfter - drawnBefore; n != 0 {
		for _, d := range draws {
			counters = append(counters, storage.Counter{Origin: origin, Line: d.Line, Value: n * d.Amount})
		}
	}
	return counters
}
