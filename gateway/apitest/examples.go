package apitest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Examples compares each example of a contract with its schema: those of bodies and parameters (example, examples), and
// those of schemas themselves. Examples returns the number of examples, and the examples that their schema refuses.
func Examples(document []byte) (seen int, faults []string, err error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return 0, nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(asWritten, doc); err != nil {
		return 0, nil, err
	}
	check := func(at string, schemaAt string, examples ...any) error {
		schema, err := compiler.Compile(asWritten + "#" + schemaAt)
		if err != nil {
			return err
		}
		for _, e := range examples {
			seen++
			if err := schema.Validate(e); err != nil {
				faults = append(faults, fmt.Sprintf("%s: %v", at, err))
			}
		}
		return nil
	}
	var walk func(at string, v any) error
	walk = func(at string, v any) error {
		if list, ok := v.([]any); ok {
			for i, x := range list {
				if err := walk(fmt.Sprintf("%s/%d", at, i), x); err != nil {
					return err
				}
			}
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		var err error
		switch examples := m["examples"].(type) {
		case []any:
			err = check(at, at, examples...)
		case map[string]any:
			for name, e := range examples {
				if err == nil {
					err = check(at+"/"+name, at+"/schema", e.(map[string]any)["value"])
				}
			}
		}
		if e, has := m["example"]; has && m["schema"] != nil && err == nil {
			err = check(at, at+"/schema", e)
		}
		if err != nil {
			return err
		}
		for name, x := range m {
			if slices.Contains([]string{"example", "examples"}, name) {
				continue
			}
			if err := walk(at+"/"+escape(name), x); err != nil {
				return err
			}
		}
		return nil
	}
	err = walk("", doc)
	slices.Sort(faults)
	return seen, faults, err
}
