package dte

import "slices"

// repeated finds two equal items of a list; second is -1 when all differ.
func (r *run) repeated(first, count int32, fi int) (int32, int32) {
	const few = 12
	if count <= few {
		for i := range count {
			for j := range i {
				if r.equal(fi, first+i, first+j) {
					return j, i
				}
			}
		}
		return -1, -1
	}
	size := 64
	for size < int(count)*2 {
		size *= 2
	}
	r.table = slices.Grow(r.table[:0], size)[:size]
	clear(r.table)
	for i := range count {
		h := int(r.hash(fi, first+i, 14695981039346656037)) & (size - 1)
		for ; r.table[h] != 0; h = (h + 1) & (size - 1) {
			if j := r.table[h] - 1; r.equal(fi, first+i, first+j) {
				return j, i
			}
		}
		r.table[h] = i + 1
	}
	return -1, -1
}

// children are the slots and fields below a slot; step is 0 when all belong to one field.
func (r *run) children(fi int, s *slot) (count int32, field, step int) {
	f := &r.fields[fi]
	switch {
	case s.kind == KindObject && !f.item:
		return int32(f.members + f.shadows), f.first, 1
	case s.kind == KindArray && f.item:
		return s.count, f.first, 0
	}
	return 0, 0, 0
}

func (r *run) equal(fi int, a, b int32) bool {
	x, y := &r.slots[a], &r.slots[b]
	if x.kind != y.kind || x.exact != y.exact || x.num != y.num || x.count != y.count {
		return false
	}
	if x.text != y.text && !(x.kind == KindNumber && x.exact) {
		return false
	}
	count, field, step := r.children(fi, x)
	for i := range count {
		if !r.equal(field+int(i)*step, x.first+i, y.first+i) {
			return false
		}
	}
	return true
}

// hash is FNV-1a over what equal compares, eight bytes at a time for numbers.
func (r *run) hash(fi int, si int32, h uint64) uint64 {
	const prime = 1099511628211
	s := &r.slots[si]
	h = (h ^ uint64(s.kind)) * prime
	h = (h ^ uint64(s.num)) * prime
	h ^= h >> 29
	if s.kind == KindString {
		for i := range len(s.text) {
			h = (h ^ uint64(s.text[i])) * prime
		}
	}
	count, field, step := r.children(fi, s)
	for i := range count {
		h = r.hash(field+int(i)*step, s.first+i, h)
	}
	return h
}
