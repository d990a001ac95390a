package schema

import (
	"fmt"
	"strconv"
	"strings"

	"dtegate/engine/dte"
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
func follow(v *dte.Value, steps []step, index []int32) *dte.Value {
	level := 0
	for _, s := range steps {
		if v = v.Find(s.name); v == nil {
			return nil
		}
		for range s.arrays {
			items := v.Items()
			if int(index[level]) >= len(items) {
				return nil
			}
			v = &items[index[level]]
			level++
		}
	}
	return v
}

// expandPath writes a path template with its "[]" filled from the indexes, outermost first.
func expandPath(template string, index []int32) string {
	b := make([]byte, 0, len(template)+8)
	level := 0
	for i := 0; i < len(template); i++ {
		b = append(b, template[i])
		if template[i] == '[' && i+1 < len(template) && template[i+1] == ']' && level < len(index) {
			b = strconv.AppendInt(b, int64(index[level]), 10)
			level++
		}
	}
	return string(b)
}
