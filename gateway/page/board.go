package page

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// board is an overview as the page says it: every text in its language, every time in El Salvador's.
type board struct {
	Lang, Other    string // and the language to change to
	At, Ambiente   string
	Test           bool
	Branch         int64
	Level          string // ok, warn or bad
	Title, Advice  string
	Reason         string
	Order          string // what central IT types; empty: nothing
	Facts          []fact
	Chart          *chart
	Total          string
	Partial        bool
	Documents      []named
	Authorisation  *permit // nil outside of the test ambiente
	Month          string  // its name; "" while it is counted
	MonthLines     []monthLine
	Waiting        []queue
	Deadlines      []deadline
	Refused        string // MH's words on an event
	Live, Coming   []ruleLine
	RulesRefused   []ruleLine // stored, and may not compute
	Rejecting      []string   // rules in force that MH refuses, a sentence each
	Returned       string     // to which rule, and when
	ReturnedRaw    string     // why, in the appliance's own words
	Deliveries     []fact
	GivenUp        int
	Box            []fact
	Trouble        []troubleLine
	Version, Since string
}

type (
	// Raw is what a machine said, in its own words, which are mostly English.
	fact struct{ Name, Value, Note, Level, Raw string }

	named struct{ Name, N string }

	queue struct{ Name, Note, N, Level string }

	deadline struct{ Name, At, Left, Level string }

	ruleLine struct{ Name, Version, Note, Level string }

	troubleLine struct {
		At, Text, Raw, Level string
		Ended                string // "" while it goes on, or nobody says
		Count                int
	}
)

func newBoard(lang string, o *Overview) *board {
	b := &board{Lang: lang, Other: map[string]string{"es": "en", "en": "es"}[lang], At: clock(o.At), Branch: o.Branch,
		Test: o.Ambiente != "01", Version: o.Version, Since: momentText(lang, o.Started, o.At),
		Partial: o.Today.Partial}
	b.Ambiente = say(lang, "ambiente."+o.Ambiente)
	b.deadlines(lang, o)
	b.facts(lang, o)
	b.day(lang, o)
	b.Authorisation = newAuthorisation(lang, o.Authorisation)
	b.month(lang, o)
	for _, name := range []string{"settle", "report", "event", "forward", "lot", "invalidate", "correct"} {
		if n := o.Owed.Waiting[name]; n > 0 {
			q := queue{Name: say(lang, "queue."+name), Note: say(lang, "queue."+name+".note"), N: count(n)}
			if name == "correct" { // the one that a person settles
				q.Level = "warn"
			}
			b.Waiting = append(b.Waiting, q)
		}
	}
	if n := o.Owed.Lost; n > 0 {
		b.Waiting = append(b.Waiting, queue{Name: say(lang, "queue.lost"), Note: say(lang, "queue.lost.note"),
			N: count(n), Level: "bad"})
	}
	b.rules(lang, o)
	b.deliveries(lang, o)
	b.box(lang, o)
	for _, x := range o.Trouble {
		line := troubleLine{At: momentText(lang, x.At, o.At), Count: x.Count, Level: troubleLevel(x, o.At)}
		if !x.Ended.IsZero() {
			line.Ended, line.Level = clock(x.Ended), ""
		}
		line.Text, line.Raw = notice(lang, x)
		b.Trouble = append(b.Trouble, line)
	}
	b.verdict(lang, o)
	return b
}

// deadlines are what the law wants and by when.
func (b *board) deadlines(lang string, o *Overview) {
	for _, d := range []struct {
		name string
		at   time.Time
	}{{"event", o.Owed.EventDeadline}, {"documents", o.Owed.DocumentDeadline}, {"correction",
		o.Owed.CorrectionDeadline}, {"refused", o.Owed.RefusedDeadline}, {"report", o.Owed.TechnicalReport}} {
		if d.at.IsZero() {
			continue
		}
		level := ""
		switch left := d.at.Sub(o.At); {
		case d.name == "report": // a person's to do, before the event; the box misses no deadline of its own
			level = "warn"
		case left <= 0:
			level = "bad"
		case left < soon[d.name]:
			level = "warn"
		}
		b.Deadlines = append(b.Deadlines, deadline{Name: say(lang, "deadline."+d.name), At: moment(lang, d.at, o.At),
			Left: remaining(lang, d.at, o.At), Level: level})
	}
	b.Refused = o.Owed.Refused
}

func (b *board) facts(lang string, o *Overview) {
	mh := fact{Name: say(lang, "mh"), Value: say(lang, "mh.unasked"), Note: say(lang, "mh.unasked.note")}
	switch {
	case o.MH.Refused != nil:
		mh = fact{
			Name:  mh.Name,
			Value: say(lang, "mh.refused"),
			Note:  say(lang, passwordReason(o.MH.Refused)),
			Level: "bad",
			Raw:   o.MH.Refused.Error(),
		}
	case o.MH.Asked && o.MH.Up:
		mh = fact{Name: mh.Name, Value: say(lang, "mh.up"), Note: say(lang, "since") + " " + momentText(lang,
			o.MH.Since, o.At), Level: "ok"}
	case o.MH.Asked:
		mh = fact{Name: mh.Name, Value: say(lang, "mh.down"), Note: say(lang, "since") + " " + momentText(lang,
			o.MH.Since, o.At) + " · " + unanswered(lang, o.MH.Why), Level: "warn", Raw: o.MH.Why}
	}
	period := fact{Name: say(lang, "contingency"), Value: say(lang, "contingency.none"), Level: "ok"}
	if p := o.Owed.Contingency; p != nil {
		period.Value, period.Level = say(lang, "contingency.on"), "warn"
		period.Note = say(lang, "since") + " " + momentText(lang, p.Began, o.At)
		if p.Declared {
			period.Note += " · " + say(lang, "contingency.declared")
		}
	}
	n := 0
	for _, w := range o.Owed.Waiting {
		n += w
	}
	waiting := fact{Name: say(lang, "owed"), Value: count(n), Level: "ok"}
	if n > 0 {
		waiting.Level = ""
	}
	if !o.Owed.Oldest.IsZero() {
		waiting.Note = say(lang, "oldest") + " " + momentText(lang, o.Owed.Oldest, o.At)
	}
	b.Facts = []fact{mh, period, waiting}
}

func (b *board) day(lang string, o *Overview) {
	total := 0
	for _, kind := range record.Known() {
		if n := o.Today.Documents[kind.Document]; n > 0 {
			b.Documents = append(b.Documents, named{documentName(lang, kind.Document), count(n)})
			total += n
		}
	}
	b.Total = count(total)
	b.Chart = newChart(lang, o.Today, o.At.In(dte.Zone).Hour())
}

// rules are one line a document: what computes it today, and what will.
func (b *board) rules(lang string, o *Overview) {
	if o.Rules == nil {
		return
	}
	for _, r := range o.Rules.Rules {
		if r.Trouble != nil && r.Off == nil {
			b.RulesRefused = append(b.RulesRefused, ruleLine{Name: r.Name, Version: r.Version, Note: say(lang,
				"rule."+r.Trouble.Why), Level: "bad"})
			continue
		}
		line := ruleLine{Name: documentName(lang, r.Document), Version: r.Version}
		switch {
		case r.State == "coming":
			line.Note = say(lang, "from") + " " + day(lang, r.From)
			b.Coming = append(b.Coming, line)
		case r.State == "live":
			if r.Expires != "" {
				line.Note, line.Level = say(lang, "until")+" "+day(lang, r.Expires), "warn"
			}
			if r.Expired {
				line.Note, line.Level = say(lang, "expired")+" "+day(lang, r.Expires), "bad"
			}
			b.outcomes(lang, &line, r.Outcomes)
			b.Live = append(b.Live, line)
		}
	}
	if back := o.Rules.Return; back != nil {
		b.Returned, b.ReturnedRaw = strings.TrimSpace(back.To.Name+" "+back.To.Version)+", "+momentText(lang, back.At,
			o.At), masked(back.Reason)
	}
}

// outcomes adds what MH refuses of a rule in force to the rule's line, and to the verdict if the rule is most likely
// wrong.
func (b *board) outcomes(lang string, line *ruleLine, o *dte.Outcomes) {
	if o == nil || o.Refused == 0 {
		return
	}
	text := say(lang, "rule.rejects") + " " + count(o.Refused) + " " + say(lang, "authorisation.of") + " " +
		count(o.Decided)
	line.Note = strings.TrimPrefix(line.Note+" · "+text, " · ")
	if o.Grave() {
		line.Level = "bad"
		b.Rejecting = append(b.Rejecting, line.Name+" "+line.Version+": "+text+".")
	}
}

func (b *board) deliveries(lang string, o *Overview) {
	d := &o.Owed.Delivery
	line := func(name string, on bool, n int, oldest time.Time, trouble string) {
		f := fact{Name: say(lang, name), Value: say(lang, "off")}
		if on {
			f.Value, f.Level = count(n)+" "+say(lang, "pending"), "ok"
			if n > 0 {
				f.Level = ""
			}
			if !oldest.IsZero() {
				f.Note = say(lang, "oldest") + " " + momentText(lang, oldest, o.At)
			}
			if trouble != "" {
				f.Note, f.Level, f.Raw = say(lang, name+".trouble"), "bad", masked(trouble)
			}
		}
		b.Deliveries = append(b.Deliveries, f)
	}
	line("mail", o.Mail, d.Mail, d.MailOldest, d.MailTrouble)
	line("archive", o.Archive, d.Archive, d.ArchiveOldest, d.ArchiveTrouble)
	b.GivenUp = d.GivenUp
}

func (b *board) box(lang string, o *Overview) {
	copied := fact{Name: say(lang, "copy"), Value: say(lang, "off")}
	if c := o.SecondCopy; c != nil {
		copied.Value, copied.Level = say(lang, "copy.live"), "ok"
		copied.Note = say(lang, "since") + " " + momentText(lang, c.Since, o.At)
		if !c.Live {
			copied.Value, copied.Level = say(lang, "copy.stopped"), "bad"
			copied.Raw = c.Why
		}
	}
	b.Box = append(b.Box, copied)
	if c := o.Chain; c != nil {
		f := fact{Name: say(lang, "chain"), Value: c.Branch, Note: say(lang, "chain.unasked"), Level: "ok"}
		if !c.Asked.IsZero() {
			f.Note = say(lang, "chain.asked") + " " + momentText(lang, c.Asked, o.At) + " · " + say(lang, "version") +
				" " + strconv.FormatInt(c.Version, 10)
		}
		switch {
		case c.Replaced:
			f.Note, f.Level = say(lang, "chain.replaced"), "bad"
		case len(c.Unbound) > 0:
			f.Note, f.Level = say(lang, "chain.unbound")+" "+strings.Join(c.Unbound, " "), "bad"
		case c.Lacks != "":
			f.Note, f.Level, f.Raw = say(lang, "chain.lacks"), "bad", masked(c.Lacks)
		case c.Refused:
			f.Note, f.Level, f.Raw = say(lang, "chain.refused"), "warn", masked(c.Trouble)
		case c.Trouble != "":
			f.Note, f.Level, f.Raw = say(lang, "chain.trouble"), "warn", masked(c.Trouble)
		}
		b.Box = append(b.Box, f)
	}
	if o.Free > 0 {
		disk := fact{Name: say(lang, "disk"), Value: size(o.Free), Note: say(lang, "disk.reserve") + " " +
			size(o.Reserve), Level: "ok"}
		switch {
		case o.Free < o.Reserve:
			disk.Level = "bad"
		case o.Free < lowDisk*o.Reserve:
			disk.Level = "warn"
		}
		b.Box = append(b.Box, disk)
	}
	if o.Skew != nil {
		clock := fact{Name: say(lang, "clock"), Value: clockDifference(*o.Skew), Note: say(lang, "clock.note"),
			Level: "ok"}
		if o.Skew.Abs() > skewed {
			clock.Level = "warn"
		}
		b.Box = append(b.Box, clock)
	}
	for _, e := range o.Expires {
		f := fact{Name: say(lang, "expires."+e.Name), Value: day(lang, e.At.In(dte.Zone).Format(time.DateOnly)),
			Note: remaining(lang, e.At, o.At), Level: "ok"}
		switch left := e.At.Sub(o.At); {
		case left <= 0:
			f.Level = "bad"
		case left < soon[e.Name]:
			f.Level = "warn"
		}
		b.Box = append(b.Box, f)
	}
	if o.Rules != nil {
		b.Box = append(b.Box, fact{Name: say(lang, "engine"), Value: say(lang, "engine."+o.Rules.Engine)})
	}
	b.Box = append(b.Box, fact{Name: say(lang, "version"), Value: o.Version, Note: say(lang, "started") + " " +
		momentText(lang, o.Started, o.At)})
}

// masked hides addresses: who buys is nobody's business here.
func masked(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		if at := strings.IndexByte(w, '@'); at > 0 {
			words[i] = "…" + w[at:]
		}
	}
	return strings.Join(words, " ")
}

// Pages are made of nodes, which escape every text. html/template would do the same and make the program a third
// larger: with it the linker keeps every method there is.

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

// chart is the day by the hour, as stacked bars. Its unit is a point of the drawing, which is chartWide by chartHigh.
type chart struct {
	Wide, High int
	Bars       []bar
	Hours      []tick // below the bars
	Lines      []tick // of the scale
	Now        int    // x of the hour that goes on
	Label      string // for who does not see it
}

type bar struct {
	Title string
	Parts []part
}

// part is a piece of a bar; Kind is a class: normal, contingency, rejected.
type part struct {
	Kind       string
	X, Y, W, H float64
}

type tick struct {
	At   float64
	Text string
}

const (
	chartWide, chartHigh = 360, 150
	chartLeft, chartFoot = 36, 20 // room for the scale and for the hours
	chartTop             = 8
)

func newChart(lang string, day documents.Today, now int) *chart {
	c := &chart{Wide: chartWide, High: chartHigh}
	most, best, total := 0, 0, 0
	for h, x := range day.Hours {
		n := x.Normal + x.Contingency + x.Rejected
		total += n
		if n > most {
			most, best = n, h
		}
	}
	top := ceiling(most)
	height := float64(chartHigh - chartFoot - chartTop)
	y := func(n int) float64 { return chartTop + height*(1-float64(n)/float64(top)) }
	step := float64(chartWide-chartLeft) / 24
	for h, x := range day.Hours {
		left := chartLeft + float64(h)*step
		if h%3 == 0 {
			c.Hours = append(c.Hours, tick{left + step/2, fmt.Sprintf("%02d", h)})
		}
		if h == now {
			c.Now = int(left)
		}
		if x == (documents.Hour{}) {
			continue
		}
		b := bar{Title: fmt.Sprintf("%02d:00–%02d:59 · %s", h, h, tally(lang, x))}
		below := 0
		for _, p := range []struct {
			kind string
			n    int
		}{{"normal", x.Normal}, {"contingency", x.Contingency}, {"rejected", x.Rejected}} {
			if p.n > 0 {
				b.Parts = append(b.Parts, part{Kind: p.kind, X: left + 1.5, Y: y(below + p.n), W: step - 3,
					H: max(1, y(below)-y(below+p.n))})
				below += p.n
			}
		}
		c.Bars = append(c.Bars, b)
	}
	for _, n := range []int{0, top / 2, top} {
		c.Lines = append(c.Lines, tick{y(n), count(n)})
	}
	c.Label = fmt.Sprintf("%s: %s.", say(lang, "today"), count(total))
	if total > 0 {
		c.Label += fmt.Sprintf(" %s: %02d:00, %s.", say(lang, "chart.peak"), best, count(most))
	}
	return c
}

// tally says what an hour holds, leaving out what it has none of.
func tally(lang string, h documents.Hour) string {
	s := ""
	for _, p := range []struct {
		key string
		n   int
	}{{"normal", h.Normal}, {"contingency", h.Contingency}, {"rejected", h.Rejected}} {
		if p.n > 0 {
			if s != "" {
				s += ", "
			}
			s += count(p.n) + " " + say(lang, "chart."+p.key)
		}
	}
	return s
}

// ceiling is the even, round number that a scale ends at.
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
