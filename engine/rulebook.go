package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/rules"
	"dtegate/rules/abi"
)

// Rulebook is a generation of rules made ready for issuing: each document rule with the filler of its schema and
// the binding of its module's inputs to facts, each event with its filler.
type Rulebook struct {
	generation *rules.Generation
	catalogues *dte.Catalogues
	picks      atomic.Int64 // sales, for those who give way to them
	compiled   map[*rules.Rule]*rule
	events     map[*rules.Rule]*event
	// previous are the last good rules, by the digest of the one that took over: what computes a sale when that fails.
	previous map[string]*rule
}

// event is a bundle without a module: the layout of an event, and its limits as parameters.
type event struct {
	ref    record.RuleRef
	filler *dte.Filler
	params map[string]int64 // 1e-8
}

// rule is one bundle ready to compute and fill.
type rule struct {
	ref record.RuleRef
	// document is the type of CAT-002 that it computes.
	document string
	module   *rules.Module
	params   []int64
	bind     binding
	filler   *dte.Filler
	total    int // index of the document's total in the summary
	// suspended: it fails, and the return from it is on its way.
	suspended atomic.Bool
}

// newRulebook compiles every document and event rule of a generation, and others that no day picks. It fails, naming the
// bundle, rather than leave a rule out. It takes over what the old book, nil for none, has compiled already with the same
// catalogues.
func newRulebook(g *rules.Generation, others []*rules.Rule, catalogues *dte.Catalogues, old *Rulebook) (*Rulebook, error) {
	b := &Rulebook{generation: g, catalogues: catalogues, compiled: make(map[*rules.Rule]*rule), events: make(map[*rules.Rule]*event),
		previous: make(map[string]*rule)}
	if old == nil || old.catalogues != catalogues {
		old = &Rulebook{}
	}
	for _, r := range slices.Concat(g.Rules(), others) {
		var err error
		switch r.Bundle.Manifest.Kind {
		case "document":
			if b.compiled[r] = old.compiled[r]; b.compiled[r] == nil {
				b.compiled[r], err = compile(r, catalogues)
			}
		case "event":
			if b.events[r] = old.events[r]; b.events[r] == nil {
				b.events[r], err = compileEvent(r, catalogues)
			}
		}
		if err != nil {
			return nil, &ruleError{r.Bundle.Digest, fmt.Errorf("compiling rule %s %s: %w", r.Bundle.Manifest.Name, r.Bundle.Manifest.Version, err)}
		}
	}
	return b, nil
}

// Description is what the module says of its inputs and outputs.
func (r *rule) Description() *abi.Description { return r.bind.description }

// Begins is the first day of a document type in an ambiente, "" when no rule for it is known.
func (b *Rulebook) Begins(document, ambiente string) string {
	return b.generation.Begins("document", document, ambiente)
}

// Catalogue is the text of a code of MH's catalogues: ("CAT-017", "01").
func (b *Rulebook) Catalogue(catalogue, code string) (string, bool) {
	return b.catalogues.Lookup(catalogue, code)
}

func compile(r *rules.Rule, catalogues *dte.Catalogues) (*rule, error) {
	m := r.Bundle.Manifest
	d := r.Module.Description()
	outputs := dte.Outputs{Summary: d.Summary, Taxes: d.Taxes}
	for _, f := range d.LineOutputs {
		kind := dte.OutAmount
		if f.Kind == "set" {
			kind = dte.OutSet
		}
		outputs.Lines = append(outputs.Lines, dte.Output{Name: f.Name, Kind: kind})
	}
	filler, err := dte.CompileSchema(r.Bundle.Parts["schema.json"], r.Bundle.Parts["overlay.json"], outputs, catalogues)
	if err != nil {
		return nil, fmt.Errorf("compiling schema: %w", err)
	}
	c := &rule{
		ref: record.RuleRef{Name: m.Name, Version: m.Version, Digest: r.Bundle.Digest}, document: m.Document,
		module: r.Module, params: r.Params, filler: filler, total: -1, bind: bind(d),
	}
	for i, name := range d.Summary {
		if name == filler.Total() {
			c.total = i
		}
	}
	if c.total < 0 {
		return nil, fmt.Errorf("overlay names %q as the total, and the module answers no such amount", filler.Total())
	}
	return c, nil
}

func compileEvent(r *rules.Rule, catalogues *dte.Catalogues) (*event, error) {
	m := r.Bundle.Manifest
	filler, err := dte.CompileSchema(r.Bundle.Parts["schema.json"], r.Bundle.Parts["overlay.json"], dte.Outputs{}, catalogues)
	if err != nil {
		return nil, fmt.Errorf("compiling schema: %w", err)
	}
	e := &event{ref: record.RuleRef{Name: m.Name, Version: m.Version, Digest: r.Bundle.Digest}, filler: filler, params: make(map[string]int64)}
	for _, p := range m.Params {
		if e.params[p.Name], err = p.Fixed(); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
	}
	return e, nil
}

// whole is a parameter that counts something, 0 when the bundle has it not.
func (e *event) whole(name string) int { return int(e.params[name] / dte.Scale) }

// event returns the event that is valid on a day.
func (b *Rulebook) event(name, ambiente, day string) (*event, error) {
	r, err := b.generation.Pick("event", name, ambiente, day)
	if err != nil {
		return nil, err
	}
	return b.events[r], nil
}

// pick returns the rule that is valid for a document type on a day (yyyy-mm-dd, in El Salvador).
func (b *Rulebook) pick(document, ambiente, day string) (*rule, error) {
	r, err := b.generation.Pick("document", document, ambiente, day)
	if err != nil {
		return nil, err
	}
	b.picks.Add(1)
	c := b.compiled[r]
	if c.suspended.Load() {
		if p := b.previous[c.ref.Digest]; p != nil {
			return p, nil
		}
	}
	return c, nil
}

// CheckIssuer reports what the rules find wrong with the issuer's own data at a point of sale: told at start, not
// at the till.
func (b *Rulebook) CheckIssuer(emisor dte.Value) []dte.Fault {
	var fillers []*dte.Filler
	for _, r := range b.generation.Rules() {
		if c := b.compiled[r]; c != nil {
			fillers = append(fillers, c.filler)
		}
	}
	return issuerFaults(fillers, emisor)
}

// Active lists the rules that are valid on a day, for status and metrics.
func (b *Rulebook) Active(ambiente, day string) map[string]record.RuleRef {
	active := make(map[string]record.RuleRef)
	for document := range record.Types {
		if r, err := b.pick(document, ambiente, day); err == nil {
			active[document] = r.ref
		}
	}
	return active
}

// adds tells whether a rule reads none of the facts that are missing: only then can it add the sale up.
func (r *rule) adds(unread []string) bool {
	for _, path := range unread {
		for _, f := range r.Description().Columns {
			if touches(path, linesName+"."+f.Name) {
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
