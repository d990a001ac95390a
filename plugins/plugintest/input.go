package plugintest

import (
	"fmt"
	"slices"
	"strings"

	"dtegate/engine/dte"
	"dtegate/rules/abi"
)

// Input lays facts out for a module, by the names that the module declares. It is a second reading of the ABI,
// independent of the engine's. It fails on facts that do not fit.
func Input(d *abi.Description, params []int64, facts dte.Value) (abi.Input, error) {
	in := abi.Input{Params: params}
	for _, f := range d.Scalars {
		n, err := encode(f, at(facts, f.Name))
		if err != nil {
			return in, err
		}
		in.Scalars = append(in.Scalars, n)
	}
	lines := facts.Get("cuerpoDocumento")
	in.N = lines.Len()
	for i := range in.N {
		for _, f := range d.Columns {
			n, err := encode(f, []dte.Value{lines.Index(i).Get(f.Name)})
			if err != nil {
				return in, fmt.Errorf("line %d: %w", i, err)
			}
			in.Lines = append(in.Lines, n)
		}
	}
	return in, nil
}

// at are the values under a path; "[]" goes through a list.
func at(v dte.Value, path string) []dte.Value {
	found := []dte.Value{v}
	for name := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(name, "[]")
		var next []dte.Value
		for _, x := range found {
			x = x.Get(name)
			if !list {
				next = append(next, x)
				continue
			}
			for i := range x.Len() {
				next = append(next, x.Index(i))
			}
		}
		found = next
	}
	return found
}

// encode returns the integer of a field; for a list, the sum of its amounts.
func encode(f abi.Field, values []dte.Value) (int64, error) {
	values = slices.DeleteFunc(values, func(v dte.Value) bool { return !v.Exists() || v.IsNull() })
	if len(values) == 0 {
		switch {
		case f.Required:
			return 0, fmt.Errorf("the facts have no %s", f.Name)
		case f.Kind == "enum" || f.Kind == "set" || f.Kind == "present":
			return 0, nil
		}
		return abi.Absent, nil
	}
	var n int64
	for _, v := range values {
		switch f.Kind {
		case "amount":
			a, err := v.Amount()
			if err != nil {
				return 0, fmt.Errorf("%s: %w", f.Name, err)
			}
			n += int64(a)
		case "integer":
			n, _ = v.Int()
		case "flag":
			if v.Bool() {
				n = 1
			}
		case "present":
			n = 1
		case "enum":
			if n = int64(slices.Index(f.Values, v.Text())); n < 0 {
				return 0, fmt.Errorf("%s: %q is not one of %v", f.Name, v.Text(), f.Values)
			}
		case "set":
			for i := range v.Len() {
				bit := slices.Index(f.Values, v.Index(i).Text())
				if bit < 0 {
					return 0, fmt.Errorf("%s: %q is not one of %v", f.Name, v.Index(i).Text(), f.Values)
				}
				n |= 1 << bit
			}
		}
	}
	return n, nil
}
