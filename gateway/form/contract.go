package form

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
)

// Contract returns the contract of a branch (OpenAPI 3.1). base is the part that all branches share. Each type in
// issued adds its operation, POST /dte/<path>, and the schemas of its form. known are all types of stored documents.
// x-groups in base defines the groups of members that a form may name; the contract leaves x-groups out. spanish maps
// the English texts of base, of forms and of this file to Spanish; nil: the contract is in English.
func Contract(base []byte, issued, known []*bundle.Type, spanish map[string]string) ([]byte, error) {
	doc, err := dte.Parse(base)
	if err != nil {
		return nil, err
	}
	c := &contract{spanish: spanish, made: make(map[string]string)}
	doc = c.translated(doc)
	c.groups = doc.Get(groupsOf)
	components := doc.Get("components")
	schemas := components.Get("schemas")
	for _, m := range schemas.Members() {
		c.made[m.Name] = string(m.Value.Append(nil))
	}
	var paths []dte.Member
	var correctable []dte.Value // requests of the types whose documents may be corrected
	for _, path := range doc.Get("paths").Members() {
		for _, o := range path.Value.Members() {
			c.operations = append(c.operations, o.Value.Get("operationId").Text())
		}
	}
	for _, t := range issued {
		if t.Form != nil {
			paths = append(paths, dte.Member{Name: "/dte/" + t.Path, Value: dte.Obj(dte.Member{Name: "post",
				Value: c.operation(t)})})
			if t.Effect == bundle.Nothing {
				correctable = append(correctable, schemaRef("Solicitud"+t.Document))
			}
		}
	}
	var names []string
	for _, t := range known {
		names = append(names, t.Name)
	}
	schemas = schemas.With("Tipo", schemas.Get("Tipo").With("enum", texts(names)))
	if len(correctable) > 0 {
		schemas = schemas.With("SolicitudCorreccion", schemas.Get("SolicitudCorreccion").With("anyOf",
			dte.Arr(correctable...)))
	}
	// If a member of a form goes to the line, the document has one object in place of the list of lines.
	if slices.ContainsFunc(known, func(t *bundle.Type) bool {
		return t.Form != nil && slices.ContainsFunc(t.Form.Members, func(m bundle.Member) bool {
			return strings.HasPrefix(m.To, bundle.ToLine)
		})
	}) {
		for _, within := range []string{"Documento", "RespuestaValidacion.properties.data"} {
			schemas = replaced(schemas, dte.Obj(), strings.Split(within+".properties.cuerpoDocumento", ".")...)
		}
	}
	doc = doc.With("paths", dte.Obj(append(paths, doc.Get("paths").Members()...)...)).
		With("components", components.With("schemas", dte.Obj(append(c.schemas, schemas.Members()...)...)))
	members := slices.DeleteFunc(slices.Clone(doc.Members()), func(m dte.Member) bool { return m.Name == groupsOf })
	return dte.Obj(members...).Append(nil), nil
}

// replaced returns v with another value in the place that path names.
func replaced(v, by dte.Value, path ...string) dte.Value {
	if len(path) == 0 {
		return by
	}
	return v.With(path[0], replaced(v.Get(path[0]), by, path[1:]...))
}

const groupsOf = "x-groups"

// contract makes the parts of one contract.
type contract struct {
	spanish map[string]string
	groups  dte.Value
	schemas []dte.Member
	made    map[string]string // JSON of each schema, by name
	// operations are the operation ids in base. A type's operation with such an id gets the type's number appended.
	operations []string
}

// say returns the English text en in the contract's language. The Spanish text is the form's own (es) or, if es is
// empty, the translation of en in the map spanish.
func (c *contract) say(en, es string) string {
	if c.spanish == nil {
		return en
	}
	return cmp.Or(es, c.spanish[en], en)
}

// translated returns a part of base with its titles, summaries and descriptions in the contract's language.
func (c *contract) translated(v dte.Value) dte.Value {
	switch v.Kind() {
	case dte.KindObject:
		members := slices.Clone(v.Members())
		for i, m := range members {
			members[i].Value = c.translated(m.Value)
			if m.Value.Kind() == dte.KindString && slices.Contains(textsOf, m.Name) {
				members[i].Value = dte.Str(c.say(m.Value.Text(), ""))
			}
		}
		return dte.Obj(members...)
	case dte.KindArray:
		items := slices.Clone(v.Items())
		for i := range items {
			items[i] = c.translated(items[i])
		}
		return dte.Arr(items...)
	}
	return v
}

var textsOf = []string{"title", "summary", "description"}

// js parses JSON; each %s in format stands for one of texts, as a JSON string.
func js(format string, texts ...string) dte.Value {
	quoted := make([]any, len(texts))
	for i, text := range texts {
		quoted[i] = dte.Str(text).Append(nil)
	}
	return raw(fmt.Appendf(nil, format, quoted...))
}

func raw(text []byte) dte.Value {
	v, err := dte.Parse(text)
	if err != nil {
		return dte.Null()
	}
	return v
}

func schemaRef(name string) dte.Value { return js(`{"$ref":%s}`, "#/components/schemas/"+name) }

func (c *contract) operation(t *bundle.Type) dte.Value {
	body := dte.Obj(dte.Member{Name: "schema", Value: c.component("Solicitud"+t.Document, t, c.request(t))})
	if only, one := t.Form.Examples["example"]; one && len(t.Form.Examples) == 1 {
		body = body.With("example", raw(only))
	} else if len(t.Form.Examples) > 0 {
		var examples []dte.Member
		summary := map[string]string{"payload": "In the payload's names", "library": "In the client library's names",
			"credit": "On credit", "discounts": "With discounts", "collecting": "With VAT collected in advance",
			"cash": "In cash", "paper": "Of paper documents", "goods": "Of goods", "example": "Example"}
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(t.Form.Examples))) {
			examples = append(examples, dte.Member{Name: name, Value: js(`{"summary":%s}`, c.say(cmp.Or(summary[name],
				name), "")).With("value", raw(t.Form.Examples[name]))})
		}
		body = body.With("examples", dte.Obj(examples...))
	}
	about := c.say(t.Form.About, t.Form.Es)
	if t.Permission != "" {
		about += " " + c.say("Permission", "") + " " + t.Permission + "."
	}
	invalid, none, conflict := "Invalida", "", "TodaviaNo"
	switch {
	case t.Effect == bundle.TakesBack:
		invalid, none = "InvalidaRetorno", "NoExiste"
	case t.Effect != bundle.Nothing:
		invalid, none, conflict = "InvalidaNota", "NoExiste", "SinProcesar"
	case t.Form.ReceptorError:
		invalid = "InvalidaReceptor"
	}
	id := t.Operation
	if slices.Contains(c.operations, id) {
		id += t.Document
	}
	var responses []dte.Member
	for _, r := range [][2]string{{"200", "Validada"}, {"201", "Emitida"}, {"400", invalid}, {"401", "SinToken"},
		{"403", "SinPermiso"},
		{"404", none}, {"409", conflict}, {"413", "Grande"}, {"415", "OtroMedio"}, {"422", "OtroCuerpo"},
		{"429", "Demasiadas"},
		{"431", "Encabezados"}, {"500", "Interno"}, {"503", "NoDisponible"}} {
		if r[1] != "" {
			responses = append(responses, dte.Member{Name: r[0], Value: js(`{"$ref":%s}`, "#/components/responses/"+
				r[1])})
		}
	}
	return js(`{"operationId":%s,"tags":["Issue"],"summary":%s,"description":%s,"parameters":[`+
		`{"$ref":"#/components/parameters/IdempotencyKey"},{"$ref":"#/components/parameters/Prefer"}]}`,
		id, c.say(t.En, t.Es)+" ("+t.Document+")", about).
		With("requestBody", js(`{"required":true}`).With("content", dte.Obj(dte.Member{Name: "application/json",
			Value: body}))).
		With("responses", dte.Obj(responses...))
}

// component adds a named schema, and returns a reference to it. If two types use a name for different schemas, the
// second name gets its type's number appended.
func (c *contract) component(name string, t *bundle.Type, schema dte.Value) dte.Value {
	text := string(schema.Append(nil))
	for have, there := c.made[name]; there && have != text; have, there = c.made[name] {
		name += t.Document
	}
	if _, there := c.made[name]; !there {
		c.made[name], c.schemas = text, append(c.schemas, dte.Member{Name: name, Value: schema})
	}
	return schemaRef(name)
}

func (c *contract) request(t *bundle.Type) dte.Value {
	s := c.object(t, "", t.Form.Members, c.groups.Get("every").Members(), false)
	pays := js(`{"if":{"properties":{"condicionOperacion":{"enum":[2,3]}}},` +
		`"then":{"anyOf":[{"required":["pago"]},{"required":["pagos"]}]}}`)
	if len(t.Form.Either) > 0 {
		if t.Form.Pays {
			s = s.With("dependentSchemas", dte.Obj(dte.Member{Name: "condicionOperacion", Value: pays}))
		}
		pair := t.Form.Either[0]
		return s.With("if", js(`{"not":{"required":[%s]}}`, pair[0])).With("then", js(`{"required":[%s]}`, pair[1]))
	}
	if t.Form.Pays {
		s = s.Set(pays.Members()...)
	}
	return s
}

// object returns the schema of an object with the form's members, and the members in more, which already have schemas.
// loose permits unknown members.
func (c *contract) object(t *bundle.Type, about string, members []bundle.Member, more []dte.Member,
	loose bool) dte.Value {
	var due []dte.Value
	var properties []dte.Member
	for i := range members {
		m := &members[i]
		if m.Name != "" {
			properties = append(properties, dte.Member{Name: m.Name, Value: c.member(t, m)})
		} else {
			properties = append(properties, c.group(t, m)...)
		}
		for _, f := range fieldsOf(m) {
			if f.required {
				due = append(due, dte.Str(f.name))
			}
		}
	}
	s := js(`{"type":"object"}`)
	if about != "" {
		s = s.With("description", dte.Str(about))
	}
	if len(due) > 0 {
		s = s.With("required", dte.Arr(due...))
	}
	return s.With("properties", dte.Obj(append(properties, more...)...)).With("additionalProperties", dte.Bool(loose))
}

func (c *contract) group(t *bundle.Type, m *bundle.Member) []dte.Member {
	if m.Use != "discounts" {
		group := slices.Clone(c.groups.Get(m.Use).Members())
		if len(m.Extra) > 0 { // extra members of each item
			item := raw([]byte(c.made["Item"]))
			more := c.object(t, "", m.Extra, item.Get("properties").Members(), false)
			due := slices.Concat(item.Get("required").Items(), more.Get("required").Items())
			group[0].Value = group[0].Value.With("items", c.component(titled(t.Path)+"Item", t,
				more.With("required", dte.Arr(due...))))
		}
		return group
	}
	var kinds []dte.Member
	for _, name := range m.Due {
		kinds = append(kinds, dte.Member{Name: name, Value: c.groups.Get(m.Use).Get("of")})
	}
	s := js(`{"type":"object","description":%s}`, c.say("Discount of the whole document, by kind of total.", "")).
		With("properties", dte.Obj(kinds...)).With("additionalProperties", dte.Bool(false))
	return []dte.Member{{Name: "descuentoGlobal", Value: orNull(c.component("DescuentoGlobal", t, s))}}
}

// orNull permits null too: SPEC permits it for an optional member without a value.
func orNull(s dte.Value) dte.Value {
	if kind := s.Get("type"); kind.Kind() == dte.KindString {
		return s.With("type", dte.Arr(kind, dte.Str("null")))
	}
	return dte.Obj(dte.Member{Name: "anyOf", Value: dte.Arr(s, js(`{"type":"null"}`))})
}

func (c *contract) member(t *bundle.Type, m *bundle.Member) dte.Value {
	var s dte.Value
	name := cmp.Or(m.Component, titled(t.Path)+titled(m.Name))
	about := c.say(m.About, m.Es)
	if m.Catalogue != "" {
		about = strings.TrimSpace(about + " " + m.Catalogue + ".")
	}
	f := fieldsOf(m)[0] // the description that the reader uses
	shape := f.shape
	switch {
	case shape == isObject:
		loose := m.Use != ""
		if loose {
			about = strings.TrimSpace(about + " " + c.say("Members that are not known are dropped, not refused.", ""))
		}
		var inner []dte.Member
		for _, g := range c.groups.Get(m.Use).Members() {
			if slices.Contains(m.Due, g.Name) {
				g.Value = notNull(g.Value)
			}
			inner = append(inner, g)
		}
		o := c.object(t, about, slices.Concat(m.Members, m.Extra), inner, loose)
		if len(m.Due) > 0 {
			o = o.With("required", dte.Arr(append(texts(m.Due).Items(), o.Get("required").Items()...)...))
		}
		if l := m.Layout; len(l.Before)+len(l.Since) > 0 {
			var x []dte.Member
			for _, g := range []struct {
				name  string
				wants []string
			}{{"before DTE 2.0", l.Before}, {"DTE 2.0", l.Since}} {
				if len(g.wants) > 0 {
					x = append(x, dte.Member{Name: g.name, Value: texts(g.wants)})
				}
			}
			o = o.With("x-required", dte.Obj(x...))
		}
		s, about = c.component(name, t, o), ""
	case shape == isList:
		s = js(`{"type":"array"}`).With("items", c.component(name, t, c.object(t, "", m.Members, nil, false))).
			With("minItems", js("1")).With("maxItems", dte.Num(dte.Amount(f.limit)*dte.Scale))
	case shape == isTexts:
		s = js(`{"type":"array","items":{"type":"string"}}`)
	case m.Equals != "":
		s, about = c.component(titled(m.Name), t, js(`{"type":"string","description":%s,"enum":[%s]}`, about,
			m.Equals)), ""
	case m.Format == "code":
		s = schemaRef("Codigo")
	case shape == isNumber && m.Above && m.Min == "0" && m.Max == "":
		s = schemaRef("Positivo")
	case shape == isNumber || shape == isInteger:
		s = js(`{"type":"integer"}`)
		if shape == isNumber {
			s = js(`{"type":"number","format":"double"}`)
		}
		if m.Min != "" {
			s = s.With(map[bool]string{true: "exclusiveMinimum", false: "minimum"}[m.Above], raw([]byte(m.Min)))
		}
		if m.Max != "" {
			s = s.With("maximum", raw([]byte(m.Max)))
		}
	case shape == isFlag:
		s = js(`{"type":"boolean"}`)
	default:
		s = js(`{"type":"string"}`)
		if m.Format == "date" {
			s = s.With("format", dte.Str(m.Format))
		}
	}
	if about != "" {
		s = s.With("description", dte.Str(about))
	}
	if !m.Required {
		s = orNull(s)
	}
	return s
}

// notNull removes null from the schema of a group's member that this form requires.
func notNull(s dte.Value) dte.Value {
	if first := s.Get("anyOf").Index(0); first.Exists() {
		return first
	}
	if kind := s.Get("type"); kind.Kind() == dte.KindArray {
		return s.With("type", kind.Index(0))
	}
	return s
}

func texts(list []string) dte.Value {
	var all []dte.Value
	for _, t := range list {
		all = append(all, dte.Str(t))
	}
	return dte.Arr(all...)
}

func titled(name string) string {
	r := []rune(name)
	return string(unicode.ToUpper(r[0])) + string(r[1:])
}
