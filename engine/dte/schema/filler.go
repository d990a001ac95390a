// Package schema fills a document from facts by its published JSON Schema. It does no I/O and reads no clock.
//
// # Filling
//
// There is no Go struct for any document. Compile turns a schema file and our overlay into a Filler, once. Fill then
// walks the layout in order. Each value comes from the overlay's source, the rule module's answer, the fact under the
// same path, or the schema's constant. Fill checks the value by every keyword and writes it. Conditions are evaluated
// on the filled document, never on the facts.
//
// # Overlays
//
// An overlay is a JSON object that accompanies a schema file. Every entry of from, drop and add has a "reason". Paths
// are paths of the document, with "[]" for each item of a list; "" is the document itself.
//
//	total      the name of the summary amount that is the document's total
//	taxes      {"path", "catalogue"}: the list of codigo, descripcion and valor that the module's taxes fill
//	from       {"path", …}: the source of a value, unless it is the unchanged fact under the value's own path. "fact"
//	           names the fact to use. If that fact is absent, or none is named, the source is "amount", a summary amount
//	           of the module (in a list only for the first item), or "value", a constant. "words", a summary amount in
//	           words, is used without "fact". "form" ("########-#") puts the fact's text into a pattern: each # is one
//	           character of the text. "when": {"fact", "is"} applies the form only if the fact named in "when" equals
//	           "is". A text that does not fit the form stays unchanged. The box limits the sources, because bundles may
//	           be forged: see fixed.go.
//	drop       {"path", "keyword"}: a keyword of the file that MH's live validator ignores, or that MH misspelt
//	add        {"path", "schema"}: keywords, including conditions, that the file lacks
//	catalogue  {"path", "catalogue", "parent"}: the code list that applies, and the neighbour that a code depends on
package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dtegate/engine/dte"
)

// Filler writes the documents of one schema: one type in one generation. It is safe for concurrent use.
type Filler struct {
	fields   []field
	out      Outputs
	taxNames []string // MH's texts of out.Taxes
	lines    int      // field of cuerpoDocumento; -1: the layout has no lines
	total    string
	amounts  arithmetic
	version  int
	numbers  int // see Numbers
	runs     sync.Pool
}

// FillOptions tune one Fill.
type FillOptions struct {
	Catalogues bool // also look codes up in MH's catalogues
	// LeavePayments skips the catalogues of payments and their terms (CAT-017, CAT-018).
	LeavePayments bool
	MaxFaults     int // 0 means 50
}

const defaultMaxFaults = 50

// Compile compiles a schema file with its overlay (may be empty), for a module with the outputs out. It refuses unknown
// keywords, layouts that no document of MH has, and overlay entries that match nothing; the error names the place.
func Compile(schema, overlay []byte, out Outputs, cat *dte.Catalogues) (*Filler, error) {
	if len(overlay) == 0 {
		overlay = []byte("{}")
	}
	o, err := parseOverlay(overlay)
	if err != nil {
		return nil, fmt.Errorf("reading overlay: %w", err)
	}
	s, err := o.readSchema(schema)
	if err != nil {
		return nil, err
	}
	if s.types != typeObject {
		return nil, errors.New("schema of the document: is not an object")
	}
	if len(out.Taxes) > 62 {
		return nil, errors.New("module outputs: more than 62 taxes")
	}
	c := &compiler{overlay: o, out: out, cat: cat}
	root := newShape("", s, nil, true)
	if err := c.layout(root); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	if err := s.checkFixed(""); err != nil {
		return nil, err
	}
	amounts, err := c.arithmetic()
	if err != nil {
		return nil, err
	}
	c.attach(s, 0)
	f := &Filler{fields: c.fields, out: out, lines: c.layoutIndex(linesName), total: o.total, amounts: amounts,
		numbers: min(1, 1+c.layoutIndex("identificacion.numeroControl"))}
	if o.taxes != nil {
		for _, code := range out.Taxes {
			name, _ := cat.Lookup(o.taxes.catalogue, code)
			f.taxNames = append(f.taxNames, name)
		}
	}
	if i := c.layoutIndex("identificacion.version"); i >= 0 {
		n, _ := c.fields[i].fallback.Int()
		f.version = int(n)
	}
	f.runs.New = func() any { return &run{filler: f} }
	return f, nil
}

// Total returns the name of the summary amount that is the document's total; "" if the overlay names none.
func (f *Filler) Total() string { return f.total }

// Version returns the constant of identificacion.version; or 0.
func (f *Filler) Version() int { return f.version }

// Numbers returns 1 if a document shows its control number, otherwise 0.
func (f *Filler) Numbers() int { return f.numbers }

// Fill appends to dst the document made of the facts and the module's answer, as compact JSON in the order of the
// schema. If there are faults, Fill returns the faults and nil bytes. A fault with the code Contradiction is the
// bundle's, and the only one.
//
// If the overlay names no source for a place and the module has an output with the place's name, the value is that
// output. Otherwise the value is the first of: the overlay's source, the fact under the same path, the schema's
// constant. Without a value, the member is null if the schema requires it and allows null, otherwise absent. Facts that
// the schema does not name are for the module only.
//
// If c is nil (no answer of the module), Fill checks only the values that do not depend on the module. The bytes are
// then a document only if the layout has no output of a module, as the layout of an event.
func (f *Filler) Fill(dst []byte, facts dte.Value, c *Computed, opt FillOptions) ([]byte, []dte.Fault) {
	r := f.runs.Get().(*run)
	defer r.release()
	r.facts, r.computed, r.limit = facts, c, opt.MaxFaults
	r.leavePayments = opt.LeavePayments
	if r.limit <= 0 {
		r.limit = defaultMaxFaults
	}
	if c != nil && !f.fits(facts, c) {
		return nil, []dte.Fault{{Code: dte.FaultCount,
			Message: "el módulo de reglas no respondió en la forma que declaró"}}
	}
	r.grow(1)
	r.fill(0, 0, &r.facts)
	r.check(f.fields[0].rule, 0, 0)
	if opt.Catalogues {
		r.checkCodes(0, 0)
	}
	if len(r.faults) == 0 && c != nil {
		r.addUp()
	}
	if r.contradiction.Code != "" {
		return nil, []dte.Fault{r.contradiction}
	}
	if len(r.faults) > 0 {
		return nil, slices.Clone(r.faults)
	}
	return r.write(dst, 0, 0), nil
}

func (f *Filler) fits(facts dte.Value, c *Computed) bool {
	return len(c.Summary) == len(f.out.Summary) && len(c.Lines) == c.N*len(f.out.Lines) &&
		(f.lines < 0 || facts.Get(linesName).Len() == c.N) &&
		!slices.ContainsFunc(c.Taxes, func(t TaxAmount) bool { return t.Tax < 0 || t.Tax >= len(f.out.Taxes) })
}

func (r *run) release() {
	r.facts, r.computed = dte.Value{}, nil
	r.slots, r.faults, r.forms, r.quiet, r.cause = r.slots[:0], r.faults[:0], r.forms[:0], 0, ""
	r.contradiction = dte.Fault{}
	r.filler.runs.Put(r)
}

// Output is an output that the module has for each line: an amount in 1e-8, or a set.
type Output struct {
	Name string // name of the member of cuerpoDocumento[]
	// Set: bit i means Outputs.Taxes[i]; written as the array of the codes, null if empty
	Set bool
}

// Outputs lists the outputs of a rule module. One module serves both generations of its document: outputs without a
// member in the schema are not written.
type Outputs struct {
	Lines   []Output // members of cuerpoDocumento[]
	Summary []string // members of resumen, always amounts
	Taxes   []string // codes of CAT-015
	Inputs  []string // paths of the facts that the module takes
}

// TaxAmount is one row of the summary's taxes.
type TaxAmount struct {
	Tax    int // index in Outputs.Taxes
	Amount dte.Amount
}

// Computed is the answer of a rule module for one document, in the order of Outputs.
type Computed struct {
	N       int     // lines
	Lines   []int64 // N rows of len(Outputs.Lines)
	Summary []int64
	Taxes   []TaxAmount
}

// NamedOutputs returns the outputs that an overlay names. They suffice to compile a layout without running its module.
func NamedOutputs(overlay []byte) (out Outputs, err error) {
	o, err := parseOverlay(overlay)
	if err != nil {
		return out, err
	}
	for _, e := range o.from {
		for _, name := range []string{e.amount, e.words} {
			if name != "" && !slices.Contains(out.Summary, name) {
				out.Summary = append(out.Summary, name)
			}
		}
	}
	if o.total != "" && !slices.Contains(out.Summary, o.total) {
		out.Summary = append(out.Summary, o.total)
	}
	return out, nil
}

// Maker names what determines the value of a field.
type Maker uint8

const (
	// MakerUnknown means that the path does not name a single value of the document.
	MakerUnknown Maker = iota
	// MakerRequest: the value is a fact from the till, the configuration or the engine. The fact may be missing.
	MakerRequest
	// MakerRule means that the module, the schema or the overlay set the value, or that the layout lacks the place.
	MakerRule
)

// Maker returns who determines the value at a path of a document that was filled from the facts. The path is in MH's
// form, names joined by dots or slashes, with or without the numbers of items: "/cuerpoDocumento/3/ivaItem". Text after
// a complete path is ignored, such as the code in "resumen.tributos.codigo.D1".
func (f *Filler) Maker(path string, facts dte.Value) Maker {
	at, steps := 0, 0
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool {
		return r == '.' || r == '/' || r == '[' || r == ']'
	}) {
		if name == "item" || strings.Trim(name, "0123456789") == "" {
			continue // the number of a line
		}
		x := &f.fields[at]
		if x.item {
			at = x.first
			x = &f.fields[at]
		}
		if x.members == 0 {
			break // a value: it has no members
		}
		switch next := position(f.fields, x, name); {
		case next >= 0 && next < x.members:
			at = x.first + next
		case steps == 0:
			return MakerUnknown // the path is not in the document
		default:
			return MakerRule // MH has a place under this path, and the layout lacks it
		}
		steps++
		if f.fields[at].source != sourceFacts {
			return MakerRule
		}
	}
	x := &f.fields[at]
	if steps == 0 || x.types&(typeObject|typeArray) != 0 {
		return MakerUnknown
	}
	if x.from != nil && x.from.fact != nil && present(facts, x.from.fact) {
		return MakerRequest
	}
	if x.from != nil && (x.from.amount >= 0 || x.from.words >= 0 || x.from.value.Exists()) {
		return MakerRule
	}
	if own, err := parsePath(x.path); err == nil && x.fallback.Exists() && !present(facts, own) {
		return MakerRule // the schema's constant
	}
	return MakerRequest
}

// present reports whether the facts have a value at a path, in at least one item of each list.
func present(v dte.Value, steps []step) bool {
	for i, s := range steps {
		v = v.Get(s.name)
		if s.arrays == 0 {
			continue
		}
		for j := range v.Len() {
			item := v.Index(j)
			for range s.arrays - 1 {
				item = item.Index(0)
			}
			if present(item, steps[i+1:]) {
				return true
			}
		}
		return false
	}
	return v.Exists()
}

// Place describes a place of the layout.
type Place struct {
	Fact   string        // the fact at this place
	List   *dte.CodeList // the code list of its values; nil: no list
	Number bool
}

// Place returns the place of the layout at a path of the document, such as "receptor.nombre" or
// "cuerpoDocumento[].cantidad"; nil if there is none.
func (f *Filler) Place(path string) *Place {
	i := slices.IndexFunc(f.fields, func(x field) bool { return x.document == path && x.types != 0 })
	if i < 0 {
		return nil
	}
	return &Place{Fact: f.fields[i].path, List: f.fields[i].list, Number: f.fields[i].types&typeNumber != 0}
}

// Takes reports whether the layout has a place for the fact at a path, or for a member of this fact.
func (f *Filler) Takes(path string) bool {
	return slices.ContainsFunc(f.fields, func(x field) bool {
		return x.types != 0 && (x.path == path || strings.HasPrefix(x.path, path+".") ||
			strings.HasPrefix(x.path, path+"[]"))
	})
}
