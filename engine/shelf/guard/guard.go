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

// Guard watches the bundles of a branch. Make one with New; it is safe for concurrent use.
type Guard struct {
	points int // of sale, in the branch
	wanted chan Return

	mu       sync.Mutex
	failures map[string]*failures // by digest
	tallies  map[string]*tally
	ordered  map[string]bool
	trusted  map[string]bool // reinstated by an operator
}

// Return is a return from a bundle that the branch is to make.
type Return struct{ Digest, Reason string }

// Verdict is what MH decided of a document.
type Verdict struct {
	Rule     record.RuleRef
	Point    int64 // of sale
	Accepted bool
	Cause    string // of a refusal: one of the causes
	Shape    Shape  // of a refused sale
}

// New returns a guard that has seen nothing, of a branch with so many points of sale.
func New(points int) *Guard {
	return &Guard{points: points, wanted: make(chan Return, 64), failures: make(map[string]*failures), tallies: make(map[string]*tally),
		ordered: make(map[string]bool), trusted: make(map[string]bool)}
}

// Wanted are the returns that the branch is to make.
func (g *Guard) Wanted() <-chan Return { return g.wanted }

// Answered counts an evaluation that ended well, whatever it found.
func (g *Guard) Answered(r *rulebook.Rule, point int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evaluations(r.Ref.Digest).used[point] = true
}

// Failed counts an evaluation that failed, and asks for a return from a bundle whose evaluations keep failing. Until the return
// is recorded, the bundle before is picked.
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

// Decided counts what MH decided of a document, and asks for a return from a bundle that does harm. A bundle that an
// operator reinstated is not left again for MH's refusals: he has looked at them.
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

// Forgive forgets what a bundle did wrong: it was put back.
func (g *Guard) Forgive(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.failures[digest]; f != nil {
		clear(f.recent)
	}
	delete(g.tallies, digest)
	delete(g.ordered, digest)
}

// Trust notes that an operator reinstated a bundle.
func (g *Guard) Trust(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trusted[digest] = true
}

// NotMade notes that the return from a bundle could not be recorded: the next harm asks for it again.
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
