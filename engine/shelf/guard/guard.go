// Package guard counts, since the start, what each bundle of rules does wrong, and decides when a branch returns to the last good
// bundle by itself: because of evaluations that fail (failures.go), or of what MH refuses (refusals.go).
package guard

import (
	"fmt"
	"sync"
	"time"

	"dtegate/engine/record"
	"dtegate/engine/rulebook"
)

// Guard watches the bundles of a branch. Make it with New; it is safe for concurrent use.
type Guard struct {
	points int // of sale, in the branch
	wanted chan Return

	mu       sync.Mutex
	failures map[string]*failures // by digest
	tallies  map[string]*tally
	ordered  map[string]bool
	trusted  map[string]bool // reinstated by an operator
}

// Return is a return, from the bundle with this digest, that the branch must make.
type Return struct{ Digest, Reason string }

// Verdict is MH's decision about a document.
type Verdict struct {
	Rule     record.RuleRef
	Point    int64 // of sale
	Accepted bool
	Cause    string // of a refusal: one of the causes
	Shape    Shape  // of a refused sale
}

// New returns a guard, without any counts, for a branch with points points of sale.
func New(points int) *Guard {
	return &Guard{points: points, wanted: make(chan Return, 64), failures: make(map[string]*failures), tallies: make(map[string]*tally),
		ordered: make(map[string]bool), trusted: make(map[string]bool)}
}

// Wanted returns the channel of the returns that the branch must make.
func (g *Guard) Wanted() <-chan Return { return g.wanted }

// Answered counts an evaluation that did not fail, whatever its result.
func (g *Guard) Answered(r *rulebook.Rule, point int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evaluations(r.Ref.Digest).used[point] = true
}

// Failed counts an evaluation that failed, and asks for a return if the bundle's evaluations keep failing. Until the return is
// recorded, the previous bundle computes the sales.
func (g *Guard) Failed(r *rulebook.Rule, point int64, kind Shape, cause error, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.evaluations(r.Ref.Digest)
	f.add(point, kind, now)
	if why := f.leave(g.points, now); why != "" {
		r.Suspend() // the record of it may have to wait
		g.want(r.Ref.Digest, fmt.Sprintf("%s, the last: %v", why, cause))
	}
}

// Decided counts MH's decision about a document. It asks for a return if MH's refusals show that the bundle does harm. If an
// operator has reinstated the bundle, it asks for none: the operator has looked at the refusals.
func (g *Guard) Decided(v Verdict, book *rulebook.Book) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tallies[v.Rule.Digest]
	if t == nil {
		t = newTally()
		g.tallies[v.Rule.Digest] = t
	}
	if !t.count(v) || v.Accepted {
		return
	}
	previous := book.Previous(v.Rule.Digest)
	if previous == nil || g.trusted[v.Rule.Digest] {
		return
	}
	if why := t.leave(g.tallies[previous.Ref.Digest], g.points); why != "" {
		g.want(v.Rule.Digest, why)
	}
}

// Forgive sets the counts of a bundle, which was put back, to zero.
func (g *Guard) Forgive(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.failures[digest]; f != nil {
		clear(f.recent)
	}
	delete(g.tallies, digest)
	delete(g.ordered, digest)
}

// Trust is called when an operator has reinstated a bundle.
func (g *Guard) Trust(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trusted[digest] = true
}

// NotMade is called if the return from a bundle could not be recorded. The next harm then asks for it again.
func (g *Guard) NotMade(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.ordered, digest)
}

// want asks for a return, once. The caller holds mu.
func (g *Guard) want(digest, reason string) {
	if g.ordered[digest] {
		return
	}
	select {
	case g.wanted <- Return{digest, reason}:
		g.ordered[digest] = true
	default: // the next failure asks again
	}
}

// evaluations are those of a bundle. The caller holds mu.
func (g *Guard) evaluations(digest string) *failures {
	f := g.failures[digest]
	if f == nil {
		f = newFailures()
		g.failures[digest] = f
	}
	return f
}
