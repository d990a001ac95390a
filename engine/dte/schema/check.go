package schema

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"dtegate/engine/dte"
)

// verdict is the result of a schema for a value. The larger verdict wins.
type verdict uint8

const (
	pass    verdict = iota
	unknown         // depends on a value that only the rule module can give
	fail
)

// check compares the value in the slot si with the schema x. The slot belongs to the field fi. Every breach becomes a
// fault; if r is quiet, check reports nothing and stops at the first breach.
func (r *run) check(x *schema, fi int, si int32) verdict {
	s := &r.slots[si]
	if s.kind == kindPending {
		return unknown
	}
	if s.kind == dte.KindNumber && !s.exact && x.types&(typeNumber|typeInteger) != 0 {
		return r.breachNumber(fi, s)
	}
	if x.types != 0 && !s.hasType(x.types) {
		return r.breach(fi, si, x, dte.FaultType)
	}
	v := pass
	if len(x.enum) > 0 && !slices.ContainsFunc(x.enum, s.equals) {
		if v = r.breach(fi, si, x, dte.FaultEnum); r.quiet > 0 {
			return v
		}
	}
	switch s.kind {
	case dte.KindNumber:
		v = max(v, r.checkNumber(x, fi, si))
	case dte.KindString:
		v = max(v, r.checkString(x, fi, si))
	case dte.KindArray:
		v = max(v, r.checkArray(x, fi, si))
	case dte.KindObject:
		v = max(v, r.checkObject(x, fi, si))
	}
	if v != fail || r.quiet == 0 {
		v = max(v, r.checkCompound(x, fi, si))
	}
	return v
}

// typeOf maps a value's kind to its JSON Schema type. An absent value counts as an object.
var typeOf = [...]typeSet{dte.KindAbsent: typeObject, dte.KindNull: typeNull, dte.KindBool: typeBool,
	dte.KindNumber: typeNumber, dte.KindString: typeString, dte.KindArray: typeArray, dte.KindObject: typeObject}

func (s *slot) hasType(types typeSet) bool {
	return types&typeOf[s.kind] != 0 || types&typeInteger != 0 && s.kind == dte.KindNumber && s.exact &&
		s.num%dte.Scale == 0
}

// equals compares a slot with a scalar.
func (s *slot) equals(v dte.Value) bool {
	kind, exact, num, text := v.Scalar()
	return s.kind == kind && s.exact == exact && s.num == num && (exact || s.text == text)
}

func (r *run) checkNumber(x *schema, fi int, si int32) verdict {
	s := &r.slots[si]
	if !s.exact {
		return r.breachNumber(fi, s)
	}
	v := pass
	for i := range x.bounds {
		b := &x.bounds[i]
		ok := s.num >= b.limit
		switch {
		case b.upper && b.exclusive:
			ok = s.num < b.limit
		case b.upper:
			ok = s.num <= b.limit
		case b.exclusive:
			ok = s.num > b.limit
		}
		if !ok {
			v = r.breach(fi, si, x, dte.FaultRange)
			break
		}
	}
	if x.multiple != 0 && s.num%x.multiple != 0 {
		v = r.breach(fi, si, x, dte.FaultPrecision)
	}
	return v
}

func (r *run) checkString(x *schema, fi int, si int32) verdict {
	text := r.slots[si].text
	// A character has one to four bytes: count characters only if the bytes do not decide.
	if len(text) > x.maxLength || len(text) < 4*x.minLength {
		if n := utf8.RuneCountInString(text); n > x.maxLength || n < x.minLength {
			return r.breach(fi, si, x, dte.FaultLength)
		}
	}
	for _, p := range x.patterns {
		if !p.match(text) {
			return r.breach(fi, si, x, dte.FaultPattern)
		}
	}
	for _, f := range x.formats {
		if !f.match(text) {
			return r.breach(fi, si, x, dte.FaultFormat)
		}
	}
	return pass
}

func (r *run) checkArray(x *schema, fi int, si int32) verdict {
	s := r.slots[si]
	f := &r.filler.fields[fi]
	v := pass
	if n := int(s.count); n < x.minItems || n > x.maxItems {
		if v = r.breach(fi, si, x, dte.FaultCount); r.quiet > 0 {
			return v
		}
	}
	if x.items != nil {
		for i := range s.count {
			r.index[f.arrays] = i
			v = max(v, r.check(x.items, f.first, s.first+i))
			if v == fail && (r.quiet > 0 || r.full()) {
				return v
			}
		}
	}
	if x.unique && s.count > 1 && f.item {
		if first, second := r.repeated(s.first, s.count, f.first); second >= 0 {
			r.index[f.arrays] = second
			v = r.report(dte.Fault{Path: r.path(&r.filler.fields[f.first]), Code: dte.FaultDuplicate,
				Message: "repite el elemento " + strconv.Itoa(int(first))}, false)
		}
	}
	return v
}

func (r *run) checkObject(x *schema, fi int, si int32) verdict {
	first := r.slots[si].first
	f := &r.filler.fields[fi]
	v := pass
	for _, p := range x.needed {
		if r.slots[first+int32(p)].kind != dte.KindAbsent {
			continue
		}
		if v = r.breach(f.first+p, first+int32(p), r.filler.fields[f.first+p].rule, dte.FaultRequired); r.quiet > 0 {
			return v
		}
	}
	for i := range x.properties {
		m := &x.properties[i]
		if r.slots[first+int32(m.position)].kind == dte.KindAbsent {
			continue
		}
		v = max(v, r.check(&m.schema, f.first+m.position, first+int32(m.position)))
		if v == fail && (r.quiet > 0 || r.full()) {
			return v
		}
	}
	return v
}

func (r *run) checkCompound(x *schema, fi int, si int32) verdict {
	v := pass
	for _, y := range x.all {
		if v = max(v, r.check(y, fi, si)); v == fail && r.quiet > 0 {
			return v
		}
	}
	if len(x.one) > 0 {
		met, open := 0, 0
		for _, y := range x.one {
			switch r.ask(y, fi, si) {
			case pass:
				met++
			case unknown:
				open++
			}
		}
		switch {
		case met > 1 || met == 0 && open == 0:
			v = r.breach(fi, si, x, dte.FaultCondition)
		case open > 0:
			v = max(v, unknown)
		}
	}
	for i := range x.choices {
		c := &x.choices[i]
		var enforced *schema
		reason := ""
		switch r.ask(c.when, fi, si) {
		case pass:
			enforced, reason = c.then, c.when.reason
		case fail:
			enforced, reason = c.otherwise, c.unless
		default:
			v = max(v, unknown)
		}
		if enforced == nil {
			continue
		}
		outer := r.cause
		r.cause = reason
		v = max(v, r.check(enforced, fi, si))
		r.cause = outer
		if v == fail && r.quiet > 0 {
			return v
		}
	}
	return v
}

// ask evaluates a condition without reporting faults.
func (r *run) ask(x *schema, fi int, si int32) verdict {
	r.quiet++
	v := r.check(x, fi, si)
	r.quiet--
	return v
}

// checkCodes looks up every code below a slot in the code's catalogue.
func (r *run) checkCodes(fi int, si int32) {
	f := &r.filler.fields[fi]
	s := r.slots[si]
	switch s.kind {
	case dte.KindObject:
		for i := range f.members {
			if r.filler.fields[f.first+i].codeList {
				r.checkCode(f.first+i, s.first+int32(i), s.first, f.first)
				r.checkCodes(f.first+i, s.first+int32(i))
			}
		}
	case dte.KindArray:
		for i := range s.count {
			if f.item && !r.full() {
				r.index[f.arrays] = i
				r.checkCode(f.first, s.first+i, 0, 0)
				r.checkCodes(f.first, s.first+i)
			}
		}
	}
}

// checkCode looks up one code. siblingSlot and siblingField are the first slot and field of the object around the code.
func (r *run) checkCode(fi int, si, siblingSlot int32, siblingField int) {
	f := &r.filler.fields[fi]
	var code [64]byte
	b := code[:0]
	if f.list == nil || r.leavePayments && (f.list.ID == "CAT-017" || f.list.ID == "CAT-018") {
		return
	}
	if f.parent >= 0 {
		p := &r.slots[siblingSlot+int32(f.parent-siblingField)]
		if p.kind != dte.KindString {
			return
		}
		b = append(append(b, p.text...), '/')
	}
	switch s := &r.slots[si]; {
	case s.kind == dte.KindString:
		b = append(b, s.text...)
	case s.kind == dte.KindNumber && s.exact:
		b = s.num.Append(b)
	default:
		return
	}
	if _, ok := f.list.Texts[string(b)]; !ok {
		r.report(dte.Fault{Path: r.path(f), Code: dte.FaultCatalogue, Message: lacksCode(f.list, string(b))}, false)
	}
}

func (r *run) full() bool { return len(r.faults) >= r.limit }

// report adds a fault, unless r is quiet or full. If once is set, it adds no second fault to a place.
func (r *run) report(f dte.Fault, once bool) verdict {
	if r.quiet == 0 && !r.full() && !(once && slices.ContainsFunc(r.faults,
		func(have dte.Fault) bool { return have.Path == f.Path })) {
		r.faults = append(r.faults, f)
	}
	return fail
}

// unsaid is the cause of a breach whose condition has no description.
const unsaid = "-"

// breach reports that the slot si breaks the schema x, unless r is quiet. A fault that depends on another value has the
// code CONDITION, and is not reported if the place already has a fault.
func (r *run) breach(fi int, si int32, x *schema, code string) verdict {
	if r.quiet > 0 || r.full() {
		return fail
	}
	place := &r.filler.fields[fi]
	f := place.fault(x, code, &r.slots[si], r.cause)
	f.Path = r.path(place)
	if place.made() && slices.Contains(formal, f.Code) {
		r.contradict(f.Path, f.Message)
	}
	return r.report(f, r.cause != "")
}

// formal lists the codes of faults in a value's form. No till can put right the form of a value that the module made;
// its size depends on the till's amounts.
var formal = []string{dte.FaultType, dte.FaultPrecision, dte.FaultLength, dte.FaultPattern, dte.FaultFormat}

// made reports whether only the module's answer gives the field its value.
func (f *field) made() bool {
	return f.source != sourceFacts || f.from != nil && f.from.fact == nil && (f.from.amount >= 0 || f.from.words >= 0)
}

// fault returns the fault of a value that breaks the schema x at the field. cause may be "". The caller sets the path.
func (f *field) fault(x *schema, code string, s *slot, cause string) dte.Fault {
	told := dte.Fault{Code: code, Message: x.message(f.document, code, s)}
	if cause != "" {
		told.Code = dte.FaultCondition
		if cause != unsaid {
			told.Message += ", " + cause
		}
	}
	return told
}

// breachNumber reports that a number is not an Amount. Conditions need not report it: the layout checks every number.
func (r *run) breachNumber(fi int, s *slot) verdict {
	if r.quiet > 0 || r.cause != "" {
		return fail
	}
	f := dte.Fault{Path: r.path(&r.filler.fields[fi]), Code: dte.FaultPrecision, Message: quote(s) +
		" tiene más de 8 decimales"}
	if _, err := dte.ParseAmount(s.text); err == dte.ErrRange {
		f.Code, f.Message = dte.FaultRange, quote(s)+" no está por debajo de 92,000,000,000"
	}
	return r.report(f, true)
}

func (r *run) path(f *field) string { return expandPath(f.path, r.index[:]) }
