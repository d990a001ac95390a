package page

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
)

//go:embed words.json
var wordsFile []byte

// words maps a key to a text of the page, in Spanish and in English.
var words = table[map[string][2]string](wordsFile)

//go:embed notices.es.json
var noticesFile []byte

// logged maps each warning and error in the log (in English) to a sentence for the Spanish page. A test checks that
// every message has a sentence.
var logged = table[map[string]string](noticesFile)

// table decodes an embedded file. It panics if the file, which is part of the program, has a fault.
func table[T any](text []byte) (t T) {
	if err := json.Unmarshal(text, &t); err != nil {
		panic(err)
	}
	return t
}

// say returns a text of the page. For an unknown key, it returns the part of the key after the last dot.
func say(lang, key string) string {
	switch w, ok := words[key]; {
	case ok && lang == "en":
		return w[1]
	case ok:
		return w[0]
	}
	return key[strings.LastIndexByte(key, '.')+1:]
}

func documentName(lang, document string) string {
	t := record.TypeOf(document)
	switch {
	case t.Document == "":
		return say(lang, "document."+document)
	case lang == "es":
		return t.Es + " (" + document + ")"
	}
	return t.En + " (" + document + ")"
}

func unanswered(lang, why string) string {
	kind := "link"
	switch {
	case why == "timeout":
		kind = "timeout"
	case strings.HasPrefix(why, "DNS: "):
		kind = "name"
	case strings.HasPrefix(why, "HTTP "):
		kind = "fault"
	}
	return say(lang, "mh.why."+kind)
}

func clock(t time.Time) string { return t.In(dte.Zone).Format("15:04:05") }

// months are the names of the months. Dates show their first three letters.
var months = map[string][]string{
	"es": strings.Fields("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
	"en": strings.Fields("January February March April May June July August September October November December"),
}

func moment(lang string, t, now time.Time) string {
	t = t.In(dte.Zone)
	if dte.Date(t) == dte.Date(now) {
		return t.Format("15:04")
	}
	return fmt.Sprintf("%d %s %s", t.Day(), months[lang][t.Month()-1][:3], t.Format("15:04"))
}

func momentText(lang string, t, now time.Time) string {
	if t.IsZero() {
		return "–"
	}
	ago := dte.Span(now.Sub(t))
	if lang == "es" {
		return moment(lang, t, now) + " (hace " + ago + ")"
	}
	return moment(lang, t, now) + " (" + ago + " ago)"
}

func remaining(lang string, at, now time.Time) string {
	if left := at.Sub(now); left > 0 {
		return say(lang, "left") + " " + dte.Span(left)
	}
	return say(lang, "overdue") + " " + dte.Span(now.Sub(at))
}

func day(lang, date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return fmt.Sprintf("%d %s %d", t.Day(), months[lang][t.Month()-1][:3], t.Year())
}

// count writes a number with commas, as both languages do in El Salvador.
func count(n int) string { return pdf.Printed(strconv.Itoa(n), 0) }

func clockDifference(d time.Duration) string {
	if d.Abs() < time.Second {
		return "< 1 s"
	}
	return dte.Span(d.Abs())
}

func size(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// Ends maps a log message that ends a trouble to the message that began it.
var Ends = map[string]string{
	"the disk takes the store's tables again": "the disk does not take the store's tables",
	"out of contingency":                      "in contingency",
	"clock is right again":                    "clock is wrong: nothing new is issued",
	"disk has room again":                     "disk is full: nothing new is issued",
	"second copy is live":                     "second copy is not written",
	"the mark is as it was written again":     "the next start will refuse the mark: do not restart",
	"sales wait for the chain's store":        "sales do not wait for the chain's store any more",
}

// notice returns a line of the log in the page's language, and the English line (raw). The page shows raw on request.
func notice(lang string, x Trouble) (text, raw string) {
	raw = masked(x.Text)
	if lang != "es" {
		if text = x.Message; text == "" {
			return raw, ""
		}
		return strings.ToUpper(text[:1]) + text[1:], raw
	}
	return cmp.Or(logged[x.Message], say(lang, "trouble.other")), raw
}
