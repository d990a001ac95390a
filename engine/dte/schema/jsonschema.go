package schema

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
)

// typeSet is a set of JSON Schema types; 0 allows all.
type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBool
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject
)

var typeNames = map[string]typeSet{
	"null": typeNull, "boolean": typeBool, "integer": typeInteger, "number": typeNumber, "string": typeString,
	"array": typeArray, "object": typeObject,
}

// schema is one JSON Schema (draft-07) object: the keywords that MH uses.
type schema struct {
	types      typeSet
	properties []property
	required   []string
	closed     bool // additionalProperties: false
	items      *schema
	enum       []dte.Value // scalars; nil: any value; a const becomes an enum of one value
	minLength  int
	maxLength  int
	patterns   []*pattern
	formats    []*format
	bounds     []bound
	signed     bool       // the file has a lower limit below 0
	multiple   dte.Amount // 0: any
	minItems   int
	maxItems   int
	unique     bool
	all        []*schema
	one        []*schema
	choices    []choice

	// Set by compiler.attach:
	needed    []int         // positions of the required members
	documents *dte.CodeList // the types of documents, for messages
	reason    string        // Spanish: what an alternative of oneOf, or a condition, requires
}

type property struct {
	name     string
	position int // position of the member's field; set by compiler.attach
	schema   schema
}

// choice is if/then/else; then and otherwise may be nil.
type choice struct {
	when, then, otherwise *schema
	unless                string // Spanish: the condition for otherwise; when.reason is the condition for then
}

type bound struct {
	limit     dte.Amount
	upper     bool
	exclusive bool
}

// reader reads schemas from a file. It refuses unknown keywords, with an error that names the place.
type reader struct {
	drops  []entry
	states int // sum of the states of all patterns read
}

// MH's layouts have at most 129 places, and their patterns at most 695 states. Much larger layouts would keep the box
// busy at every start and at sales of many lines, or fill its memory by one sale of many lines.
const (
	mostPlaces  = 500
	mostStates  = 2000
	mostPattern = 1000 // bytes of a pattern
)

// read reads the schema at a place of the document ("receptor.direccion", "cuerpoDocumento[]"). conditional means that
// the schema is part of a condition, not of the layout.
func (r *reader) read(v dte.Value, at string, conditional bool) (*schema, error) {
	if v.Kind() != dte.KindObject {
		return nil, fmt.Errorf("schema of %s is not an object", place(at))
	}
	s := &schema{maxLength: math.MaxInt, maxItems: math.MaxInt}
	var c choice
	for _, m := range v.Members() {
		if r.dropped(at, m.Name, conditional) {
			continue
		}
		var err error
		switch m.Name {
		case "if":
			c.when, err = r.read(m.Value, at, true)
		case "then":
			c.then, err = r.read(m.Value, at, true)
		case "else":
			c.otherwise, err = r.read(m.Value, at, true)
		default:
			err = r.keyword(s, m.Name, m.Value, at, conditional)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.when == nil && (c.then != nil || c.otherwise != nil) {
		return nil, fmt.Errorf("schema of %s: then or else without if", place(at))
	}
	if c.when != nil {
		s.choices = append(s.choices, c)
	}
	return s, nil
}

func (r *reader) keyword(s *schema, name string, v dte.Value, at string, conditional bool) error {
	var err error
	switch name {
	case "$schema", "title", "description":
	case "type":
		s.types, err = readTypes(v)
	case "properties":
		return r.properties(s, v, at, conditional)
	case "required":
		s.required, err = readNames(v)
	case "additionalProperties":
		if v.Kind() != dte.KindBool {
			err = fmt.Errorf("only true and false are understood")
		}
		s.closed = !v.Bool()
	case "items":
		if s.items, err = r.read(v, at+"[]", conditional); err != nil {
			return err
		}
	case "allOf", "oneOf":
		list, err := r.list(v, at)
		if name == "allOf" {
			s.all = list
		} else {
			s.one = list
		}
		return err
	case "const":
		s.enum, err = []dte.Value{v}, checkScalar(v)
	case "enum":
		if s.enum = v.Items(); len(s.enum) == 0 {
			err = fmt.Errorf("not a list of values")
		}
		for i := 0; i < len(s.enum) && err == nil; i++ {
			err = checkScalar(s.enum[i])
		}
	case "minLength", "maxLength", "minItems", "maxItems":
		counts := map[string]*int{"minLength": &s.minLength, "maxLength": &s.maxLength, "minItems": &s.minItems,
			"maxItems": &s.maxItems}
		n, ok := v.Int()
		if !ok || n < 0 {
			err = fmt.Errorf("not a count")
		}
		*counts[name] = int(n)
	case "uniqueItems":
		s.unique = v.Bool()
	case "pattern":
		var p *pattern
		p, err = r.compilePattern(v.Text())
		s.patterns = append(s.patterns, p)
	case "format":
		f := formats[v.Text()]
		if f == nil {
			err = fmt.Errorf("format %q is not understood", v.Text())
		}
		s.formats = append(s.formats, f)
	case "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum":
		err = s.readBound(name, v)
	case "multipleOf":
		if s.multiple, err = v.Amount(); err == nil && s.multiple <= 0 {
			err = fmt.Errorf("not above zero")
		}
	default:
		err = fmt.Errorf("keyword is not understood; drop in overlay.json can leave out a keyword of MH's file")
	}
	if err != nil {
		return fmt.Errorf("schema of %s: %s: %w", place(at), name, err)
	}
	return nil
}

func (r *reader) properties(s *schema, v dte.Value, at string, conditional bool) error {
	if v.Kind() != dte.KindObject {
		return fmt.Errorf("schema of %s: properties is not an object", place(at))
	}
	for _, m := range v.Members() {
		like := func(p property) bool { return strings.EqualFold(p.name, m.Name) }
		if m.Name == "" || strings.ContainsAny(m.Name, ".[]") || slices.ContainsFunc(s.properties, like) {
			return fmt.Errorf("schema of %s: %q is repeated, empty, or has a . [ or ]", place(at), m.Name)
		}
		p, err := r.read(m.Value, join(at, m.Name), conditional)
		if err != nil {
			return err
		}
		s.properties = append(s.properties, property{name: m.Name, schema: *p})
	}
	return nil
}

func (r *reader) list(v dte.Value, at string) ([]*schema, error) {
	if v.Kind() != dte.KindArray || v.Len() == 0 {
		return nil, fmt.Errorf("schema of %s: allOf and oneOf need a list", place(at))
	}
	var all []*schema
	for i := range v.Len() {
		s, err := r.read(v.Index(i), at, true)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// dropped reports whether the overlay drops this keyword, and marks the drop as used.
func (r *reader) dropped(at, keyword string, conditional bool) bool {
	found := false
	for i := range r.drops {
		if d := &r.drops[i]; d.path == at && d.keyword == keyword && d.conditional == conditional {
			d.used, found = true, true
		}
	}
	return found
}

func (s *schema) readBound(name string, v dte.Value) error {
	b := bound{
		upper:     name == "maximum" || name == "exclusiveMaximum",
		exclusive: name == "exclusiveMinimum" || name == "exclusiveMaximum",
	}
	s.signed = s.signed || !b.upper && strings.HasPrefix(v.Text(), "-")
	var err error
	switch b.limit, err = v.Amount(); err {
	case nil:
		s.bounds = append(s.bounds, b)
		return nil
	case dte.ErrRange:
		// The limit is beyond every Amount. If it excludes no Amount, ignore it; otherwise the schema is wrong.
		if (v.Text()[0] == '-') != b.upper {
			return nil
		}
	}
	return err
}

func readTypes(v dte.Value) (typeSet, error) {
	if v.Kind() == dte.KindString {
		v = dte.Arr(v)
	}
	var set typeSet
	for i := range v.Len() {
		t, ok := typeNames[v.Index(i).Text()]
		if !ok {
			return 0, fmt.Errorf("unknown type %q", v.Index(i).Text())
		}
		set |= t
	}
	if set == 0 {
		return 0, fmt.Errorf("no type named")
	}
	return set, nil
}

func readNames(v dte.Value) ([]string, error) {
	if v.Kind() != dte.KindArray {
		return nil, fmt.Errorf("not a list of names")
	}
	var names []string
	for i := range v.Len() {
		if v.Index(i).Kind() != dte.KindString {
			return nil, fmt.Errorf("not a list of names")
		}
		names = append(names, v.Index(i).Text())
	}
	return names, nil
}

func checkScalar(v dte.Value) error {
	switch v.Kind() {
	case dte.KindArray, dte.KindObject, dte.KindAbsent:
		return fmt.Errorf("only texts, numbers, true, false and null are understood")
	case dte.KindNumber:
		_, err := v.Amount()
		return err
	}
	return nil
}

func (s *schema) find(path []step) *schema {
	for _, st := range path {
		i := slices.IndexFunc(s.properties, func(p property) bool { return p.name == st.name })
		if i < 0 {
			return nil
		}
		s = &s.properties[i].schema
		for range st.arrays {
			if s = s.items; s == nil {
				return nil
			}
		}
	}
	return s
}

// pattern is one regular expression of the schema. MH writes patterns with lookaheads and back-references, which Go's
// engine lacks, because it runs in linear time. All of MH's lookaheads are negative and directly follow ^; each becomes
// a separate expression that must not match.
type pattern struct {
	source string
	must   *regexp.Regexp
	not    []*regexp.Regexp
}

func (r *reader) compilePattern(source string) (*pattern, error) {
	if len(source) > mostPattern {
		return nil, fmt.Errorf("has more than %d bytes", mostPattern)
	}
	p := &pattern{source: source}
	rest := source
	for strings.HasPrefix(rest, "^(?!") {
		end := closing(rest, 1)
		if end < 0 {
			return nil, fmt.Errorf("pattern %q: lookahead does not end", source)
		}
		not, err := r.compile("^(?:" + expandRepeat(rest[len("^(?!"):end]) + ")")
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", source, err)
		}
		p.not = append(p.not, not)
		rest = "^" + rest[end+1:]
	}
	must, err := r.compile(rest)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", source, err)
	}
	p.must = must
	return p, nil
}

func (r *reader) compile(expression string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if r.states += len(program.Inst); r.states > mostStates {
		return nil, fmt.Errorf("the patterns of the layout have more than %d states", mostStates)
	}
	return regexp.Compile(expression)
}

func (p *pattern) match(s string) bool {
	for _, not := range p.not {
		if not.MatchString(s) {
			return false
		}
	}
	return p.must.MatchString(s)
}

// closing returns the index at which the group that begins at i ends, or -1.
func closing(s string, i int) int {
	depth, class := 0, false
	for ; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case class:
			class = s[i] != ']'
		case s[i] == '[':
			class = true
		case s[i] == '(':
			depth++
		case s[i] == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// expandRepeat rewrites a repeated digit, ([0-9])\1+, as 00+|11+|…. MH uses no other back-reference; regexp has none.
func expandRepeat(s string) string {
	const repeat = `([0-9])\1+`
	if !strings.Contains(s, repeat) {
		return s
	}
	var digits []string
	for d := '0'; d <= '9'; d++ {
		digits = append(digits, string(d)+string(d)+"+")
	}
	return strings.ReplaceAll(s, repeat, "(?:"+strings.Join(digits, "|")+")")
}

type format struct {
	noun  string // Spanish, for messages
	match func(string) bool
}

var formats = map[string]*format{
	// RFC 3339's full-date: four, two and two digits that name a day of the calendar
	"date": {"una fecha como 2026-12-31", func(s string) bool {
		_, err := time.Parse(time.DateOnly, s)
		return err == nil
	}},
	"email": {"una dirección de correo como nombre@dominio.com", isEmail},
}

// isEmail accepts a mailbox of RFC 5321, unquoted and without address literals. The left side may be UTF-8 (RFC 6531).
func isEmail(s string) bool {
	return len(s) <= 254 && strings.LastIndexByte(s, '@') <= 64 && mailbox.MatchString(s)
}

const (
	atom  = "[0-9A-Za-z!#$%&'*+/=?^_`{|}~\\x{80}-\\x{10ffff}-]+"
	label = `[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?`
)

var mailbox = regexp.MustCompile(`^` + atom + `(\.` + atom + `)*@` + label + `(\.` + label + `)*$`)
