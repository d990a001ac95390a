package form

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"dtegate/engine/dte"
)

// This file translates paths in the facts into paths in the request. A fault is reported once, under the member of the
// request that caused it.

// MergeMore calls find and adds its faults, unless MaxFaults faults are already known. unread are the paths of the
// facts that are missing because of known faults.
func (d *Filled) MergeMore(find func(unread []string) []dte.Fault) {
	if !d.full() {
		d.Merge(find(d.unread()))
	}
}

// Merge adds faults of facts under their paths in the request, unless the path, or a path above it, already has a
// fault.
func (d *Filled) Merge(found []dte.Fault) {
next:
	for _, f := range found {
		if d.full() {
			return
		}
		if name, ok := strings.CutPrefix(f.Path, "resumen."); ok && d.fieldOf(inResumen, name) == nil {
			f.Message = totalName(name) + " " + f.Message
		}
		f.Message = Sentence(f.Message)
		summed := strings.Contains(f.Path, "[]")
		if f.Path = d.requestPath(f.Path); summed {
			f.Path = d.sent(f.Path)
		}
		for _, have := range d.Faults {
			if have.Path == f.Path || strings.HasPrefix(f.Path, have.Path+".") || strings.HasPrefix(f.Path, have.Path+
				"[") {
				continue next
			}
		}
		d.fault(f.Path, f.Code, f.Message)
	}
}

// sent cuts a path after the last member that the till has sent. A fault of the sum over a list ("pagos[].montoPago")
// is reported at the list, or at its only item.
func (d *Filled) sent(path string) string {
	v, kept, rest := d.body, "", path
	for rest != "" {
		name, below := segment(rest)
		if v = v.Get(name); !v.Present() {
			break
		}
		kept = strings.TrimPrefix(kept+"."+name, ".")
		if number, ok := strings.CutPrefix(below, "["); ok {
			number, below, _ = strings.Cut(number, "]")
			if number == "" && v.Len() != 1 {
				return kept
			}
			i := position(number)
			if v = v.Index(i); !v.Exists() {
				return kept
			}
			kept = index(kept, i)
		}
		rest = strings.TrimPrefix(below, ".")
	}
	return cmp.Or(kept, path)
}

// Sentence returns a message with a capital first letter.
func Sentence(message string) string {
	first, size := utf8.DecodeRuneInString(message)
	return string(unicode.ToUpper(first)) + message[size:]
}

func totalName(field string) string {
	switch field {
	case "montoTotalOperacion":
		return "El monto total de la operación"
	case "totalPagar":
		return "El total a pagar"
	case "subTotal", "subTotalVentas":
		return "El subtotal"
	}
	return "El total calculado (" + field + ")"
}

// unread returns the paths, without indexes, of the facts that are missing because of faults. A total that depends on
// such a fact cannot be computed. For an unknown member, unread returns the object around it, because the name may be
// a misspelling of a member that the object should have.
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

// factOf returns the path, without indexes, of the fact made from a member of the request, if there is one.
func (d *Filled) factOf(path string) (fact string, there bool) {
	fields, v, prefix := d.form.fields, d.Facts, ""
	for path != "" {
		name, rest := segment(path)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return prefix, false
		}
		f := &fields[i]
		step := f.factName()
		switch {
		case prefix == "" && f.place == inResumen:
			v, prefix = v.Get("resumen"), "resumen."
		case prefix == "" && f.place == inPagos:
			v, prefix, step = v.Get("resumen").Get("pagos").Index(0), "resumen.pagos", ""
		case prefix == "" && f.place == inLine:
			v, prefix = v.Get(linesFact).Index(0), linesFact+"."
		case prefix == "" && (f.place == inApendice || f.place == nowhere):
			return f.name, true // no amount depends on this member
		}
		if step != "" {
			v, prefix = v.Get(step), strings.TrimPrefix(strings.TrimSuffix(prefix, ".")+"."+step, ".")
		}
		if number, ok := strings.CutPrefix(rest, "["); ok {
			number, rest, _ = strings.Cut(number, "]")
			v = v.Index(position(number))
		}
		fields, path = f.members, strings.TrimPrefix(rest, ".")
	}
	return prefix, v.Exists()
}

func position(text string) int {
	n, _ := strconv.Atoi(text) // 0 if it is not a number
	return n
}

func (d *Filled) requestPath(path string) string {
	if path == "origen" || strings.HasPrefix(path, "origen.") {
		if d.form.bundle.Related != "" && !d.body.Get(d.form.bundle.Origin).Present() {
			return d.form.bundle.Related + ".codigoGeneracion"
		}
		return d.form.bundle.Origin
	}
	if path == "" { // a fault of the whole document is reported at its lines
		path = "cuerpoDocumento"
	}
	in, rest := inRoot, path
	if below, ok := strings.CutPrefix(path, linesFact+"[0]."); ok && d.fieldOf(inLine, below) != nil {
		in, rest = inLine, below
	}
	if below, ok := strings.CutPrefix(path, "resumen."); ok {
		in, rest = inResumen, below
	}
	name, rest := segment(rest)
	if in == inRoot && name == "apendice" {
		return d.appendixPath(rest)
	}
	if in == inResumen && name == "pagos" && !d.body.Get("pagos").Present() && d.fieldOf(inPagos, "pago") != nil {
		return "pago" + strings.TrimPrefix(rest, "[0]")
	}
	match := d.fieldOf(in, name)
	if match == nil && in == inResumen { // a fault of a total is reported at the lines: they are its parts
		match, rest = d.fieldOf(inRoot, "cuerpoDocumento"), ""
	}
	if match == nil {
		return path
	}
	return match.name + match.pathBelow(rest)
}

// appendixPath translates the path of an entry of apendice. The first entries come from other members of the request.
func (d *Filled) appendixPath(rest string) string {
	number, below, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]")
	n, err := strconv.Atoi(number)
	switch {
	case !ok || err != nil:
		return "apendice"
	case n < len(d.entries):
		return d.entries[n]
	}
	return index("apendice", n-len(d.entries)) + below
}

// fieldOf returns the member of the request from which a fact comes, or nil. If two members can supply the fact, it
// returns the one in the request.
func (d *Filled) fieldOf(in place, fact string) (match *field) {
	name, _ := segment(fact)
	for i := range d.form.fields {
		if f := &d.form.fields[i]; f.place == in && f.factName() == name && (match == nil ||
			d.body.Get(f.name).Present()) {
			match = f
		}
	}
	if match == nil && in == inResumen && name == "pagos" {
		return d.fieldOf(inPagos, "pago")
	}
	return match
}

// pathBelow translates the part of a fact's path below a field. rest begins with an index or a dot, or is empty.
func (f *field) pathBelow(rest string) string {
	prefix := ""
	if strings.HasPrefix(rest, "[") {
		end := strings.IndexByte(rest, ']') + 1
		prefix, rest = rest[:end], rest[end:]
	}
	inner, ok := strings.CutPrefix(rest, ".")
	if !ok {
		return prefix + rest
	}
	name, rest := segment(inner)
	for i := range f.members {
		if m := &f.members[i]; m.factName() == name {
			return prefix + "." + m.name + m.pathBelow(rest)
		}
	}
	return prefix // a fault of a computed fact is reported at the whole line
}

func segment(path string) (name, rest string) {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
