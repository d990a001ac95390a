package page

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"

	"dtegate/engine/books/sample"
	"dtegate/engine/dte"
	"dtegate/gateway/problem"
)

//go:embed reference.css
var referenceStyle string

// Reference returns the reference page of an OpenAPI contract. spanish maps the page's own texts to Spanish; nil: the
// page and the contract are in English. x-guide in the contract has hints for a till that follows the service's
// specification to the letter. Reference panics if the contract, which is part of the program, is not JSON.
func Reference(contract []byte, spanish map[string]string) []byte {
	d, err := dte.Parse(contract)
	if err != nil {
		panic(err)
	}
	c, other := reference{d, spanish, "es"}, "en"
	if spanish == nil {
		c.lang, other = other, c.lang
	}
	info := d.Get("info")
	title := textOf(info, "title")
	item := func(to, text string) g.Node { return el("li", link(to, text)) }
	var contents, sections g.Group
	first := "" // path of the first POST route, for the example
	for _, tag := range d.Get("tags").Items() {
		name := textOf(tag, "name")
		var entries, articles g.Group
		for _, path := range d.Get("paths").Members() {
			for _, m := range path.Value.Members() {
				if o := m.Value; o.Get("tags").Index(0).Text() == name {
					if first == "" && m.Name == "post" {
						first = path.Name
					}
					entries = append(entries, item("#"+textOf(o, "operationId"), textOf(o, "summary")))
					articles = append(articles, c.operation(strings.ToUpper(m.Name), path.Name, o))
				}
			}
		}
		contents = append(contents, txt("h2", c.t(name)), g.If(len(entries) > 0, el("ul", entries)))
		sections = append(sections, el("section", txt("h2", c.t(name)), txt("p", textOf(tag, "description")), articles))
	}
	elements := slices.DeleteFunc(problem.Faults(), func(c problem.Code) bool { return len(c.Status) > 0 })
	return document(c.lang, title, referenceStyle, nil,
		el("nav", attr("aria-label", c.t("Contents")), el("p", link("#top", title), g.Text(" · "),
			el("a", attr("href", "?lang="+other), attr("lang", other), g.Text(say(c.lang, "other")))), contents,
			txt("h2", c.t("Reference")),
			el("ul", item("#guide", c.t("From another system")), item("#books", c.t("What the accountant files")),
				item("#errors", c.t("Error codes")), item("#schemas", c.t("Schemas")),
				item("/openapi.json?lang="+c.lang, "openapi.json"))),
		el("main", attr("id", "top"),
			txt("h1", title), el("p", class("lead"), g.Text(textOf(info, "summary"))),
			g.Map(strings.Split(textOf(info, "description"), "\n\n"), func(p string) g.Node { return txt("p", p) }),
			txt("pre", strings.Replace(referenceExample, "{path}", first, 1)),
			sections,
			el("section", attr("id", "guide"), txt("h2", c.t("From another system")),
				txt("p", c.t("For a till that follows the service's specification to the letter: what the "+
					"specification leaves open, and where this service differs.")),
				g.Map(d.Get("x-guide").Items(), func(hint dte.Value) g.Node {
					return g.Group{txt("h3", textOf(hint, "title")), txt("p", textOf(hint, "description"))}
				})),
			el("section", attr("id", "books"), txt("h2", c.t("What the accountant files")),
				txt("p", c.t("What dtectl books makes of a small shop's November: the annexes of the VAT return (F-07 "+
					"v14) as MH's portal takes them, the VAT books, and the F-930. The annexes have no headings; the "+
					"names below the letters are those of MH's manual. Upload an annex as it is: a spreadsheet that "+
					"opens and saves it drops the zeros that a NIT begins with, unless every column is imported as "+
					"text.")),
				g.Map(sample.Files(), sampleFile)),
			el("section", attr("id", "errors"), txt("h2", c.t("Error codes")),
				txt("p", c.t("What each code means, and what to do. The text of message is for the cashier: show it "+
					"as it is.")),
				el("div", class("codes"), listed("table", problem.Types(), c.codeRow, el("caption",
					g.Text(c.t("Of the answer: ")), txt("code", "type"), g.Text(" · "), link("#Error", "Error")))),
				el("div", class("codes"), listed("table", elements, c.codeRow, el("caption",
					g.Text(c.t("Of each member: ")), txt("code", "errors[].code"))))),
			el("section", attr("id", "schemas"), txt("h2", c.t("Schemas")),
				el("p", txt("b", "*"), g.Text(c.t(" is required. The others may be null or missing in a request."))),
				g.Map(d.Get("components").Get("schemas").Members(), c.schema))))
}

func textOf(v dte.Value, name string) string { return v.Get(name).Text() }

type reference struct {
	doc     dte.Value
	spanish map[string]string
	lang    string
}

// t returns one of the page's own texts in the page's language. The contract's texts are already in this language.
func (c reference) t(en string) string { return cmp.Or(c.spanish[en], en) }

func (c reference) resolve(v dte.Value) (dte.Value, string) {
	ref := textOf(v, "$ref")
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

func (c reference) operation(method, path string, o dte.Value) g.Node {
	description := textOf(o, "description")
	if o.Get("security").Exists() {
		description += c.t(" Takes no token.")
	}
	var parameters, body, example, answers g.Group
	for _, p := range o.Get("parameters").Items() {
		p, _ = c.resolve(p)
		m := c.member(p.Get("schema"))
		m.name, m.in, m.description = textOf(p, "name"), c.t(textOf(p, "in")), textOf(p, "description")
		parameters = append(parameters, c.row(&m, p.Get("required").Bool()))
	}
	if content := o.Get("requestBody").Get("content").Get("application/json"); content.Exists() {
		m := c.member(content.Get("schema"))
		body = g.Group{el("p", g.Text(c.t("Body: ")), link("#"+m.link, m.kind),
			g.If(!o.Get("requestBody").Get("required").Bool(), g.Text(c.t(", may be missing"))))}
		first := content.Get("example")
		if all := content.Get("examples").Members(); len(all) > 0 {
			first = all[0].Value.Get("value")
		}
		var pretty bytes.Buffer
		if json.Indent(&pretty, first.Append(nil), "", "  ") == nil && pretty.Len() > 0 {
			example = g.Group{el("details", txt("summary", c.t("Example")), txt("pre", pretty.String()))}
		}
	}
	for _, r := range o.Get("responses").Members() {
		answers = append(answers, c.answer(r.Name, r.Value))
	}
	id := textOf(o, "operationId")
	return el("article", attr("id", id), txt("h3", textOf(o, "summary")),
		el("p", class("line"), el("span", class("method "+method), g.Text(method)), g.Text(" "), txt("code", path)),
		txt("p", description),
		g.If(len(parameters) > 0, el("div", el("table", txt("caption", c.t("Parameters")), parameters))), body, example,
		el("div", class("answers"), el("table", txt("caption", c.t("Answers")), answers)))
}

// answer shows a status with the answer's schema. Without a schema, it shows the media types or the codes of the error.
func (c reference) answer(status string, v dte.Value) g.Node {
	answer, _ := c.resolve(v)
	var types []string
	var holds g.Node
	for _, media := range answer.Get("content").Members() {
		schema := media.Value.Get("schema")
		if codes := schema.Get("properties").Get("type").Get("enum"); codes.Exists() {
			for _, code := range codes.Items() {
				types = append(types, code.Text())
			}
			continue
		}
		types = append(types, media.Name)
		if _, name := c.resolve(schema); name != "" {
			holds = link("#"+name, name)
		}
	}
	if holds == nil {
		holds = small(strings.Join(types, ", "))
	}
	return el("tr", el("th", attr("scope", "row"), el("span", class("status s"+status[:1]), g.Text(status))),
		el("td", holds), txt("td", textOf(answer, "description")))
}

// schema shows a schema of the contract. To require one of two members, the contract says "without the first, the
// second is required". It does not use anyOf: client generators turn anyOf into a type that accepts everything.
func (c reference) schema(s dte.Member) g.Node {
	about := g.Group{g.Text(textOf(s.Value, "description"))}
	if first := s.Value.Get("if").Get("not").Get("required").Index(0); first.Exists() {
		about = append(about, g.Text(c.t(" One of the two is required: ")), txt("code", first.Text()), g.Text(" · "),
			txt("code", s.Value.Get("then").Get("required").Index(0).Text()))
	}
	var kind g.Node
	rows := c.members(s.Value)
	if rows == nil {
		m := c.member(s.Value)
		kind = el("p", g.Text(m.kind), m.remarks())
	} else {
		kind = el("div", el("table", rows))
	}
	return el("article", attr("id", s.Name), txt("h3", s.Name), el("p", about), kind)
}

func (c reference) members(s dte.Value) (rows g.Group) {
	due := s.Get("required").Items()
	for _, p := range s.Get("properties").Members() {
		m := c.member(p.Value)
		m.name = p.Name
		rows = append(rows, c.row(&m, slices.ContainsFunc(due, func(d dte.Value) bool { return d.Text() == p.Name })))
	}
	return rows
}

// member is a row of a table: a schema, with the members of nested objects below it.
type member struct {
	name, in, kind, link, description string
	limits                            []string
	inner                             g.Group
}

func (c reference) member(s dte.Value) member {
	m := member{description: textOf(s, "description")}
	if any := s.Get("anyOf"); any.Len() > 0 && !s.Get("properties").Exists() { // a reference, or null
		s = any.Index(0)
	}
	if _, m.link = c.resolve(s); m.link != "" {
		m.kind = m.link
		return m
	}
	t := s.Get("type")
	if t.Kind() == dte.KindArray { // a type, and null because the member is optional
		t = t.Index(0)
	}
	m.kind = t.Text()
	if f := textOf(s, "format"); f != "" {
		m.kind += " (" + f + ")"
	}
	switch m.kind {
	case "array":
		item := c.member(s.Get("items"))
		m.kind, m.link, m.inner, m.limits = c.t("list of ")+item.kind, item.link, item.inner, item.limits
	case "object":
		m.inner = c.members(s)
	}
	for _, limit := range [][2]string{{"const", "always"}, {"minimum", "≥"}, {"exclusiveMinimum", ">"},
		{"maximum", "≤"}, {"exclusiveMaximum", "<"}, {"minLength", "length ≥"}, {"maxLength", "length ≤"},
		{"minItems", "from"}, {"maxItems", "up to"}, {"default", "default"}} {
		if l := s.Get(limit[0]); l.Exists() {
			m.limits = append(m.limits, c.t(limit[1])+" "+l.Text())
		}
	}
	var values []string
	for _, x := range s.Get("enum").Items() {
		if !x.IsNull() {
			values = append(values, x.Text())
		}
	}
	if len(values) > 0 {
		m.limits = append(m.limits, strings.Join(values, " · "))
	}
	return m
}

func (c reference) row(m *member, required bool) g.Node {
	kind := g.Text(m.kind)
	if m.link != "" {
		kind = link("#"+m.link, m.kind)
	}
	return el("tr",
		el("th", attr("scope", "row"), txt("code", m.name),
			g.If(required, el("b", attr("title", c.t("required")), g.Text("*")))),
		el("td", g.If(m.in != "", g.Group{txt("i", m.in), g.Text(" ")}), kind, m.remarks()),
		el("td", g.Text(m.description), g.If(len(m.inner) > 0, el("table", m.inner))))
}

func (m *member) remarks() g.Node {
	return g.If(len(m.limits) > 0, g.Group{g.Text(" "), txt("small", strings.Join(m.limits, " "))})
}

func (c reference) codeRow(code problem.Code) g.Node {
	return el("tr", attr("id", code.Name), el("th", attr("scope", "row"), txt("code", code.Name), g.Map(code.Status,
		func(n int) g.Node {
			return g.Group{g.Text(" "), el("span", class("status s"+strconv.Itoa(n/100)), g.Text(strconv.Itoa(n)))}
		})), el("td", txt("p", c.in(code.Meaning)+"."), txt("p", c.in(code.Action)+".")))
}

func (c reference) in(t problem.Text) string {
	if c.lang == "en" {
		return t.EN
	}
	return t.ES
}

const referenceExample = `curl --cacert ca.pem https://dte.tienda.lan:8080{path} \
     -H "x-api-token: $(cat caja-1.token)" -H 'Idempotency-Key: caja1-000123' \
     -H 'Content-Type: application/json' --data-binary @venta-000123.json`

func sampleFile(f sample.File) g.Node {
	return el("details", txt("summary", f.Name), el("div", class("sheet"), attr("lang", "es"), el("table",
		txt("caption", f.Title),
		el("thead", el("tr", el("td"), g.Map(f.Columns, func(c sample.Column) g.Node {
			return el("th", attr("scope", "col"), g.Text(c.Letter), g.If(!f.Heading, small(c.Name)))
		}))), el("tbody", numbered(f.Rows)...))))
}

func numbered(rows [][]string) (list []g.Node) {
	for i, row := range rows {
		list = append(list, el("tr", el("th", attr("scope", "row"), g.Text(strconv.Itoa(i+1))),
			g.Map(row, func(c string) g.Node { return txt("td", c) })))
	}
	return list
}
