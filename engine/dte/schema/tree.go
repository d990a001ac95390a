package schema

import (
	"slices"

	"dtegate/engine/dte"
)

// kindPending is a value that only the rule module can give, in a fill without its answer. Nothing that depends on
// it is judged.
const kindPending dte.Kind = 0xff

// slot is one value of the resolved document. Slots mirror the fields: the members of an object lie side by side
// in the order of its fields, absent ones included, so that a condition finds what it asks for without looking.
type slot struct {
	kind  dte.Kind
	exact bool // number: num holds it
	num   dte.Amount
	text  string
	first int32 // of the children
	count int32 // items of a list
}

func (s *slot) amount(a int64) { s.kind, s.exact, s.num = dte.KindNumber, true, dte.Amount(a) }

func (s *slot) string(text string) { s.kind, s.text = dte.KindString, text }

// scalar copies a value without children. A list or object where none belongs keeps its kind, which is enough to
// refuse it.
func (s *slot) scalar(v *dte.Value) {
	s.kind, s.exact, s.num, s.text = v.Scalar()
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

// write appends the slot at si as JSON.
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
	f := &r.filler.fields[fi]
	switch {
	case s.kind == dte.KindObject && !f.item:
		return int32(f.members + f.shadows), f.first, 1
	case s.kind == dte.KindArray && f.item:
		return s.count, f.first, 0
	}
	return 0, 0, 0
}

func (r *run) equal(fi int, a, b int32) bool {
	x, y := &r.slots[a], &r.slots[b]
	if x.kind != y.kind || x.exact != y.exact || x.num != y.num || x.count != y.count {
		return false
	}
	if x.text != y.text && !(x.kind == dte.KindNumber && x.exact) {
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
	if s.kind == dte.KindString {
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
