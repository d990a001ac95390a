package schema

import (
	"errors"
	"slices"

	"dtegate/engine/dte"
)

// Check returns the faults of a complete document, unknown members included. It does not look codes up: an issued
// document stays valid when a catalogue changes.
func (f *Filler) Check(document []byte) []dte.Fault {
	v, err := dte.Parse(document)
	var syntax *dte.SyntaxError // the only kind of error
	if errors.As(err, &syntax) {
		return []dte.Fault{{Path: syntax.Path, Code: syntax.Code, Message: syntax.Message}}
	}
	r := f.runs.Get().(*run)
	defer r.release()
	r.computed, r.limit = nil, defaultMaxFaults
	r.grow(1)
	r.load(0, 0, &v)
	r.check(f.fields[0].rule, 0, 0)
	if len(r.faults) == 0 {
		return nil
	}
	return slices.Clone(r.faults)
}

// load puts a value of a complete document into the slot at si, and reports members that the layout does not have.
func (r *run) load(fi int, si int32, v *dte.Value) {
	f := &r.filler.fields[fi]
	s := &r.slots[si]
	s.scalar(v)
	switch v.Kind() {
	case dte.KindObject:
		first := r.grow(f.members + f.shadows)
		r.slots[si].first = first
		if f.item {
			return
		}
		members := v.Members()
		for i := range members {
			m := &members[i]
			at := position(r.filler.fields, f, m.Name)
			if (at < 0 || at >= f.members) && f.types&typeObject != 0 && f.rule != nil && f.rule.closed {
				r.report(dte.Fault{Path: join(r.path(f), m.Name), Code: dte.FaultUnknown,
					Message: "el campo no existe en este documento"}, false)
			}
			if at >= 0 {
				r.load(f.first+at, first+int32(at), &m.Value)
			}
		}
	case dte.KindArray:
		items := v.Items()
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
