package schema

import (
	"dtegate/engine/dte"
)

// field is one place of the document. All fields lie in one slice, breadth first, so that the members of an object
// are neighbours and a member is known by its position.
type field struct {
	name     string
	key      []byte // `"name":`
	path     string // of the fact behind it, for faults: "receptor.direccion.distrito"
	document string // of the document
	types    typeSet
	required bool
	source   source
	output   int  // of the source: index of the line or summary output
	set      bool // the line output is a set
	fallback dte.Value
	from     *from
	fed      bool // a member at any depth has a from
	judged   bool // from takes something else than the fact of the field's own name: see agree
	moved    bool // the fact of its own name stands at another place, too
	signed   bool // the file says that the amount may be below 0
	at       int  // its index

	first    int // where its members, or its item, begin
	members  int // how many members the layout has
	shadows  int // how many more are named by conditions only; they follow the members and are never written
	item     bool
	arrays   int // how many "[]" are above it
	rule     *rule
	list     *dte.CodeList
	parent   int  // field of the neighbour whose code comes before "/" in list; -1 none
	codeList bool // list of this place or of one below it
}

// source is who answers first for a field.
type source uint8

const (
	sourceFacts source = iota
	sourceLine
	sourceSummary
	sourceTaxes
)

// from is where the overlay says that a value comes from.
type from struct {
	fact   []step
	amount int       // summary output, -1 none
	words  int       // summary output, -1 none
	value  dte.Value // constant, absent when there is none
	form   string    // of the fact's text, "" as it is
	when   []step    // the form applies when the fact here is that text; nil always
	is     string
}

// rule is what must hold at a place: a compiled schema. Members and items refer to the fields of the place that
// the rule is evaluated at.
type rule struct {
	types      typeSet
	closed     bool
	required   []int
	members    []memberRule
	items      *rule
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
	reason     string // Spanish: what an alternative of oneOf, or a condition, asks for
}

type memberRule struct {
	position int
	rule     *rule
}

type choiceRule struct {
	when, then, otherwise *rule
	unless                string // Spanish: when otherwise applies; when.reason says when then does
}
