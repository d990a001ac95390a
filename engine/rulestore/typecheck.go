package rulestore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dtegate/engine/dte/schema"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

// This file compares a bundle's description of its type with its layout and its module. A misspelt path would otherwise
// lose a member of a request, or leave a field unprinted.

// checkType returns a fault for each path of form.json and view.json that names no place and no fact, and other faults.
func (r *Rule) checkType() error {
	var faults []error
	wrong := func(part, path, fact string) {
		faults = append(faults,
			fmt.Errorf("%w: %s: %s: %q is neither a place of the layout, nor a fact that the "+
				"overlay reads, nor an input of the module",
				bundle.ErrFormat, part, path, fact))
	}
	if !r.Type.Form.Pays && r.Filler.Total() == "totalPagar" && r.Filler.Place("resumen.pagos") != nil {
		faults = append(faults, fmt.Errorf("%w: form.json: pays: must be true, because the layout has resumen.pagos "+
			"and the total is totalPagar", bundle.ErrFormat))
	}
	faults = append(faults, r.checkMembers(r.Type.Form.Members, "members", "", wrong)...)
	for i, name := range r.Type.NotLater {
		if !r.takes(LinesName + "[]." + name) {
			wrong("type.json", "notLater["+strconv.Itoa(i)+"]", name)
		}
	}
	return errors.Join(append(append(faults, r.checkCreditable()...), r.checkView(wrong)...)...)
}

// subtracted maps an amount of bundle.CreditableNames to the members of resumen that its terms must subtract.
var subtracted = map[string][]string{"totalGravada": {"descuGravada", "totalIva"}, "totalExenta": {"descuExenta"},
	"totalNoSuj": {"descuNoSuj"}}

// checkCreditable refuses terms of Type.Creditable by which notes could deduct more than the document's amount.
func (r *Rule) checkCreditable() (f []error) {
	for _, name := range slices.Sorted(maps.Keys(r.Type.Creditable)) {
		wrong := func(format string, args ...any) {
			f = append(f, fmt.Errorf("%w: type.json: creditable.%s: %s", bundle.ErrFormat, name, fmt.Sprintf(format,
				args...)))
		}
		terms := r.Type.Creditable[name]
		for _, term := range terms {
			switch minus := strings.HasPrefix(term, "-"); {
			case !minus && r.Filler.Place("resumen."+term) == nil:
				wrong("the layout has no resumen.%s", term)
			case !minus && term != name && r.Filler.Place("resumen."+name) != nil:
				wrong("%q is another amount", term)
			}
		}
		for _, term := range subtracted[name] {
			if slices.Contains(terms, name) && !slices.Contains(terms, "-"+term) && r.Filler.Place("resumen."+
				term) != nil {
				wrong("%q is not subtracted", term)
			}
		}
	}
	return f
}

// checkView returns an error for each fault of a view: a field or catalogue that the layout lacks, a wrong party or
// total, a new label for a field that has MH's label, or a field in the wrong block.
func (r *Rule) checkView(unreached func(part, path, fact string)) (f []error) {
	wrong := func(path, format string, args ...any) {
		f = append(f, fmt.Errorf("%w: view.json: %s: %s", bundle.ErrFormat, path, fmt.Sprintf(format, args...)))
	}
	v := r.Type.View
	// check adds a fault if the layout has none of the paths, or if the catalogue is not the layout's.
	check := func(at, prefix, catalogue string, paths []string) {
		has := false
		for _, path := range paths {
			p := r.Filler.Place(prefix + path)
			has = has || p != nil
			if p != nil && catalogue != "" && (p.Number || p.List != nil && p.List != r.catalogues.List(catalogue)) {
				wrong(at, "%q has no codes of %s", path, catalogue)
			}
		}
		if !has {
			unreached("view.json", at, strings.Join(paths, " | "))
		}
	}
	check("party.paths", "", "", v.Party.Paths)
	party := make(map[string]bool)
	for i, path := range v.Party.Paths {
		party[path] = true
		if p := r.Filler.Place(path + ".nombre"); r.Filler.Place(path) != nil && (p == nil ||
			p.Fact != "receptor.nombre") {
			wrong(fmt.Sprintf("party.paths[%d]", i), "%q is not the other party", path)
		}
	}
	for i, name := range v.Final {
		if !strings.EqualFold(name, r.Filler.Total()) { // the generations write the name in different case
			wrong(fmt.Sprintf("final[%d]", i), "%q is not the overlay's total, %s", name, r.Filler.Total())
		}
	}
	if len(v.Final) > 0 {
		check("final", "resumen.", "", v.Final)
	}
	for name := range v.Labels {
		if schema.Counted(name) {
			wrong("labels."+name, "has MH's label")
		}
	}
	for i, x := range v.Fields {
		at := fmt.Sprintf("fields[%d]", i)
		check(at+".path", "", x.Catalogue, []string{x.Path})
		root, _, _ := strings.Cut(x.Path, ".")
		name := x.Path[strings.LastIndexByte(x.Path, '.')+1:]
		switch {
		case schema.Identifies(name) || schema.Counted(name) && root != LinesName:
			wrong(at+".path", "%q has MH's label", x.Path)
		case schema.Issuer(root) != (x.In == "emisor"), party[root] != (x.In == "party"):
			wrong(at+".in", "%q does not belong in the block %s", x.Path, x.In)
		}
	}
	for i, c := range v.Columns {
		at := fmt.Sprintf("columns[%d].paths", i)
		check(at, LinesName+"[].", c.Catalogue, c.Paths)
		if slices.ContainsFunc(c.Paths, schema.Counted) {
			wrong(at, "%q has MH's head", c.Paths)
		}
	}
	return f
}

// checkMembers returns the faults of a list of the form's members, whose facts are below base. Of a group it checks
// only the extra members: the API itself defines the others.
func (r *Rule) checkMembers(list []bundle.Member, at, base string, wrong func(part, path, fact string)) (f []error) {
	for i := range list {
		m, path, to := &list[i], at+"["+strconv.Itoa(i)+"]", cmp.Or(list[i].To, list[i].Name)
		own := []string{base + m.Name}
		if base == "" {
			own = append(own, bundle.ToSummary+m.Name, LinesName+"[]."+m.Name)
		}
		switch {
		case m.Use != "" && m.Name == "": // a group; its extra members belong to the items
			f = append(f, r.checkMembers(m.Extra, path+".extra", LinesName+"[].", wrong)...)
			continue
		case base == "" && (to == bundle.ToNone || to == bundle.ToAppendix):
			f = append(f, r.givesOtherwise(m, path, to), r.misplaces(m, path, to, own))
			continue
		case base == "" && strings.HasPrefix(to, bundle.ToLine):
			to = LinesName + "[]." + to[len(bundle.ToLine):]
		}
		to = base + to
		f = append(f, r.givesOtherwise(m, path, to), r.misplaces(m, path, to, own))
		if !r.takes(to) {
			wrong("form.json", path+".to", to)
			continue
		}
		if m.Shape == "list" {
			to += "[]"
		}
		f = append(f, r.checkMembers(m.Members, path+".members", to+".", wrong)...)
		f = append(f, r.checkMembers(m.Extra, path+".extra", to+".", wrong)...)
	}
	return f
}

// givesOtherwise refuses a member of a form that sets a value which only the till or the box may set. A default must be
// under the member's own name, and must not be a number, a price, an identity or a global discount. The default of an
// integer, or of a value that only facts may give (schema.Factual), must be a code of its catalogue. The default of
// condicionOperacion must be 1, immediate payment.
func (r *Rule) givesOtherwise(m *bundle.Member, at, fact string) error {
	name := fact[strings.LastIndexByte(fact, '.')+1:]
	root, _, below := strings.Cut(fact, ".")
	why, preset := "", strings.Trim(string(m.Default), `"`)
	_, code := r.catalogues.Lookup(m.Catalogue, preset)
	switch {
	case preset != "" && (m.Shape == "number" || !code && (m.Shape == "integer" || schema.Factual(fact)) ||
		schema.Priced(name) || schema.Identifies(name) || root == "descuentoGlobal" || name != m.Name ||
		name == "condicionOperacion" && preset != "1"):
		why = "must not have a default: only the till gives it"
	case name != m.Name && (schema.Priced(m.Name) || below && root == "descuentoGlobal"):
		why = "must not be filled from what the till calls " + m.Name
	case root == "emisor" || root == "identificacion" || root == "devuelto" || strings.HasSuffix(name, "Origen"):
		why = "is a value that only the box gives"
	default:
		return nil
	}
	return fmt.Errorf("%w: form.json: %s: %q %s", bundle.ErrFormat, at, fact, why)
}

// misplaces refuses a member that goes to another place although the layout has a place with its own name: the document
// would then differ from the till's request. A member for receptor must be read as a person.
func (r *Rule) misplaces(m *bundle.Member, at, to string, own []string) error {
	own = slices.DeleteFunc(own, func(place string) bool { return !r.takes(place) })
	names := []string{r.Type.Form.Origin, r.Type.Form.Related} // the gateway reads these members to find the origin
	switch {
	case to == "receptor" && !m.Person && m.Use != "consumer" && m.Use != "taxpayer":
		return fmt.Errorf("%w: form.json: %s: %q is not read as a person", bundle.ErrFormat, at, m.Name)
	case len(own) > 0 && !slices.Contains(own, to) && (to != bundle.ToNone || !slices.Contains(names, m.Name)):
		return fmt.Errorf("%w: form.json: %s: %q has a place of its own, %s, and goes to %s", bundle.ErrFormat,
			at, m.Name, strings.Join(own, ", "), to)
	}
	return nil
}

// takes reports whether a fact is used: the layout has a place for it, the overlay reads it, or it is an input of the
// module. A fact that identifies a document or a person of a line must have a place in the layout.
func (r *Rule) takes(fact string) bool {
	under := func(name string) bool {
		return name == fact || strings.HasPrefix(name, fact+".") || strings.HasPrefix(name, fact+"[]")
	}
	d := r.Description()
	if name, ofLine := strings.CutPrefix(fact, LinesName+"[]."); ofLine && schema.Identifies(name) {
		return r.Filler.Takes(fact)
	}
	return r.Filler.Takes(fact) || slices.ContainsFunc(d.Scalars, func(f abi.Field) bool { return under(f.Name) }) ||
		slices.ContainsFunc(d.Columns, func(f abi.Field) bool { return under(LinesName + "[]." + f.Name) })
}
