package apitest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	asWritten = "contract.json"
	closed    = "closed.json" // objects of answers have no undocumented member
)

// Parse reads an OpenAPI 3.1 document. Every schema in it must compile.
func Parse(document []byte) (*Contract, error) {
	p := &parser{compiler: jsonschema.NewCompiler(), contract: &Contract{faults: make(map[string]bool)}}
	p.compiler.DefaultDraft(jsonschema.Draft2020)
	p.compiler.AssertFormat()
	for _, name := range []string{asWritten, closed} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
		if err != nil {
			return nil, err
		}
		if name == closed {
			p.doc = doc.(map[string]any)
			closeObjects(doc)
		}
		if err := p.compiler.AddResource(name, doc); err != nil {
			return nil, err
		}
	}
	for path, item := range p.doc["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			if err := p.operation(method, path, "/paths/"+escape(path)+"/"+method, o.(map[string]any)); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
		}
	}
	return p.contract, nil
}

// closeObjects forbids members that a schema does not list.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, has := v["properties"]
		_, said := v["additionalProperties"]
		if has && !said && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, x := range v {
			closeObjects(x)
		}
	case []any:
		for _, x := range v {
			closeObjects(x)
		}
	}
}

type parser struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	contract *Contract
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
}

// resolve follows a reference, if v is one, and returns the object and its JSON pointer.
func (p *parser) resolve(v any, at string) (map[string]any, string) {
	m := v.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m, at
	}
	var here any = p.doc
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		here = here.(map[string]any)[name]
	}
	return here.(map[string]any), strings.TrimPrefix(ref, "#")
}

func (p *parser) operation(method, path, at string, o map[string]any) error {
	op := &operation{id: fmt.Sprint(o["operationId"]), method: strings.ToUpper(method), path: strings.Split(path, "/"),
		query: make(map[string]*parameter), answers: make(map[int]*answer)}
	parameters, _ := o["parameters"].([]any)
	for i, v := range parameters {
		q, where := p.resolve(v, fmt.Sprintf("%s/parameters/%d", at, i))
		schema, err := p.compiler.Compile(asWritten + "#" + where + "/schema")
		if err != nil {
			return err
		}
		one := &parameter{name: q["name"].(string), required: q["required"] == true, schema: schema,
			number: q["schema"].(map[string]any)["type"] == "integer"}
		switch q["in"] {
		case "query":
			op.query[one.name] = one
		case "header":
			op.headers = append(op.headers, one)
		}
	}
	if body, ok := o["requestBody"].(map[string]any); ok {
		schema, err := p.compiler.Compile(asWritten + "#" + at + "/requestBody/content/application~1json/schema")
		if err != nil {
			return err
		}
		op.body, op.mustBody = schema, body["required"] == true
	}
	for code, v := range o["responses"].(map[string]any) {
		status, err := strconv.Atoi(code)
		if err != nil {
			return err
		}
		if op.answers[status], err = p.answer(p.resolve(v, at+"/responses/"+code)); err != nil {
			return err
		}
	}
	p.contract.operations = append(p.contract.operations, op)
	return nil
}

func (p *parser) answer(r map[string]any, at string) (*answer, error) {
	a := &answer{content: make(map[string]*jsonschema.Schema)}
	headers, _ := r["headers"].(map[string]any)
	for name, h := range headers {
		if h.(map[string]any)["required"] == true {
			a.headers = append(a.headers, name)
		}
	}
	content, _ := r["content"].(map[string]any)
	for media := range content {
		a.content[media] = nil
		if media != "application/json" {
			continue
		}
		schema, err := p.compiler.Compile(closed + "#" + at + "/content/" + escape(media) + "/schema")
		if err != nil {
			return nil, err
		}
		a.content[media] = schema
	}
	return a, nil
}
