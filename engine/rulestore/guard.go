package rulestore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
)

// Guard watches a branch's bundles, and requests the return to an older bundle. It is safe for concurrent use.
type Guard struct {
	points int // number of the branch's points of sale
	wanted chan Return

	mu      sync.Mutex
	bundles map[string]*watchedBundle // by digest
}

type watchedBundle struct {
	failures *failures
	tally    *tally
	ordered  bool // the return from the bundle has been requested
	trusted  bool // an operator has reinstated the bundle
}

// Return requests that the branch leaves the bundle with this digest for an older bundle.
type Return struct{ Digest, Reason string }

// Verdict is MH's decision about a document or an event.
type Verdict struct {
	Rule     record.RuleRef
	Point    int64 // point of sale
	Accepted bool
	Cause    string // of a sale's refusal: CauseRule, CauseRequest or CauseUnclear; "": unknown
	Shape    Shape  // for a refused sale
	At       time.Time
	// Past: MH decided before the appliance started. The decision is counted, but causes no Return.
	Past bool
}

func newGuard(points int) *Guard {
	return &Guard{points: points, wanted: make(chan Return, 64), bundles: make(map[string]*watchedBundle)}
}

// bundle returns the counts of a bundle, and creates them if needed. The caller holds mu.
func (g *Guard) bundle(digest string) *watchedBundle {
	if g.bundles[digest] == nil {
		g.bundles[digest] = &watchedBundle{tally: newTally(),
			failures: &failures{used: make(map[int64]bool), recent: make(map[int64][]failure)}}
	}
	return g.bundles[digest]
}

// Wanted returns the channel of the requested Returns.
func (g *Guard) Wanted() <-chan Return { return g.wanted }

// Answered notes that a point of sale has used the rule's bundle: an evaluation did not fail, whatever its result.
func (g *Guard) Answered(r *Rule, point int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bundle(r.Ref.Digest).failures.used[point] = true
}

// Failed counts an evaluation that failed and that another bundle made instead, and requests a Return if the bundle's
// evaluations keep failing. Until the Return is recorded, the previous bundle computes the sales within its dates: see
// Suspend.
func (g *Guard) Failed(r *Rule, point int64, kind Shape, cause error, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.bundle(r.Ref.Digest).failures
	f.add(point, kind, now)
	if why := f.leave(g.points, now); why != "" {
		r.Suspend() // suspend now, because recording the return may have to wait
		g.want(r.Ref.Digest, fmt.Sprintf("%s, the last: %v", why, cause))
	}
}

// Note counts a failure among the bundle's Outcomes, whether or not the branch can leave the bundle because of it.
func (g *Guard) Note(digest string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.bundle(digest).tally
	t.newest = appendNewest(t.newest, Verdict{Cause: causeFailure, At: now}, Shown)
}

// Decided counts MH's decision about a document or an event. It requests a Return if MH's refusals show that the bundle
// does harm, unless there is no previous bundle or an operator has reinstated the bundle.
func (g *Guard) Decided(v Verdict, book *Book) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bundle(v.Rule.Digest)
	if !b.tally.count(v) || v.Accepted || v.Past || b.trusted {
		return
	}
	previous := book.Previous(v.Rule.Digest)
	if previous == nil {
		return
	}
	if why := b.tally.leave(g.bundle(previous.Ref.Digest).tally, g.points); why != "" {
		g.want(v.Rule.Digest, why)
	}
}

// Outcomes counts MH's newest decisions about a bundle's documents or events, and the failures among them.
func (g *Guard) Outcomes(digest string, now time.Time) dte.Outcomes {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bundle(digest).tally.shown(now)
}

// Forgive resets the counts of a bundle that was put back in force.
func (g *Guard) Forgive(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bundle(digest)
	clear(b.failures.recent)
	b.tally, b.ordered = newTally(), false
}

// Trust marks a bundle as reinstated by an operator.
func (g *Guard) Trust(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bundle(digest).trusted = true
}

// NotMade notes that the Return from a bundle was not recorded. The next failure or refusal requests it again.
func (g *Guard) NotMade(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bundle(digest).ordered = false
}

// want requests the Return from a bundle, once. The caller holds mu.
func (g *Guard) want(digest, reason string) {
	b := g.bundle(digest)
	if b.ordered {
		return
	}
	select {
	case g.wanted <- Return{digest, reason}:
		b.ordered = true
	default: // if the channel is full, the next failure or refusal requests the return again
	}
}

// Causes of a refusal by MH, according to the field that MH names.
const (
	CauseRule    = "rule"    // a value that the module or the layout set
	CauseRequest = "request" // a value as it came from the till, or from the branch's own data
	CauseUnclear = "unclear" // MH names no value of the document
	causeFailure = "failure" // MH decided nothing: the rule failed
)

// Shape distinguishes kinds of sale. It depends on the names of a sale's members, on its flags and on the number of its
// lines. A till's repeated sale keeps its shape, even if its texts and amounts change.
type Shape [8]byte

// CauseOf returns the likely cause of a refusal, from the fields that MH names in the refusal. MH lists every field
// that breaks its schema: if the rule made one of them, the cause is CauseRule.
func CauseOf(r *authority.Response, f *schema.Filler, facts dte.Value) string {
	cause := CauseUnclear
	for _, path := range refusedFields(r) {
		switch f.Maker(path, facts) {
		case schema.MakerRule:
			return CauseRule
		case schema.MakerRequest:
			cause = CauseRequest
		}
	}
	return cause
}

// fieldFirst matches the field with which a text of MH begins: "[resumen.totalIva] CALCULO INCORRECTO", "Campo
// #/receptor/nrc no …", "identificacion.fecEmi Difiere …". A field name elsewhere in a text may be quoted from the
// document, where the till can write anything.
var fieldFirst = regexp.MustCompile(
	`^(?:\[([A-Za-z0-9_./]{1,200})\]|Campo #/([A-Za-z0-9_/]{1,200})|([a-zA-Z]+(?:\.[A-Za-z0-9_]+)+))`)

// refusedFields returns the field that a refusal's description names, or else the fields that its observations name.
func refusedFields(r *authority.Response) (paths []string) {
	texts := []string{r.DescripcionMsg}
	if !fieldFirst.MatchString(r.DescripcionMsg) {
		texts = r.Observaciones
	}
	for _, text := range texts {
		if m := fieldFirst.FindStringSubmatch(text); m != nil {
			paths = append(paths, m[1]+m[2]+m[3])
		}
	}
	return paths
}

// ShapeOf returns the shape of a sale's facts, without the members that the branch adds to every sale.
func ShapeOf(facts dte.Value) (s Shape) {
	var names []string
	collect(&names, "", facts)
	slices.Sort(names)
	h := sha256.New()
	for _, name := range slices.Compact(names) {
		h.Write(append([]byte(name), 0))
	}
	_ = binary.Write(h, binary.BigEndian, int64(facts.Get("cuerpoDocumento").Len()))
	copy(s[:], h.Sum(nil))
	return s
}

func collect(names *[]string, at string, v dte.Value) {
	switch v.Kind() {
	case dte.KindObject:
		for _, m := range v.Members() {
			if at == "" && (m.Name == "emisor" || m.Name == "identificacion") {
				continue
			}
			collect(names, at+"."+m.Name, m.Value)
		}
	case dte.KindArray:
		for i := range v.Len() {
			collect(names, at+"[]", v.Index(i))
		}
	case dte.KindBool:
		*names = append(*names, at+"="+strconv.FormatBool(v.Bool()))
	case dte.KindNull:
		*names = append(*names, at+"=null")
	default:
		*names = append(*names, at)
	}
}

// If several points of sale have used a bundle, harm at only one of them does not make the branch leave the bundle. If
// only one has used it, these limits apply, whether MH refuses the sales (tally) or their evaluations fail (failures).
const (
	AloneHarms   = 10 // the least number of harmed sales, if the branch has several points of sale
	shapesHarmed = 2  // the least number of shapes of harmed sales
)

// spread records at which points of sale a bundle was used, and at which it did harm.
type spread struct {
	used   map[int64]bool // points of sale
	harmed map[int64]bool // points of sale with a harmed sale
	shapes map[Shape]bool // shapes of harmed sales, at most shapesHarmed of them
}

func newSpread(used map[int64]bool) spread {
	return spread{used: maps.Clone(used), harmed: make(map[int64]bool), shapes: make(map[Shape]bool)}
}

func (s *spread) harm(point int64, kind Shape) {
	s.used[point], s.harmed[point] = true, true
	if len(s.shapes) < shapesHarmed {
		s.shapes[kind] = true
	}
}

// broad reports whether the harm counts against the bundle: several points of sale were harmed or, if only one used the
// bundle, the limits above are reached. harms is the number of harmed sales; points is how many points the branch has.
func (s *spread) broad(harms, points int) bool {
	if len(s.used) > 1 {
		return len(s.harmed) > 1
	}
	return len(s.shapes) >= shapesHarmed && (points <= 1 || harms >= AloneHarms)
}

// At these limits of failed evaluations the branch returns to the previous bundle. Below them, the previous bundle
// computes only the failed sales, until it is known whether the rule or one till's requests are at fault.
const (
	failuresOf = time.Minute
	// failed evaluations within failuresOf; if only one point of sale has used the bundle, see AloneHarms
	mostFailures = 3
)

type failures struct {
	used   map[int64]bool      // points of sale that have used the bundle
	recent map[int64][]failure // by point of sale: the newest failures within failuresOf, at most AloneHarms
}

type failure struct {
	at    time.Time
	shape Shape
}

// add counts a failed evaluation under its point of sale: no till displaces the failures of another till.
func (f *failures) add(point int64, s Shape, now time.Time) {
	list := append(f.recent[point], failure{now, s})
	f.recent[point] = list[max(0, len(list)-AloneHarms):]
}

// leave returns the reason to leave the bundle for its predecessor; or "".
func (f *failures) leave(points int, now time.Time) string {
	harms, where := 0, newSpread(f.used)
	for point, list := range f.recent {
		for len(list) > 0 && now.Sub(list[0].at) >= failuresOf {
			list = list[1:]
		}
		f.recent[point] = list
		for _, x := range list {
			harms++
			where.harm(point, x.shape)
		}
	}
	if harms < mostFailures || !where.broad(harms, points) {
		return ""
	}
	return fmt.Sprintf("%d evaluations failed within %v, at %d points of sale", harms, failuresOf, len(where.harmed))
}

// Limits of MH's refusals, after which the branch returns to the previous bundle. A few refusals show a wrong rule.
const (
	watched      = 200 // how many of MH's newest decisions about a bundle are judged
	MostRefused  = 5   // the least number of refusals caused by the rule, among the judged decisions
	timesRefused = 3   // the ratio of refusals must exceed this many times the previous bundle's ratio
	// The least number of decisions about the previous bundle for its ratio to count. With fewer, at least half of the
	// new decisions must be refusals.
	EnoughBefore = 20
)

// Limits of the decisions that a bundle's dte.Outcomes count. They are low: refusals soon disappear from the
// Outcomes after MH accepts documents again.
const (
	Shown    = 100 // newest decisions
	shownFor = 7 * 24 * time.Hour
)

// tally counts MH's decisions about a bundle's documents and events. The method shown gives the counts for people,
// metrics and the chain's centre; leave decides whether the branch returns to the previous bundle.
type tally struct {
	newest []Verdict // at most Shown
	// judged has the newest decisions (see watched), without the refusals that have another cause than CauseRule:
	// they must neither count against a bundle nor hide its harm.
	judged []Verdict
	used   map[int64]bool // points of sale that have used the bundle
}

func newTally() *tally { return &tally{used: make(map[int64]bool)} }

// count adds a decision of MH, and returns whether the decision counts for or against the bundle.
func (t *tally) count(v Verdict) bool {
	t.newest = appendNewest(t.newest, v, Shown)
	if !v.Accepted && v.Cause != CauseRule {
		return false
	}
	t.judged = appendNewest(t.judged, v, watched)
	t.used[v.Point] = true
	return true
}

func appendNewest(list []Verdict, v Verdict, most int) []Verdict {
	list = append(list, v)
	return list[max(0, len(list)-most):]
}

func (t *tally) shown(now time.Time) (o dte.Outcomes) {
	for _, v := range t.newest {
		if now.Sub(v.At) > shownFor {
			continue
		}
		if v.Cause == causeFailure {
			o.Failed++
			continue
		}
		o.Decided++
		if !v.Accepted {
			o.Refused++
		}
		if !v.Accepted && v.Cause == CauseRule {
			o.ByRule++
		}
	}
	return o
}

func (t *tally) refused() (n int) {
	for _, v := range t.judged {
		if !v.Accepted {
			n++
		}
	}
	return n
}

// leave returns the reason to leave the bundle for its predecessor, or "". before, the predecessor's tally, may be nil.
func (t *tally) leave(before *tally, points int) string {
	where, refused, decided := newSpread(t.used), t.refused(), len(t.judged)
	for _, v := range t.judged {
		if !v.Accepted {
			where.harm(v.Point, v.Shape)
		}
	}
	if refused < MostRefused || !where.broad(refused, points) {
		return ""
	}
	if before == nil || len(before.judged) < EnoughBefore {
		if 2*refused < decided {
			return ""
		}
		before = newTally()
	} else if refused*len(before.judged) <= timesRefused*before.refused()*decided {
		return ""
	}
	return fmt.Sprintf("MH refused %d of its last %d documents for what the rule made, at %d points of sale; before "+
		"it, %d of %d",
		refused, decided, len(where.harmed), before.refused(), len(before.judged))
}
