package page

import (
	"fmt"

	"dtegate/engine/authorisation"

	g "maragu.dev/gomponents"
)

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
		q := queue{Name: say(lang, "document."+k.Kind), N: fmt.Sprintf("%s %s %s", count(k.Sealed), say(lang, "authorisation.of"), count(k.Wanted))}
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
