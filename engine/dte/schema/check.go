package schema

import (
	"unicode/utf8"

	"dtegate/engine/dte"
)

// verdict is what a rule says of a value. The larger one wins.
type verdict uint8

const (
	pass    verdict = iota
	unknown         // depends on what only the rule module can give
	fail
)

// judge holds a run's tree against the rules of its schema.
type judge struct {
	report
	leavePayments bool // see FillOptions
}

// check judges the slot at si, which belongs to the field at fi, by a rule. Unless j is quiet it tells every breach
// as a fault; when quiet it stops at the first.
func (j *judge) check(x *rule, fi int, si int32) verdict {
	s := &j.slots[si]
	if s.kind == kindPending {
		return unknown
	}
	if s.kind == dte.KindNumber && !s.exact && x.types&(typeNumber|typeInteger) != 0 {
		return j.breachNumber(fi, s)
	}
	if x.types != 0 && !s.hasType(x.types) {
		return j.breach(fi, si, x, dte.FaultType)
	}
	v := pass
	if x.hasEnum && !s.isOneOf(x.enum) {
		if v = j.breach(fi, si, x, dte.FaultEnum); j.quiet > 0 {
			return v
		}
	}
	switch s.kind {
	case dte.KindNumber:
		v = max(v, j.checkNumber(x, fi, si))
	case dte.KindString:
		if x.hasString {
			v = max(v, j.checkString(x, fi, si))
		}
	case dte.KindArray:
		v = max(v, j.checkArray(x, fi, si))
	case dte.KindObject:
		v = max(v, j.checkObject(x, fi, si))
	}
	if x.compounded && (v != fail || j.quiet == 0) {
		v = max(v, j.checkCompound(x, fi, si))
	}
	return v
}

func (s *slot) hasType(types typeSet) bool {
	switch s.kind {
	case dte.KindNull:
		return types&typeNull != 0
	case dte.KindBool:
		return types&typeBool != 0
	case dte.KindNumber:
		return types&typeNumber != 0 || types&typeInteger != 0 && s.exact && s.num%dte.Scale == 0
	case dte.KindString:
		return types&typeString != 0
	case dte.KindArray:
		return types&typeArray != 0
	}
	return types&typeObject != 0
}

func (s *slot) isOneOf(values []dte.Value) bool {
	for i := range values {
		kind, exact, num, text := values[i].Scalar()
		if kind != s.kind {
			continue
		}
		switch kind {
		case dte.KindNull:
			return true
		case dte.KindString:
			if text == s.text {
				return true
			}
		default:
			if num == s.num && exact == s.exact {
				return true
			}
		}
	}
	return false
}

func (j *judge) checkNumber(x *rule, fi int, si int32) verdict {
	s := &j.slots[si]
	if !s.exact {
		return j.breachNumber(fi, s)
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
			v = j.breach(fi, si, x, dte.FaultRange)
			break
		}
	}
	if x.multiple != 0 && s.num%x.multiple != 0 {
		v = j.breach(fi, si, x, dte.FaultPrecision)
	}
	return v
}

func (j *judge) checkString(x *rule, fi int, si int32) verdict {
	text := j.slots[si].text
	// Bytes bound characters from both sides: count only when that does not settle it.
	if len(text) > x.maxLength || len(text) < 4*x.minLength {
		if n := utf8.RuneCountInString(text); n > x.maxLength || n < x.minLength {
			return j.breach(fi, si, x, dte.FaultLength)
		}
	}
	for _, p := range x.patterns {
		if !p.match(text) {
			return j.breach(fi, si, x, dte.FaultPattern)
		}
	}
	for _, f := range x.formats {
		if !f.match(text) {
			return j.breach(fi, si, x, dte.FaultFormat)
		}
	}
	return pass
}

func (j *judge) checkArray(x *rule, fi int, si int32) verdict {
	s := j.slots[si]
	f := &j.fields[fi]
	v := pass
	if n := int(s.count); n < x.minItems || n > x.maxItems {
		if v = j.breach(fi, si, x, dte.FaultCount); j.quiet > 0 {
			return v
		}
	}
	if x.items != nil {
		for i := range s.count {
			j.index[f.arrays] = i
			v = max(v, j.check(x.items, f.first, s.first+i))
			if v == fail && (j.quiet > 0 || j.full()) {
				return v
			}
		}
	}
	if x.unique && s.count > 1 && f.item {
		if first, second := j.repeated(s.first, s.count, f.first); second >= 0 {
			j.index[f.arrays] = second
			v = j.breachRepeat(f.first, first)
		}
	}
	return v
}

func (j *judge) checkObject(x *rule, fi int, si int32) verdict {
	first := j.slots[si].first
	f := &j.fields[fi]
	v := pass
	for _, p := range x.required {
		if j.slots[first+int32(p)].kind != dte.KindAbsent {
			continue
		}
		var wanted *rule
		if y := &j.fields[f.first+p]; y.rule != nil {
			wanted = y.rule
		}
		if v = j.breach(f.first+p, first+int32(p), wanted, dte.FaultRequired); j.quiet > 0 {
			return v
		}
	}
	for i := range x.members {
		m := &x.members[i]
		if j.slots[first+int32(m.position)].kind == dte.KindAbsent {
			continue
		}
		v = max(v, j.check(m.rule, f.first+m.position, first+int32(m.position)))
		if v == fail && (j.quiet > 0 || j.full()) {
			return v
		}
	}
	return v
}

// checkCompound judges allOf, oneOf and if/then/else.
func (j *judge) checkCompound(x *rule, fi int, si int32) verdict {
	v := pass
	for _, y := range x.all {
		if v = max(v, j.check(y, fi, si)); v == fail && j.quiet > 0 {
			return v
		}
	}
	if len(x.one) > 0 {
		met, open := 0, 0
		for _, y := range x.one {
			switch j.ask(y, fi, si) {
			case pass:
				met++
			case unknown:
				open++
			}
		}
		switch {
		case met > 1 || met == 0 && open == 0:
			v = j.breach(fi, si, x, dte.FaultCondition)
		case open > 0:
			v = max(v, unknown)
		}
	}
	for i := range x.choices {
		c := &x.choices[i]
		var enforced *rule
		reason := ""
		switch j.ask(c.when, fi, si) {
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
		outer := j.cause
		j.cause = reason
		v = max(v, j.check(enforced, fi, si))
		j.cause = outer
		if v == fail && j.quiet > 0 {
			return v
		}
	}
	return v
}

// ask evaluates a condition without telling anything.
func (j *judge) ask(x *rule, fi int, si int32) verdict {
	j.quiet++
	v := j.check(x, fi, si)
	j.quiet--
	return v
}
