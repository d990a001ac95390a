// Package page makes two HTML pages: the status of the branch, for the people in the shop, and the reference of the
// API. It knows no HTTP, and escapes every text.
package page

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"strconv"
	"sync"
	"time"

	g "maragu.dev/gomponents"

	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/rulestore"
	"dtegate/storage"
)

//go:embed status.css
var statusStyle string

// Content-Security-Policies of the pages. A page may use its own style, and may load nothing.
var (
	StatusPolicy    = policy(statusStyle)
	ReferencePolicy = policy(referenceStyle)
)

func policy(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

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

// Get returns the page in a language, es or en. For a new page, it calls look for the branch's state.
func (p *Status) Get(lang string, now time.Time, look func() *Overview) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.made[lang]; ok && !now.Before(m.at) && now.Sub(m.at) < StatusLife {
		return m.html
	}
	if p.made == nil {
		p.made = make(map[string]madePage)
	}
	p.made[lang] = madePage{now, renderStatus(lang, look())}
	return p.made[lang].html
}

func renderStatus(lang string, o *Overview) []byte {
	b := newBoard(lang, o)
	kind, other := "production", "en"
	if o.Ambiente != "01" {
		kind = "test"
	}
	if lang == "en" {
		other = "es"
	}
	branch := cmp.Or(o.Name, b.t("branch")+" "+strconv.FormatInt(o.Branch, 10))
	return document(lang, b.Title+" · "+branch, statusStyle,
		el("meta", attr("http-equiv", "refresh"), attr("content", "15")),
		el("header",
			el("p", txt("b", branch), g.Text(" "), el("span", class(kind), g.Text(b.t("ambiente."+o.Ambiente)))),
			el("p", txt("time", clock(o.At)), g.Text(" "),
				el("a", attr("href", "?lang="+other), attr("lang", other), g.Text(b.t("other"))))),
		el("main",
			el("section", class("verdict "+b.Level), txt("h1", b.Title), note("reason", b.Reason), txt("p", b.Advice),
				g.If(b.Order != "", el("pre", txt("code", b.Order)))),
			el("section", class("glance"), b.factsHTML(b.Facts)),
			// A phone shows the first column above the second: waiting work comes before the long lists.
			el("div", b.waitingHTML(), b.todayHTML(), b.troubleHTML(),
				el("section", txt("h2", b.t("deliveries")), b.factsHTML(b.Deliveries),
					g.If(o.Owed.Delivery.GivenUp > 0,
						note("bad", strconv.Itoa(o.Owed.Delivery.GivenUp)+" "+b.t("given.up")))),
				b.monthHTML()),
			el("div", el("section", txt("h2", b.t("box")), b.factsHTML(b.Box)), b.rulesHTML(),
				g.Iff(o.Authorisation != nil, b.permitHTML))),
		el("footer", txt("p", b.t("updated")+", "+b.t("refresh")+". "+b.t("more")+".")))
}

func note(kind, text string) g.Node { return g.If(text != "", el("p", class(kind), g.Text(text))) }

func (b *board) factsHTML(list []fact) g.Node {
	return el("dl", class("facts"), g.Map(list, func(f fact) g.Node {
		return el("div", class(f.Level), txt("dt", f.Name), txt("dd", f.Value),
			g.If(f.Note != "", el("dd", class("note"), g.Text(f.Note))),
			g.If(f.Raw != "", el("dd", class("note"), detail(b.lang, f.Raw))))
	}))
}

func detail(lang, raw string) g.Node {
	if raw == "" {
		return nil
	}
	return el("details", el("summary", g.Text(say(lang, "detail"))), el("code", attr("lang", "en"), g.Text(raw)))
}

func row(f fact) g.Node {
	return el("tr", class(f.Level), el("th", attr("scope", "row"), g.Text(f.Name), small(f.Note)), txt("td", f.Value))
}

func (b *board) todayHTML() g.Node {
	partial := b.o.Today.Partial
	return el("section", class("today"), el("h2", g.Text(b.t("today")+" "), txt("b", b.Total)),
		g.If(partial, note("partial", b.t("partial"))), chart(b.lang, b.o.Today, b.o.At.In(dte.Zone).Hour()),
		el("ul",
			class("legend"),
			attr("aria-label", b.t("legend")), g.Map([]string{"normal", "contingency", "rejected"},
				func(kind string) g.Node { return el("li", class(kind), g.Text(b.t("chart."+kind))) })),
		listed("ul", b.Documents, func(f fact) g.Node { return el("li", g.Text(f.Name+" "), txt("b", f.Value)) },
			class("kinds")), g.If(len(b.Documents) == 0 && !partial, txt("p", b.t("none.today"))))
}

func (b *board) waitingHTML() g.Node {
	return el("section",
		txt("h2", b.t("waiting")), listed("table", b.Deadlines, row, txt("caption", b.t("deadlines")),
			class("deadlines")), g.If(b.o.Owed.Refused != "", note("bad", b.t("refused")+" "+b.o.Owed.Refused)),
		listed("table", b.Waiting, row), g.If(len(b.Waiting) == 0, txt("p", b.t("waiting.none"))))
}

func (b *board) troubleHTML() g.Node {
	return el("section", txt("h2", b.t("trouble")), listed("ol", b.Trouble, func(f fact) g.Node {
		return el("li", class(f.Level), txt("small", f.Note), g.Text(f.Name), detail(b.lang, f.Raw))
	}, class("trouble")), g.If(len(b.Trouble) == 0, txt("p", b.t("trouble.none"))))
}

func (b *board) monthHTML() g.Node {
	title := b.t("month.this")
	if b.Month != "" {
		title = b.t("month") + " " + b.Month
	}
	return el("section", class("month"), txt("h2", title), g.If(b.Month == "", txt("p", b.t("month.counting"))),
		listed("table", b.MonthLines, func(f fact) g.Node {
			return el("tr", el("th", attr("scope", "row"), g.Text(f.Name), small(f.Note)), txt("td", f.Value),
				txt("td", f.Raw))
		}), g.If(b.Month != "" && len(b.MonthLines) == 0, txt("p", b.t("month.none"))))
}

func (b *board) permitHTML() g.Node {
	lines, about := b.permit()
	return el("section", class("progress"), txt("h2", b.t("authorisation")), txt("p", about),
		g.If(b.o.Authorisation.Partial, note("partial", b.t("authorisation.partial"))), listed("table", lines, row))
}

func (b *board) rulesHTML() g.Node {
	why := g.Node(nil)
	if b.Returned != "" {
		why = g.Group{note("bad", b.t("returned")+" "+b.Returned), detail(b.lang, masked(b.o.Rules.Return.Reason))}
	}
	return el("section", txt("h2", b.t("rules")), why,
		listed("table", b.RulesRefused, row, txt("caption", b.t("rules.refused"))),
		listed("table", b.Coming, row, txt("caption", b.t("coming"))),
		el("table", txt("caption", b.t("live")), g.Map(b.Live, row)))
}

// Overview is the state that the status page shows. It contains no secret and no customer. An unknown time is zero.
type Overview struct {
	At, Started time.Time
	Version     string
	Ambiente    string // CAT-001
	Branch      int64
	Name        string // the branch's name; "": the page shows its number
	// Stopped is why nothing new is issued; nil while the branch issues.
	Stopped error
	MH      Reach
	Owed    *engine.Backlog
	Today   documents.Today
	// Authorisation is nil outside of the test ambiente.
	Authorisation *documents.Progress
	Rules         *rulestore.Listing
	// Month is nil while it is counted for the first time.
	Month *Month
	// SecondCopy is nil if no second copy is configured. Mail and Archive are false if they are not configured.
	SecondCopy    *storage.SecondCopy
	Mail, Archive bool
	// Chain is nil if the branch belongs to no chain.
	Chain *Chain
	// Free is the free space on the store's disk, in bytes. If Free is below Reserve, nothing is issued.
	Free, Reserve int64
	// Skew is the box's clock minus MH's, nil before MH's first answer.
	Skew    *time.Duration
	Expires []fleetproto.Certificate
	Trouble []Trouble // newest first
}

// Month has the counts and amounts of the documents that the branch has issued in a month, by type and state.
type Month struct {
	Name   string // "2026-11"
	Totals []documents.Total
}

// Reach is the result of the last call to MH.
type Reach struct {
	Asked bool // MH has been called
	Up    bool
	Since time.Time // when Up last changed
	Why   string    // why MH does not answer
	// Refused is MH's refusal of the user or the password, an authority.ErrCredentials; nil if MH accepts both.
	Refused error
}

// Chain is the state of the box's connection to the chain's centre.
type Chain struct {
	Branch string
	Look   fleet.Look
	Lacks  string // what the chain's store has lost of the second copy; "": nothing
}

// Trouble is a warning or an error in the log. Count is how many times it was logged.
type Trouble struct {
	At    time.Time
	Error bool // false: a warning
	// Message is the constant part of the log line; Text is the whole line with its attributes.
	Message, Text string
	Count         int
	Ended         time.Time // when the trouble ended (see Ends); zero: no end was logged
}

// ErrNoRules means that no rule of the branch is valid today.
var ErrNoRules = errors.New("no rule is valid today")

// Limits at which the page turns yellow. The alerts of monitoring have the same limits (TestLimits_Alerts).

const oneDay = 24 * time.Hour

// soon maps the name of a deadline or a certificate to how long before its end the page turns yellow.
var soon = map[string]time.Duration{"event": 6 * time.Hour, "documents": 12 * time.Hour, "correction": 23 * time.Hour,
	"refused": 6 * time.Hour, "signing": 30 * oneDay, "api": 21 * oneDay, "ops": 21 * oneDay, "ca": 21 * oneDay}

const (
	lowDisk = 2           // free bytes, as a multiple of the reserve
	skewed  = time.Minute // difference between the box's clock and MH's
)
