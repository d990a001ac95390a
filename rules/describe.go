package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"dtegate/rules/abi"
)

// maxDescription is the largest description, in bytes.
const maxDescription = 1 << 20

// parseDescription reads a module's description and checks it against the interface's limits, a sentence a fault.
func parseDescription(text []byte) (*abi.Description, error) {
	d := new(abi.Description)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelt one would be lost
	if err := decoder.Decode(d); err != nil {
		return nil, fmt.Errorf("%w: description: %w", ErrModule, err)
	}
	if d.ABI != abi.Version {
		return nil, fmt.Errorf("%w: it speaks interface %d, this host %d", ErrModule, d.ABI, abi.Version)
	}
	c := &checker{}
	if d.Name == "" {
		c.fault("name: is missing")
	}
	c.names("params", len(d.Params), abi.MaxWide, func(i int) string { return d.Params[i].Name })
	c.names("summary", len(d.Summary), abi.MaxWide, func(i int) string { return d.Summary[i] })
	c.names("taxes", len(d.Taxes), abi.MaxWide, func(i int) string { return d.Taxes[i] })
	c.names("faults", len(d.Faults), 512, func(i int) string { return d.Faults[i].Code })
	for i, f := range d.Faults {
		if f.Message == "" {
			c.fault("faults[%d].message: is missing", i)
		}
	}
	inputs := []string{"amount", "integer", "flag", "enum", "set", "present"}
	c.fields("scalars", d.Scalars, inputs)
	c.fields("columns", d.Columns, inputs)
	c.fields("line_outputs", d.LineOutputs, []string{"amount", "set"})
	for i, f := range d.LineOutputs {
		if f.Kind == "set" && len(d.Taxes) > abi.MaxSet {
			c.fault("line_outputs[%d]: a set of %d taxes, more than %d", i, len(d.Taxes), abi.MaxSet)
		}
	}
	return d, errors.Join(c.faults...)
}

type checker struct{ faults []error }

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%w: description: "+format, append([]any{ErrModule}, args...)...))
}

// names checks that a list is not too long and that its names are there and differ.
func (c *checker) names(list string, n, most int, name func(int) string) {
	if n > most {
		c.fault("%s: %d of them, at most %d", list, n, most)
		return
	}
	seen := make(map[string]int, n)
	for i := range n {
		if first, twice := seen[name(i)]; twice {
			c.fault("%s[%d]: %q is %s[%d] already", list, i, name(i), list, first)
		}
		if seen[name(i)] = i; name(i) == "" {
			c.fault("%s[%d]: has no name", list, i)
		}
	}
}

func (c *checker) fields(list string, fields []abi.Field, kinds []string) {
	c.names(list, len(fields), abi.MaxWide, func(i int) string { return fields[i].Name })
	for i, f := range fields {
		if !slices.Contains(kinds, f.Kind) {
			c.fault("%s[%d] %s: kind %q is not one of %v", list, i, f.Name, f.Kind, kinds)
		}
		if (f.Kind == "enum") != (len(f.Values) > 0) && f.Kind != "set" {
			c.fault("%s[%d] %s: kind %q with %d values", list, i, f.Name, f.Kind, len(f.Values))
		}
		if f.Kind == "set" && len(f.Values) > abi.MaxSet {
			c.fault("%s[%d] %s: a set of %d values, more than %d", list, i, f.Name, len(f.Values), abi.MaxSet)
		}
	}
}
