package gateway

import (
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
)

// TestContract_Clients: the contract has none of the forms from which generators of clients make types that a till
// cannot use. `make clients` generates three clients and sells with each; this test finds the same without the network.
func TestContract_Clients(t *testing.T) {
	var faults []string
	doc := contractOf(t)
	for _, c := range doc.Get("components").Get("schemas").Members() {
		awkward(&faults, c.Name, c.Value, strings.HasPrefix(c.Name, "Solicitud"), true)
	}
	awkward(&faults, "responses", doc.Get("components").Get("responses"), false, false)
	awkward(&faults, "parameters", doc.Get("components").Get("parameters"), false, false)
	for _, path := range doc.Get("paths").Members() {
		for _, o := range path.Value.Members() {
			id := o.Value.Get("operationId").Text()
			awkward(&faults, id+" responses", o.Value.Get("responses"), false, false)
			awkward(&faults, id+" parameters", o.Value.Get("parameters"), false, false)
			if body := o.Value.Get("requestBody").Get("content").Get("application/json"); body.Exists() &&
				body.Get("schema").Get("$ref").Text() == "" {
				faults = append(faults, id+": its request has no name")
			}
		}
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// TestContract_ClientsBites: every awkward form is found.
func TestContract_ClientsBites(t *testing.T) {
	for name, schema := range map[string]string{
		"a choice by required":     `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
		"one of":                   `{"oneOf":[{"type":"string"},{"type":"integer"}]}`,
		"an enum with null":        `{"properties":{"a":{"type":["string","null"],"enum":["x",null]}}}`,
		"an enum without a type":   `{"properties":{"a":{"enum":["x"]}}}`,
		"a merge of two":           `{"allOf":[{"$ref":"#/a"},{"$ref":"#/b"}]}`,
		"an object without a name": `{"properties":{"a":{"type":"array","items":{"type":"object","properties":{}}}}}`,
		"two types":                `{"properties":{"a":{"type":["string","integer"]}}}`,
	} {
		v, err := dte.Parse([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		var faults []string
		if awkward(&faults, name, v, true, true); len(faults) != 1 {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// awkward lists what generators make unusable types of, in a schema and below it. Objects in a request must be schemas
// with a name: a till has to build them.
func awkward(faults *[]string, where string, v dte.Value, request, top bool) {
	fault := func(text string) { *faults = append(*faults, where+": "+text) }
	if v.Get("properties").Exists() && request && !top {
		fault("an object without a name: a till cannot write its type")
	}
	if v.Get("oneOf").Exists() || v.Get("allOf").Exists() {
		fault("oneOf or allOf: TypeScript loses its members, Go makes a type of raw JSON of it")
	}
	if any := v.Get("anyOf"); any.Exists() {
		for i := range any.Len() {
			if one := any.Index(i); !one.Get("$ref").Exists() && one.Get("type").Text() != "null" {
				fault("anyOf is for a named schema or null: of anything else TypeScript makes unknown")
				break
			}
		}
	}
	if e := v.Get("enum"); e.Kind() == dte.KindArray {
		for i := range e.Len() {
			if e.Index(i).IsNull() {
				fault(`null in an enum: Go makes a constant "<nil>" of it`)
			}
		}
		if !v.Get("type").Exists() {
			fault("an enum without a type: Go makes interface{} of it")
		}
	}
	if types := itemsOf(v.Get("type")); len(types) > 2 || len(types) == 2 && !slices.Contains(types, "null") {
		fault("a value of two types")
	}
	for _, m := range v.Members() {
		switch m.Name { // conditions and data, which generators pass over
		case "if", "then", "else", "not", "dependentSchemas", "example", "examples", "enum", "required":
			continue
		case "properties": // of members, one of which may have the name of a keyword
			for _, p := range m.Value.Members() {
				awkward(faults, where+"."+p.Name, p.Value, request, false)
			}
			continue
		}
		if m.Value.Kind() == dte.KindObject {
			awkward(faults, where+" "+m.Name, m.Value, request, false)
		}
		for i := range m.Value.Len() {
			awkward(faults, where+" "+m.Name, m.Value.Index(i), request, false)
		}
	}
}
