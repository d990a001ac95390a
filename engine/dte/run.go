package dte

import (
	"strings"
	"unsafe"
)

// kindPending is a value that only the rule module can give, in a fill without its answer. Nothing that depends on
// it is judged.
const kindPending Kind = 0xff

// slot is one value of the resolved document. Slots mirror the fields: the members of an object lie side by side
// in the order of its fields, absent ones included, so that a condition finds what it asks for without looking.
type slot struct {
	kind  Kind
	exact bool // number: num holds it
	num   Amount
	text  string
	first int32 // of the children
	count int32 // items of a list
}

// run is one Fill or Check. Runs are pooled: their slices keep their capacity, and texts of the last document
// stay reachable until the next or until the collector empties the pool.
type run struct {
	*Filler
	facts    Value
	computed *Computed
	document bool // Check: paths are the document's own, not those of the facts
	slots    []slot
	index    [maxArrays]int32 // where each "[]" above the current place stands
	words    [256]byte
	forms    []byte // texts that the overlay's forms made
	faults   []Fault
	limit    int
	quiet    int    // inside a condition that is only asked, not enforced
	cause    string // inside then or else: why it is enforced
	table    []int32
}

// grow adds n absent slots and returns the first.
func (r *run) grow(n int) int32 {
	first := len(r.slots)
	if first+n <= cap(r.slots) {
		r.slots = r.slots[:first+n]
		clear(r.slots[first:])
	} else {
		r.slots = append(r.slots, make([]slot, n)...)
	}
	return int32(first)
}

func (s *slot) amount(a int64) { s.kind, s.exact, s.num = KindNumber, true, Amount(a) }

func (s *slot) string(text string) { s.kind, s.text = KindString, text }

// scalar copies a value without children. A list or object where none belongs keeps its kind, which is enough to
// refuse it.
func (s *slot) scalar(v *Value) {
	s.kind, s.exact, s.num, s.text = v.kind, v.exact, v.num, v.text
}

// fill resolves the field at fi into the slot at si. Fact is the value under the same path, nil when there is none.
func (r *run) fill(fi int, si int32, fact *Value) {
	f := &r.fields[fi]
	if f.source != sourceFacts {
		r.fillComputed(f, si)
		return
	}
	if f.from != nil {
		if v := r.fillFrom(f, si); v != nil {
			fact = v
		} else if r.slots[si].kind != KindAbsent {
			return
		}
	}
	switch {
	case f.types&typeObject != 0:
		r.fillObject(f, si, fact)
	case f.types&typeArray != 0:
		r.fillArray(f, si, fact)
	default:
		if fact == nil && f.fallback.kind != KindAbsent {
			fact = &f.fallback
		}
		if fact != nil {
			r.slots[si].scalar(fact)
		} else if f.required && f.types&typeNull != 0 {
			r.slots[si].kind = KindNull
		}
	}
}

func (r *run) fillObject(f *field, si int32, fact *Value) {
	nullable := f.types&typeNull != 0
	switch {
	case fact != nil && fact.kind != KindObject:
		r.slots[si].scalar(fact)
		return
	case fact == nil && nullable && !f.fed:
		if f.required {
			r.slots[si].kind = KindNull
		}
		return
	case fact == nil && !f.required && !f.fed:
		return
	}
	first := r.grow(f.members + f.shadows)
	r.slots[si].kind, r.slots[si].first = KindObject, first
	next, something := 0, false
	for i := range f.members {
		var member *Value
		if fact != nil && r.fields[f.first+i].source == sourceFacts {
			// Facts mostly come in the schema's order: go on where the last one was found.
			members := fact.node.members
			for range members {
				if next >= len(members) {
					next = 0
				}
				m := &members[next]
				next++
				if m.Name == r.fields[f.first+i].name {
					member = &m.Value
					break
				}
			}
		}
		r.fill(f.first+i, first+int32(i), member)
		something = something || r.slots[first+int32(i)].kind > KindNull
	}
	if fact == nil && !something && (nullable || !f.required) {
		// Nothing from elsewhere came either.
		r.slots[si] = slot{}
		if nullable && f.required {
			r.slots[si].kind = KindNull
		}
	}
}

func (r *run) fillArray(f *field, si int32, fact *Value) {
	switch {
	case fact == nil:
		if f.required && f.types&typeNull != 0 {
			r.slots[si].kind = KindNull
		}
		return
	case fact.kind != KindArray:
		r.slots[si].scalar(fact)
		return
	}
	items := fact.node.items
	first := r.grow(len(items))
	r.slots[si].kind, r.slots[si].first, r.slots[si].count = KindArray, first, int32(len(items))
	for i := range items {
		r.index[f.arrays] = int32(i)
		r.fill(f.first, first+int32(i), &items[i])
	}
}

// fillFrom asks the overlay's source. It returns a fact, or sets the slot, or does neither.
func (r *run) fillFrom(f *field, si int32) *Value {
	if f.from.fact != nil {
		if v := follow(&r.facts, f.from.fact, r.index[:]); v != nil {
			if f.from.form != "" && r.fillForm(f.from, si, v) {
				return nil
			}
			return v
		}
	}
	s := &r.slots[si]
	switch {
	case f.from.value.kind != KindAbsent:
		s.scalar(&f.from.value)
	case f.from.amount < 0 && f.from.words < 0:
	case r.computed == nil:
		s.kind = kindPending
	case f.from.amount >= 0:
		s.amount(r.computed.Summary[f.from.amount])
	default:
		b := appendWords(r.words[:0], Amount(r.computed.Summary[f.from.words]))
		// The bytes live in r as long as the slot does, and nothing writes to them again before.
		s.string(unsafe.String(&b[0], len(b)))
	}
	return nil
}

// fillForm writes a text in the overlay's form. It does nothing when the form does not apply, or does not fit: then the
// schema judges the text as it came.
func (r *run) fillForm(f *from, si int32, v *Value) bool {
	if f.when != nil {
		if is := follow(&r.facts, f.when, r.index[:]); is == nil || is.kind != KindString || is.text != f.is {
			return false
		}
	}
	if v.kind != KindString || len(v.text) != strings.Count(f.form, "#") || strings.ContainsFunc(v.text, func(c rune) bool { return c > '~' }) {
		return false
	}
	first, next := len(r.forms), 0
	for i := range len(f.form) {
		if f.form[i] != '#' {
			r.forms = append(r.forms, f.form[i])
			continue
		}
		r.forms = append(r.forms, v.text[next])
		next++
	}
	// The bytes live in r, or in what r.forms was before it grew, as long as the slot does.
	r.slots[si].string(unsafe.String(&r.forms[first], len(r.forms)-first))
	return true
}

func (r *run) fillComputed(f *field, si int32) {
	if r.computed == nil {
		r.slots[si].kind = kindPending
		return
	}
	c := r.computed
	switch f.source {
	case sourceLine:
		x := c.Lines[int(r.index[0])*len(r.out.Lines)+f.output]
		if f.set {
			r.fillSet(si, uint64(x))
		} else {
			r.slots[si].amount(x)
		}
	case sourceSummary:
		r.slots[si].amount(c.Summary[f.output])
	case sourceTaxes:
		r.fillTaxes(f, si)
	}
}

// fillSet writes a bit mask as the array of its codes, null when empty.
func (r *run) fillSet(si int32, mask uint64) {
	if mask == 0 {
		r.slots[si].kind = KindNull
		return
	}
	first := int32(len(r.slots))
	for i, code := range r.out.Taxes {
		if mask>>i&1 != 0 {
			r.slots[r.grow(1)].string(code)
		}
	}
	s := &r.slots[si]
	s.kind, s.first, s.count = KindArray, first, int32(len(r.slots))-first
}

// fillTaxes writes the summary's taxes, null when there is none.
func (r *run) fillTaxes(f *field, si int32) {
	taxes := r.computed.Taxes
	if len(taxes) == 0 {
		r.slots[si].kind = KindNull
		return
	}
	item := &r.fields[f.first]
	width := item.members + item.shadows
	rows := r.grow(len(taxes))
	r.slots[si].kind, r.slots[si].first, r.slots[si].count = KindArray, rows, int32(len(taxes))
	for i, t := range taxes {
		first := r.grow(width)
		row := &r.slots[rows+int32(i)]
		row.kind, row.first = KindObject, first
		for j := range item.members {
			s := &r.slots[first+int32(j)]
			switch r.fields[item.first+j].name {
			case "codigo":
				s.string(r.out.Taxes[t.Tax])
			case "descripcion":
				s.string(r.taxNames[t.Tax])
			case "valor":
				s.amount(int64(t.Amount))
			}
		}
	}
}

// load puts a value of a complete document into the slot at si, and tells members that the layout does not have.
func (r *run) load(fi int, si int32, v *Value) {
	f := &r.fields[fi]
	s := &r.slots[si]
	s.scalar(v)
	switch v.kind {
	case KindObject:
		first := r.grow(f.members + f.shadows)
		r.slots[si].first = first
		if f.item {
			return
		}
		for i := range v.node.members {
			m := &v.node.members[i]
			position := -1
			for j := range f.members + f.shadows {
				if r.fields[f.first+j].name == m.Name {
					position = j
					break
				}
			}
			if (position < 0 || position >= f.members) && f.types&typeObject != 0 && f.rule != nil && f.rule.closed {
				r.fail(Fault{join(r.path(f), m.Name), FaultUnknown, "el campo no existe en este documento"})
			}
			if position >= 0 {
				r.load(f.first+position, first+int32(position), &m.Value)
			}
		}
	case KindArray:
		items := v.node.items
		r.slots[si].count = int32(len(items))
		if !f.item || f.arrays >= maxArrays {
			return
		}
		first := r.grow(len(items))
		r.slots[si].first = first
		for i := range items {
			r.index[f.arrays] = int32(i)
			r.load(f.first, first+int32(i), &items[i])
		}
	}
}

func (r *run) path(f *field) string {
	if r.document {
		return expandPath(f.document, r.index[:])
	}
	return expandPath(f.path, r.index[:])
}
