package rulestore

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

// ErrNoCatalogue means that the rules have no catalogue bundle with MH's code lists. Without it no layout can be
// checked.
var ErrNoCatalogue = errors.New("no catalogue bundle among the rules")

// LinesName is the name of a sale's member that holds the lines.
const LinesName = "cuerpoDocumento"

// BundleError is a fault of one bundle of a book, which it names by its digest.
type BundleError struct {
	Digest string
	Err    error
}

func (e *BundleError) Error() string { return e.Err.Error() }
func (e *BundleError) Unwrap() error { return e.Err }

// Book is a generation of rules that is ready for issuing. It holds each document rule with the filler of its schema
// and the connection of its module's inputs to facts, and each event with its filler.
type Book struct {
	generation *rules.Generation
	catalogues *dte.Catalogues
	picks      atomic.Int64 // sales, for those who give way to them
	compiled   map[*rules.Rule]*Rule
	events     map[*rules.Rule]*Event
	paths      map[string]string // of the types' forms, POST /dte/<path>: the type
	// previous are the last good rules, by the digest of the one that took over: what computes a sale when that fails.
	previous map[string]*Rule
}

// Event is a bundle without a module: the layout of an event, with its limits as parameters.
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
	// Type is what the bundle says of its type, or where it says nothing, what is known of it.
	Type *bundle.Type
	// Total is the index of the document's total in the summary.
	Total int
	// suspended: the rule fails, and the return from it is on its way.
	suspended atomic.Bool

	catalogues *dte.Catalogues // whose names of taxes and codes the document bears
	schema     int             // the generation: identificacion.version
	validity   map[string]bundle.Window
}

// NewBook compiles every document and event rule of a generation. previous are the last good rules, by the digest of
// the bundle that replaced each. If a rule cannot be compiled, NewBook leaves none out, but returns a *BundleError that
// names the bundle. It reuses what the old book (nil for none) has compiled with the same catalogues. named are
// catalogues, by the digest of the bundle, for bundles that need those of another day than today: the name of a tax
// follows the rate.
func NewBook(g *rules.Generation, previous map[string]*rules.Rule, catalogues *dte.Catalogues,
	named map[string]*dte.Catalogues, old *Book) (*Book, error) {
	b := &Book{generation: g, catalogues: catalogues, compiled: make(map[*rules.Rule]*Rule),
		events: make(map[*rules.Rule]*Event), paths: make(map[string]string), previous: make(map[string]*Rule)}
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
				b.events[r], err = CompileEvent(r, catalogues)
			}
		}
		if err != nil {
			return nil, &BundleError{r.Bundle.Digest, fmt.Errorf("compiling rule %s %s: %w", r.Bundle.Manifest.Name,
				r.Bundle.Manifest.Version, err)}
		}
	}
	for digest, r := range previous {
		b.previous[digest] = b.compiled[r]
	}
	for _, r := range g.Rules() {
		if c := b.compiled[r]; c != nil && c.Type.Path != "" {
			b.paths[c.Type.Path] = c.Document
		}
	}
	return b, nil
}

// Rules returns the bundles of the book's generation.
func (b *Book) Rules() []*rules.Rule { return b.generation.Rules() }

// Catalogues returns MH's code lists, nil in a book that can fill no document.
func (b *Book) Catalogues() *dte.Catalogues { return b.catalogues }

// Picks returns how many sales have asked for a rule. Background work uses it to give way to sales.
func (b *Book) Picks() int64 { return b.picks.Load() }

// Digests returns the digests of all bundles that the book needs.
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

// Previous returns the last good rule before the rule of a digest, nil if there is none.
func (b *Book) Previous(digest string) *Rule { return b.previous[digest] }

// Compiled returns the document rule of a digest, nil if the book does not have it.
func (b *Book) Compiled(digest string) *Rule {
	for _, r := range b.compiled {
		if r.Ref.Digest == digest {
			return r
		}
	}
	return nil
}

// Resume ends a suspension: the rule of a digest is picked again.
func (b *Book) Resume(digest string) {
	for _, r := range b.compiled {
		if r.Ref.Digest == digest {
			r.suspended.Store(false)
		}
	}
}

// Suspend makes sales use the previous rule until the return to it is recorded, or Resume is called.
func (r *Rule) Suspend() { r.suspended.Store(true) }

// Suspended reports whether sales use the previous rule instead.
func (r *Rule) Suspended() bool { return r.suspended.Load() }

// HoldsOn reports whether a day (yyyy-mm-dd) is between the first and the last of the bundle's own dates in an
// ambiente, both inclusive.
func (r *Rule) HoldsOn(ambiente, day string) bool {
	w, there := r.validity[ambiente]
	return there && w.From <= day && (w.Until == "" || day <= w.Until)
}

// Description returns the module's description of its inputs and outputs.
func (r *Rule) Description() *abi.Description { return r.bind.description }

// Begins returns the first day of a document type in an ambiente, "" if there is no rule for it.
func (b *Book) Begins(document, ambiente string) string {
	return b.generation.Begins("document", document, ambiente)
}

// Catalogue returns the text of a code of MH's catalogues, such as ("CAT-017", "01"); false if there is no such code.
func (b *Book) Catalogue(catalogue, code string) (string, bool) {
	return b.catalogues.Lookup(catalogue, code)
}

// Compile makes a document bundle ready to compute and fill. An error names what is wrong with the bundle.
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
		Ref: record.RuleRef{Name: m.Name, Version: m.Version, Digest: r.Bundle.Digest}, Document: m.Document,
		schema: m.Schema, validity: m.Validity,
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
	if c.Type, err = bundle.ParseType(m.Document, r.Bundle.Parts); err != nil {
		return nil, err
	}
	switch {
	case c.Type != nil:
		if err := errors.Join(record.Fits(c.Type), c.checkType()); err != nil {
			return nil, err
		}
	default:
		if c.Type = record.TypeOf(m.Document); c.Type.Document == "" {
			return c, nil // nothing is signed by it
		}
	}
	return c, filler.Meets(required(m, c.Type.Effect))
}

// Required are the places that a document or an event must have, so that it bears what the box knows of it.
func Required(m bundle.Manifest) schema.Requirements {
	return required(m, record.TypeOf(m.Document).Effect)
}

func required(m bundle.Manifest, effect bundle.Effect) schema.Requirements {
	q := schema.Requirements{Version: m.Schema, Facts: []string{"identificacion.ambiente",
		"identificacion.codigoGeneracion", "emisor.nit|emisor.numDocumento", "emisor.nombre"}}
	switch {
	case m.Kind == "document" && effect == bundle.TakesBack: // an event by its layout: it has no number
		q.Kind, q.Type = "tipoEvento", m.Document
		q.Facts = append(q.Facts, "identificacion.fecEmi", "documentoRelacionado[].codigoGeneracion", "receptor.nombre",
			"receptor.numDocumento|receptor.nit")
		q.Computed = true
	case m.Kind == "document":
		q.Kind, q.Type = "tipoDte", m.Document
		q.Facts = append(q.Facts, "identificacion.numeroControl", "identificacion.fecEmi", "identificacion.horEmi",
			"identificacion.tipoModelo",
			"identificacion.tipoOperacion", "receptor.nombre", "receptor.numDocumento|receptor.nit")
		if effect != bundle.Nothing {
			q.Facts = append(q.Facts, "documentoRelacionado[].tipoDocumento", "documentoRelacionado[].numeroDocumento")
		}
		q.Computed = true
	case m.Document == "invalidacion":
		q.Facts = append(q.Facts, "identificacion.fecEmi", "documento.tipoDte", "documento.codigoGeneracion",
			"documento.selloRecibido", "documento.numeroControl", "documento.fecEmi")
	case m.Document == "contingencia":
		q.Facts = append(q.Facts, "detalleDTE[].codigoGeneracion", "detalleDTE[].tipoDoc")
	}
	return q
}

// Fill makes a document of a rule's answer, or of an event's facts where there is no answer. Faults are those of the
// facts; an error means that the bundle contradicts what the box knows.
func (r *Rule) Fill(dst []byte, facts dte.Value, c *schema.Computed, o schema.FillOptions) ([]byte, []dte.Fault,
	error) {
	return fill(r.Filler, &r.Ref, dst, facts, c, o)
}

// Fill makes an event of its facts, like Rule.Fill.
func (e *Event) Fill(facts dte.Value) ([]byte, []dte.Fault, error) {
	return fill(e.Filler, &e.Ref, nil, facts, nil, schema.FillOptions{Catalogues: true})
}

func fill(f *schema.Filler, ref *record.RuleRef, dst []byte, facts dte.Value, c *schema.Computed,
	o schema.FillOptions) ([]byte, []dte.Fault, error) {
	document, faults := f.Fill(dst, facts, c, o)
	if len(faults) > 0 && faults[0].Code == schema.Contradiction {
		return nil, nil, fmt.Errorf("rule %s %s contradicts what the box knows: %s %s", ref.Name, ref.Version,
			faults[0].Path, faults[0].Message)
	}
	return document, faults, nil
}

// mostOfEvent is the highest parameter of an event: of hours, months, days or documents. All of the law's are below.
const mostOfEvent = 10_000

// CompileEvent makes an event bundle ready to fill. An error names what is wrong with the bundle.
func CompileEvent(r *rules.Rule, catalogues *dte.Catalogues) (*Event, error) {
	m := r.Bundle.Manifest
	filler, err := schema.Compile(r.Bundle.Parts["schema.json"], r.Bundle.Parts["overlay.json"], schema.Outputs{},
		catalogues)
	if err != nil {
		return nil, fmt.Errorf("compiling schema: %w", err)
	}
	e := &Event{Ref: record.RuleRef{Name: m.Name, Version: m.Version, Digest: r.Bundle.Digest}, Filler: filler,
		params: make(map[string]int64)}
	for _, p := range m.Params {
		if e.params[p.Name], err = p.Fixed(); err != nil || e.params[p.Name] > mostOfEvent*dte.Scale {
			return nil, fmt.Errorf("parameter %s: %w: %s is not a number up to %d", p.Name, bundle.ErrFormat, p.Value,
				mostOfEvent)
		}
	}
	return e, filler.Meets(Required(m))
}

// Whole returns a parameter that is a whole number, 0 if the bundle does not have it.
func (e *Event) Whole(name string) int { return int(e.params[name] / dte.Scale) }

// Says returns a yes or no of the event for a type of document, of all types where it has none for that one, and else
// the type's own.
func (e *Event) Says(name, document string, own bool) bool {
	for _, n := range [...]string{name + document, name} {
		if v, set := e.params[n]; set {
			return v != 0
		}
	}
	return own
}

// PickEvent returns the event's rule that is valid on a day (yyyy-mm-dd in El Salvador).
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

// Original returns the rule for a note or a return that is issued today against an original of a given day. It is the
// rule, of the generation of today's rule, that was in force on that day. If none of the generation had begun on that
// day, it is the first of the generation; if several begin on the same day, it is the one whose own dates end first,
// because it is meant for earlier sales. Therefore the amount that was charged is given back, whatever the rate is
// today.
func (b *Book) Original(today *Rule, ambiente, day string) *Rule {
	best, first := (*rules.Rule)(nil), (*rules.Rule)(nil)
	begins := func(r *rules.Rule) string { return r.Bundle.Manifest.Validity[ambiente].From }
	// One without an end comes behind every day.
	ends := func(r *rules.Rule) string { return cmp.Or(r.Bundle.Manifest.Validity[ambiente].Until, "never") }
	for _, r := range b.generation.Rules() { // by version
		m := &r.Bundle.Manifest
		if _, there := m.Validity[ambiente]; !there || m.Kind != "document" || m.Document != today.Document ||
			m.Schema != today.schema {
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

// CheckIssuer returns what the rules find wrong with the issuer's own data at a point of sale. It is called at the
// start, before a till can meet these faults.
func (b *Book) CheckIssuer(emisor dte.Value) []dte.Fault {
	var fillers []*schema.Filler
	for _, r := range b.generation.Rules() {
		if c := b.compiled[r]; c != nil {
			fillers = append(fillers, c.Filler)
		}
	}
	return issuerFaults(fillers, emisor)
}

// Active returns the rules that are valid on a day, for status and metrics.
func (b *Book) Active(ambiente, day string) map[string]record.RuleRef {
	active := make(map[string]record.RuleRef)
	for _, t := range b.Types(ambiente, day) {
		if r, err := b.Pick(t.Document, ambiente, day); err == nil {
			active[t.Document] = r.Ref
		}
	}
	return active
}

// Types returns the document types that the book has rules for. The rule in force on day describes a type; without one,
// the first rule that begins later does.
func (b *Book) Types(ambiente, day string) (types []*bundle.Type) {
	seen := make(map[string]bool)
	for _, r := range b.generation.Rules() {
		c := b.compiled[r]
		if c == nil || c.Type.Document == "" || seen[c.Document] {
			continue
		}
		seen[c.Document] = true
		t := c.Type
		for _, at := range [...]string{b.Begins(c.Document, ambiente), day} {
			if picked, err := b.generation.Pick("document", c.Document, ambiente, at); err == nil {
				t = b.compiled[picked].Type
			}
		}
		types = append(types, t)
	}
	return types
}

// TypeAt returns the type of document that is issued under a path, as the rule describes it that is in force on a day.
// Without such a rule, it returns what is known of the type; nil if there is no such type.
func (b *Book) TypeAt(path, ambiente, day string) *bundle.Type {
	if document, there := b.paths[path]; there {
		if r, err := b.generation.Pick("document", document, ambiente, day); err == nil {
			return b.compiled[r].Type
		}
	}
	return record.TypeAt(path)
}

// CanAddUp reports whether the rule reads none of the missing facts. Only then can it add the sale up.
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

// touches reports whether of two paths one lies at or below the other; "" is above all.
func touches(a, b string) bool {
	return a == "" || a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}
