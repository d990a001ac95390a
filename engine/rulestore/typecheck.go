package rulestore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dtegate/engine/dte/schema"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

// This file compares a bundle's description of its type with its layout and its module. Without it, a member of a
// request that nothing reads would be lost silently, and a printed field that no document has would never be printed.

// checkType returns every path of form.json and view.json that leads nowhere.
func (r *Rule) checkType() error {
	var faults []error
	wrong := func(part, path, fact string) {
		faults = append(faults,
			fmt.Errorf("%w: %s: %s: %q is no place of the layout, no fact that the overlay takes, "+
				"and no input of the module",
				bundle.ErrFormat, part, path, fact))
	}
	faults = append(faults, r.checkMembers(r.Type.Form.Members, "members", "", wrong)...)
	reached := func(part, path string, alternatives []string, prefix string) {
		if !slices.ContainsFunc(alternatives, func(a string) bool { return r.Filler.Has(prefix + a) }) {
			wrong(part, path, strings.Join(alternatives, " | "))
		}
	}
	v := r.Type.View
	reached("view.json", "party.paths", v.Party.Paths, "")
	for i, path := range v.Party.Paths {
		if root, _, _ := strings.Cut(path, "."); schema.Issuer(root) || root == "identificacion" {
			faults = append(faults, fmt.Errorf("%w: view.json: party.paths[%d]: %q is not the other party",
				bundle.ErrFormat, i, path))
		}
	}
	for i, name := range v.Final {
		if !strings.EqualFold(name, r.Filler.Total()) { // generations differ in upper and lower case
			faults = append(faults, fmt.Errorf("%w: view.json: final[%d]: %q is not the overlay's total, %s",
				bundle.ErrFormat, i, name,
				r.Filler.Total()))
		}
	}
	if len(v.Final) > 0 {
		reached("view.json", "final", v.Final, "resumen.")
	}
	for i := range v.Fields {
		reached("view.json", "fields["+strconv.Itoa(i)+"].path", []string{v.Fields[i].Path}, "")
	}
	for i := range v.Columns {
		reached("view.json", "columns["+strconv.Itoa(i)+"].paths", v.Columns[i].Paths, LinesName+"[].")
	}
	return errors.Join(faults...)
}

// checkMembers returns the faults of a list of the form's members. Their facts lie below base. The API itself defines
// the members of groups.
func (r *Rule) checkMembers(list []bundle.Member, at, base string, wrong func(part, path, fact string)) (f []error) {
	for i := range list {
		m, path, to := &list[i], at+"["+strconv.Itoa(i)+"]", cmp.Or(list[i].To, list[i].Name)
		own := []string{base + m.Name}
		if base == "" {
			own = append(own, bundle.ToSummary+m.Name, LinesName+"[]."+m.Name)
		}
		switch {
		case m.Use != "" && m.Name == "": // extra members are those of the items
			f = append(f, r.checkMembers(m.Extra, path+".extra", LinesName+"[].", wrong)...)
			continue
		case base == "" && (to == bundle.ToNone || to == bundle.ToAppendix):
			f = append(f, r.misplaces(m, path, to, own))
			continue
		case base == "" && strings.HasPrefix(to, bundle.ToLine):
			to = LinesName + "[]." + to[len(bundle.ToLine):]
		}
		to = base + to
		f = append(f, givesOtherwise(m, path, to), r.misplaces(m, path, to, own))
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

// givesOtherwise refuses a member by which a form would state a value that only the till or the box may state. A number
// has a default only if it is a code of a catalogue.
func givesOtherwise(m *bundle.Member, at, fact string) error {
	name := fact[strings.LastIndexByte(fact, '.')+1:]
	root, _, below := strings.Cut(fact, ".")
	why := ""
	switch {
	case len(m.Default) > 0 && (m.Shape == "number" || m.Shape == "integer" && m.Catalogue == "" || schema.Said(name) ||
		root == "descuentoGlobal"):
		why = "has no default: only the till says it"
	case name != m.Name && (schema.Priced(m.Name) || below && root == "descuentoGlobal"):
		why = "does not take what the till calls " + m.Name
	case root == "emisor" || root == "identificacion" || root == "devuelto" || strings.HasSuffix(name, "Origen"):
		why = "is what the box says itself"
	default:
		return nil
	}
	return fmt.Errorf("%w: form.json: %s: %q %s", bundle.ErrFormat, at, fact, why)
}

// misplaces refuses a member that goes elsewhere although the layout has a place of the member's own name (one of own):
// the document would differ from the till's request. A member that goes to receptor must be read as a person.
func (r *Rule) misplaces(m *bundle.Member, at, to string, own []string) error {
	own = slices.DeleteFunc(own, func(place string) bool { return !r.takes(place) })
	names := []string{r.Type.Form.Origin, r.Type.Form.Related} // the gateway looks for the origin itself
	switch {
	case to == "receptor" && !m.Person && m.Use != "consumer" && m.Use != "taxpayer":
		return fmt.Errorf("%w: form.json: %s: %q is not read as a person", bundle.ErrFormat, at, m.Name)
	case len(own) > 0 && !slices.Contains(own, to) && (to != bundle.ToNone || !slices.Contains(names, m.Name)):
		return fmt.Errorf("%w: form.json: %s: %q has a place of its own, %s, and goes to %s", bundle.ErrFormat,
			at, m.Name, strings.Join(own, ", "), to)
	}
	return nil
}

// takes reports whether the layout has a place for a fact, the overlay reads it, or it is an input of the module.
func (r *Rule) takes(fact string) bool {
	under := func(name string) bool {
		return name == fact || strings.HasPrefix(name, fact+".") || strings.HasPrefix(name, fact+"[]")
	}
	d := r.Description()
	return r.Filler.Takes(fact) || slices.ContainsFunc(d.Scalars, func(f abi.Field) bool { return under(f.Name) }) ||
		slices.ContainsFunc(d.Columns, func(f abi.Field) bool { return under(LinesName + "[]." + f.Name) })
}
