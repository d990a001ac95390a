package schema

import (
	"dtegate/engine/dte"
)

// checkCodes looks every code of the document up in its catalogue.
func (j *judge) checkCodes(fi int, si int32) {
	f := &j.fields[fi]
	s := j.slots[si]
	switch s.kind {
	case dte.KindObject:
		for i := range f.members {
			if j.fields[f.first+i].codeList {
				j.checkCode(f.first+i, s.first+int32(i), s.first, f.first)
				j.checkCodes(f.first+i, s.first+int32(i))
			}
		}
	case dte.KindArray:
		for i := range s.count {
			if f.item && !j.full() {
				j.index[f.arrays] = i
				j.checkCode(f.first, s.first+i, 0, 0)
				j.checkCodes(f.first, s.first+i)
			}
		}
	}
}

// checkCode looks one code up. Siblings begin at the given slot and field.
func (j *judge) checkCode(fi int, si, siblingSlot int32, siblingField int) {
	f := &j.fields[fi]
	var code [64]byte
	b := code[:0]
	if f.list == nil || j.leavePayments && (f.list.ID == "CAT-017" || f.list.ID == "CAT-018") {
		return
	}
	if f.parent >= 0 {
		p := &j.slots[siblingSlot+int32(f.parent-siblingField)]
		if p.kind != dte.KindString {
			return
		}
		b = append(append(b, p.text...), '/')
	}
	switch s := &j.slots[si]; {
	case s.kind == dte.KindString:
		b = append(b, s.text...)
	case s.kind == dte.KindNumber && s.exact:
		b = s.num.Append(b)
	default:
		return
	}
	if _, ok := f.list.Texts[string(b)]; !ok {
		j.breachCode(fi, string(b))
	}
}
