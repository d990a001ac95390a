package schema

import (
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"dtegate/engine/dte"
)

// run is one Fill. Runs are pooled, so their slices keep their capacity. A document's texts stay in memory until the
// run's next document, or until the garbage collector empties the pool.
type run struct {
	strange  []dte.Sum // see strangeSums
	filler   *Filler
	facts    dte.Value
	computed *Computed
	// The resolved document: the values of all fields, including the schema's constants and the module's answer
	slots []slot
	order []int32 // scratch memory of the method repeated
	words [256]byte
	forms []byte // texts that fillForm made

	faults        []dte.Fault
	limit         int              // largest number of faults
	index         [maxArrays]int32 // current index of each "[]" above the current place
	leavePayments bool             // see FillOptions
	quiet         int              // above 0 while a condition is evaluated but not enforced
	cause         string           // while a then or an else is checked: why it applies

	contradiction dte.Fault // fault of the bundle; Code is "" if there is none
}

// fill determines the value of the field fi and stores it in the slot si. fact is the fact at the field's path, or nil.
func (r *run) fill(fi int, si int32, fact *dte.Value) {
	f := &r.filler.fields[fi]
	if f.source != sourceFacts {
		r.fillComputed(f, si)
	} else {
		v := fact
		if f.from != nil {
			v = cmp.Or(r.fillFrom(f, si), fact)
		}
		if r.slots[si].kind == dte.KindAbsent {
			r.fillFact(f, si, v)
		}
	}
	if fact != nil && f.judged {
		r.agree(f, si, fact)
	}
}

// fillFact stores a fact, which may be nil, in the slot si.
func (r *run) fillFact(f *field, si int32, fact *dte.Value) {
	switch {
	case f.types&typeObject != 0:
		// the layout's body is an object, and its facts are a list of one line
		if f.at == r.filler.lines && fact != nil && fact.Kind() == dte.KindArray && fact.Len() == 1 {
			r.index[0], fact = 0, &fact.Items()[0]
		}
		r.fillObject(f, si, fact)
	case f.types&typeArray != 0:
		r.fillArray(f, si, fact)
	default:
		if fact == nil && f.fallback.Exists() {
			fact = &f.fallback
		}
		if fact != nil {
			r.slots[si].scalar(fact)
		} else {
			r.leaveEmpty(f, si)
		}
	}
}

// leaveEmpty makes a slot null if the schema requires the member and allows null. Otherwise the slot is absent.
func (r *run) leaveEmpty(f *field, si int32) {
	r.slots[si] = slot{}
	if f.required && f.types&typeNull != 0 {
		r.slots[si].kind = dte.KindNull
	}
}

func (r *run) fillObject(f *field, si int32, fact *dte.Value) {
	optional := !f.required || f.types&typeNull != 0
	switch {
	case fact != nil && fact.Kind() != dte.KindObject:
		r.slots[si].scalar(fact)
		return
	case fact == nil && optional && !f.fed:
		r.leaveEmpty(f, si)
		return
	}
	first := r.grow(f.members + f.shadows)
	r.slots[si].kind, r.slots[si].first = dte.KindObject, first
	next, something := 0, false
	for i := range f.members {
		var member *dte.Value
		if x := &r.filler.fields[f.first+i]; fact != nil && (x.source == sourceFacts || x.judged) {
			// Facts mostly come in the schema's order: continue after the member found last.
			members := fact.Members()
			for range members {
				m := &members[next%len(members)]
				next++
				if m.Name == x.name {
					member = &m.Value
					break
				}
			}
		}
		r.fill(f.first+i, first+int32(i), member)
		something = something || r.slots[first+int32(i)].kind > dte.KindNull
	}
	if fact == nil && !something && optional { // no other source has a value either
		r.leaveEmpty(f, si)
	}
}

func (r *run) fillArray(f *field, si int32, fact *dte.Value) {
	switch {
	case fact == nil:
		r.leaveEmpty(f, si)
		return
	case fact.Kind() != dte.KindArray:
		r.slots[si].scalar(fact)
		return
	}
	items := fact.Items()
	first := r.grow(len(items))
	r.slots[si].kind, r.slots[si].first, r.slots[si].count = dte.KindArray, first, int32(len(items))
	for i := range items {
		r.index[f.arrays] = int32(i)
		r.fill(f.first, first+int32(i), &items[i])
	}
}

// fillFrom applies the overlay's source. If the source is a fact, fillFrom returns the fact, for fillFact. For any
// other value, and for a fact in a form, it sets the slot and returns nil. Without a value it only returns nil.
func (r *run) fillFrom(f *field, si int32) *dte.Value {
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
	case f.from.value.Exists():
		s.scalar(&f.from.value)
	case f.from.amount < 0 && f.from.words < 0:
	case f.from.amount >= 0 && f.arrays > 0 && r.index[f.arrays-1] > 0: // the amount belongs to the first item only
	case r.computed == nil:
		s.kind = kindPending
	case f.from.amount >= 0:
		s.amount(r.computed.Summary[f.from.amount])
	default:
		b := dte.AppendWords(r.words[:0], dte.Amount(r.computed.Summary[f.from.words]))
		// The bytes are in r, like the slot, and stay until the slot is used.
		s.string(unsafe.String(&b[0], len(b)))
	}
	return nil
}

// fillForm stores a text in the overlay's form. It returns false if the form does not apply or does not fit the text.
// The caller then uses the unchanged text, and the schema checks that text.
func (r *run) fillForm(f *from, si int32, v *dte.Value) bool {
	if f.when != nil {
		if is := follow(&r.facts, f.when, r.index[:]); is == nil || is.Kind() != dte.KindString || is.Text() != f.is {
			return false
		}
	}
	text := v.Text()
	if v.Kind() != dte.KindString || len(text) != strings.Count(f.form, "#") || strings.ContainsFunc(text,
		func(c rune) bool { return c > '~' }) {
		return false
	}
	first, next := len(r.forms), 0
	for i := range len(f.form) {
		if f.form[i] != '#' {
			r.forms = append(r.forms, f.form[i])
			continue
		}
		r.forms = append(r.forms, text[next])
		next++
	}
	// The bytes live as long as the slot, in r.forms or in the array that r.forms had before it grew.
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
		x := c.Lines[int(r.index[0])*len(r.filler.out.Lines)+f.output]
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

// fillSet writes a bit mask as the array of its codes, or null if no bit is set.
func (r *run) fillSet(si int32, mask uint64) {
	if mask == 0 {
		r.slots[si].kind = dte.KindNull
		return
	}
	if mask>>len(r.filler.out.Taxes) != 0 {
		r.contradict(linesName, "has a bit of a tax that the module does not declare")
	}
	first := int32(len(r.slots))
	for i, code := range r.filler.out.Taxes {
		if mask>>i&1 != 0 {
			r.slots[r.grow(1)].string(code)
		}
	}
	s := &r.slots[si]
	s.kind, s.first, s.count = dte.KindArray, first, int32(len(r.slots))-first
}

// fillTaxes writes the summary's taxes, null if there are no taxes.
func (r *run) fillTaxes(f *field, si int32) {
	taxes := r.computed.Taxes
	if len(taxes) == 0 {
		r.slots[si].kind = dte.KindNull
		return
	}
	item := &r.filler.fields[f.first]
	width := item.members + item.shadows
	rows := r.grow(len(taxes))
	r.slots[si].kind, r.slots[si].first, r.slots[si].count = dte.KindArray, rows, int32(len(taxes))
	for i, t := range taxes {
		first := r.grow(width)
		row := &r.slots[rows+int32(i)]
		row.kind, row.first = dte.KindObject, first
		for j := range item.members {
			s := &r.slots[first+int32(j)]
			switch r.filler.fields[item.first+j].name {
			case "codigo":
				s.string(r.filler.out.Taxes[t.Tax])
			case "descripcion":
				s.string(r.filler.taxNames[t.Tax])
			case "valor":
				s.amount(int64(t.Amount))
			}
		}
	}
}

// kindPending is the kind of a value that the rule module must still give. Checks that depend on it are skipped.
const kindPending dte.Kind = 0xff

// slot is one value of the document. Slots are in the order of the fields. An object's members, even absent ones, are
// consecutive: a condition finds a member by its position.
type slot struct {
	kind  dte.Kind
	exact bool // for a number: num is its exact value
	num   dte.Amount
	text  string
	first int32 // index of the first child
	count int32 // items of a list
}

func (s *slot) amount(a int64) { s.kind, s.exact, s.num = dte.KindNumber, true, dte.Amount(a) }

func (s *slot) string(text string) { s.kind, s.text = dte.KindString, text }

// scalar copies a value without its children. A misplaced list or object is refused by its kind.
func (s *slot) scalar(v *dte.Value) { s.kind, s.exact, s.num, s.text = v.Scalar() }

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

func (r *run) write(dst []byte, fi int, si int32) []byte {
	s := &r.slots[si]
	switch s.kind {
	case dte.KindNumber:
		return s.num.Append(dst)
	case dte.KindString:
		return dte.AppendQuoted(dst, s.text)
	case dte.KindBool:
		if s.num != 0 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case dte.KindArray:
		dst = append(dst, '[')
		for i := range s.count {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = r.write(dst, r.filler.fields[fi].first, s.first+i)
		}
		return append(dst, ']')
	case dte.KindObject:
		dst = append(dst, '{')
		f := &r.filler.fields[fi]
		some := false
		for i := range f.members {
			m := s.first + int32(i)
			if r.slots[m].kind == dte.KindAbsent {
				continue
			}
			if some {
				dst = append(dst, ',')
			}
			some = true
			dst = append(dst, r.filler.fields[f.first+i].key...)
			dst = r.write(dst, f.first+i, m)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// repeated finds the first item of a list that equals an earlier item; second is -1 if all items differ.
func (r *run) repeated(first, count int32, fi int) (earlier, second int32) {
	r.order = slices.Grow(r.order[:0], int(count))
	for i := range count {
		r.order = append(r.order, i)
	}
	// Lines mostly come sorted by their first member, and differ in it: then the sort only compares neighbours.
	slices.SortFunc(r.order, func(a, b int32) int { return cmp.Or(r.compare(fi, first+a, first+b), cmp.Compare(a, b)) })
	second = -1
	for n, i := range r.order[1:] {
		if before := r.order[n]; (second < 0 || i < second) && r.compare(fi, first+before, first+i) == 0 {
			earlier, second = before, i
		}
	}
	return earlier, second
}

// children returns the number of slots below a slot, and their first field. step is 1 if each slot has its own field, 0
// if the slots share a field.
func (r *run) children(fi int, s *slot) (count int32, field, step int) {
	f := &r.filler.fields[fi]
	switch {
	case s.kind == dte.KindObject && !f.item:
		return int32(f.members + f.shadows), f.first, 1
	case s.kind == dte.KindArray && f.item:
		return s.count, f.first, 0
	}
	return 0, 0, 0
}

func (r *run) compare(fi int, a, b int32) int {
	x, y := &r.slots[a], &r.slots[b]
	c := cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.num, y.num), cmp.Compare(x.count, y.count))
	if c == 0 && !(x.exact && y.exact) {
		c = cmp.Compare(x.text, y.text)
	}
	count, field, step := r.children(fi, x)
	for i := int32(0); i < count && c == 0; i++ {
		c = r.compare(field+int(i)*step, x.first+i, y.first+i)
	}
	return c
}
