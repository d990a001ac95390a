package page

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"

	"dtegate/engine/dte"
	"dtegate/gateway/codes"
)

//go:embed reference.css
var referenceStyle string

// The reference page is made of the contract once, by these views of it.
type (
	referenceView struct {
		Title, Summary string
		Description    []string // paragraphs
		Tags           []tagView
		Schemas        []schemaView
		Types, Faults  []codes.Code // of errors, and of the elements of their errors
	}
	tagView struct {
		Name, Description string
		Operations        []operationView
	}
	operationView struct {
		ID, Method, Path, Summary, Description string
		Open                                   bool // takes no token
		Parameters                             []memberView
		Body                                   *memberView
		Example                                string
		Answers                                []answerView
	}
	answerView struct {
		Status, Class, Description string
		Types                      string // of media, or codes of an error
		Schema                     string
	}
	schemaView struct {
		Name, Description string
		Type              *memberView // when it is no object
		Members           []memberView
		Either            []string // members of which one is due
		Open              bool     // other members are dropped
	}
	memberView struct {
		Name, In, Type, Link, Description string
		Required                          bool
		Limits                            []string
		Members                           []memberView
	}
)

// Reference makes the reference page of a contract in OpenAPI. The contract is part of the program; therefore the tests, and no
// error, find a fault in it.
func Reference(contract []byte) []byte {
	d, err := dte.Parse(contract)
	if err != nil {
		panic(err)
	}
	info, c := d.Get("info"), &contractView{d}
	v := referenceView{Title: info.Get("title").Text(), Summary: info.Get("summary").Text(),
		Description: strings.Split(info.Get("description").Text(), "\n\n")}
	for i := range d.Get("tags").Len() {
		tag := d.Get("tags").Index(i)
		t := tagView{Name: tag.Get("name").Text(), Description: tag.Get("description").Text()}
		for _, path := range d.Get("paths").Members() {
			for _, method := range path.Value.Members() {
				if method.Value.Get("tags").Index(0).Text() == t.Name {
					t.Operations = append(t.Operations, c.operation(method.Name, path.Name, method.Value))
				}
			}
		}
		v.Tags = append(v.Tags, t)
	}
	for _, s := range d.Get("components").Get("schemas").Members() {
		v.Schemas = append(v.Schemas, c.schema(s.Name, s.Value))
	}
	v.Types = codes.Types()
	for _, c := range codes.Faults() {
		if len(c.Status) == 0 { // the others stand among the types
			v.Faults = append(v.Faults, c)
		}
	}
	return v.html()
}

// contractView reads the contract.
type contractView struct{ doc dte.Value }

// resolve follows a reference, and returns its last name.
func (c *contractView) resolve(v dte.Value) (dte.Value, string) {
	ref := v.Get("$ref").Text()
	if ref == "" {
		return v, ""
	}
	at := c.doc
	parts := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	for _, name := range parts {
		at = at.Get(name)
	}
	return at, parts[len(parts)-1]
}

func (c *contractView) operation(method, path string, o dte.Value) operationView {
	v := operationView{ID: o.Get("operationId").Text(), Method: strings.ToUpper(method), Path: path, Summary: o.Get("summary").Text(),
		Description: o.Get("description").Text(), Open: o.Get("security").Exists()}
	for i := range o.Get("parameters").Len() {
		p, _ := c.resolve(o.Get("parameters").Index(i))
		m := c.member(p.Get("name").Text(), p.Get("schema"), p.Get("required").Bool())
		m.In, m.Description = p.Get("in").Text(), p.Get("description").Text()
		v.Parameters = append(v.Parameters, m)
	}
	if content := o.Get("requestBody").Get("content").Get("application/json"); content.Exists() {
		m := c.member("", content.Get("schema"), o.Get("requestBody").Get("required").Bool())
		v.Body = &m
		var pretty bytes.Buffer
		if json.Indent(&pretty, exampleOf(content).Append(nil), "", "  ") == nil {
			v.Example = pretty.String()
		}
	}
	for _, r := range o.Get("responses").Members() {
		answer, _ := c.resolve(r.Value)
		a := answerView{Status: r.Name, Class: r.Name[:1], Description: answer.Get("description").Text()}
		var types []string
		for _, media := range answer.Get("content").Members() {
			schema := media.Value.Get("schema")
			if codes := schema.Get("properties").Get("type").Get("enum"); codes.Exists() {
				for i := range codes.Len() {
					types = append(types, codes.Index(i).Text())
				}
				continue
			}
			types = append(types, media.Name)
			if _, name := c.resolve(schema); name != "" {
				a.Schema = name
			}
		}
		a.Types = strings.Join(types, ", ")
		v.Answers = append(v.Answers, a)
	}
	return v
}

func (c *contractView) schema(name string, s dte.Value) schemaView {
	v := schemaView{Name: name, Description: s.Get("description").Text(), Members: c.members(s)}
	if v.Members == nil {
		m := c.member("", s, true)
		v.Type = &m
	}
	open := s.Get("additionalProperties")
	v.Open = strings.HasPrefix(name, "Receptor") || name == "SujetoExcluido" || open.Exists() && open.Bool()
	v.Either = eitherOf(s)
	return v
}

// eitherOf is the pair of members of which a schema wants one. The contract writes the pair as "if the first is not there,
// the second is required": of an anyOf, generators of clients make a type that takes everything.
func eitherOf(s dte.Value) []string {
	first := s.Get("if").Get("not").Get("required").Index(0)
	if !first.Exists() {
		return nil
	}
	return []string{first.Text(), s.Get("then").Get("required").Index(0).Text()}
}

func (c *contractView) members(s dte.Value) []memberView {
	due := make(map[string]bool)
	for i := range s.Get("required").Len() {
		due[s.Get("required").Index(i).Text()] = true
	}
	var list []memberView
	for _, p := range s.Get("properties").Members() {
		list = append(list, c.member(p.Name, p.Value, due[p.Name]))
	}
	return list
}

// member shows a schema on one line, those of nested objects below it.
func (c *contractView) member(name string, s dte.Value, required bool) memberView {
	v := memberView{Name: name, Required: required, Description: s.Get("description").Text()}
	if any := s.Get("anyOf"); any.Len() > 0 && !s.Get("properties").Exists() { // a reference, or null
		s = any.Index(0)
	}
	if _, link := c.resolve(s); link != "" {
		v.Link, v.Type = link, link
		return v
	}
	v.Type = kind(s)
	switch v.Type {
	case "array":
		inner := c.member("", s.Get("items"), true)
		v.Type, v.Link, v.Members, v.Limits = "list of "+inner.Type, inner.Link, inner.Members, inner.Limits
	case "object":
		v.Members = c.members(s)
	}
	for _, limit := range []struct{ keyword, text string }{{"const", "always "}, {"minimum", "≥ "}, {"exclusiveMinimum", "> "}, {"maximum", "≤ "},
		{"minLength", "length ≥ "}, {"maxLength", "length ≤ "}, {"minItems", "from "}, {"maxItems", "up to "}, {"default", "default "}} {
		if l := s.Get(limit.keyword); l.Exists() {
			v.Limits = append(v.Limits, limit.text+l.Text())
		}
	}
	var values []string
	for i := range s.Get("enum").Len() {
		if x := s.Get("enum").Index(i); !x.IsNull() {
			values = append(values, x.Text())
		}
	}
	if len(values) > 0 {
		v.Limits = append(v.Limits, strings.Join(values, " · "))
	}
	return v
}

// kind is a schema's type; null beside another is left out, as an optional member may always be null.
func kind(s dte.Value) string {
	t := s.Get("type")
	if t.Kind() == dte.KindArray {
		t = t.Index(0)
	}
	if f := s.Get("format").Text(); f != "" {
		return t.Text() + " (" + f + ")"
	}
	return t.Text()
}

// exampleOf is the first example of a body.
func exampleOf(content dte.Value) dte.Value {
	if all := content.Get("examples").Members(); len(all) > 0 {
		return all[0].Value.Get("value")
	}
	return content.Get("example")
}
