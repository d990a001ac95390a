// Package rulebook prepares bundles of rules for issuing. A rule takes the facts of a sale and returns the amounts and a filled document,
// or the faults of the sale. Package rulebook picks the rule that is valid on a day; package shelf decides which bundles there are.
package rulebook

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

// ErrNoCatalogue means that the code lists of MH are not among the rules: no layout can be checked without.
var ErrNoCatalogue = errors.New("no catalogue bundle among the rules")

// LinesName is the member of a sale that holds its lines.
const LinesName = "cuerpoDocumento"

// Error is what is wrong with one bundle of a book, named by its digest.
type Error struct {
	Digest string
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Book is a generation of rules made ready for issuing: each document rule with the filler of its schema and
// the binding of its module's inputs to facts, each event with its filler.
type Book struct {
	generation *rules.Generation
	catalogues *dte.Catalogues
	picks      atomic.Int64 // sales, for those who give way to them
	compiled   map[*rules.Rule]*Rule
	events     map[*rules.Rule]*Event
	// previous are the last good rules, by the digest of the one that took over: what computes a sale when that fails.
	previous map[string]*Rule
}

// Event is a bundle without a module: the layout of an event, and its limits as parameters.
type Event struct {
	Ref    record.RuleRef
	Filler *schema.Filler
	params map[string]int64 // 1e-8
}

// Rule is one bundle ready to compute and fill.
type Rule struct {
	Ref record.RuleRef
	// Document is the type of CAT-002 that it computes.
	Document string
	module   *rules.Module
	params   []int64
	bind     binding
	Filler   *schema.Filler
	// Total is the index of the document's total in the summary.
	Total int
	// suspended: the rule fails, and the return from it is on its way.
	suspended atomic.Bool

	catalogues *dte.Catalogues // whose names of taxes and codes the document bears
	schema     int             // the generation: identificacion.version
	validity   map[string]bundle.Window
}

// New compiles every document and event rule of a generation, and of previous the last good rules, by the digest of the
// bundle that took over. It fails with an *Error, naming the bundle, rather than leave a rule out. It takes over what the old book,
// nil for none, has compiled already with the same catalogues. named are the catalogues of the bundles, by digest, that are of other
// days than today: the name of a tax follows the rate.
func New(g *rules.Generation, previous map[string]*rules.Rule, catalogues *dte.Catalogues, named map[string]*dte.Catalogues, old *Book) (*Book, error) {
	b := &Book{generation: g, catalogues: catalogues, compiled: make(map[*rules.Rule]*Rule), events: make(map[*rules.Rule]*Event),
		previous: make(map[string]*Rule)}
	if old == nil {
		old = &Book{}
	}
	all := slices.Clone(g.Rules())
	for _, digest := range slices.Sorted(maps.Keys(previous)) {
		all = append(all, previous[digest])
	}
	for _, r := range all {
		var err error
		switch r.Bundle.Manifest.Kind {
		case "document":
			c := cmp.Or(named[r.Bundle.Digest], catalogues)
			if b.compiled[r] = old.compiled[r]; b.compiled[r] == nil || b.compiled[r].catalogues != c {
				b.compiled[r], err = Compile(r, c)
			}
		case "event":
			if b.events[r] = old.events[r]; b.events[r] == nil || old.catalogues != catalogues {
				b.events[r], err = compileEvent(r, catalogues)
			}
		}
		if err != nil {
			return nil, &Error{r.Bundle.Digest, fmt.Errorf("compiling rule %s %s: %w", r.Bundle.Manifest.Name, r.Bundle.Manifest.Version, err)}
		}
	}
	for digest, r := range previous {
		b.previous[digest] = b.compiled[r]
	}
	return b, nil
}

// Rules are the bundles of the book's generation.
func (b *Book) Rules() []*rules.Rule { return b.generation.Rules() }

// Catalogues are MH's code lists, nil in a book that can fill nothing.
func (b *Book) Catalogues() *dte.Catalogues { return b.catalogues }

// Picks is how many sales have asked for a rule, for those who give way to them.
func (b *Book) Picks() int64 { return b.picks.Load() }

// Digests are those of every bundle that the book needs.
func (b *Book) Digests() map[string]bool {
	held := make(map[string]bool)
	for r := range b.compiled {
		held[r.Bundle.Digest] = true
	}
	for _, r := range b.generation.Rules() {
		held[r.Bundle.Digest] = true
	}
	return held
}

// Previous is the last good rule before the one of a digest, nil when there is none.
func (b *Book) Previous(digest string) *Rule { return b.previous[digest] }

// Compiled is the document rule of a digest, nil when the book does not hold it.
func (b *Book) Compiled(digest string) *Rule {
	for _, r := range b.compiled {
		if r.Ref.Digest == digest {
			return r
		}
	}
	return nil
}

// Resume has the rule of a digest picked again after it was suspended.
func (b *Book) Resume(digest string) {
	for _, r := range b.compiled {
		if r.Ref.Digest == digest {
			r.suspended.Store(false)
		}
	}
}

// Suspend has the rule before picked instead, until the return to it is recorded.
func (r *Rule) Suspend() { r.suspended.Store(true) }

// Suspended tells whether the rule before is picked instead.
func (r *Rule) Suspended() bool { return r.suspended.Load() }

// HoldsOn tells whether a day is between the first and the last of the bundle's own dates in an ambiente.
func (r *Rule) HoldsOn(ambiente, day string) bool {
	w, there := r.validity[ambiente]
	return there && w.From <= day && (w.Until == "" || day <= w.Until)
}

// Description is what the module says of its inputs and outputs.
func (r *Rule) Description() *abi.Description { return r.bind.description }

// Begins is the first day of a document type in an ambiente, "" when no rule for it is known.
func (b *Book) Begins(document, ambiente string) string {
	return b.generation.Begins("document", document, ambiente)
}

// Catalogue is the text of a code of MH's catalogues: ("CAT-017", "01").
func (b *Book) Catalogue(catalogue, code string) (string, bool) {
	return b.catalogues.Lookup(catalogue, code)
}

func Compile(r *rules.Rule, catalogues *dte.Catalogues) (*Rule, error) {
	m := r.Bundle.Manifest
	d := r.Module.Description()
	outputs := schema.Outputs{Summary: d.Summary, Taxes: d.Taxes}
	for _, f := range d.LineOutputs {
		kind := schema.OutAmount
		if f.Kind == "set" {
			kind = schema.OutSet
		}
		outputs.Lines = append(outputs.Lines, schema.Output{Name: f.Name, Kind: kind})
	}
	filler, err := schema.Compile(r.Bundle.Parts["schema.json"], r.Bundle.Parts["overlay.json"], outputs, catalogues)
	if err != nil {
		return nil, fmt.Errorf("compiling schema: %w", err)
	}
	c := &Rule{
		Ref: record.RuleRef{Name: m.Name, Version: m.Version, Digest: r.Bundle.Digest}, Document: m.Document, schema: m.Schema, validity: m.Validity,
		module: r.Module, params: r.Params, Filler: filler, Total: -1, bind: bind(d), catalogues: catalogues,
	}
	for i, name := range d.Summary {
		if name == filler.Total() {
			c.Total = i
		}
	}
	if c.Total < 0 {
		return nil, fmt.Errorf("overlay names %q as the total, and the module answers no such amount", filler.Total())
	}
	return c, nil
}

func compileEvent(r *rules.Rule, catalogues *dte.Catalogues) (*Event, error) {
	m := r.Bundle.Manifest
	filler, err := schema.Compile(r.Bundle.Parts["schema.json"], r.Bundle.Parts["overlay.json"], schema.Outputs{}, catalogues)
	if err != nil {
		return nil, fmt.Errorf("compiling schema: %w", err)
	}
	e := &Event{Ref: record.RuleRef{Name: m.Name, Version: m.Version, Digest: r.Bundle.Digest}, Filler: filler, params: make(map[string]int64)}
	for _, p := range m.Params {
		if e.params[p.Name], err = p.Fixed(); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
	}
	return e, nil
}

// Whole is a parameter that counts something, 0 when the bundle has it not.
func (e *Event) Whole(name string) int { return int(e.params[name] / dte.Scale) }

// PickEvent returns the event that is valid on a day.
func (b *Book) PickEvent(name, ambiente, day string) (*Event, error) {
	r, err := b.generation.Pick("event", name, ambiente, day)
	if err != nil {
		return nil, err
	}
	return b.events[r], nil
}

// Pick returns the rule that is valid for a document type on a day (yyyy-mm-dd, in El Salvador).
func (b *Book) Pick(document, ambiente, day string) (*Rule, error) {
	r, err := b.generation.Pick("document", document, ambiente, day)
	if err != nil {
		return nil, err
	}
	b.picks.Add(1)
	c := b.compiled[r]
	if p := b.previous[c.Ref.Digest]; c.suspended.Load() && p != nil && p.HoldsOn(ambiente, day) {
		return p, nil
	}
	return c, nil
}

// Original returns the rule that computes what is given back, today, of an original of a day: of the generation of today's rule,
// the one in force on that day; where none of the generation had begun, its first, and of several that begin on that day the one whose own
// dates end first: it is there for what came before. What goes back is what was charged, whatever the
// rate is today.
func (b *Book) Original(today *Rule, ambiente, day string) *Rule {
	best, first := (*rules.Rule)(nil), (*rules.Rule)(nil)
	begins := func(r *rules.Rule) string { return r.Bundle.Manifest.Validity[ambiente].From }
	// One without an end comes behind every day.
	ends := func(r *rules.Rule) string { return cmp.Or(r.Bundle.Manifest.Validity[ambiente].Until, "never") }
	for _, r := range b.generation.Rules() { // by version
		m := &r.Bundle.Manifest
		if _, there := m.Validity[ambiente]; !there || m.Kind != "document" || m.Document != today.Document || m.Schema != today.schema {
			continue
		}
		if begins(r) <= day && (best == nil || begins(r) >= begins(best)) {
			best = r
		}
		if first == nil || begins(r) < begins(first) || begins(r) == begins(first) && ends(r) <= ends(first) {
			first = r
		}
	}
	c := b.compiled[cmp.Or(best, first)]
	switch {
	case c == nil:
		return today // a book that is older than the rule
	case c.suspended.Load() && b.previous[c.Ref.Digest] != nil && b.previous[c.Ref.Digest].HoldsOn(ambiente, day):
		return b.previous[c.Ref.Digest]
	}
	return c
}

// CheckIssuer reports what the rules find wrong with the issuer's own data at a point of sale: told at start, not
// at the till.
func (b *Book) CheckIssuer(emisor dte.Value) []dte.Fault {
	var fillers []*schema.Filler
	for _, r := range b.generation.Rules() {
		if c := b.compiled[r]; c != nil {
			fillers = append(fillers, c.Filler)
		}
	}
	return issuerFaults(fillers, emisor)
}

// Active lists the rules that are valid on a day, for status and metrics.
func (b *Book) Active(ambiente, day string) map[string]record.RuleRef {
	active := make(map[string]record.RuleRef)
	for document := range record.Types {
		if r, err := b.Pick(document, ambiente, day); err == nil {
			active[document] = r.Ref
		}
	}
	return active
}

// CanAddUp tells whether a rule reads none of the facts that are missing: only then can it add the sale up.
func (r *Rule) CanAddUp(unread []string) bool {
	for _, path := range unread {
		for _, f := range r.Description().Columns {
			if touches(path, LinesName+"."+f.Name) {
				return false
			}
		}
		for _, f := range r.Description().Scalars {
			if touches(path, strings.ReplaceAll(f.Name, "[]", "")) {
				return false
			}
		}
	}
	return true
}

// touches tells whether of two paths one lies at or below the other; "" is above all.
func touches(a, b string) bool {
	return a == "" || a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}
