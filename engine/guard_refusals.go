package engine

import "fmt"

// When MH's refusals make the branch return to the bundle before. One till must not be able to undo a push for the whole
// branch, and a wrong rule must be noticed within few refusals.
const (
	firstOf       = 200 // documents of a new bundle that are watched
	mostRefused   = 5   // refusals among them that a rule can have caused, and
	timesRefused  = 3   // more than so many times the ratio of the bundle before
	enoughBefore  = 20  // documents of the bundle before that make a ratio; with fewer, half of the new ones must be refused
	aloneRefused  = 10  // refusals, where one point of sale alone has sold and the branch has more
	shapesRefused = 2   // kinds of sale among them, where one point of sale alone has sold
)

// tally is what MH decided of a bundle's documents since the start of the appliance. A refusal that no rule can have caused
// is in none of the counts: it neither harms a bundle nor hides its harm among many documents.
type tally struct {
	documents, refused int
	sold               map[int64]bool // points of sale that these documents are of
	refusing           map[int64]bool // those of them with a refusal
	shapes             map[shape]bool // of the refused sales
}

func newTally() *tally {
	return &tally{sold: make(map[int64]bool), refusing: make(map[int64]bool), shapes: make(map[shape]bool)}
}

// count adds what MH decided, and returns whether it counts.
func (t *tally) count(v verdict) bool {
	if !v.accepted && v.cause != causeRule {
		return false
	}
	t.documents++
	t.sold[v.point] = true
	if !v.accepted {
		t.refused++
		t.refusing[v.point] = true
		if len(t.shapes) < shapesRefused {
			t.shapes[v.shape] = true
		}
	}
	return true
}

// broad tells that more than one till's doing is refused, of a branch with so many points of sale.
func (t *tally) broad(points int) bool {
	if len(t.sold) > 1 {
		return len(t.refusing) > 1
	}
	return len(t.shapes) >= shapesRefused && (points <= 1 || t.refused >= aloneRefused)
}

// harm tells why a bundle is to be left for the one before, whose tally may be nil; "" for no reason.
func (t *tally) harm(before *tally, points int) string {
	if t.documents > firstOf || t.refused < mostRefused || !t.broad(points) {
		return ""
	}
	if before == nil || before.documents < enoughBefore {
		if 2*t.refused < t.documents {
			return ""
		}
		before = newTally()
	} else if t.refused*before.documents <= timesRefused*before.refused*t.documents {
		return ""
	}
	return fmt.Sprintf("MH refused %d of its first %d documents for what the rule made, at %d points of sale; before it, %d of %d",
		t.refused, t.documents, len(t.refusing), before.refused, before.documents)
}
