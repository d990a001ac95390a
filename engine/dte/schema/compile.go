package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dtegate/engine/dte"
)

// field is one place of the document. All fields are in one slice, breadth first: the members of an object are
// consecutive, each with a position in the object.
type field struct {
	name     string
	key      []byte // `"name":`
	path     string // path of the fact, for faults: "receptor.direccion.distrito"
	document string // path in the document
	types    typeSet
	required bool
	source   source
	output   int  // index of the source's line or summary output
	set      bool // the line output is a set
	fallback dte.Value
	from     *from
	fed      bool // from is set for the field or for a member at any depth
	judged   bool // the value must agree with the fact of the field's own name: see agree
	moved    bool // this field may be null: its neighbour with the suffix MH shows its fact (codEstableMH)
	signed   bool // the schema gives the amount a lower limit below 0
	at       int  // index of the field itself

	first    int  // index of its first member, or of its item
	members  int  // how many members the layout has
	shadows  int  // further members that only conditions name; they follow the members and are never written
	item     bool // the field is a list
	arrays   int  // number of "[]" in its path
	rule     *schema
	list     *dte.CodeList
	parent   int  // field of the neighbour whose code precedes "/" in list; -1: no neighbour
	codeList bool // this place, or a place below it, has a list
}

// source is the output of the module that gives a field its value; sourceFacts: no output.
type source uint8

const (
	sourceFacts source = iota
	sourceLine
	sourceSummary
	sourceTaxes
)

type from struct {
	fact   []step
	amount int       // index of a summary output; -1: not set
	words  int       // index of a summary output; -1: not set
	value  dte.Value // constant; absent: not set
	form   string    // form of the fact's text; "": unchanged
	when   []step    // path of a fact: the form applies only if that fact equals is; nil: always
	is     string
}

const (
	linesName   = "cuerpoDocumento" // MH's names, the same in every type and generation that has amounts
	summaryName = "resumen"
	inWords     = "Letras" // the end of the name of an amount in words
	maxArrays   = 4        // how deep lists may be nested; MH's deepest is two
)

// shape is the whole schema of one place: its layout and its conditions.
type shape struct {
	name     string
	base     *schema // nil for a place that only conditions name
	members  []*shape
	item     *shape
	required bool
	field    int
}

// newShape builds the shape of a place and of all places below it. base is the layout, subs are the conditions.
func newShape(name string, base *schema, subs []*schema, required bool) *shape {
	s := &shape{name: name, base: base, required: required}
	own := cmp.Or(base, new(schema))
	all := own.conditions()
	for _, sub := range subs {
		all = append(append(all, sub), sub.conditions()...)
	}
	var names []string // names of the members, first the members of the layout
	var items []*schema
	layout, below := make(map[string]*schema), make(map[string][]*schema)
	add := func(name string, subs ...*schema) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		below[name] = append(below[name], subs...)
	}
	for i := range own.properties {
		p := &own.properties[i]
		layout[p.name] = &p.schema
		add(p.name)
	}
	for _, sub := range all {
		for i := range sub.properties {
			add(sub.properties[i].name, &sub.properties[i].schema)
		}
		for _, name := range sub.required {
			add(name)
		}
		if sub.items != nil {
			items = append(items, sub.items)
		}
	}
	for _, name := range own.required {
		add(name)
	}
	for _, name := range names {
		s.members = append(s.members, newShape(name, layout[name], below[name], slices.Contains(own.required, name)))
	}
	if own.items != nil || len(items) > 0 {
		s.item = newShape("", own.items, items, false)
	}
	return s
}

// conditions returns all other schemas that describe the same place as s.
func (s *schema) conditions() (all []*schema) {
	direct := slices.Concat(s.all, s.one)
	for _, c := range s.choices {
		direct = append(direct, c.when, c.then, c.otherwise)
	}
	for _, x := range direct {
		if x != nil {
			all = append(append(all, x), x.conditions()...)
		}
	}
	return all
}

// compiler lays the shapes out as fields and binds the overlay to them.
type compiler struct {
	fields  []field
	overlay *overlay
	out     Outputs
	cat     *dte.Catalogues
}

// layout makes the fields of all shapes, breadth first.
func (c *compiler) layout(root *shape) error {
	c.fields = []field{{types: root.base.types, rule: root.base, parent: -1}}
	queue := []*shape{root}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		f := &c.fields[s.field]
		f.first = len(c.fields)
		at, document, arrays := f.path, f.document, f.arrays
		members, item := s.members, s.item
		if document == linesName && item == nil { // the body is an object: its facts are a list of one item
			at, arrays = at+"[]", arrays+1
		}
		if item != nil {
			if len(members) > 0 {
				return fmt.Errorf("schema of %s: both members and items", place(document))
			}
			f.item = true
			members, at, document, arrays = []*shape{item}, at+"[]", document+"[]", arrays+1
			if arrays > maxArrays {
				return fmt.Errorf("schema of %s: lists nest too deep", document)
			}
		}
		for _, m := range members {
			m.field = len(c.fields)
			x := field{at: m.field, name: m.name, key: append(dte.AppendQuoted(nil, m.name), ':'), parent: -1,
				arrays: arrays, rule: m.base}
			x.path, x.document = at, document
			if item == nil {
				x.path, x.document = join(at, m.name), join(document, m.name)
			}
			if m.base != nil {
				x.types, x.required = m.base.types, m.required || item != nil
				if len(m.base.enum) == 1 {
					x.fallback = m.base.enum[0]
				}
				x.signed = m.base.signed
			}
			switch {
			case item != nil:
			case m.base == nil:
				c.fields[s.field].shadows++
			default:
				c.fields[s.field].members++
			}
			if err := c.bind(&x, m); err != nil {
				return err
			}
			if c.fields = append(c.fields, x); len(c.fields) > mostPlaces {
				return fmt.Errorf("schema of %s: the layout has more than %d places", x.document, mostPlaces)
			}
			queue = append(queue, m)
		}
	}
	return nil
}

func (c *compiler) bind(f *field, s *shape) error {
	switch {
	case s.base == nil:
		return nil
	case f.types == 0:
		return fmt.Errorf("schema of %s: needs a type", f.document)
	case f.types&typeObject != 0 && f.types&^(typeObject|typeNull) != 0, f.types&typeArray != 0 &&
		f.types&^(typeArray|typeNull) != 0:
		return fmt.Errorf("schema of %s: an object or a list may allow no other type than null", f.document)
	case f.types&typeArray != 0 && s.item == nil:
		return fmt.Errorf("schema of %s: a list needs items", f.document)
	}
	if name, ok := lineMember(f.document); ok {
		if i := slices.IndexFunc(c.out.Lines, func(o Output) bool { return o.Name == name }); i >= 0 {
			f.source, f.output, f.set = sourceLine, i, c.out.Lines[i].Set
		}
	} else if name, ok := strings.CutPrefix(f.document, summaryName+"."); ok {
		if i := slices.Index(c.out.Summary, name); i >= 0 {
			f.source, f.output = sourceSummary, i
		}
	}
	switch {
	case f.source == sourceLine && f.set && f.types&typeArray == 0, f.source != sourceFacts && !f.set &&
		f.types&typeNumber == 0:
		return fmt.Errorf("schema of %s: the module's output has another type", f.document)
	case f.source != sourceFacts && (Factual(f.document) || renamed[f.path] != ""):
		return fmt.Errorf("schema of %s: must be its own fact, not an output of the module", f.document)
	case c.overlay.taxes != nil && c.overlay.taxes.path == f.document:
		f.source = sourceTaxes
	}
	f.judged = f.source != sourceFacts && f.source != sourceTaxes && !f.set && !counted(f.name)
	for i := range c.overlay.from {
		e := &c.overlay.from[i]
		if e.path != f.document {
			continue
		}
		x, err := c.compileFrom(e)
		switch {
		case err != nil:
			return fmt.Errorf("overlay: from: %s: %w", e.path, err)
		case f.from != nil:
			return fmt.Errorf("overlay: from: %s: has two entries", e.path)
		case countArrays(x.fact) > f.arrays:
			return fmt.Errorf("overlay: from: %s: %s has more lists", e.path, e.fact)
		case countArrays(x.when) > f.arrays:
			return fmt.Errorf("overlay: from: %s: when has more lists", e.path)
		}
		own := f.path
		f.path = cmp.Or(e.fact, own)
		moved := slices.ContainsFunc(c.overlay.from, func(o entry) bool {
			return o.path == e.path+"MH" && o.fact == own
		})
		if err := e.checkSource(own, moved); err != nil {
			return err
		}
		f.judged, f.moved = e.judged(own, f.name), moved
		f.from, f.source = x, sourceFacts // the overlay's source has priority over the module's answer
	}
	return nil
}

// lineMember returns the name of a member of a line. In a type with one line, the body is an object, not a list.
func lineMember(document string) (name string, ok bool) {
	return strings.CutPrefix(strings.Replace(document, linesName+"[].", linesName+".", 1), linesName+".")
}

func (c *compiler) compileFrom(e *entry) (*from, error) {
	x := &from{amount: slices.Index(c.out.Summary, e.amount), words: slices.Index(c.out.Summary, e.words),
		value: e.value, form: e.form, is: e.when.Get("is").Text()}
	if name := cmp.Or(e.amount, e.words); name != "" && x.amount < 0 && x.words < 0 {
		return nil, fmt.Errorf("the module has no summary output %q", name)
	}
	var err error
	if x.fact, err = parsePath(e.fact); err == nil {
		x.when, err = parsePath(e.when.Get("fact").Text())
	}
	return x, err
}

func (c *compiler) layoutIndex(document string) int {
	return slices.IndexFunc(c.fields, func(f field) bool { return f.document == document && f.types != 0 })
}

// connect checks that the layout and the catalogues have what the overlay names, and gives fields their code lists.
func (c *compiler) connect() error {
	o := c.overlay
	for _, e := range o.from {
		if c.layoutIndex(e.path) < 0 {
			return fmt.Errorf("overlay: from: the schema has no %s", e.path)
		}
	}
	if o.total != "" && !slices.Contains(c.out.Summary, o.total) && c.layoutIndex(join(summaryName, o.total)) < 0 {
		return fmt.Errorf("overlay: total: neither module nor schema has %q", o.total)
	}
	if o.taxes != nil {
		i := c.layoutIndex(o.taxes.path)
		if i < 0 || c.fields[i].types&typeArray == 0 || o.taxes.path != summaryName+".tributos" {
			return fmt.Errorf("overlay: taxes: %s is not the schema's list %s.tributos", o.taxes.path, summaryName)
		}
		for _, name := range [...]string{"codigo", "descripcion", "valor"} {
			if c.layoutIndex(o.taxes.path+"[]."+name) < 0 {
				return fmt.Errorf("overlay: taxes: %s has no %s", o.taxes.path, name)
			}
		}
		for _, code := range c.out.Taxes {
			if _, ok := c.cat.Lookup(o.taxes.catalogue, code); !ok {
				return fmt.Errorf("overlay: taxes: %s has no code %q", o.taxes.catalogue, code)
			}
		}
	}
	for _, e := range o.catalogue {
		i := c.layoutIndex(e.path)
		if i < 0 {
			return fmt.Errorf("overlay: catalogue: the schema has no %s", e.path)
		}
		f := &c.fields[i]
		if f.list = c.cat.List(e.catalogue); f.list == nil {
			return fmt.Errorf("overlay: catalogue: %s: there is no %q", e.path, e.catalogue)
		}
		if e.parent == "" {
			continue
		}
		p := c.layoutIndex(join(e.path[:max(strings.LastIndexByte(e.path, '.'), 0)], e.parent))
		if p < 0 {
			return fmt.Errorf("overlay: catalogue: %s has no neighbour %q", e.path, e.parent)
		}
		f.parent = p
	}
	// Children follow their parents: going backwards, each field's children are finished before the field.
	for i := len(c.fields) - 1; i >= 0; i-- {
		f := &c.fields[i]
		f.fed = f.from != nil
		f.codeList = f.list != nil
		count := f.members
		if f.item {
			count = 1
		}
		for j := f.first; j < f.first+count; j++ {
			f.fed = f.fed || c.fields[j].fed && c.fields[j].source == sourceFacts
			f.codeList = f.codeList || c.fields[j].codeList
		}
	}
	return nil
}

// position returns a member's position in an object's field, or -1. It also finds members that only conditions name.
func position(fields []field, f *field, name string) int {
	return slices.IndexFunc(fields[f.first:][:f.members+f.shadows], func(x field) bool { return x.name == name })
}

// attach connects the schema s and its conditions with a field (at) and the fields below it.
func (c *compiler) attach(s *schema, at int) {
	f := &c.fields[at]
	s.documents = c.cat.List("CAT-002")
	find := func(name string) int {
		i := position(c.fields, f, name)
		if i < 0 {
			panic("dte: a condition names a field that has no place: " + join(f.document, name))
		}
		return i
	}
	for _, name := range s.required {
		s.needed = append(s.needed, find(name))
	}
	for i := range s.properties {
		p := &s.properties[i]
		p.position = find(p.name)
		c.attach(&p.schema, f.first+p.position)
	}
	if s.items != nil {
		c.attach(s.items, f.first)
	}
	for _, x := range slices.Concat(s.all, s.one) {
		c.attach(x, at)
	}
	for _, x := range s.one {
		x.reason = x.explain(f.document, s.documents)
	}
	for i := range s.choices {
		x := &s.choices[i]
		for _, y := range []*schema{x.when, x.then, x.otherwise} {
			if y != nil {
				c.attach(y, at)
			}
		}
		x.when.reason, x.unless = unsaid, unsaid
		if said := x.when.explain(f.document, s.documents); said != "" {
			x.when.reason, x.unless = "cuando "+said, "salvo cuando "+said
		}
	}
}
