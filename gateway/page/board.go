package page

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"

	"dtegate/engine/authority"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
)

// board is the content of the status page: texts in the page's language, times in El Salvador's time zone.
type board struct {
	lang          string
	o             *Overview
	Level         string // ok, warn or bad
	Title, Advice string
	Reason        string
	Order         string // the commands that central IT must run, if any
	Facts         []fact
	Total         string // today's total
	Documents     []fact
	Month         string // the month's name; "" while the month is counted
	MonthLines    []fact
	Waiting       []fact
	Deadlines     []fact   // Note is the moment, Value is the time left
	Live, Coming  []fact   // document types with the version of their rules
	RulesRefused  []fact   // stored rules that may not be used
	Rejecting     []string // a sentence for each rule in force whose documents MH refuses
	Failing       []string // a sentence for each rule in force that fails
	Returned      string   // the rule that the branch returned to, and when
	Deliveries    []fact
	Box           []fact
	Trouble       []fact
}

// fact is a line of the page: a name, a value, a remark (Note), and a level (ok, warn, bad, or empty). Raw is a
// program's or a server's own message, mostly in English.
type fact struct{ Name, Value, Note, Level, Raw string }

func (b *board) t(key string) string { return say(b.lang, key) }

func (b *board) ago(at time.Time) string { return momentText(b.lang, at, b.o.At) }

func (b *board) since(at time.Time) string { return b.t("since") + " " + b.ago(at) }

func newBoard(lang string, o *Overview) *board {
	b := &board{lang: lang, o: o}
	b.deadlines()
	b.facts()
	b.day()
	b.month()
	for _, name := range []string{"settle", "report", "event", "forward", "lot", "invalidate", "correct", "lost"} {
		n, level := o.Owed.Waiting[name], ""
		switch name {
		case "correct": // a person must act on these documents
			level = "warn"
		case "lost":
			n, level = o.Owed.Lost, "bad"
		}
		if n > 0 {
			b.Waiting = append(b.Waiting, fact{Name: b.t("queue." + name), Note: b.t("queue." + name + ".note"),
				Value: count(n), Level: level})
		}
	}
	b.rules()
	b.deliver("mail", o.Mail, o.Owed.Delivery.Mail, o.Owed.Delivery.MailOldest, o.Owed.Delivery.MailTrouble)
	b.deliver("archive", o.Archive, o.Owed.Delivery.Archive, o.Owed.Delivery.ArchiveOldest,
		o.Owed.Delivery.ArchiveTrouble)
	b.box()
	for _, x := range o.Trouble {
		line := fact{Note: b.ago(x.At), Level: map[bool]string{false: "warn", true: "bad"}[x.Error]}
		if !x.Ended.IsZero() {
			line.Note += " · " + b.t("ended") + " " + clock(x.Ended)
		}
		if !x.Ended.IsZero() || o.At.Sub(x.At) >= fresh {
			line.Level = ""
		}
		if x.Count > 1 {
			line.Note += fmt.Sprintf(" · %d %s", x.Count, b.t("times"))
		}
		line.Name, line.Raw = notice(lang, x)
		b.Trouble = append(b.Trouble, line)
	}
	b.verdict()
	return b
}

// urgency returns the level of a deadline: bad after it, warn if less than pressing is left, or else the given level.
func urgency(left, pressing time.Duration, otherwise string) string {
	switch {
	case left <= 0:
		return "bad"
	case left < pressing:
		return "warn"
	}
	return otherwise
}

func (b *board) deadlines() {
	owed := b.o.Owed
	for _, d := range []struct {
		name string
		at   time.Time
	}{{"event", owed.EventDeadline}, {"documents", owed.DocumentDeadline}, {"correction", owed.CorrectionDeadline},
		{"refused", owed.RefusedDeadline}, {"report", owed.TechnicalReport}} {
		if d.at.IsZero() {
			continue
		}
		level := urgency(d.at.Sub(b.o.At), soon[d.name], "")
		if d.name == "report" { // always yellow, because a person must write the report before the event
			level = "warn"
		}
		b.Deadlines = append(b.Deadlines, fact{Name: b.t("deadline." + d.name), Note: moment(b.lang, d.at, b.o.At),
			Value: remaining(b.lang, d.at, b.o.At), Level: level})
	}
}

func (b *board) facts() {
	mh := fact{Name: b.t("mh"), Value: b.t("mh.unasked"), Note: b.t("mh.unasked.note")}
	switch reach := &b.o.MH; {
	case reach.Refused != nil:
		mh.Value, mh.Note, mh.Level, mh.Raw = b.t("mh.refused"), b.t(passwordReason(reach.Refused)), "bad",
			reach.Refused.Error()
	case reach.Asked && reach.Up:
		mh.Value, mh.Note, mh.Level = b.t("mh.up"), b.since(reach.Since), "ok"
	case reach.Asked:
		mh.Value, mh.Level, mh.Raw = b.t("mh.down"), "warn", reach.Why
		mh.Note = b.since(reach.Since) + " · " + unanswered(b.lang, reach.Why)
	}
	period := fact{Name: b.t("contingency"), Value: b.t("contingency.none"), Level: "ok"}
	if p := b.o.Owed.Contingency; p != nil {
		period.Value, period.Level, period.Note = b.t("contingency.on"), "warn", b.since(p.Began)
		if p.Declared {
			period.Note += " · " + b.t("contingency.declared")
		}
	}
	n := 0
	for _, w := range b.o.Owed.Waiting {
		n += w
	}
	b.Facts = []fact{mh, period, b.pending(fact{Name: b.t("owed"), Value: count(n)}, n, b.o.Owed.Oldest)}
}

// pending completes a fact about n waiting records: level ok if n is 0, and as remark the age of the oldest record.
func (b *board) pending(f fact, n int, oldest time.Time) fact {
	if n == 0 {
		f.Level = "ok"
	}
	if !oldest.IsZero() {
		f.Note = b.t("oldest") + " " + b.ago(oldest)
	}
	return f
}

func (b *board) day() {
	total := 0
	for _, kind := range record.Known() {
		if n := b.o.Today.Documents[kind.Document]; n > 0 {
			b.Documents = append(b.Documents, fact{Name: documentName(b.lang, kind.Document), Value: count(n)})
			total += n
		}
	}
	b.Total = count(total)
}

// month adds a line for each type with documents: count and total of the processed documents, the others as a remark.
func (b *board) month() {
	if b.o.Month == nil {
		return
	}
	if at, err := time.Parse("2006-01", b.o.Month.Name); err == nil {
		b.Month = months[b.lang][at.Month()-1]
	}
	for _, kind := range record.Known() {
		n, sum, void := "0", "", 0
		var notes []string
		for _, t := range b.o.Month.Totals {
			switch {
			case t.Tipo != kind.Name:
			case t.Estado == record.EstadoProcessed:
				n, sum = count(t.Count), t.Amount
			default:
				void += t.Count
				notes = append(notes, b.t("month."+t.Estado)+": "+count(t.Count))
			}
		}
		if sum != "" || void > 0 {
			b.MonthLines = append(b.MonthLines, fact{Name: documentName(b.lang, kind.Document), Value: n,
				Raw: "$" + pdf.Printed(cmp.Or(sum, "0.00"), 2), Note: strings.Join(notes, " · ")})
		}
	}
}

// permit returns how many test documents of each type MH has sealed, and how many MH requires.
func (b *board) permit() (lines []fact, note string) {
	missing := 0
	a := b.o.Authorisation
	for _, k := range a.Kinds {
		var notes []string
		if k.Waiting > 0 {
			notes = append(notes, count(k.Waiting)+" "+b.t("authorisation.waiting"))
		}
		if k.Refused > 0 {
			notes = append(notes, count(k.Refused)+" "+b.t("authorisation.refused"))
		}
		missing += max(0, k.Wanted-k.Sealed)
		lines = append(lines, fact{Name: documentName(b.lang, k.Kind), Note: strings.Join(notes, " · "),
			Value: fmt.Sprintf("%s %s %s", count(k.Sealed), b.t("authorisation.of"), count(k.Wanted))})
	}
	note = b.t("authorisation.done")
	if missing > 0 {
		note = b.t("authorisation.missing") + " " + count(missing) + "."
	}
	return lines, note + " " + b.t("authorisation.since") + " " + day(b.lang, a.Since) + "."
}

func (b *board) rules() {
	if b.o.Rules == nil {
		return
	}
	for _, r := range b.o.Rules.Rules {
		line := fact{Name: documentName(b.lang, r.Document), Value: r.Version}
		switch {
		case r.Trouble != nil && r.Off == nil:
			b.RulesRefused = append(b.RulesRefused, fact{Name: r.Name, Value: r.Version,
				Note: b.t("rule." + r.Trouble.Why), Level: "bad"})
		case r.State == "coming":
			line.Note = b.t("from") + " " + day(b.lang, r.From)
			b.Coming = append(b.Coming, line)
		case r.State == "live":
			if r.Expires != "" {
				line.Note, line.Level = b.t("until")+" "+day(b.lang, r.Expires), "warn"
			}
			if r.Expired {
				line.Note, line.Level = b.t("expired")+" "+day(b.lang, r.Expires), "bad"
			}
			b.outcomes(&line, r.Outcomes)
			b.Live = append(b.Live, line)
		}
	}
	if back := b.o.Rules.Return; back != nil {
		b.Returned = strings.TrimSpace(back.To.Name+" "+back.To.Version) + ", " + b.ago(back.At)
	}
}

// outcomes adds how many of a rule's documents MH has refused, and how often the rule failed. It adds a rule that is
// most likely wrong to Rejecting or Failing.
func (b *board) outcomes(line *fact, o *dte.Outcomes) {
	if o == nil || o.Refused+o.Failed == 0 {
		return
	}
	var said []string
	if o.Refused > 0 {
		said = append(said, b.t("rule.rejects")+" "+count(o.Refused)+" "+b.t("authorisation.of")+" "+count(o.Decided))
	}
	if o.Failed > 0 {
		said = append(said, b.t("rule.fails")+": "+count(o.Failed))
	}
	text := strings.Join(said, " · ")
	line.Note = strings.TrimPrefix(line.Note+" · "+text, " · ")
	if o.Grave() {
		wrong := &b.Failing
		if o.Rejected() {
			wrong = &b.Rejecting
		}
		line.Level = "bad"
		*wrong = append(*wrong, line.Name+" "+line.Value+": "+text+".")
	}
}

func (b *board) deliver(name string, on bool, n int, oldest time.Time, trouble string) {
	f := fact{Name: b.t(name), Value: b.t("off")}
	if on {
		f.Value = count(n) + " " + b.t("pending")
		f = b.pending(f, n, oldest)
		if trouble != "" {
			f.Note, f.Level, f.Raw = b.t(name+".trouble"), "bad", masked(trouble)
		}
	}
	b.Deliveries = append(b.Deliveries, f)
}

func (b *board) box() {
	add := func(f fact) { b.Box = append(b.Box, f) }
	copied := fact{Name: b.t("copy"), Value: b.t("off")}
	if c := b.o.SecondCopy; c != nil {
		copied.Value, copied.Level, copied.Note = b.t("copy.live"), "ok", b.since(c.Since)
		if !c.Live {
			copied.Value, copied.Level, copied.Raw = b.t("copy.stopped"), "bad", c.Why
		}
	}
	add(copied)
	if c := b.o.Chain; c != nil {
		f := fact{Name: b.t("chain"), Value: c.Branch, Note: b.t("chain.unasked"), Level: "ok"}
		if !c.Look.Asked.IsZero() {
			f.Note = b.t("chain.asked") + " " + b.ago(c.Look.Asked) + " · " + b.t("version") + " " +
				strconv.FormatInt(c.Look.Version, 10)
		}
		switch {
		case c.Look.Standing.Replaced:
			f.Note, f.Level = b.t("chain.replaced"), "bad"
		case len(c.Look.Unbound) > 0:
			f.Note, f.Level = b.t("chain.unbound")+" "+strings.Trim(fmt.Sprint(c.Look.Unbound), "[]"), "bad"
			f.Raw = masked(c.Look.Trouble)
		case c.Lacks != "":
			f.Note, f.Level, f.Raw = b.t("chain.lacks"), "bad", masked(c.Lacks)
		case c.Look.Refused:
			f.Note, f.Level, f.Raw = b.t("chain.refused"), "warn", masked(c.Look.Trouble)
		case c.Look.Trouble != "":
			f.Note, f.Level, f.Raw = b.t("chain.trouble"), "warn", masked(c.Look.Trouble)
		}
		add(f)
	}
	if free, reserve := b.o.Free, b.o.Reserve; free > 0 {
		f := fact{Name: b.t("disk"), Value: size(free), Note: b.t("disk.reserve") + " " + size(reserve), Level: "ok"}
		if free < reserve {
			f.Level = "bad"
		} else if free < lowDisk*reserve {
			f.Level = "warn"
		}
		add(f)
	}
	if skew := b.o.Skew; skew != nil {
		f := fact{Name: b.t("clock"), Value: clockDifference(*skew), Note: b.t("clock.note"), Level: "ok"}
		if skew.Abs() > skewed {
			f.Level = "warn"
		}
		add(f)
	}
	for _, e := range b.o.Expires {
		add(fact{Name: b.t("expires." + e.Name), Value: day(b.lang, e.Ends.In(dte.Zone).Format(time.DateOnly)),
			Note: remaining(b.lang, e.Ends, b.o.At), Level: urgency(e.Ends.Sub(b.o.At), soon[e.Name], "ok")})
	}
	if b.o.Rules != nil {
		add(fact{Name: b.t("engine"), Value: b.t("engine." + b.o.Rules.Engine)})
	}
	add(fact{Name: b.t("version"), Value: b.o.Version, Note: b.t("started") + " " + b.ago(b.o.Started)})
}

// fresh is how long an error in the log stays red, and a warning yellow. A trouble that lasts longer has a line of its
// own, or is logged again.
const fresh = time.Hour

// verdict sets the title and the advice: whether the branch can issue, and what people must do. It runs last: the
// advice depends on every red or yellow line.
func (b *board) verdict() {
	o := b.o
	late := slices.ContainsFunc(b.Deadlines, func(d fact) bool { return d.Level == "bad" })
	state := "ok"
	switch {
	case o.Stopped != nil:
		state, b.Level, b.Reason = "stopped", "bad", stopped(b.lang, o.Stopped)
	case late:
		state, b.Level = "late", "bad"
	case len(b.Rejecting) > 0:
		state, b.Level, b.Reason = "rejecting", "bad", strings.Join(b.Rejecting, " ")
	case len(b.Failing) > 0:
		state, b.Level, b.Reason = "failing", "bad", strings.Join(b.Failing, " ")
	case o.MH.Refused != nil:
		state, b.Level, b.Order = "password", "bad", PasswordOrder
		b.Reason = b.t(passwordReason(o.MH.Refused))
	case o.Owed.Contingency != nil:
		state, b.Level = "contingency", "warn"
		b.Reason = b.t(fmt.Sprintf("cause.%d", o.Owed.Contingency.Cause))
	case o.MH.Asked && !o.MH.Up:
		state, b.Level = "unsure", "warn"
	default:
		b.Level = b.worst()
		state = map[string]string{"ok": "ok", "warn": "watch", "bad": "attention"}[b.Level]
	}
	b.Title, b.Advice = b.t("verdict."+state), b.t("verdict."+state+".advice")
	if b.Level == "warn" && b.worst() == "bad" {
		b.Level, b.Advice = "bad", b.Advice+" "+b.t("verdict.red")
	}
}

// PasswordOrder are the commands that central IT runs on the box, as root, after the password of MH's API has changed.
const PasswordOrder = "systemd-ask-password -n 'MH API password' | " +
	"systemd-creds encrypt --name=authority.password - /etc/dted/authority.password.cred\nsystemctl restart dted"

func passwordReason(err error) string {
	switch {
	case errors.Is(err, authority.ErrPasswordExpired):
		return "password.expired"
	case errors.Is(err, authority.ErrPasswordChange):
		return "password.change"
	}
	return "password.wrong"
}

// stopped returns why nothing is issued, without the underlying cause: the log has the cause.
func stopped(lang string, err error) string {
	e, refused := errors.AsType[*refusal.Error](err)
	switch {
	case refused && lang == "es" && !e.Operator:
		return e.Message
	case refused:
		return problem.InEnglish(e).Message
	case errors.Is(err, ErrNoRules):
		return say(lang, "stopped.rules")
	}
	return err.Error()
}

// worst returns the worst level on the board: bad, else warn, else ok. Warnings in the log do not count, because they
// do not describe the branch's current state.
func (b *board) worst() string {
	worst := "ok"
	see := func(level string) {
		if level == "bad" || level == "warn" && worst == "ok" {
			worst = level
		}
	}
	for _, f := range slices.Concat(b.Facts, b.Deliveries, b.Box, b.Live, b.Coming, b.RulesRefused, b.Deadlines,
		b.Waiting) {
		see(f.Level)
	}
	for _, t := range b.Trouble {
		if t.Level == "bad" {
			see(t.Level)
		}
	}
	if b.o.Owed.Refused != "" || b.Returned != "" || b.o.Owed.Delivery.GivenUp > 0 {
		see("bad")
	}
	return worst
}

// masked hides the local part of mail addresses: the page must not show customers.
func masked(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		if at := strings.IndexByte(w, '@'); at > 0 {
			words[i] = "…" + w[at:]
		}
	}
	return strings.Join(words, " ")
}

// Pages are made of nodes, which escape every text. html/template would make the program a third larger, because the
// linker would keep every method.

func el(name string, children ...g.Node) g.Node { return g.El(name, children...) }

func txt(name, text string) g.Node { return el(name, g.Text(text)) }

func attr(name, value string) g.Node { return g.Attr(name, value) }

func class(name string) g.Node { return g.If(name != "", g.Attr("class", name)) }

func small(text string) g.Node { return g.If(text != "", txt("small", text)) }

func link(to, text string) g.Node { return el("a", attr("href", to), g.Text(text)) }

func listed[T any](name string, items []T, node func(T) g.Node, before ...g.Node) g.Node {
	if len(items) == 0 {
		return nil
	}
	return el(name, append(before, g.Map(items, node))...)
}

// document returns a whole page in a language. The page's policy must allow style.
func document(lang, title, style string, head g.Node, body ...g.Node) []byte {
	var b bytes.Buffer
	b.WriteString("<!doctype html>\n")
	page := el("html", attr("lang", lang), el("head",
		el("meta", attr("charset", "utf-8")),
		el("meta", attr("name", "viewport"), attr("content", "width=device-width, initial-scale=1")),
		el("meta", attr("name", "color-scheme"), attr("content", "light dark")),
		head, txt("title", title), el("style", g.Raw(style))), el("body", body...))
	_ = page.Render(&b) // writing to memory cannot fail
	return b.Bytes()
}

// Measures of the chart, in points of its drawing.
const (
	chartWide, chartHigh = 360, 150
	chartLeft, chartFoot = 36, 20 // width of the scale left of the bars, height of the hours below
	chartTop             = 8
)

// chart draws the day's documents as one stacked bar for each hour. now is the current hour.
func chart(lang string, day documents.Today, now int) g.Node {
	most, best, total := 0, 0, 0
	for h, x := range day.Hours {
		n := x.Normal + x.Contingency + x.Rejected
		total += n
		if n > most {
			most, best = n, h
		}
	}
	label := fmt.Sprintf("%s: %s.", say(lang, "today"), count(total)) // for people who cannot see the chart
	if total > 0 {
		label += fmt.Sprintf(" %s: %02d:00, %s.", say(lang, "chart.peak"), best, count(most))
	}
	number := func(name string, v float64) g.Node { return attr(name, strconv.FormatFloat(v, 'f', -1, 64)) }
	top := ceiling(most)
	height := float64(chartHigh - chartFoot - chartTop)
	y := func(n int) float64 { return chartTop + height*(1-float64(n)/float64(top)) }
	step := float64(chartWide-chartLeft) / 24
	var lines, hours, bars g.Group
	for _, n := range []int{0, top / 2, top} {
		lines = append(lines, el("line", attr("x1", "36"), attr("x2", "360"), number("y1", y(n)), number("y2", y(n))),
			el("text", attr("x", "31"), number("y", y(n)), attr("dy", "4"), attr("text-anchor", "end"),
				g.Text(count(n))))
	}
	for h, x := range day.Hours {
		left := chartLeft + float64(h)*step
		if h%3 == 0 {
			hours = append(hours, el("text", number("x", left+step/2), attr("y", "145"), attr("text-anchor", "middle"),
				g.Text(fmt.Sprintf("%02d", h))))
		}
		if x == (documents.Hour{}) {
			continue
		}
		bar := g.Group{txt("title", fmt.Sprintf("%02d:00–%02d:59 · %s", h, h, tally(lang, x)))}
		below := 0
		for _, p := range parts(x) {
			if p.n > 0 {
				bar = append(bar, el("rect", class(p.kind), number("x", left+1.5), number("y", y(below+p.n)),
					number("width", step-3), number("height", max(1, y(below)-y(below+p.n)))))
				below += p.n
			}
		}
		bars = append(bars, el("g", bar))
	}
	return el("svg", attr("viewBox", fmt.Sprintf("0 0 %d %d", chartWide, chartHigh)), attr("role", "img"),
		attr("aria-label", label), lines, hours,
		el("rect", class("now"), attr("x", strconv.Itoa(int(chartLeft+float64(now)*step))), attr("y", "130"),
			attr("width", "13.5"), attr("height", "2")), bars)
}

// part is how many documents of one kind an hour has. The kind is a CSS class, and the end of a key of words.json.
type part struct {
	kind string
	n    int
}

func parts(h documents.Hour) [3]part {
	return [...]part{{"normal", h.Normal}, {"contingency", h.Contingency}, {"rejected", h.Rejected}}
}

func tally(lang string, h documents.Hour) string {
	var said []string
	for _, p := range parts(h) {
		if p.n > 0 {
			said = append(said, count(p.n)+" "+say(lang, "chart."+p.kind))
		}
	}
	return strings.Join(said, ", ")
}

// ceiling returns the top of a scale for n: a round, even number, n or more.
func ceiling(n int) int {
	for _, top := range []int{2, 4, 6, 8} {
		if top >= n {
			return top
		}
	}
	for unit := 1; ; unit *= 10 {
		for _, m := range []int{10, 12, 16, 20, 24, 30, 40, 50, 60, 80} {
			if unit*m >= n {
				return unit * m
			}
		}
	}
}
