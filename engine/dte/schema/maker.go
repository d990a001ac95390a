package schema

import (
	"strings"

	"dtegate/engine/dte"
)

// Maker is who made the value of a field of a document.
type Maker uint8

// The makers of a field.
const (
	// MakerUnknown: the path names no single value, or no document at all.
	MakerUnknown Maker = iota
	// MakerRequest: the value is a fact, taken as it came from the till, from the configuration or from the engine. A member
	// that the facts lack is theirs too.
	MakerRequest
	// MakerRule: the module computed the value, the schema or the overlay fixed it, or the layout lacks the place.
	MakerRule
)

// Maker returns who made the value at a path of a document that was filled from the facts. The path is MH's: names joined
// by dots or slashes, with or without the numbers of items: "resumen.totalIva", "/cuerpoDocumento/3/ivaItem". What follows
// a complete path, such as the code in "resumen.tributos.codigo.D1", is passed over.
func (f *Filler) Maker(path string, facts dte.Value) Maker {
	at, steps := 0, 0
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' || r == '/' || r == '[' || r == ']' }) {
		if name == "item" || strings.Trim(name, "0123456789") == "" {
			continue // the number of a line
		}
		x := &f.fields[at]
		if x.item {
			at = x.first
			x = &f.fields[at]
		}
		if x.members == 0 {
			break // a value: nothing is below it
		}
		next := -1
		for i := x.first; i < x.first+x.members; i++ {
			if f.fields[i].name == name {
				next = i
			}
		}
		switch {
		case next >= 0:
			at = next
		case steps == 0:
			return MakerUnknown // not a part of the document
		default:
			return MakerRule // MH knows a place there that the layout has not
		}
		steps++
		if f.fields[at].source != sourceFacts {
			return MakerRule
		}
	}
	x := &f.fields[at]
	if steps == 0 || x.types&(typeObject|typeArray) != 0 {
		return MakerUnknown
	}
	if x.from != nil && x.from.fact != nil && present(facts, x.from.fact) {
		return MakerRequest
	}
	if x.from != nil && (x.from.amount >= 0 || x.from.words >= 0 || x.from.value.Exists()) {
		return MakerRule
	}
	if own, err := parsePath(x.path); err == nil && x.fallback.Exists() && !present(facts, own) {
		return MakerRule // the schema's constant
	}
	return MakerRequest
}

// present reports whether facts have a value at a path, in any item of its lists.
func present(v dte.Value, steps []step) bool {
	for i, s := range steps {
		v = v.Get(s.name)
		if s.arrays == 0 {
			continue
		}
		for j := range v.Len() {
			item := v.Index(j)
			for range s.arrays - 1 {
				item = item.Index(0)
			}
			if present(item, steps[i+1:]) {
				return true
			}
		}
		return false
	}
	return v.Exists()
}
