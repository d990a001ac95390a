package page

import (
	"fmt"
	"strings"

	g "maragu.dev/gomponents"

	"dtegate/engine/authorisation"
	"dtegate/engine/documents"
	"dtegate/engine/record"
)

// Month is what the branch has issued since the first day of a month, by type and state.
type Month struct {
	Name   string // "2026-11"
	Totals []documents.Total
}

// month is the month so far: documents that stand, and what they add up to, by type; what does not stand is a remark. A
// Month that is nil is being counted.
func (b *board) month(lang string, o *Overview) {
	if o.Month == nil {
		return
	}
	b.Month = say(lang, "month."+o.Month.Name[5:])
	for _, kind := range record.Known() {
		tipo, line, void := kind.Name, monthLine{Name: documentName(lang, kind.Document)}, 0
		var notes []string
		sum := ""
		for _, t := range o.Month.Totals {
			switch {
			case t.Tipo != tipo:
			case t.Estado == record.EstadoProcessed:
				line.N, sum = count(t.Count), t.Amount
			default:
				void += t.Count
				notes = append(notes, say(lang, "month."+t.Estado)+": "+count(t.Count))
			}
		}
		if sum == "" && void == 0 {
			continue
		}
		if sum == "" {
			line.N, sum = "0", "0.00"
		}
		line.Amount, line.Note = "$"+thousands(sum), strings.Join(notes, " · ")
		b.MonthLines = append(b.MonthLines, line)
	}
}

// monthLine is a type of document: how many of it MH has sealed, and what they add up to.
type monthLine struct{ Name, N, Amount, Note string }

// thousands groups the digits of an amount of two decimals.
func thousands(amount string) string {
	sign := ""
	if strings.HasPrefix(amount, "-") {
		sign, amount = "-", amount[1:]
	}
	whole, cents, _ := strings.Cut(amount, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + "." + cents
}

func (b *board) monthHTML(t func(string) string) g.Node {
	title := t("month.this")
	if b.Month != "" {
		title = t("month") + " " + b.Month
	}
	return el("section", class("month"), txt("h2", title),
		g.If(b.Month == "", txt("p", t("month.counting"))),
		listed("table", b.MonthLines, func(l monthLine) g.Node {
			return el("tr", el("th", attr("scope", "row"), g.Text(l.Name), small(l.Note)), txt("td", l.N),
				txt("td", l.Amount))
		}),
		g.If(b.Month != "" && len(b.MonthLines) == 0, txt("p", t("month.none"))))
}

// permit shows, in the test ambiente, how many of each kind MH has sealed of those that it wants.
type permit struct {
	Lines   []queue
	Note    string
	Partial bool
}

func newAuthorisation(lang string, a *authorisation.Progress) *permit {
	if a == nil {
		return nil
	}
	shown := &permit{Partial: a.Partial}
	missing := 0
	for _, k := range a.Kinds {
		q := queue{Name: documentName(lang, k.Kind), N: fmt.Sprintf("%s %s %s", count(k.Sealed),
			say(lang, "authorisation.of"), count(k.Wanted))}
		if k.Waiting > 0 {
			q.Note = count(k.Waiting) + " " + say(lang, "authorisation.waiting")
		}
		if k.Refused > 0 {
			if q.Note != "" {
				q.Note += " · "
			}
			q.Note += count(k.Refused) + " " + say(lang, "authorisation.refused")
		}
		missing += max(0, k.Wanted-k.Sealed)
		shown.Lines = append(shown.Lines, q)
	}
	shown.Note = say(lang, "authorisation.done")
	if missing > 0 {
		shown.Note = say(lang, "authorisation.missing") + " " + count(missing) + "."
	}
	shown.Note += " " + say(lang, "authorisation.since") + " " + day(lang, a.Since) + "."
	return shown
}

func (a *permit) html(t func(string) string) g.Node {
	return el("section", class("progress"), txt("h2", t("authorisation")),
		txt("p", a.Note),
		g.If(a.Partial, el("p", class("partial"), g.Text(t("authorisation.partial")))),
		listed("table", a.Lines, func(q queue) g.Node { return row(q.Level, q.Name, q.Note, q.N) }))
}
