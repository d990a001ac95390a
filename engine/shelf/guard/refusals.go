package guard

import "fmt"

// When MH's refusals make the branch return to the bundle before: a wrong rule must be noticed within few refusals.
const (
	firstOf      = 200 // documents of a new bundle that are watched
	MostRefused  = 5   // refusals among them that a rule can have caused, and
	timesRefused = 3   // more than so many times the ratio of the bundle before
	EnoughBefore = 20  // documents of the bundle before that make a ratio; with fewer, half of the new ones must be refused
)

// tally is what MH decided of a bundle's documents since the start of the appliance. A refusal that no rule can have caused
// is in none of the counts: it neither harms a bundle nor hides its harm among many documents.
type tally struct {
	spread
	documents, refused int
}

func newTally() *tally { return &tally{spread: newSpread()} }

// count adds what MH decided, and returns whether it counts.
func (t *tally) count(v Verdict) bool {
	if !v.Accepted && v.Cause != CauseRule {
		return false
	}
	t.documents++
	t.used[v.Point] = true
	if !v.Accepted {
		t.refused++
		t.spread.harm(v.Point, v.Shape)
	}
	return true
}

// leave returns why a bundle is to be left for the one before, whose tally may be nil; "" for no reason.
func (t *tally) leave(before *tally, points int) string {
	if t.documents > firstOf || t.refused < MostRefused || !t.broad(t.refused, points) {
		return ""
	}
	if before == nil || before.documents < EnoughBefore {
		if 2*t.refused < t.documents {
			return ""
		}
		before = newTally()
	} else if t.refused*before.documents <= timesRefused*before.refused*t.documents {
		return ""
	}
	return fmt.Sprintf("MH refused %d of its first %d documents for what the rule made, at %d points of sale; before it, %d of %d",
		t.refused, t.documents, len(t.harmed), before.refused, before.documents)
}
