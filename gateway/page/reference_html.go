package page

import (
	"strconv"
	"strings"

	g "maragu.dev/gomponents"

	"dtegate/gateway/codes"
)

// referenceExample is a whole request, as a till would send it.
const referenceExample = `curl --cacert ca.pem https://dte.tienda.lan:8080/dte/dte01 \
     -H "x-api-token: $(cat caja-1.token)" -H 'Idempotency-Key: caja1-000123' \
     -H 'Content-Type: application/json' --data-binary @venta-000123.json`

// html is the reference page.
func (v *referenceView) html() []byte {
	item := func(to, text string) g.Node { return el("li", link(to, text)) }
	return document("en", v.Title, referenceStyle, nil,
		el("nav", attr("aria-label", "Contents"),
			el("p", link("#top", v.Title)),
			g.Map(v.Tags, func(t tagView) g.Node {
				return g.Group{txt("h2", t.Name), listed("ul", t.Operations, func(o operationView) g.Node { return item("#"+o.ID, o.Summary) })}
			}),
			txt("h2", "Reference"),
			el("ul", item("#guide", "From another system"), item("#books", "What the accountant files"), item("#errors", "Error codes"), item("#schemas", "Schemas"), item("/openapi.json", "openapi.json"))),
		el("main", attr("id", "top"),
			txt("h1", v.Title), el("p", class("lead"), g.Text(v.Summary)),
			g.Map(v.Description, func(p string) g.Node { return txt("p", p) }),
			txt("pre", referenceExample),
			g.Map(v.Tags, func(t tagView) g.Node {
				return el("section", txt("h2", t.Name), txt("p", t.Description), g.Map(t.Operations, operationView.html))
			}),
			guideSection(),
			sampleSection(),
			el("section", attr("id", "errors"), txt("h2", "Error codes"),
				el("p", g.Text("What each code means, and what to do. "), txt("code", "message"), g.Text(" is for the cashier: show it as it is.")),
				el("div", class("codes"), listed("table", v.Types, codeRow, el("caption", g.Text("The member "), txt("code", "type"), g.Text(" of an "), link("#Error", "Error")))),
				el("div", class("codes"), listed("table", v.Faults, codeRow, el("caption", g.Text("The "), txt("code", "code"), g.Text(" of each element of its "), txt("code", "errors"))))),
			el("section", attr("id", "schemas"), txt("h2", "Schemas"),
				el("p", txt("b", "*"), g.Text(" is required. The others may be null or missing in a request.")),
				g.Map(v.Schemas, schemaView.html))))
}

// codeRow is a code with its statuses, in both languages.
func codeRow(c codes.Code) g.Node {
	said := func(lang string, meaning, action string) g.Node {
		return el("td", attr("lang", lang), txt("p", meaning+"."), txt("p", action+"."))
	}
	return el("tr", attr("id", c.Name), el("th", attr("scope", "row"), txt("code", c.Name), g.Map(c.Status, func(n int) g.Node {
		return g.Group{g.Text(" "), el("span", class("status s"+strconv.Itoa(n/100)), g.Text(strconv.Itoa(n)))}
	})), said("en", c.Meaning.EN, c.Action.EN), said("es", c.Meaning.ES, c.Action.ES))
}

func (o operationView) html() g.Node {
	description := o.Description
	if o.Open {
		description += " Takes no token."
	}
	return el("article", attr("id", o.ID), txt("h3", o.Summary),
		el("p", class("line"), el("span", class("method "+o.Method), g.Text(o.Method)), g.Text(" "), txt("code", o.Path)),
		txt("p", description),
		g.If(len(o.Parameters) > 0, el("div", members(o.Parameters, txt("caption", "Parameters")))),
		g.Iff(o.Body != nil, func() g.Node {
			return el("p", g.Text("Body: "), link("#"+o.Body.Link, o.Body.Type), g.If(!o.Body.Required, g.Text(", may be missing")))
		}),
		g.If(o.Example != "", el("details", txt("summary", "Example"), txt("pre", o.Example))),
		el("div", class("answers"), listed("table", o.Answers, answerView.html, txt("caption", "Answers"))))
}

func (a answerView) html() g.Node {
	holds := small(a.Types)
	if a.Schema != "" {
		holds = link("#"+a.Schema, a.Schema)
	}
	return el("tr", el("th", attr("scope", "row"), el("span", class("status s"+a.Class), g.Text(a.Status))), el("td", holds), txt("td", a.Description))
}

func (s schemaView) html() g.Node {
	description := []g.Node{g.Text(s.Description)}
	if len(s.Either) > 0 {
		description = append(description, g.Text(" One of "))
		for i, m := range s.Either {
			description = append(description, g.If(i > 0, g.Text(" and ")), txt("code", m))
		}
		description = append(description, g.Text(" is due."))
	}
	return el("article", attr("id", s.Name), txt("h3", s.Name), el("p", description...),
		g.Iff(s.Type != nil, func() g.Node { return el("p", g.Text(s.Type.Type), s.Type.limits()) }),
		g.If(len(s.Members) > 0, el("div", members(s.Members))))
}

func members(list []memberView, before ...g.Node) g.Node {
	return listed("table", list, memberView.html, before...)
}

func (m memberView) html() g.Node {
	kind := g.Text(m.Type)
	if m.Link != "" {
		kind = link("#"+m.Link, m.Type)
	}
	return el("tr",
		el("th", attr("scope", "row"), txt("code", m.Name), g.If(m.Required, el("b", attr("title", "required"), g.Text("*")))),
		el("td", g.If(m.In != "", g.Group{txt("i", m.In), g.Text(" ")}), kind, m.limits()),
		el("td", g.Text(m.Description), members(m.Members)))
}

// limits are remarks, each behind a space.
func (m memberView) limits() g.Node {
	return g.If(len(m.Limits) > 0, g.Group{g.Text(" "), el("small", g.Text(strings.Join(m.Limits, " ")))})
}
