package dte

import (
	"fmt"
	"strings"
)

// step is one name of a path and how many "[]" follow it.
type step struct {
	name   string
	arrays int
}

// parsePath reads "cuerpoDocumento[].tributos[]"; "" is the document itself.
func parsePath(path string) ([]step, error) {
	if path == "" {
		return nil, nil
	}
	var steps []step
	for part := range strings.SplitSeq(path, ".") {
		name := strings.TrimRight(part, "[]")
		brackets := part[len(name):]
		if name == "" || strings.Count(brackets, "[]")*2 != len(brackets) {
			return nil, fmt.Errorf("path %q: %q is not a name with [] for each list", path, part)
		}
		steps = append(steps, step{name, len(brackets) / 2})
	}
	return steps, nil
}

func countArrays(steps []step) int {
	n := 0
	for _, s := range steps {
		n += s.arrays
	}
	return n
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// place names a path in an error for people.
func place(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

// follow walks a path through facts, taking index for its "[]", outermost first; nil when there is nothing.
func follow(v *Value, steps []step, index []int32) *Value {
	level := 0
	for _, s := range steps {
		if v = v.get(s.name); v == nil {
			return nil
		}
		for range s.arrays {
			if v.kind != KindArray || int(index[level]) >= len(v.node.items) {
				return nil
			}
			v = &v.node.items[index[level]]
			level++
		}
	}
	return v
}
