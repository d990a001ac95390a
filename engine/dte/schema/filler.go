package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dtegate/engine/dte"
)

// Filler writes and checks the documents of one schema: one type in one generation. It is safe for concurrent use.
type Filler struct {
	fields   []field
	out      Outputs
	taxNames []string // of out.Taxes
	lines    int      // field of cuerpoDocumento, -1 none
	total    string
	amounts  arithmetic
	version  int
	numbers  int
	runs     sync.Pool
}

// FillOptions tune one Fill.
type FillOptions struct {
	Catalogues bool // also look codes up in MH's catalogues
	MaxFaults  int  // how many faults to tell; 0 means 50
}

const defaultMaxFaults = 50

// Compile compiles a schema file with its overlay, once, for a module that answers out. It refuses, naming
// the place, keywords that it does not understand, layouts that no document of MH has, and overlay entries that
// meet nothing. The overlay may be empty.
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
	root := newShape("", s, nil)
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
	c.compileRules(s, 0)
	f := &Filler{fields: c.fields, out: out, lines: c.layoutIndex(linesName), total: o.total, amounts: amounts}
	if o.taxes != nil {
		for _, code := range out.Taxes {
			name, _ := cat.Lookup(o.taxes.catalogue, code)
			f.taxNames = append(f.taxNames, name)
		}
	}
	if c.layoutIndex("identificacion.numeroControl") >= 0 {
		f.numbers = 1
	}
	if i := c.layoutIndex("identificacion.version"); i >= 0 {
		n, _ := c.fields[i].fallback.Int()
		f.version = int(n)
	}
	f.runs.New = func() any {
		r := new(run)
		r.Filler = f
		return r
	}
	return f, nil
}

// Total is the name of the summary field that is the document's total; "" when the overlay names none.
func (f *Filler) Total() string { return f.total }

// Version is the constant of identificacion.version; 0 when the schema fixes none.
func (f *Filler) Version() int { return f.version }

// Numbers is how many places of a document bear its control number: 1, or 0 where the layout has no place for it.
func (f *Filler) Numbers() int { return f.numbers }

// Fill appends the document made of the facts and the module's answer to dst, as compact JSON in the order of the
// schema, or returns what is wrong with it, and nil bytes. A fault of the code Contradiction stands alone and is the bundle's.
//
// A value is the module's answer of the place's name, unless the overlay names a source for the place. Otherwise it
// comes from the first of these that has it: the overlay's source, the fact under the same path, the schema's
// constant; else it is null where the schema allows that and requires the member. Facts
// that the schema does not name are the module's business and are passed over.
//
// Without an answer (c is nil) what is there is checked, and nothing that waits for the module; the bytes then
// mean nothing.
func (f *Filler) Fill(dst []byte, facts dte.Value, c *Computed, opt FillOptions) ([]byte, []dte.Fault) {
	r := f.runs.Get().(*run)
	defer r.release()
	r.facts, r.computed, r.document, r.limit = facts, c, false, opt.MaxFaults
	if r.limit <= 0 {
		r.limit = defaultMaxFaults
	}
	if fault, ok := f.fits(facts, c); !ok {
		return nil, []dte.Fault{fault}
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

// Check returns what is wrong with a complete document, also members that do not belong in it. It does not look codes up: an
// issued document stays valid when a catalogue changes.
func (f *Filler) Check(document []byte) []dte.Fault {
	v, err := dte.Parse(document)
	if err != nil {
		var syntax *dte.SyntaxError
		if errors.As(err, &syntax) {
			return []dte.Fault{syntax.Fault()}
		}
		return []dte.Fault{{Code: dte.FaultSyntax, Message: "no es JSON válido"}}
	}
	r := f.runs.Get().(*run)
	defer r.release()
	r.computed, r.document, r.limit = nil, true, defaultMaxFaults
	r.grow(1)
	r.load(0, 0, &v)
	r.check(f.fields[0].rule, 0, 0)
	if len(r.faults) == 0 {
		return nil
	}
	return slices.Clone(r.faults)
}

// fits tells whether the module's answer has the shape that Outputs promised.
func (f *Filler) fits(facts dte.Value, c *Computed) (dte.Fault, bool) {
	if c == nil {
		return dte.Fault{}, true
	}
	bad := dte.Fault{Code: dte.FaultCount, Message: "el módulo de reglas no respondió en la forma que declaró"}
	if len(c.Summary) != len(f.out.Summary) || len(c.Lines) != c.N*len(f.out.Lines) {
		return bad, false
	}
	for _, t := range c.Taxes {
		if t.Tax < 0 || t.Tax >= len(f.out.Taxes) {
			return bad, false
		}
	}
	if f.lines >= 0 {
		if facts.Get(linesName).Len() != c.N {
			bad.Path = linesName
			return bad, false
		}
	}
	return bad, true
}

func (r *run) release() {
	r.facts, r.computed = dte.Value{}, nil
	r.slots, r.faults, r.forms, r.quiet, r.cause = r.slots[:0], r.faults[:0], r.forms[:0], 0, ""
	r.contradiction = dte.Fault{}
	r.runs.Put(r)
}

// Has reports whether a document of the layout can have a path, such as "receptor.nombre" or "cuerpoDocumento[].cantidad".
func (f *Filler) Has(path string) bool {
	return slices.ContainsFunc(f.fields, func(x field) bool { return x.document == path && x.types != 0 })
}

// Takes reports whether the layout has a place for the fact of a path, under that path or where the overlay takes it.
func (f *Filler) Takes(path string) bool {
	return slices.ContainsFunc(f.fields, func(x field) bool {
		return x.types != 0 && (x.document == path || x.path == path || strings.HasPrefix(x.path, path+".") || strings.HasPrefix(x.path, path+"[]"))
	})
}
