package schema

import (
	"dtegate/engine/dte"
)

// checkCodes looks every code of the document up in its catalogue.
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

// checkCode looks one code up. Siblings begin at the given slot and field.
func (r *run) checkCode(fi int, si, siblingSlot int32, siblingField int) {
	f := &r.filler.fields[fi]
	var code [64]byte
	b := code[:0]
	if f.list == nil {
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
		r.breachCode(fi, string(b))
	}
}
