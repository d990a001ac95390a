package rulestore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
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

// ErrNoCatalogue means that the rules include no catalogue bundle: the layouts need its code lists.
var ErrNoCatalogue = errors.New("no catalogue bundle among the rules")

// LinesName is the name of a sale's member with the lines.
const LinesName = "cuerpoDocumento"

// BundleError is a fault of one bundle of a book. Digest is the digest of that bundle.
type BundleError struct {
	Digest string
	Err    error
}

func (e *BundleError) Error() string { return e.Err.Error() }
func (e *BundleError) Unwrap() error { return e.Err }

// ErrNoRule means that no rule of this kind and document is in force yet.
var ErrNoRule = errors.New("no rule is in force")

// Book is a set of rules that is ready for issuing. It has each document rule with the filler of its schema and the
// binding of its module, and each event with its filler.
type Book struct {
	rules      []*rules.Rule // by version
	catalogues *dte.Catalogues
	picks      atomic.Int64 // calls of Pick; see Picks
	compiled   map[*rules.Rule]*Rule
	events     map[*rules.Rule]*Event
	paths      map[string]string // document type by the path of its form, POST /dte/<path>
	// previous maps a rule's digest to the rule that takes over when the first rule fails.
	previous map[string]*Rule
}

// Event is the bundle of an event. It has a layout and no module; its parameters are the event's limits.
type Event struct {
	Ref        record.RuleRef
	Filler     *schema.Filler
	params     map[string]int64 // in 1e-8
	catalogues *dte.Catalogues
}

// Rule is one bundle ready to compute and fill.
type Rule struct {
	Ref       record.RuleRef
	Document  string // the type of CAT-002 that the rule computes
	module    *rules.Module
	params    []int64
	bind      binding
	Filler    *schema.Filler
	Type      *bundle.Type // the bundle's description of its type; without a description, the registered type
	Total     int          // the index of the document's total in the summary
	suspended atomic.Bool  // the rule fails, and the branch is about to return to the previous rule

	catalogues *dte.Catalogues // MH's names for the taxes and codes of the document
	schema     int             // generation of the layout: identificacion.version
	validity   map[string]bundle.Window
}

// NewBook compiles every document and event rule in live and previous. No two bundles of a document may have both the
// same first day and the same version: see twin. previous maps a bundle's digest to the last good rule before the
// bundle. named maps a bundle's digest to the catalogues of another day if these name the bundle's taxes and codes: a
// tax's name contains its rate. NewBook reuses the rules of old (may be nil) that have the same catalogues.
// Error: *BundleError.
func NewBook(live []*rules.Rule, previous map[string]*rules.Rule, catalogues *dte.Catalogues,
	named map[string]*dte.Catalogues, old *Book) (*Book, error) {
	b := &Book{rules: slices.Clone(live), catalogues: catalogues, compiled: make(map[*rules.Rule]*Rule),
		events: make(map[*rules.Rule]*Event), paths: make(map[string]string), previous: make(map[string]*Rule)}
	old = cmp.Or(old, new(Book))
	slices.SortStableFunc(b.rules, func(x, y *rules.Rule) int {
		return bundle.Compare(x.Bundle.Manifest.Version, y.Bundle.Manifest.Version)
	})
	all := slices.Clone(b.rules)
	for _, digest := range slices.Sorted(maps.Keys(previous)) {
		all = append(all, previous[digest])
	}
	for _, r := range all {
		var err error
		c := cmp.Or(named[r.Bundle.Digest], catalogues)
		switch r.Bundle.Manifest.Kind {
		case "document":
			if b.compiled[r] = old.compiled[r]; b.compiled[r] == nil || b.compiled[r].catalogues != c {
				b.compiled[r], err = Compile(r, c)
			}
		case "event":
			if b.events[r] = old.events[r]; b.events[r] == nil || b.events[r].catalogues != c {
				b.events[r], err = CompileEvent(r, c)
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
	for _, r := range b.rules {
		if c := b.compiled[r]; c != nil && c.Type.Path != "" {
			b.paths[c.Type.Path] = c.Document
		}
	}
	return b, nil
}

// Rules returns the book's bundles, by version.
func (b *Book) Rules() []*rules.Rule { return b.rules }

// Catalogues returns MH's code lists; nil if the book cannot fill documents.
func (b *Book) Catalogues() *dte.Catalogues { return b.catalogues }

// Picks returns how often Pick has found a rule, mostly for sales. Background work uses it to let sales go first.
func (b *Book) Picks() int64 { return b.picks.Load() }

// Digests returns the digests of all bundles that the book needs.
func (b *Book) Digests() map[string]bool {
	held := make(map[string]bool)
	for r := range b.compiled {
		held[r.Bundle.Digest] = true
	}
	for _, r := range b.rules {
		held[r.Bundle.Digest] = true
	}
	return held
}

// Previous returns the last good rule before the rule with the given digest, or nil.
func (b *Book) Previous(digest string) *Rule { return b.previous[digest] }

// Compiled returns the document rule with the given digest, or nil.
func (b *Book) Compiled(digest string) *Rule {
	for _, r := range b.compiled {
		if r.Ref.Digest == digest {
			return r
		}
	}
	return nil
}

// Resume makes sales use the rule with the given digest again.
func (b *Book) Resume(digest string) {
	if r := b.Compiled(digest); r != nil {
		r.suspended.Store(false)
	}
}

// Suspend replaces r by the previous rule, on days within the previous rule's dates, until Resume or a book without r.
func (r *Rule) Suspend() { r.suspended.Store(true) }

// HoldsOn reports whether a day (yyyy-mm-dd) is within the bundle's own dates in an ambiente, both days inclusive.
func (r *Rule) HoldsOn(ambiente, day string) bool {
	w, there := r.validity[ambiente]
	return there && w.From <= day && (w.Until == "" || day <= w.Until)
}

// Description returns the module's description of its inputs and outputs.
func (r *Rule) Description() *abi.Description { return r.bind.description }

// Begins returns the earliest first day (yyyy-mm-dd in El Salvador) of the book's rules for a document type, or "".
func (b *Book) Begins(document, ambiente string) (day string) {
	for _, r := range b.rules {
		m := &r.Bundle.Manifest
		if w, ok := m.Validity[ambiente]; ok && m.Kind == "document" && m.Document == document &&
			(day == "" || w.From < day) {
			day = w.From
		}
	}
	return day
}

// inForce returns the bundle in force on a day (yyyy-mm-dd in El Salvador): the bundle that began last; of bundles that
// began on one day, the latest version. After its last day it stays in force until another begins. Error: ErrNoRule.
func (b *Book) inForce(kind, document, ambiente, day string) (best *rules.Rule, err error) {
	from := ""
	for _, r := range b.rules {
		m := &r.Bundle.Manifest
		w, ok := m.Validity[ambiente]
		if ok && m.Kind == kind && m.Document == document && w.From <= day && (best == nil || w.From >= from) {
			best, from = r, w.From
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w for %s %s in ambiente %s on %s", ErrNoRule, kind, document, ambiente, day)
	}
	return best, nil
}

// Catalogue returns the text of a code of MH's catalogues, such as ("CAT-017", "01"), or false.
func (b *Book) Catalogue(catalogue, code string) (string, bool) {
	return b.catalogues.Lookup(catalogue, code)
}

// Compile makes a document bundle ready for use. An error names the fault of the bundle.
func Compile(r *rules.Rule, catalogues *dte.Catalogues) (*Rule, error) {
	m := r.Bundle.Manifest
	d := r.Module.Description()
	outputs := schema.Outputs{Summary: d.Summary, Taxes: d.Taxes}
	for _, f := range d.Columns {
		outputs.Inputs = append(outputs.Inputs, LinesName+"[]."+f.Name)
	}
	for _, f := range d.Scalars {
		outputs.Inputs = append(outputs.Inputs, f.Name)
	}
	for _, f := range d.LineOutputs {
		outputs.Lines = append(outputs.Lines, schema.Output{Name: f.Name, Set: f.Kind == "set"})
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
		return nil, fmt.Errorf("overlay names %q as the total, but the module's summary lacks it", filler.Total())
	}
	if c.Type, err = bundle.ParseType(m.Document, r.Bundle.Parts); err != nil {
		return nil, err
	}
	if c.Type != nil {
		if err := errors.Join(record.Fits(c.Type), c.checkType()); err != nil {
			return nil, err
		}
	} else if c.Type = record.TypeOf(m.Document); c.Type.Document == "" {
		return c, nil // no further checks, because documents of an unknown type are never signed
	}
	return c, cmp.Or(filler.Meets(Required(m, c.Type.Effect)), c.takesMarks())
}

// takesMarks refuses a layout without the marks of contingency, if its type may be issued in contingency: each sale of
// the type would be refused while MH does not answer.
func (r *Rule) takesMarks() error {
	var others []dte.Fault
	for i, marks := range [][]dte.Member{nil, record.ContingencyMarks(1, ""), record.ContingencyMarks(5,
		"Otro motivo de la contingencia")} {
		_, faults := r.Filler.Fill(nil, dte.Obj(dte.Member{Name: "identificacion", Value: dte.Obj(marks...)}), nil,
			schema.FillOptions{Catalogues: true, MaxFaults: math.MaxInt})
		for _, m := range marks {
			if !r.Filler.Takes("identificacion." + m.Name) {
				faults = append(faults, dte.Fault{Path: "identificacion." + m.Name, Code: dte.FaultRequired})
			}
		}
		for _, f := range faults {
			if i > 0 && r.Type.Deferrable() && !slices.Contains(others, f) {
				return fmt.Errorf("schema: takes no document in contingency, and type.json does not say so: %w", f)
			}
		}
		others = append(others, faults...)
	}
	return nil
}

// CheckMotive returns a fault that a layout in force finds in an operator's motive of a contingency (cause 5), or nil.
func (b *Book) CheckMotive(ambiente, day, motive string) *dte.Fault {
	marks := dte.Obj(dte.Member{Name: "identificacion", Value: dte.Obj(record.ContingencyMarks(5, motive)...)})
	for _, ref := range b.Active(ambiente, day) {
		r := b.Compiled(ref.Digest)
		_, faults := r.Filler.Fill(nil, marks, nil, schema.FillOptions{MaxFaults: math.MaxInt})
		for _, f := range faults {
			if f.Path == "identificacion.motivoContin" && r.Type.Deferrable() {
				return &f
			}
		}
	}
	return nil
}

// Required returns what a layout must have, such as the members for the box's own data. The layout is that of an event,
// or of a document with the given effect.
func Required(m bundle.Manifest, effect bundle.Effect) schema.Requirements {
	q := schema.Requirements{Version: m.Schema, Facts: []string{"identificacion.ambiente",
		"identificacion.codigoGeneracion", "emisor.nit|emisor.numDocumento", "emisor.nombre"}}
	switch {
	case m.Kind == "document" && effect == bundle.TakesBack: // MH treats a return as an event: it has no number
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

// Fill appends to dst the document made of the facts and the rule's answer. Returned faults are faults of the facts. An
// error means that the bundle contradicts the box's data, or that its layout refuses them (identificacion, emisor).
func (r *Rule) Fill(dst []byte, facts dte.Value, c *schema.Computed, o schema.FillOptions) ([]byte, []dte.Fault,
	error) {
	if i := slices.Index(r.Description().Summary, "saldoFavor"); i >= 0 && c != nil && c.Summary[i] < 0 &&
		c.Summary[r.Total] == 0 {
		facts = credited(facts)
	}
	return fill(r.Filler, &r.Ref, dst, facts, c, o)
}

// credited changes the facts of an immediate payment (condicionOperacion 1) that leaves the buyer a credit: MH wants
// payment code 99 (other) in place of 01 (cash). Only the rule computes the credit, so the till cannot send this code.
func credited(facts dte.Value) dte.Value {
	resumen := facts.Get("resumen")
	payments := slices.Clone(resumen.Get("pagos").Items())
	for i, p := range payments {
		if p.Get("codigo").Text() == "01" {
			payments[i] = p.With("codigo", dte.Str("99"))
		}
	}
	if n, _ := resumen.Get("condicionOperacion").Int(); n != 1 || len(payments) == 0 {
		return facts
	}
	return facts.With("resumen", resumen.With("pagos", dte.Arr(payments...)))
}

// Fill makes an event from its facts, like Rule.Fill.
func (e *Event) Fill(facts dte.Value) ([]byte, []dte.Fault, error) {
	return fill(e.Filler, &e.Ref, nil, facts, nil, schema.FillOptions{Catalogues: true})
}

func fill(f *schema.Filler, ref *record.RuleRef, dst []byte, facts dte.Value, c *schema.Computed,
	o schema.FillOptions) ([]byte, []dte.Fault, error) {
	document, faults := f.Fill(dst, facts, c, o)
	if err := ofBox(ref, faults); err != nil {
		return nil, nil, err
	}
	return document, faults, nil
}

// ofBox returns an error if a fault is the bundle's, or lies in the box's own facts: no till can put those right.
func ofBox(ref *record.RuleRef, faults []dte.Fault) error {
	for _, x := range faults {
		root, _, _ := strings.Cut(x.Path, ".")
		if x.Code == schema.Contradiction || root == "identificacion" || root == "emisor" {
			return fmt.Errorf("rule %s %s contradicts what the box knows: %s %s", ref.Name, ref.Version, x.Path,
				x.Message)
		}
	}
	return nil
}

// mostOfEvent limits each parameter of an event: hours, months, days or documents. All limits in law are lower.
const mostOfEvent = 10_000

// CompileEvent makes an event bundle ready to fill. An error names the fault of the bundle.
func CompileEvent(r *rules.Rule, catalogues *dte.Catalogues) (*Event, error) {
	m := r.Bundle.Manifest
	filler, err := schema.Compile(r.Bundle.Parts["schema.json"], r.Bundle.Parts["overlay.json"], schema.Outputs{},
		catalogues)
	if err != nil {
		return nil, fmt.Errorf("compiling schema: %w", err)
	}
	e := &Event{Ref: record.RuleRef{Name: m.Name, Version: m.Version, Digest: r.Bundle.Digest}, Filler: filler,
		params: make(map[string]int64), catalogues: catalogues}
	for _, p := range m.Params {
		if e.params[p.Name], err = p.Fixed(); err != nil || e.params[p.Name] > mostOfEvent*dte.Scale {
			return nil, fmt.Errorf("parameter %s: %w: %s is not a number up to %d", p.Name, bundle.ErrFormat, p.Value,
				mostOfEvent)
		}
	}
	return e, filler.Meets(Required(m, bundle.Nothing))
}

// Whole returns a parameter without its decimals; 0 if the event lacks the parameter.
func (e *Event) Whole(name string) int { return int(e.params[name] / dte.Scale) }

// Says returns the event's flag for a type of document, or else its flag for all types, or else the default (own).
func (e *Event) Says(name, document string, own bool) bool {
	for _, n := range [...]string{name + document, name} {
		if v, set := e.params[n]; set {
			return v != 0
		}
	}
	return own
}

// PickEvent returns the event's rule in force on a day (yyyy-mm-dd in El Salvador). Error: ErrNoRule.
func (b *Book) PickEvent(name, ambiente, day string) (*Event, error) {
	r, err := b.inForce("event", name, ambiente, day)
	if err != nil {
		return nil, err
	}
	return b.events[r], nil
}

// Pick returns the rule in force for a document type on a day (yyyy-mm-dd in El Salvador), or the previous rule: see
// Suspend. Error: ErrNoRule.
func (b *Book) Pick(document, ambiente, day string) (*Rule, error) {
	r, err := b.inForce("document", document, ambiente, day)
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

// Original returns the rule for a note or a return that is issued today, for an original of the given day: the rule of
// that day, in the schema generation of today's rule. A note thus gives back the amount that was charged, whatever the
// rate is today. If no rule had begun by that day, Original returns the rule that began first; of several such rules,
// the rule that ends first: that rule is meant for earlier sales.
func (b *Book) Original(today *Rule, ambiente, day string) *Rule {
	best, first := (*rules.Rule)(nil), (*rules.Rule)(nil)
	begins := func(r *rules.Rule) string { return r.Bundle.Manifest.Validity[ambiente].From }
	// A rule without an end sorts after every day.
	ends := func(r *rules.Rule) string { return cmp.Or(r.Bundle.Manifest.Validity[ambiente].Until, "never") }
	for _, r := range b.rules { // by version
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
		return today // today's rule is newer than this book
	case c.suspended.Load() && b.previous[c.Ref.Digest] != nil && b.previous[c.Ref.Digest].HoldsOn(ambiente, day):
		return b.previous[c.Ref.Digest]
	}
	return c
}

// Layouts returns the layouts of the document rules.
func (b *Book) Layouts() (layouts Layouts) {
	for _, r := range b.rules {
		if c := b.compiled[r]; c != nil {
			layouts = append(layouts, c.Filler)
		}
	}
	return layouts
}

// Active returns the rules that Pick returns on a day, by document type.
func (b *Book) Active(ambiente, day string) map[string]record.RuleRef {
	active := make(map[string]record.RuleRef)
	for _, t := range b.Types(ambiente, day) {
		if r, err := b.Pick(t.Document, ambiente, day); err == nil {
			active[t.Document] = r.Ref
		}
	}
	return active
}

// Types returns the document types for which the book has rules. A type's description is from the rule in force on the
// given day, or else from the first rule that begins later.
func (b *Book) Types(ambiente, day string) (types []*bundle.Type) {
	seen := make(map[string]bool)
	for _, r := range b.rules {
		c := b.compiled[r]
		if c == nil || c.Type.Document == "" || seen[c.Document] {
			continue
		}
		seen[c.Document] = true
		t := c.Type
		for _, at := range [...]string{b.Begins(c.Document, ambiente), day} {
			if picked, err := b.inForce("document", c.Document, ambiente, at); err == nil {
				t = b.compiled[picked].Type
			}
		}
		types = append(types, t)
	}
	return types
}

// TypeAt returns the document type that is issued under a path, as described by the rule in force on a day. Without
// such a rule, it returns the registered type, or nil.
func (b *Book) TypeAt(path, ambiente, day string) *bundle.Type {
	if document, there := b.paths[path]; there {
		if r, err := b.inForce("document", document, ambiente, day); err == nil {
			return b.compiled[r].Type
		}
	}
	return record.TypeAt(path)
}

// CanAddUp reports whether the rule can compute a sale with unread facts: the rule must not use an unread path.
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

// touches reports whether one of two paths lies at or below the other. If a is "", it lies above every path.
func touches(a, b string) bool {
	return a == "" || a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}
