package page

import (
	"bytes"

	g "maragu.dev/gomponents"
)

// Pages are made of nodes, which escape every text. html/template would do the same and make the program a third larger:
// with it the linker keeps every method there is.

// el is an element with the attributes and children given.
func el(name string, children ...g.Node) g.Node { return g.El(name, children...) }

// txt is an element that holds a text.
func txt(name, text string) g.Node { return el(name, g.Text(text)) }

func attr(name, value string) g.Node { return g.Attr(name, value) }

// class is an attribute that is left out when it is empty.
func class(name string) g.Node { return g.If(name != "", g.Attr("class", name)) }

// small is a remark, left out when it is empty.
func small(text string) g.Node { return g.If(text != "", txt("small", text)) }

func link(to, text string) g.Node { return el("a", attr("href", to), g.Text(text)) }

// listed is an element around one node for each item, left out when there is none.
func listed[T any](name string, items []T, node func(T) g.Node, before ...g.Node) g.Node {
	if len(items) == 0 {
		return nil
	}
	return el(name, append(before, g.Map(items, node))...)
}

// document is a whole page in a language. style is the only one that the policy of secure allows.
func document(lang, title, style string, head g.Node, body ...g.Node) []byte {
	var b bytes.Buffer
	b.WriteString("<!doctype html>\n")
	page := el("html", attr("lang", lang), el("head",
		el("meta", attr("charset", "utf-8")),
		el("meta", attr("name", "viewport"), attr("content", "width=device-width, initial-scale=1")),
		el("meta", attr("name", "color-scheme"), attr("content", "light dark")),
		head, txt("title", title), el("style", g.Raw(style))), el("body", body...))
	_ = page.Render(&b) // to memory
	return b.Bytes()
}
