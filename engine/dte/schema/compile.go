package schema

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dtegate/engine/dte"
)

// field is one place of the document. All fields are in one slice, breadth first. Therefore the members of an object
// are neighbours, and a position identifies a member.
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
	fed      bool // a member at any depth has a from
	judged   bool // from is not the fact of the field's own name: see agree
	moved    bool // the fact of the field's own name also appears at another place
	signed   bool // the file says that the amount may be below 0
	at       int  // its index

	first    int // where its members, or its item, begin
	members  int // how many members the layout has
	shadows  int // further members that only conditions name; they follow the members and are never written
	item     bool
	arrays   int // how many "[]" are above it
	rule     *rule
	list     *dte.CodeList
	parent   int  // field of the neighbour whose code precedes "/" in list; -1 none
	codeList bool // this place, or a place below it, has a list
}

// source is the first source of a field's value.
type source uint8

const (
	sourceFacts source = iota
	sourceLine
	sourceSummary
	sourceTaxes
)

// from is the overlay's source of a value.
type from struct {
	fact   []step
	amount int       // summary output, -1 none
	words  int       // summary output, -1 none
	value  dte.Value // constant; absent: none
	form   string    // form of the fact's text; "": unchanged
	when   []step    // path of a fact: the form applies if its text equals is; nil: always
	is     string
}

// rule is a compiled schema. Its members and items refer to fields by their position at the place of evaluation.
type rule struct {
	types      typeSet
	closed     bool
	required   []int
	members    []memberRule
	items      *rule
	documents  *dte.CodeList // the types of documents, for messages
	enum       []dte.Value
	hasEnum    bool
	minLength  int
	maxLength  int
	patterns   []*pattern
	formats    []*format
	bounds     []bound
	multiple   dte.Amount
	minItems   int
	maxItems   int
	unique     bool
	all        []*rule
	one        []*rule
	choices    []choiceRule
	hasString  bool   // any of the text keywords
	compounded bool   // any of all, one, choices
	reason     string // Spanish: what an alternative of oneOf, or a condition, requires
}

type memberRule struct {
	position int
	rule     *rule
}

type choiceRule struct {
	when, then, otherwise *rule
	unless                string // Spanish: when otherwise applies; when.reason describes when then applies
}

const (
	linesName   = "cuerpoDocumento" // MH's names, in every type and generation that has amounts
	summaryName = "resumen"
	maxArrays   = 4 // nesting of lists; MH's deepest is two
)

// shape gathers the whole schema of one place: its layout and the conditions on it.
type shape struct {
	name     string
	base     *schema // nil for a place that only conditions name
	subs     []*schema
	members  []*shape
	item     *shape
	required bool
	field    int
}

// newShape builds the shape of a place and of all places below it.
func newShape(name string, base *schema, subs []*schema) *shape {
	s := &shape{name: name, base: base}
	if base != nil {
		for i := range base.properties {
			p := &base.properties[i]
			m := &shape{name: p.name, base: &p.schema, required: slices.Contains(base.required, p.name)}
			s.members = append(s.members, m)
		}
		s.subs = append(s.subs, base.conditions()...)
	}
	for _, sub := range subs {
		s.subs = append(append(s.subs, sub), sub.conditions()...)
	}
	var items []*schema
	for _, sub := range s.subs {
		for i := range sub.properties {
			m := s.member(sub.properties[i].name)
			m.subs = append(m.subs, &sub.properties[i].schema)
		}
		for _, name := range sub.required {
			s.member(name)
		}
		if sub.items != nil {
			items = append(items, sub.items)
		}
	}
	if base != nil {
		for _, name := range base.required {
			s.member(name)
		}
	}
	for i, m := range s.members {
		full := newShape(m.name, m.base, m.subs)
		full.required = m.required
		s.members[i] = full
	}
	if base != nil && base.items != nil {
		s.item = newShape("", base.items, items)
	} else if len(items) > 0 {
		s.item = newShape("", nil, items)
	}
	return s
}

// conditions returns all other schemas that describe the same place as s.
func (s *schema) conditions() []*schema {
	var all []*schema
	add := func(x *schema) {
		if x != nil {
			all = append(append(all, x), x.conditions()...)
		}
	}
	for _, x := range s.all {
		add(x)
	}
	for _, x := range s.one {
		add(x)
	}
	for _, c := range s.choices {
		add(c.when)
		add(c.then)
		add(c.otherwise)
	}
	return all
}

func (s *shape) member(name string) *shape {
	for _, m := range s.members {
		if m.name == name {
			return m
		}
	}
	m := &shape{name: name}
	s.members = append(s.members, m)
	return m
}

// compiler lays the shapes out as fields and binds the overlay to them.
type compiler struct {
	fields  []field
	overlay *overlay
	out     Outputs
	cat     *dte.Catalogues
}

// layout numbers the fields breadth first and fills them in.
func (c *compiler) layout(root *shape) error {
	c.fields = []field{{types: root.base.types, parent: -1}}
	queue := []*shape{root}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		f := &c.fields[s.field]
		f.first = len(c.fields)
		at, document, arrays := f.path, f.document, f.arrays
		members, item := s.members, s.item
		if document == linesName && item == nil { // a body of one line: its facts are the only item of a list
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
				arrays: arrays}
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
			c.fields = append(c.fields, x)
			queue = append(queue, m)
		}
	}
	return nil
}

// bind decides the source of the field's value.
func (c *compiler) bind(f *field, s *shape) error {
	if s.base == nil {
		return nil
	}
	if f.types == 0 {
		return fmt.Errorf("schema of %s: needs a type", f.document)
	}
	if f.types&typeObject != 0 && f.types&^(typeObject|typeNull) != 0 || f.types&typeArray != 0 &&
		f.types&^(typeArray|typeNull) != 0 {
		return fmt.Errorf("schema of %s: an object or a list can only be null beside that", f.document)
	}
	if f.types&typeArray != 0 && s.item == nil {
		return fmt.Errorf("schema of %s: a list needs items", f.document)
	}
	if name, ok := lineMember(f.document); ok {
		if i := slices.IndexFunc(c.out.Lines, func(o Output) bool { return o.Name == name }); i >= 0 {
			f.source, f.output, f.set = sourceLine, i, c.out.Lines[i].Kind == OutSet
		}
	} else if name, ok := strings.CutPrefix(f.document, summaryName+"."); ok {
		if i := slices.Index(c.out.Summary, name); i >= 0 {
			f.source, f.output = sourceSummary, i
		}
	}
	switch {
	case f.source == sourceLine && f.set && f.types&typeArray == 0, f.source != sourceFacts && !f.set &&
		f.types&typeNumber == 0:
		return fmt.Errorf("schema of %s: the module's answer is of another type", f.document)
	case c.overlay.taxes != nil && c.overlay.taxes.path == f.document:
		f.source = sourceTaxes
	}
	for i := range c.overlay.from {
		e := &c.overlay.from[i]
		if e.path != f.document {
			continue
		}
		x, err := c.compileFrom(e)
		if err != nil {
			return fmt.Errorf("overlay: from: %s: %w", e.path, err)
		}
		if x.fact != nil {
			if countArrays(x.fact) > f.arrays {
				return fmt.Errorf("overlay: from: %s: %s has more lists", e.path, e.fact)
			}
		}
		own := f.path
		if x.fact != nil {
			f.path = e.fact
		}
		moved := slices.ContainsFunc(c.overlay.from, func(o fromEntry) bool {
			return o.fact == own && o.path != e.path && (!slices.Contains(identity, f.name) || strings.HasPrefix(o.path,
				e.path))
		})
		if err := e.checkHeld(own, moved); err != nil {
			return err
		}
		f.judged, f.moved = e.judged(own), moved
		if countArrays(x.when) > f.arrays {
			return fmt.Errorf("overlay: from: %s: when has more lists", e.path)
		}
		f.from, f.source = x, sourceFacts // the overlay's source has priority over the module's answer
	}
	return nil
}

// lineMember returns the name of a member of a line. The body of a document of one line is an object.
func lineMember(document string) (name string, ok bool) {
	if name, ok = strings.CutPrefix(document, linesName+"[]."); !ok {
		name, ok = strings.CutPrefix(document, linesName+".")
	}
	return name, ok
}

func (c *compiler) compileFrom(e *fromEntry) (*from, error) {
	x := &from{amount: -1, words: -1, value: e.value, form: e.form, is: e.when.Get("is").Text()}
	var err error
	if e.when.Exists() {
		if x.when, err = parsePath(e.when.Get("fact").Text()); err != nil {
			return nil, err
		}
	}
	if e.fact != "" {
		if x.fact, err = parsePath(e.fact); err != nil {
			return nil, err
		}
	}
	if e.amount != "" {
		if x.amount = slices.Index(c.out.Summary, e.amount); x.amount < 0 {
			return nil, fmt.Errorf("the module has no summary output %q", e.amount)
		}
	}
	if e.words != "" {
		if x.words = slices.Index(c.out.Summary, e.words); x.words < 0 {
			return nil, fmt.Errorf("the module has no summary output %q", e.words)
		}
	}
	return x, nil
}

// layoutIndex returns the index of a layout field by its path in the document, or -1.
func (c *compiler) layoutIndex(document string) int {
	return slices.IndexFunc(c.fields, func(f field) bool { return f.document == document && f.types != 0 })
}

// connect checks that every overlay entry met a field, and binds codes and taxes.
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
		if i < 0 || c.fields[i].types&typeArray == 0 || c.fields[i].arrays > 0 {
			return fmt.Errorf("overlay: taxes: %s is not a list of the schema", o.taxes.path)
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
	for _, e := range o.catalogues {
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
		cut := strings.LastIndexByte(e.path, '.')
		p := c.layoutIndex(join(e.path[:max(cut, 0)], e.parent))
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

// compileRules compiles the rule of the layout at a field and assigns every field below its own rule.
func (c *compiler) compileRules(s *schema, at int) {
	var give func(r *rule, at int)
	give = func(r *rule, at int) {
		f := &c.fields[at]
		f.rule = r
		for _, m := range r.members {
			give(m.rule, f.first+m.position)
		}
		if r.items != nil {
			give(r.items, f.first)
		}
	}
	give(c.rule(s, at), at)
}

// rule compiles a schema for a field, and with it the schemas of all conditions.
func (c *compiler) rule(s *schema, at int) *rule {
	f := &c.fields[at]
	r := &rule{
		types: s.types, closed: s.closed, enum: s.enum, hasEnum: s.hasEnum, minLength: s.minLength,
		maxLength: s.maxLength, patterns: s.patterns, formats: s.formats, bounds: s.bounds, multiple: s.multiple,
		minItems: s.minItems, maxItems: s.maxItems, unique: s.unique, documents: c.cat.List("CAT-002"),
	}
	position := func(name string) int {
		i := slices.IndexFunc(c.fields[f.first:f.first+f.members+f.shadows],
			func(x field) bool { return x.name == name })
		if i < 0 {
			panic("dte: a condition names a field that has no place: " + join(f.document, name))
		}
		return i
	}
	for _, name := range s.required {
		r.required = append(r.required, position(name))
	}
	for i := range s.properties {
		p := position(s.properties[i].name)
		r.members = append(r.members, memberRule{p, c.rule(&s.properties[i].schema, f.first+p)})
	}
	if s.items != nil {
		r.items = c.rule(s.items, f.first)
	}
	for _, x := range s.all {
		r.all = append(r.all, c.rule(x, at))
	}
	for _, x := range s.one {
		y := c.rule(x, at)
		y.reason = x.explain(f.document, r.documents)
		r.one = append(r.one, y)
	}
	for _, x := range s.choices {
		y := choiceRule{when: c.rule(x.when, at)}
		y.when.reason, y.unless = unsaid, unsaid
		if said := x.when.explain(f.document, r.documents); said != "" {
			y.when.reason, y.unless = "cuando "+said, "salvo cuando "+said
		}
		if x.then != nil {
			y.then = c.rule(x.then, at)
		}
		if x.otherwise != nil {
			y.otherwise = c.rule(x.otherwise, at)
		}
		r.choices = append(r.choices, y)
	}
	r.hasString = s.minLength > 0 || s.maxLength < math.MaxInt || len(s.patterns) > 0 || len(s.formats) > 0
	r.compounded = len(r.all) > 0 || len(r.one) > 0 || len(r.choices) > 0
	return r
}
