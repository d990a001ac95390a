package dte

// checkCodes looks every code of the document up in its catalogue.
func (r *run) checkCodes(fi int, si int32) {
	f := &r.fields[fi]
	s := r.slots[si]
	switch s.kind {
	case KindObject:
		for i := range f.members {
			if r.fields[f.first+i].codeList {
				r.checkCode(f.first+i, s.first+int32(i), s.first, f.first)
				r.checkCodes(f.first+i, s.first+int32(i))
			}
		}
	case KindArray:
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
	f := &r.fields[fi]
	var code [64]byte
	b := code[:0]
	if f.list == nil {
		return
	}
	if f.parent >= 0 {
		p := &r.slots[siblingSlot+int32(f.parent-siblingField)]
		if p.kind != KindString {
			return
		}
		b = append(append(b, p.text...), '/')
	}
	switch s := &r.slots[si]; {
	case s.kind == KindString:
		b = append(b, s.text...)
	case s.kind == KindNumber && s.exact:
		b = s.num.Append(b)
	default:
		return
	}
	if _, ok := f.list.values[string(b)]; !ok {
		r.breachCode(fi, string(b))
	}
}
