// Package page makes the pages that people read: the status of the branch, for the people in the shop, and the
// reference of the API. It knows no HTTP, and escapes every text.
package page

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	g "maragu.dev/gomponents"

	"dtegate/engine"
	"dtegate/engine/authorisation"
	"dtegate/engine/documents"
	"dtegate/engine/rulestore"
)

//go:embed status.css
var statusStyle string

// What the pages may load: their own style, and nothing else. Values of Content-Security-Policy.
var (
	StatusPolicy    = policy(statusStyle)
	ReferencePolicy = policy(referenceStyle)
)

func policy(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// StatusLife is how long the same status page is shown before it is made again.
const StatusLife = 3 * time.Second

// Status keeps the status page of each language for StatusLife. The zero value is ready.
type Status struct {
	mu   sync.Mutex
	made map[string]madePage
}

type madePage struct {
	at   time.Time
	html []byte
}

// Get returns the page in a language, es or en. If the page must be made again, it calls look for the branch's state.
func (p *Status) Get(lang string, now time.Time, look func() *Overview) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.made[lang]; ok && !now.Before(m.at) && now.Sub(m.at) < StatusLife {
		return m.html
	}
	b := renderStatus(lang, look())
	if p.made == nil {
		p.made = make(map[string]madePage)
	}
	p.made[lang] = madePage{now, b}
	return b
}

// renderStatus makes the page of an overview.
func renderStatus(lang string, o *Overview) []byte {
	b := newBoard(lang, o)
	t := func(key string) string { return say(lang, key) }
	kind := "production"
	if b.Test {
		kind = "test"
	}
	branch := cmp.Or(o.Name, t("branch")+" "+strconv.FormatInt(b.Branch, 10))
	return document(lang, b.Title+" · "+branch, statusStyle, el("meta", attr("http-equiv", "refresh"), attr("content",
		"15")),
		el("header",
			el("p", txt("b", branch), g.Text(" "), el("span", class(kind), g.Text(b.Ambiente))),
			el("p", txt("time", b.At), g.Text(" "), el("a", attr("href", "?lang="+b.Other), attr("lang", b.Other),
				g.Text(t("other"))))),
		el("main",
			el("section", class("verdict "+b.Level), txt("h1", b.Title),
				g.If(b.Reason != "", el("p", class("reason"), g.Text(b.Reason))), txt("p", b.Advice),
				g.If(b.Order != "", el("pre", txt("code", b.Order)))),
			el("section", class("glance"), facts(lang, b.Facts)),
			// A phone shows the first column above the second: what waits stands above the long lists.
			el("div", b.waitingHTML(t), b.todayHTML(t), b.troubleHTML(t),
				el("section", txt("h2", t("deliveries")), facts(lang, b.Deliveries),
					g.If(b.GivenUp > 0, el("p", class("bad"), g.Text(strconv.Itoa(b.GivenUp)+" "+t("given.up"))))),
				b.monthHTML(t)),
			el("div", el("section", txt("h2", t("box")), facts(lang, b.Box)), b.rulesHTML(t),
				g.Iff(b.Authorisation != nil, func() g.Node { return b.Authorisation.html(t) }))),
		el("footer", txt("p", t("updated")+", "+t("refresh")+". "+t("more")+".")))
}

// facts are names with their values.
func facts(lang string, list []fact) g.Node {
	return el("dl", class("facts"), g.Map(list, func(f fact) g.Node {
		return el("div", class(f.Level), txt("dt", f.Name), txt("dd", f.Value), g.If(f.Note != "",
			el("dd", class("note"), g.Text(f.Note))),
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
		el("ul", class("legend"), attr("aria-label", t("legend")), g.Map([]string{"normal", "contingency", "rejected"},
			func(kind string) g.Node {
				return el("li", class(kind), g.Text(t("chart."+kind)))
			})),
		listed("ul", b.Documents, func(n named) g.Node { return el("li", g.Text(n.Name+" "), txt("b", n.N)) },
			class("kinds")),
		g.If(len(b.Documents) == 0 && !b.Partial, txt("p", t("none.today"))))
}

func (c *chart) html() g.Node {
	number := func(name string, v float64) g.Node { return attr(name, strconv.FormatFloat(v, 'f', -1, 64)) }
	return el("svg", attr("viewBox", fmt.Sprintf("0 0 %d %d", c.Wide, c.High)), attr("role", "img"), attr("aria-label",
		c.Label),
		g.Map(c.Lines, func(l tick) g.Node {
			return g.Group{el("line", attr("x1", "36"), attr("x2", "360"), number("y1", l.At), number("y2", l.At)),
				el("text", attr("x", "31"), number("y", l.At), attr("dy", "4"), attr("text-anchor", "end"),
					g.Text(l.Text))}
		}),
		g.Map(c.Hours, func(h tick) g.Node {
			return el("text", number("x", h.At), attr("y", "145"), attr("text-anchor", "middle"), g.Text(h.Text))
		}),
		el("rect", class("now"), attr("x", strconv.Itoa(c.Now)), attr("y", "130"), attr("width", "13.5"), attr("height",
			"2")),
		g.Map(c.Bars, func(b bar) g.Node {
			return el("g", txt("title", b.Title), g.Map(b.Parts, func(p part) g.Node {
				return el("rect", class(p.Kind), number("x", p.X), number("y", p.Y), number("width", p.W),
					number("height", p.H))
			}))
		}))
}

func (b *board) waitingHTML(t func(string) string) g.Node {
	return el("section", txt("h2", t("waiting")),
		listed("table", b.Deadlines, func(d deadline) g.Node { return row(d.Level, d.Name, d.At, d.Left) },
			txt("caption", t("deadlines")), class("deadlines")),
		g.If(b.Refused != "", el("p", class("bad"), g.Text(t("refused")+" "+b.Refused))),
		listed("table", b.Waiting, func(q queue) g.Node { return row(q.Level, q.Name, q.Note, q.N) }),
		g.If(len(b.Waiting) == 0, txt("p", t("waiting.none"))))
}

func (b *board) troubleHTML(t func(string) string) g.Node {
	return el("section", txt("h2", t("trouble")),
		listed("ol", b.Trouble, func(l troubleLine) g.Node {
			at := l.At
			if l.Ended != "" {
				at += " · " + t("ended") + " " + l.Ended
			}
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

// Overview is what the status page shows. It holds no secret and no customer. A time is zero if it is not known.
type Overview struct {
	At, Started time.Time
	Version     string
	Ambiente    string // CAT-001
	Branch      int64
	Name        string // what people call the store; "": its number
	// Stopped is why nothing new is issued, nil when the branch issues.
	Stopped error
	MH      Reach
	Owed    *engine.Backlog
	Today   documents.Today
	// Authorisation is nil outside of the test ambiente.
	Authorisation *authorisation.Progress
	Rules         *rulestore.Listing
	// Month is nil while it is counted for the first time.
	Month *Month
	// SecondCopy is nil when none is configured; Mail and Archive are false then.
	SecondCopy    *SecondCopy
	Mail, Archive bool
	// Chain is nil where the branch is of no chain.
	Chain *Chain
	// Free and Reserve are bytes of the store's disk; below Reserve nothing is issued.
	Free, Reserve int64
	// Skew is the box's clock less MH's, nil before MH's first answer.
	Skew    *time.Duration
	Expires []Expiry
	Trouble []Trouble // the newest first
}

// Reach is whether MH answered the last call.
type Reach struct {
	Asked bool // there was a call
	Up    bool
	Since time.Time // it has been so
	Last  time.Time // the last answer
	Why   string    // it is not up
	// Refused is MH's refusal of the user or the password, an authority.ErrCredentials; nil: none.
	Refused error
}

// Chain is the state of the box's connection to the chain's centre.
type Chain struct {
	Branch   string
	Version  int64     // of the desired state
	Asked    time.Time // when the chain's store last answered; zero: not since the start
	Trouble  string    // empty: none
	Refused  bool      // of that: the chain's store refuses this box's account, or is full
	Replaced bool      // another box has the branch
	Unbound  []string  // points of sale that the box's enrolment does not name: they number nothing
	Lacks    string    // what the chain's store has lost of the second copy; empty: a rebuild would be complete
}

// SecondCopy is the state of the second copy.
type SecondCopy struct {
	Live  bool
	Since time.Time
	Why   string
}

// Expiry is a certificate that ends: signing, MH's for the key; api or ops, of a listener; or ca, the box's own
// authority.
type Expiry struct {
	Name string
	At   time.Time
}

// Trouble is a warning or an error of the log, with the number of times that it was logged.
type Trouble struct {
	At    time.Time
	Error bool // else a warning
	// Message is the line's constant part, Text the whole line with its attributes.
	Message, Text string
	Count         int
	Ended         time.Time // when it was over, see Ends; zero: nobody has said so
}

// ErrNoRules means that the branch has no rule that is valid today.
var ErrNoRules = errors.New("no rule is valid today")

// When the page turns yellow: where an alert watches the same, with the alert (TestLimits_Alerts).

const oneDay = 24 * time.Hour

// soon is how long before a deadline, or before the end of a certificate, by their names.
var soon = map[string]time.Duration{"event": 6 * time.Hour, "documents": 12 * time.Hour, "correction": 23 * time.Hour,
	"refused": 6 * time.Hour,
	"signing": 30 * oneDay, "api": 21 * oneDay, "ops": 21 * oneDay, "ca": 21 * oneDay}

const (
	lowDisk = 2           // times what is kept free
	skewed  = time.Minute // between the box's clock and MH's
)
