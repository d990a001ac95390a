package form

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// Documents are the forms of the types of today.
var Documents = func() map[string]*Form {
	forms := make(map[string]*Form)
	for _, t := range plugins.Types() {
		forms[t.Document] = New(t)
	}
	return forms
}()

// contractOf parses the gateway's contract.
func contractOf(t *testing.T) dte.Value {
	t.Helper()
	base, err := os.ReadFile("../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Contract(base, plugins.Types(), plugins.Types(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := dte.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// follow is the value of a member, its own or the one that it refers to.
func follow(t *testing.T, doc, v dte.Value) dte.Value {
	t.Helper()
	ref := v.Get("$ref").Text()
	if ref == "" {
		return v
	}
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		doc = doc.Get(name)
	}
	if !doc.Exists() {
		t.Errorf("%s points at nothing", ref)
	}
	return doc
}

// itemsOf are the items of a list of texts.
func itemsOf(list dte.Value) (items []string) {
	for i := range list.Len() {
		items = append(items, list.Index(i).Text())
	}
	return items
}

// eitherOf is the pair of members of which a schema wants one.
func eitherOf(s dte.Value) []string {
	first := s.Get("if").Get("not").Get("required").Index(0)
	if !first.Exists() {
		return nil
	}
	return []string{first.Text(), s.Get("then").Get("required").Index(0).Text()}
}

// TestContract_Tables: the requests' schemas agree with the tables of endpoints: names, kinds, bounds, what is due.
func TestContract_Tables(t *testing.T) {
	doc := contractOf(t)
	tables := map[string]*Form{"SolicitudInvalidacion": invalidation, "SolicitudConsulta": lookup,
		"SolicitudReenvio": resend}
	for document, f := range Documents {
		tables["Solicitud"+document] = f
	}
	for name, e := range tables {
		s := doc.Get("components").Get("schemas").Get(name)
		compareFields(t, doc, name, s, e.fields, false)
		var either []string
		for _, pair := range e.bundle.Either {
			either = append(either, pair[0], pair[1])
		}
		if said := eitherOf(s); !slices.Equal(said, either) {
			t.Errorf("%s: one of %v is due, the contract says %v", name, either, said)
		}
	}
}

func compareFields(t *testing.T, doc dte.Value, where string, s dte.Value, fields []field, loose bool) {
	t.Helper()
	if s.Get("additionalProperties").Bool() != loose {
		t.Errorf("%s: other members: %s", where, s.Get("additionalProperties").Append(nil))
	}
	due := itemsOf(s.Get("required"))
	properties := s.Get("properties")
	for _, p := range properties.Members() {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == p.Name }) {
			t.Errorf("%s.%s is documented and not known", where, p.Name)
		}
	}
	for _, f := range fields {
		name, p := where+"."+f.name, properties.Get(f.name)
		if !p.Exists() {
			t.Errorf("%s is not documented", name)
			continue
		}
		if slices.Contains(due, f.name) != f.required {
			t.Errorf("%s: required in the table: %v", name, f.required)
		}
		null := p.Get("type").Kind() == dte.KindArray
		if p.Get("anyOf").Exists() && !p.Get("properties").Exists() {
			null = p.Get("anyOf").Index(1).Get("type").Text() == "null"
			p = p.Get("anyOf").Index(0)
		}
		if null == f.required {
			t.Errorf("%s: may be null: %v", name, null)
		}
		p = follow(t, doc, p)
		kind := p.Get("type")
		if kind.Kind() == dte.KindArray {
			kind = kind.Index(0)
		}
		want := [...]string{isText: "string", isNumber: "number", isInteger: "integer", isFlag: "boolean",
			isObject: "object", isList: "array", isTexts: "array"}[f.shape]
		if kind.Text() != want {
			t.Errorf("%s is a %s, the contract says %s", name, want, kind.Text())
		}
		if f.min != nil {
			keyword := map[bool]string{true: "exclusiveMinimum", false: "minimum"}[f.above]
			if a, err := p.Get(keyword).Amount(); err != nil || a != *f.min {
				t.Errorf("%s: %s %s", name, keyword, p.Get(keyword).Append(nil))
			}
		}
		if f.max != nil {
			if a, err := p.Get("maximum").Amount(); err != nil || a != *f.max {
				t.Errorf("%s: maximum %s", name, p.Get("maximum").Append(nil))
			}
		}
		if f.limit > 0 {
			if n, _ := p.Get("maxItems").Int(); n != int64(f.limit) {
				t.Errorf("%s: at most %d, the contract says %d", name, f.limit, n)
			}
		}
		if f.shape == isList {
			p = follow(t, doc, p.Get("items"))
		}
		if f.shape == isList || f.shape == isObject {
			compareFields(t, doc, name, p, f.members, f.loose)
		}
	}
}

// TestExtra_OfItems: a form gives each item of a sale a member of its own: it is read, required, named in faults by its
// path, and in the contract.
func TestExtra_OfItems(t *testing.T) {
	invoice := *plugins.Types()[0]
	f := *invoice.Form
	invoice.Form, f.Members = &f, slices.Clone(f.Members)
	sale := slices.IndexFunc(f.Members, func(m bundle.Member) bool { return m.Use == "sale" })
	f.Members[sale].Extra = []bundle.Member{{Name: "lote", Required: true, About: "Of the item."}}
	body, err := dte.Parse([]byte(`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1,` +
		`"lote":"F-7"},{"descripcion":"b","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`))
	if err != nil {
		t.Fatal(err)
	}
	d := New(&invoice).Fill(body, nil)
	if got := d.Facts.Get("cuerpoDocumento").Index(0).Get("lote").Text(); got != "F-7" {
		t.Errorf("the first item has %q", got)
	}
	if len(d.Faults) != 1 || d.Faults[0].Path != "items[1].lote" || d.Faults[0].Code != dte.FaultRequired {
		t.Errorf("the second item: %v", d.Faults)
	}
	if _, ok := Documents[invoice.Document].Fill(body, nil).factOf("items[0].lote"); ok {
		t.Error("another form has it too")
	}
	base, err := os.ReadFile("../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Contract(base, []*bundle.Type{&invoice}, plugins.Types(), nil)
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := dte.Parse(text)
	request := follow(t, doc, doc.Get("paths").Get("/dte/"+invoice.Path).Get("post").Get("requestBody").Get("content").
		Get("application/json").Get("schema"))
	item := follow(t, doc, request.Get("properties").Get("items").Get("items"))
	if due := itemsOf(item.Get("required")); !slices.Contains(due, "lote") ||
		!slices.Contains(due, "precioUnitario") || !item.Get("properties").Get("tipoImpuesto").Exists() {
		t.Errorf("the contract's item: %s", item.Append(nil))
	}
}

// TestContract_OneType: whatever type a branch issues, alone or with another, every reference of its contract resolves,
// and what has a type's number takes any.
func TestContract_OneType(t *testing.T) {
	base, err := os.ReadFile("../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	all := plugins.Types()
	for i, one := range all {
		for _, issued := range [][]*bundle.Type{nil, {one}, {one, all[(i+1)%len(all)]}} {
			text, err := Contract(base, issued, all, nil)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := dte.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`"\$ref":"[^"]+"`).FindAll(text, -1) {
				ref, err := dte.Parse([]byte("{" + string(m) + "}"))
				if err != nil {
					t.Fatal(err)
				}
				follow(t, doc, ref)
			}
			for _, m := range regexp.MustCompile(`"pattern":"([^"]*0[13][^"]*)"`).FindAllSubmatch(text, -1) {
				t.Errorf("a pattern names types: %s", m[1])
			}
		}
	}
}
