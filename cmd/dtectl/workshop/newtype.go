package workshop

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// unsaid begins a placeholder for the author of a new type to replace. A bundle with a placeholder is not built.
const unsaid = "TO SAY: "

// NewType makes the folder plugins/<name> of a type of document from MH's JSON Schema: the module's source, and one
// generation with a first golden case. A placeholder (see unsaid) marks each text that the schema cannot supply.
// document is the type's number in CAT-002.
func NewType(folder, document string, schema []byte) (files []string, err error) {
	s, err := dte.Parse(schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	t := &newType{schema: s, name: filepath.Base(folder), document: document}
	for _, part := range []string{"identificacion", "emisor", "cuerpoDocumento", "resumen"} {
		if !t.part(part).Exists() {
			return nil, fmt.Errorf("the schema has no %s: it is not MH's schema of a document", part)
		}
	}
	version, _ := t.part("identificacion").Get("properties").Get("version").Get("const").Int()
	generation := fmt.Sprintf("v%d", max(1, version))
	t.read()
	for _, f := range [][2]string{
		{"rule.go", t.rule()},
		{"rule_test.go", "package main\n\nimport (\n\t\"testing\"\n\n\t\"dtegate/plugins/plugintest\"\n)\n\n" +
			"// Every case comes out to the byte, compiled and interpreted.\nfunc TestCases(t *testing.T) {\n\t" +
			"plugintest.Cases(t, \"" + t.name + "/" + generation + "\")\n}\n"},
		{"type.json", t.typePart()},
		{"form.json", t.form()},
		{"view.json", fmt.Sprintf("{\n \"party\": {\"paths\": [\"receptor\"], \"heading\": \"Receptor\"},\n "+
			"\"final\": [%q]}\n", t.total)},
		{generation + "/manifest.json", t.manifest(max(1, version))},
		{generation + "/schema.json", string(schema)},
		{generation + "/overlay.json", t.overlay()},
		{generation + "/cases/first.json", t.firstCase()},
	} {
		file := filepath.Join(folder, f[0])
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(f[1]),
			0o644)); err != nil {
			return nil, fmt.Errorf("writing %s: %w", file, err)
		}
		files = append(files, file)
	}
	return files, nil
}

type newType struct {
	schema         dte.Value
	name, document string
	sale           bool // the type's lines are lines of a sale
	// Members that are amounts. The till sends a line's inputs. The rule computes a line's outputs, and the summaries,
	// which are members of resumen.
	inputs, outputs, summaries []string
	given                      []string // members of a sale's line that are both input and output
	total                      string
	inWords                    string   // the member of resumen that is the total in words
	ofIssuer                   []string // members of emisor that the configuration lacks: the till sends them
	facts                      []dte.Member
	members                    []string
}

func (t *newType) part(name string) dte.Value { return t.schema.Get("properties").Get(name) }

func (t *newType) title() string {
	return cmp.Or(t.schema.Get("title").Text(), "the type "+t.document)
}

func kindOf(s dte.Value) (kind string, nullable bool) {
	k := s.Get("type")
	if k.Kind() != dte.KindArray {
		return k.Text(), false
	}
	for i := range k.Len() {
		if name := k.Index(i).Text(); name == "null" {
			nullable = true
		} else if kind == "" {
			kind = name
		}
	}
	return kind, nullable
}

// ofSales are the members of a line that the form's group "sale" makes.
var ofSales = []string{"numItem", "tipoItem", "cantidad", "codigo", "uniMedida", "descripcion", "precioUni",
	"montoDescu", "codTributo", "tributos", "noGravado"}

func (t *newType) read() {
	line := t.part("cuerpoDocumento")
	list := line.Get("items").Exists()
	if list {
		line = line.Get("items")
	}
	t.sale = list && line.Get("properties").Get("cantidad").Exists() && line.Get("properties").Get("precioUni").Exists()
	for _, part := range t.schema.Get("properties").Members() {
		switch part.Name {
		case "identificacion", "emisor", "resumen", "cuerpoDocumento":
		case "apendice":
			t.members = append(t.members, `{"use": "appendix"}`)
		default:
			t.members = append(t.members, describe(part.Name, "", part.Value, isDue(t.schema, part.Name), 1))
			t.facts = append(t.facts, dte.Member{Name: part.Name, Value: sample(part.Value)})
		}
	}
	var columns []dte.Member
	for _, m := range line.Get("properties").Members() {
		kind, _ := kindOf(m.Value)
		switch {
		case t.sale && (m.Name == "montoDescu" || m.Name == "noGravado"):
			t.given = append(t.given, m.Name)
		case t.sale && !slices.Contains(ofSales, m.Name) && kind == "number":
			t.outputs = append(t.outputs, m.Name)
		case t.sale && !slices.Contains(ofSales, m.Name):
			columns = append(columns, m)
		case !t.sale && m.Name != "numItem":
			columns = append(columns, m)
			if kind == "number" {
				t.inputs = append(t.inputs, m.Name)
			}
		}
	}
	facts := dte.Obj()
	for _, m := range columns {
		facts = facts.With(m.Name, sample(m.Value))
	}
	if t.sale {
		t.inputs, t.outputs = append([]string{"cantidad", "precioUni"}, t.given...), append(t.given, t.outputs...)
		facts = facts.With("descripcion", dte.Str("Un artículo")).With("cantidad", dte.Int(2)).With("precioUni",
			dte.Int(10)).
			With("tipoItem", dte.Int(1)).With("uniMedida", dte.Int(59))
		t.members = append(t.members, `{"use": "sale"}`)
	} else {
		var inner []string
		for _, m := range columns {
			inner = append(inner, describe(m.Name, "", m.Value, isDue(line, m.Name), 2))
		}
		t.members = append(t.members, fmt.Sprintf("{\"name\": \"items\", \"to\": \"cuerpoDocumento\", \"shape\": "+
			"\"list\", \"required\": true, \"numbered\": %v, \"members\": [\n   %s]}",
			line.Get("properties").Get("numItem").Exists(), strings.Join(inner, ",\n   ")))
	}
	if line.Get("properties").Get("numItem").Exists() {
		facts = facts.With("numItem", dte.Int(1))
	}
	t.facts = append(t.facts, dte.Member{Name: "cuerpoDocumento", Value: dte.Arr(facts)})
	resumen := dte.Obj()
	for _, m := range t.part("resumen").Get("properties").Members() {
		switch kind, _ := kindOf(m.Value); {
		case t.sale && slices.Contains([]string{"condicionOperacion", "pagos", "observaciones", "tributos"}, m.Name):
		case kind == "number":
			t.summaries = append(t.summaries, m.Name)
			if t.total == "" || m.Name == "totalPagar" {
				t.total = m.Name
			}
		case strings.HasSuffix(m.Name, "Letras"):
			t.inWords = m.Name
		default:
			t.members = append(t.members, describe(m.Name, "resumen.", m.Value, isDue(t.part("resumen"), m.Name), 1))
			resumen = resumen.With(m.Name, sample(m.Value))
		}
	}
	for _, m := range t.part("emisor").Get("properties").Members() {
		if !issuer.Get(m.Name).Exists() {
			t.ofIssuer = append(t.ofIssuer, m.Name)
			t.members = append(t.members, describe(m.Name, "resumen.", m.Value, isDue(t.part("emisor"), m.Name), 1))
			resumen = resumen.With(m.Name, sample(m.Value))
		}
	}
	if t.sale {
		resumen = resumen.With("condicionOperacion", dte.Int(1)).With("pagos",
			dte.Arr(dte.Obj(dte.Member{Name: "codigo", Value: dte.Str("01")})))
	}
	t.facts = append(t.facts, dte.Member{Name: "resumen", Value: resumen})
}

// isDue reports whether an object requires a member and does not permit null.
func isDue(object dte.Value, name string) bool {
	_, nullable := kindOf(object.Get("properties").Get(name))
	return !nullable && slices.ContainsFunc(object.Get("required").Items(),
		func(v dte.Value) bool { return v.Text() == name })
}

// describe returns a member's description in form.json. to is the object that contains the member in the facts.
func describe(name, to string, s dte.Value, due bool, depth int) string {
	text := `{"name": "` + name + `"`
	if to != "" {
		text += `, "to": "` + to + name + `"`
	}
	if due {
		text += `, "required": true`
	}
	object, shape := s, ""
	switch kind, _ := kindOf(s); {
	case kind == "number" || kind == "integer":
		shape = kind
	case kind == "boolean":
		shape = "flag"
	case kind == "object":
		shape = kind
	case kind == "array" && s.Get("items").Get("properties").Exists():
		shape, object = "list", s.Get("items")
	case kind == "array":
		shape = "texts"
	case s.Get("format").Text() == "date":
		text += `, "format": "date"`
	}
	if shape != "" {
		text += `, "shape": "` + shape + `"`
	}
	if inner := object.Get("properties").Members(); len(inner) > 0 {
		if of := object.Get("properties"); of.Get("numDocumento").Exists() && of.Get("tipoDocumento").Exists() {
			text += `, "person": true`
		}
		var list []string
		for _, m := range inner {
			list = append(list, describe(m.Name, "", m.Value, isDue(object, m.Name), depth+1))
		}
		in := "\n" + strings.Repeat(" ", depth+2)
		text += `, "members": [` + in + strings.Join(list, ","+in) + "]"
	}
	return text + "}"
}

// sample returns a guess of a value that a schema accepts.
func sample(s dte.Value) dte.Value {
	for _, v := range s.Get("enum").Items() {
		if !v.IsNull() {
			return v
		}
	}
	kind, nullable := kindOf(s)
	switch {
	case s.Get("const").Exists():
		return s.Get("const")
	case nullable:
		return dte.Null()
	case kind == "object":
		o := dte.Obj()
		for _, m := range s.Get("properties").Members() {
			o = o.With(m.Name, sample(m.Value))
		}
		return o
	case kind == "array":
		return dte.Arr(sample(s.Get("items")))
	case kind == "number", kind == "integer":
		return dte.Int(1)
	case kind == "boolean":
		return dte.Bool(true)
	case s.Get("format").Text() == "date":
		return dte.Str("2026-12-02")
	case s.Get("format").Text() == "email":
		return dte.Str("a@example.com")
	}
	least, _ := s.Get("minLength").Int()
	return dte.Str(strings.Repeat("x", int(max(1, least))))
}

func (t *newType) typePart() string {
	if known := record.TypeOf(t.document); known.Document != "" { // documents may have been issued by this description
		text, err := json.MarshalIndent(known, "", " ")
		if err == nil {
			return string(text) + "\n"
		}
	}
	upper, title := strings.ToUpper(t.name), strings.ToUpper(t.name[:1])+t.name[1:]
	return fmt.Sprintf(`{
 "name": %q,
 "es": %q,
 "en": %q,
 "path": %q,
 "operation": %q,
 "permission": %q,
 "effect": "nothing",
 "invalidation": {"months": 3, "source": "TO SAY: the law that sets the window"}}
`, upper, t.title(), t.title(), t.name, "emitir"+title, upper)
}

func (t *newType) form() string {
	return fmt.Sprintf(`{
 "about": "TO SAY: what the document is for.",
 "pays": %v,
 "members": [
  %s]}
`, t.sale, strings.Join(t.members, ",\n  "))
}

func (t *newType) manifest(version int64) string {
	return fmt.Sprintf(`{
  "name": %q,
  "version": "%d.0.0",
  "kind": "document",
  "document": %q,
  "schema": %d,
  "abi": 1,
  "validity": {"00": {"from": "2026-01-01", "until": ""}, "01": {"from": "2026-12-01", "until": ""}},
  "params": []
}
`, t.name, version, t.document, version)
}

func (t *newType) overlay() string {
	var from []string
	if t.inWords != "" {
		from = append(from, fmt.Sprintf("\n  {\"path\": \"resumen.%s\", \"words\": %q, \"reason\": \"the total in "+
			"words\"}", t.inWords, t.total))
	}
	if t.sale {
		from = append(from, fmt.Sprintf("\n  {\"path\": \"resumen.pagos[].montoPago\", \"fact\": "+
			"\"resumen.pagos[].montoPago\", \"amount\": %q, "+
			"\"reason\": \"one payment without an amount pays the whole\"}", t.total))
	}
	for _, name := range t.ofIssuer {
		from = append(from, fmt.Sprintf("\n  {\"path\": \"emisor.%s\", \"fact\": \"resumen.%s\", \"reason\": \"the "+
			"request has it beside the totals\"}", name, name))
	}
	return fmt.Sprintf("{\n \"total\": %q,\n \"from\": [%s]}\n", t.total, strings.Join(from, ","))
}

// issuer is the issuer in the first golden case, with the members that a branch's configuration supplies.
var issuer = func() dte.Value {
	v, _ := dte.Parse([]byte(`{"nit":"06141804941035","nrc":"2390516","nombre":"Tienda de Ejemplo, S.A. de C.V.",` +
		`"nombreComercial":"La Tienda","codActividad":"47111","descActividad":"Venta en supermercados",` +
		`"tipoEstablecimiento":"02","direccion":{"departamento":"06","municipio":"23","distrito":"14",` +
		`"complemento":"Calle Arce 101"},"telefono":"22571234","correo":"ventas@example.com","codEstable":"M001",` +
		`"codPuntoVenta":"P001"}`))
	return v
}()

// firstCase returns a golden case with an empty document, which dtectl rules test --update fills in.
func (t *newType) firstCase() string {
	id := dte.Obj()
	for _, m := range [][2]string{{"ambiente", "00"}, {"numeroControl", "DTE-" + t.document +
		"-M001P001-000000000000001"},
		{"codigoGeneracion", "FF84E5DB-79C5-42CE-B415-EC510C53EFB5"}, {"fecEmi", "2026-12-02"}, {"horEmi", "10:15:30"},
		{"tipoMoneda", "USD"}} {
		id = id.With(m[0], dte.Str(m[1]))
	}
	id = id.With("tipoModelo", dte.Int(1)).With("tipoOperacion", dte.Int(1)).With("tipoContingencia",
		dte.Null()).With("motivoContin", dte.Null())
	facts := dte.Obj(append([]dte.Member{{Name: "identificacion", Value: id}, {Name: "emisor", Value: issuer}},
		t.facts...)...)
	return "{\n\"why\": \"TO SAY: what this case shows\",\n\"facts\": " + string(facts.Append(nil)) +
		",\n\"document\": {}\n}\n"
}

// rule returns the source of a first rule. Each output of a line is quantity times price, or the line's first amount;
// each summary is the sum of the lines.
func (t *newType) rule() string {
	var b bytes.Buffer
	_ = ruleText.Execute(&b, map[string]any{"Name": t.name, "Title": t.title(), "Inputs": t.inputs,
		"Outputs": t.outputs, "Summaries": t.summaries, "Sale": t.sale, "Given": t.given}) // cannot fail: b is a buffer
	if formatted, err := format.Source(b.Bytes()); err == nil {
		return string(formatted)
	}
	return b.String()
}

//go:embed rule.go.tmpl
var ruleTemplate string

var ruleText = template.Must(template.New("rule").Funcs(template.FuncMap{"column": func(i int) int { return 2 + i }}).
	Parse(ruleTemplate))
