package form

import (
	"strings"

	"dtegate/engine/dte"
)

// unread are the facts, by path without indexes, that the faults of a request left out: what depends on one cannot be added
// up. Of a member that nobody knows, it is the object that holds it: the member may be a misspelt one.
func (d *Filled) unread() (paths []string) {
	for _, f := range d.Faults {
		path := f.Path
		if f.Code == dte.FaultUnknown {
			path = path[:max(0, strings.LastIndexByte(path, '.'))]
		}
		fact, there := d.factOf(path)
		if !there || f.Code == dte.FaultUnknown {
			paths = append(paths, fact)
		}
	}
	return paths
}

// factOf is the path, without indexes, of the fact that a member of the request becomes, and whether the facts have it.
func (d *Filled) factOf(path string) (fact string, there bool) {
	fields, v, prefix := d.form.fields, d.Facts, ""
	for path != "" {
		name, rest := segment(path)
		var f *field
		for i := range fields {
			if fields[i].name == name {
				f = &fields[i]
			}
		}
		if f == nil {
			return prefix, false
		}
		step := f.factName()
		switch {
		case prefix == "" && f.place == inResumen:
			v, prefix = v.Get("resumen"), "resumen."
		case prefix == "" && f.place == inPagos:
			v, prefix, step = v.Get("resumen").Get("pagos").Index(0), "resumen.pagos", ""
		case prefix == "" && (f.place == inApendice || f.place == nowhere):
			return f.name, true // no amount depends on it
		}
		if step != "" {
			v, prefix = v.Get(step), strings.TrimSuffix(prefix, ".")+dot(prefix)+step
		}
		if number, ok := strings.CutPrefix(rest, "["); ok {
			number, rest, _ = strings.Cut(number, "]")
			v = v.Index(position(number))
		}
		fields, path = f.members, strings.TrimPrefix(rest, ".")
	}
	return prefix, v.Exists()
}

func dot(prefix string) string {
	if prefix == "" {
		return ""
	}
	return "."
}

// position is the index that a path names; of a list shorter than that it names nothing.
func position(text string) (n int) {
	for _, c := range text {
		n = 10*n + int(c-'0')
	}
	return n
}
