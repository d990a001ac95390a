package dte

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is the kind of a Value. The zero Kind is KindAbsent.
type Kind uint8

const (
	KindAbsent Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// Value is an immutable, ordered JSON tree. The zero Value is absent, which is not null. Values may share children.
type Value struct {
	kind  Kind
	exact bool   // for a number: num is its exact value
	num   Amount // number in 1e-8 when exact; boolean as 0 or 1
	text  string // string, unescaped; or a number's literal, "" if the number was made from an Amount
	node  *node
}

// node has the children of a Value. It is separate to keep Values without children small.
type node struct {
	items   []Value
	members []Member
}

// Member is a name of an object, with its value.
type Member struct {
	Name  string
	Value Value
}

// Null returns JSON null.
func Null() Value { return Value{kind: KindNull} }

// Bool returns JSON true or false.
func Bool(b bool) Value {
	v := Value{kind: KindBool}
	if b {
		v.num = 1
	}
	return v
}

// Int returns a whole number. Beyond ±92,000,000,000 the Value keeps its literal but is not an Amount.
func Int(n int64) Value {
	if limit := int64(MaxAmount / Scale); n > limit || n < -limit {
		return Value{kind: KindNumber, text: strconv.FormatInt(n, 10)}
	}
	return Num(Amount(n) * Scale)
}

// Num returns a number, given in units of 1e-8.
func Num(a Amount) Value { return Value{kind: KindNumber, exact: true, num: a} }

// Str returns a string Value. Invalid UTF-8 becomes U+FFFD: every Value can therefore be written as valid JSON.
func Str(s string) Value {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return Value{kind: KindString, text: s}
}

// Text returns a string Value, or null for an empty text.
func Text(s string) Value {
	if s == "" {
		return Null()
	}
	return Str(s)
}

// Texts returns an object of texts. pairs alternates names and texts. An empty text becomes null.
func Texts(pairs ...string) Value {
	members := make([]Member, len(pairs)/2)
	for i := range members {
		members[i] = Member{pairs[2*i], Text(pairs[2*i+1])}
	}
	return Obj(members...)
}

// Arr returns an array of the items. It keeps the slice: the caller must not change the slice afterwards.
func Arr(items ...Value) Value { return Value{kind: KindArray, node: &node{items: items}} }

// Obj returns an object with the members in this order. It keeps the slice. Names must be distinct.
func Obj(members ...Member) Value { return Value{kind: KindObject, node: &node{members: members}} }

func (v Value) Kind() Kind { return v.kind }

// Exists returns false for the absent Value only; null exists.
func (v Value) Exists() bool { return v.kind != KindAbsent }

// IsNull returns true for JSON null only.
func (v Value) IsNull() bool { return v.kind == KindNull }

// Present reports whether v exists and is not null.
func (v Value) Present() bool { return v.kind != KindAbsent && v.kind != KindNull }

// Get returns the member with the given name; the absent Value if v is not an object or has no such member.
func (v Value) Get(name string) Value {
	if p := v.Find(name); p != nil {
		return *p
	}
	return Value{}
}

// Find is like Get, but returns a pointer: nil if there is no such member. The caller must not change the result.
func (v *Value) Find(name string) *Value {
	if v.kind != KindObject {
		return nil
	}
	for i := range v.node.members {
		if v.node.members[i].Name == name {
			return &v.node.members[i].Value
		}
	}
	return nil
}

// Len counts the items of an array or the members of an object; 0 for anything else.
func (v Value) Len() int {
	switch v.kind {
	case KindArray:
		return len(v.node.items)
	case KindObject:
		return len(v.node.members)
	}
	return 0
}

// Index returns the i-th item of an array, or the absent Value.
func (v Value) Index(i int) Value {
	if v.kind != KindArray || i < 0 || i >= len(v.node.items) {
		return Value{}
	}
	return v.node.items[i]
}

// Members returns the members of an object, in order; nil for any other kind. The caller must not change them.
func (v Value) Members() []Member {
	if v.kind != KindObject {
		return nil
	}
	return v.node.members
}

// Items returns the items of an array, in order; nil for any other kind. The caller must not change them.
func (v Value) Items() []Value {
	if v.kind != KindArray {
		return nil
	}
	return v.node.items
}

// Scalar returns the content of a Value without children. A number is in num if exact is set; otherwise its literal is
// in text. A boolean is 0 or 1 in num. A string is in text.
func (v *Value) Scalar() (kind Kind, exact bool, num Amount, text string) {
	return v.kind, v.exact, v.num, v.text
}

// Text returns a string's contents, a number's literal, "true" or "false"; "" for anything else.
func (v Value) Text() string {
	switch v.kind {
	case KindString:
		return v.text
	case KindNumber:
		if v.text == "" {
			return v.num.String()
		}
		return v.text
	case KindBool:
		if v.num != 0 {
			return "true"
		}
		return "false"
	}
	return ""
}

// Amount returns a number in units of 1e-8. It fails with ErrNumber (not a number), ErrPrecision or ErrRange.
func (v Value) Amount() (Amount, error) {
	if v.kind != KindNumber {
		return 0, ErrNumber
	}
	if v.exact {
		return v.num, nil
	}
	return ParseAmount(v.text)
}

// Int returns a whole number; false if v is not a number, has decimals, or is no Amount.
func (v Value) Int() (int64, bool) {
	if !v.exact || v.num%Scale != 0 {
		return 0, false
	}
	return int64(v.num / Scale), true
}

// Bool returns true for JSON true only.
func (v Value) Bool() bool { return v.kind == KindBool && v.num != 0 }

// With returns a copy of an object in which one member is set, like Set.
func (v Value) With(name string, x Value) Value { return v.Set(Member{name, x}) }

// Set returns a copy of an object in which members are set. An existing member keeps its place; a new member comes
// last. An absent or null v counts as an empty object; other kinds stay unchanged.
func (v Value) Set(set ...Member) Value {
	var old []Member
	switch v.kind {
	case KindObject:
		old = v.node.members
	case KindAbsent, KindNull:
	default:
		return v
	}
	members := append(make([]Member, 0, len(old)+len(set)), old...)
	for _, m := range set {
		if i := slices.IndexFunc(members, func(have Member) bool { return have.Name == m.Name }); i >= 0 {
			members[i].Value = m.Value
		} else {
			members = append(members, m)
		}
	}
	return Obj(members...)
}

// Append writes v as compact JSON: members in order, shortest numbers, necessary escapes only, null if absent.
func (v Value) Append(dst []byte) []byte { return v.append(dst, nil) }

// append writes v as Append does. If order is not nil, it writes the canonical form: members by name, each number in
// its shortest spelling. order is scratch memory.
func (v Value) append(dst []byte, order *[]int) []byte {
	switch v.kind {
	case KindBool:
		return append(dst, v.Text()...)
	case KindNumber:
		switch {
		case v.exact:
			return v.num.Append(dst)
		case order != nil:
			return appendNumber(dst, v.text)
		}
		return append(dst, v.text...)
	case KindString:
		return AppendQuoted(dst, v.text)
	case KindArray:
		dst = append(dst, '[')
		for i := range v.node.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.node.items[i].append(dst, order)
		}
		return append(dst, ']')
	case KindObject:
		members, base := v.node.members, 0
		if order != nil {
			base = len(*order)
			for i := range members {
				*order = append(*order, i)
			}
			slices.SortFunc((*order)[base:], func(a, b int) int {
				return strings.Compare(members[a].Name, members[b].Name)
			})
		}
		dst = append(dst, '{')
		for i := range members {
			m := &members[i]
			if order != nil {
				m = &members[(*order)[base+i]]
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendQuoted(dst, m.Name), ':')
			dst = m.Value.append(dst, order)
		}
		if order != nil {
			*order = (*order)[:base]
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// AppendQuoted writes a JSON string. UTF-8 stays as it is.
func AppendQuoted(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			// The only possible error is invalid UTF-8, which no Value has.
			dst, _ = jsontext.AppendQuote(dst, s)
			return dst
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// Stable codes of a Fault. A code is never renamed or reused.
const (
	FaultRequired  = "REQUIRED"  // the value is missing
	FaultType      = "TYPE"      // a number where a text belongs, or null where null is not allowed
	FaultPattern   = "PATTERN"   // a text of the wrong form
	FaultLength    = "LENGTH"    // a text too short or too long, in characters
	FaultRange     = "RANGE"     // a number too small or too large
	FaultPrecision = "PRECISION" // a number with too many decimals
	FaultEnum      = "ENUM"      // a value outside the list of allowed values
	FaultFormat    = "FORMAT"    // not a date, not an e-mail address
	FaultCount     = "COUNT"     // too few or too many items
	FaultDuplicate = "DUPLICATE" // two equal items, or two members with the same name
	FaultCondition = "CONDITION" // breaks a rule that depends on another value
	FaultCatalogue = "CATALOGUE" // not a code of MH's catalogue
	FaultUnknown   = "UNKNOWN"   // a member that the schema does not know
	FaultSyntax    = "SYNTAX"    // not JSON
)

// Fault describes one breach of a rule, for the sender of the facts.
type Fault struct {
	Path    string `json:"path"`    // of the faulty value: "cuerpoDocumento[3].precioUni"; "" is the whole
	Code    string `json:"code"`    // a constant such as FaultRequired
	Message string `json:"message"` // Spanish: the fault, and the permitted values
}

// Error returns the fault in one line, for logs.
func (f Fault) Error() string {
	if f.Path == "" {
		return f.Code + ": " + f.Message
	}
	return f.Path + ": " + f.Code + ": " + f.Message
}

// Outcomes counts MH's decisions about the newest documents or events that one version of a rule made, and the failures
// of that version.
type Outcomes struct {
	Decided int `json:"decided"`
	Refused int `json:"refused"`           // of Decided
	ByRule  int `json:"by_rule,omitempty"` // of Refused: MH names a value that the rule or the layout made
	Failed  int `json:"failed,omitempty"`  // the rule failed: another rule made the document, or the sale was refused
}

// gravePart: Outcomes are grave if more than one in gravePart documents fails, or is refused for what the rule made.
const gravePart = 20

// Grave reports whether the rule is most likely wrong: MH refuses more than half of its documents, for any reason; or
// more than one in gravePart failed, or was refused for values that the rule made. One till is enough for an alarm:
// there is no minimum of decisions, points of sale or kinds of sale. A branch returns to an earlier rule by stricter
// criteria.
func (o Outcomes) Grave() bool {
	return o.Rejected() || gravePart*(o.ByRule+o.Failed) > o.Decided+o.Failed
}

// Rejected reports whether MH's refusals alone make the Outcomes grave; otherwise failures do.
func (o Outcomes) Rejected() bool { return 2*o.Refused > o.Decided || gravePart*o.ByRule > o.Decided }

// Sound returns an error if the counts, which came from outside, contradict each other.
func (o Outcomes) Sound() error {
	if o.ByRule < 0 || o.Refused < o.ByRule || o.Decided < o.Refused || o.Failed < 0 {
		return fmt.Errorf("%d refused because of the rule, %d refused, %d decided, %d failed", o.ByRule, o.Refused,
			o.Decided, o.Failed)
	}
	return nil
}
