package page

import (
	"cmp"
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
)

// renderStatus makes the page of an overview.
func renderStatus(lang string, o *Overview) []byte {
	b := newBoard(lang, o)
	t := func(key string) string { return say(lang, key) }
	kind := "production"
	if b.Test {
		kind = "test"
	}
	branch := cmp.Or(o.Name, t("branch")+" "+strconv.FormatInt(b.Branch, 10))
	return document(lang, b.Title+" · "+branch, statusStyle, el("meta", attr("http-equiv", "refresh"), attr("content", "15")),
		el("header",
			el("p", txt("b", branch), g.Text(" "), el("span", class(kind), g.Text(b.Ambiente))),
			el("p", txt("time", b.At), g.Text(" "), el("a", attr("href", "?lang="+b.Other), attr("lang", b.Other), g.Text(t("other"))))),
		el("main",
			el("section", class("verdict "+b.Level), txt("h1", b.Title),
				g.If(b.Reason != "", el("p", class("reason"), g.Text(b.Reason))), txt("p", b.Advice)),
			el("section", class("glance"), facts(lang, b.Facts)),
			el("div", b.todayHTML(t), b.monthHTML(t), g.Iff(b.Authorisation != nil, func() g.Node { return b.Authorisation.html(t) }), b.waitingHTML(t), b.troubleHTML(t),
				el("section", txt("h2", t("deliveries")), facts(lang, b.Deliveries),
					g.If(b.GivenUp > 0, el("p", class("bad"), g.Text(strconv.Itoa(b.GivenUp)+" "+t("given.up")))))),
			el("div", el("section", txt("h2", t("box")), facts(lang, b.Box)), b.rulesHTML(t))),
		el("footer", txt("p", t("updated")+", "+t("refresh")+". "+t("more")+".")))
}

// facts are names with their values.
func facts(lang string, list []fact) g.Node {
	return el("dl", class("facts"), g.Map(list, func(f fact) g.Node {
		return el("div", class(f.Level), txt("dt", f.Name), txt("dd", f.Value), g.If(f.Note != "", el("dd", class("note"), g.Text(f.Note))),
			g.If(f.Raw != "", el("dd", class("note"), detail(lang, f.Raw))))
	}))
}

// detail is a text in the appliance's or another server's own words, shown to whoever opens it.
func detail(lang, raw string) g.Node {
	if raw == "" {
		return nil
	}
	return el("details", el("summary", g.Text(say(lang, "detail"))), el("code", attr("lang", "en"), g.Text(raw)))
}

// row is a line of a table.
func row(level, name, note, value string) g.Node {
	return el("tr", class(level), el("th", attr("scope", "row"), g.Text(name), small(note)), txt("td", value))
}

func (b *board) todayHTML(t func(string) string) g.Node {
	return el("section", class("today"),
		el("h2", g.Text(t("today")+" "), txt("b", b.Total)),
		g.If(b.Partial, el("p", class("partial"), g.Text(t("partial")))),
		g.Iff(b.Chart != nil, func() g.Node { return b.Chart.html() }),
		el("ul", class("legend"), attr("aria-label", t("legend")), g.Map([]string{"normal", "contingency", "rejected"}, func(kind string) g.Node {
			return el("li", class(kind), g.Text(t("chart."+kind)))
		})),
		listed("ul", b.Documents, func(n named) g.Node { return el("li", g.Text(n.Name+" "), txt("b", n.N)) }, class("kinds")),
		g.If(len(b.Documents) == 0 && !b.Partial, txt("p", t("none.today"))))
}

func (c *chart) html() g.Node {
	number := func(name string, v float64) g.Node { return attr(name, strconv.FormatFloat(v, 'f', -1, 64)) }
	return el("svg", attr("viewBox", fmt.Sprintf("0 0 %d %d", c.Wide, c.High)), attr("role", "img"), attr("aria-label", c.Label),
		g.Map(c.Lines, func(l tick) g.Node {
			return g.Group{el("line", attr("x1", "36"), attr("x2", "360"), number("y1", l.At), number("y2", l.At)),
				el("text", attr("x", "31"), number("y", l.At), attr("dy", "4"), attr("text-anchor", "end"), g.Text(l.Text))}
		}),
		g.Map(c.Hours, func(h tick) g.Node {
			return el("text", number("x", h.At), attr("y", "145"), attr("text-anchor", "middle"), g.Text(h.Text))
		}),
		el("rect", class("now"), attr("x", strconv.Itoa(c.Now)), attr("y", "130"), attr("width", "13.5"), attr("height", "2")),
		g.Map(c.Bars, func(b bar) g.Node {
			return el("g", txt("title", b.Title), g.Map(b.Parts, func(p part) g.Node {
				return el("rect", class(p.Kind), number("x", p.X), number("y", p.Y), number("width", p.W), number("height", p.H))
			}))
		}))
}

func (b *board) waitingHTML(t func(string) string) g.Node {
	return el("section", txt("h2", t("waiting")),
		listed("table", b.Deadlines, func(d deadline) g.Node { return row(d.Level, d.Name, d.At, d.Left) }, txt("caption", t("deadlines")), class("deadlines")),
		g.If(b.Refused != "", el("p", class("bad"), g.Text(t("refused")+" "+b.Refused))),
		listed("table", b.Waiting, func(q queue) g.Node { return row(q.Level, q.Name, q.Note, q.N) }),
		g.If(len(b.Waiting) == 0, txt("p", t("waiting.none"))))
}

func (b *board) troubleHTML(t func(string) string) g.Node {
	return el("section", txt("h2", t("trouble")),
		listed("ol", b.Trouble, func(l troubleLine) g.Node {
			at := l.At
			if l.Count > 1 {
				at += fmt.Sprintf(" · %d %s", l.Count, t("times"))
			}
			return el("li", class(l.Level), txt("small", at), g.Text(l.Text), detail(b.Lang, l.Raw))
		}, class("trouble")),
		g.If(len(b.Trouble) == 0, txt("p", t("trouble.none"))))
}

func (b *board) rulesHTML(t func(string) string) g.Node {
	line := func(r ruleLine) g.Node { return row(r.Level, r.Name, r.Note, r.Version) }
	return el("section", txt("h2", t("rules")),
		g.If(b.Returned != "", el("p", class("bad"), g.Text(t("returned")+" "+b.Returned))),
		detail(b.Lang, b.ReturnedRaw),
		listed("table", b.RulesRefused, line, txt("caption", t("rules.refused"))),
		listed("table", b.Coming, line, txt("caption", t("coming"))),
		el("table", txt("caption", t("live")), g.Map(b.Live, line)))
}
