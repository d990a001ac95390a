package page

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/gateway/problem"
)

// ailments are everything that can be wrong on the page, each as one change to a sound branch.
var ailments = []struct {
	name, colour string // of the row below the verdict; "" for history
	do           func(o *Overview)
}{
	{"MH silent", "yellow", func(o *Overview) { o.MH.Up = false }},
	{"contingency", "yellow", func(o *Overview) {
		o.Owed.Contingency = &contingency.Period{Began: o.At.Add(-time.Hour), Cause: 1}
	}},
	{"event late", "red", func(o *Overview) { o.Owed.EventDeadline = o.At.Add(-time.Minute) }},
	{"documents nearly late", "yellow", func(o *Overview) { o.Owed.DocumentDeadline = o.At.Add(time.Hour) }},
	{"technical report", "yellow", func(o *Overview) { o.Owed.TechnicalReport = o.At.Add(30 * time.Hour) }},
	{"event refused", "red", func(o *Overview) { o.Owed.Refused = "no" }},
	{"to be corrected", "yellow", func(o *Overview) { o.Owed.Waiting["correct"] = 1 }},
	{"mail blocked", "red", func(o *Overview) { o.Owed.Delivery.MailTrouble = "535" }},
	{"archive blocked", "red", func(o *Overview) { o.Owed.Delivery.ArchiveTrouble = "403" }},
	{"given up", "red", func(o *Overview) { o.Owed.Delivery.GivenUp = 1 }},
	{"chain out of step", "yellow", func(o *Overview) {
		o.Chain = &Chain{Branch: "centro", Look: fleet.Look{Trouble: "rules: refused"}}
	}},
	{"point of sale not enrolled", "red", func(o *Overview) {
		o.Chain = &Chain{Branch: "centro", Look: fleet.Look{
			Unbound: []fleetproto.Point{{Establishment: "M001", Point: "P001"}}}}
	}},
	{"copy of the chain incomplete", "red", func(o *Overview) {
		o.Chain = &Chain{Branch: "centro",
			Lacks: "pieces 2 to 3"}
	}},
	{"box replaced", "red", func(o *Overview) {
		o.Chain = &Chain{Branch: "centro", Look: fleet.Look{Standing: fleet.Standing{Replaced: true}}}
	}},
	{"second copy stopped", "red", func(o *Overview) { o.SecondCopy.Live = false }},
	{"disk low", "yellow", func(o *Overview) { o.Free = o.Reserve + 1 }},
	{"disk full", "red", func(o *Overview) { o.Free = o.Reserve - 1 }},
	{"clock off", "yellow", func(o *Overview) { skew := -2 * time.Minute; o.Skew = &skew }},
	{"certificate ends", "yellow", func(o *Overview) { o.Expires[0].Ends = o.At.AddDate(0, 0, 3) }},
	{"certificate over", "red", func(o *Overview) { o.Expires[1].Ends = o.At.Add(-time.Hour) }},
	{"rule ends", "yellow", func(o *Overview) { o.Rules.Rules[0].Expires = "2026-12-20" }},
	{"rule over", "red", func(o *Overview) { o.Rules.Rules[0].Expires, o.Rules.Rules[0].Expired = "2026-11-30", true }},
	{"rule damaged", "red", func(o *Overview) { o.Rules.Rules[0].Trouble = &rulestore.Trouble{Why: "damaged"} }},
	{"rule stepped back", "red", func(o *Overview) { o.Rules.Return = &rulestore.StepBack{At: o.At} }},
	{"error a minute ago", "red", func(o *Overview) {
		o.Trouble = append(o.Trouble, Trouble{At: o.At.Add(-time.Minute), Error: true, Text: "x", Count: 1})
	}},
	{"error yesterday", "", func(o *Overview) {
		o.Trouble = append(o.Trouble, Trouble{At: o.At.AddDate(0, 0, -1), Error: true, Text: "x", Count: 1})
	}},
	{"rule that MH refuses", "red", func(o *Overview) {
		o.Rules.Rules[0].Outcomes = &dte.Outcomes{Decided: 3,
			Refused: 2}
	}},
	{"rule that fails", "red", func(o *Overview) { o.Rules.Rules[0].Outcomes = &dte.Outcomes{Decided: 3, Failed: 1} }},
	{"stopped", "red", func(o *Overview) { o.Stopped = errors.New("the disk is full") }},
}

// TestPage_Verdict: a page on which something is red or yellow never says that nothing needs doing, and its verdict is
// as red as its reddest row; a page without either says that nothing does. Each ailment alone, then together.
func TestPage_Verdict(t *testing.T) {
	colour := regexp.MustCompile(`class="(?:facts )?(bad|warn)"`)
	check := func(t interface {
		Errorf(string, ...any)
		Helper()
	}, o *Overview, names string) {
		t.Helper()
		for lang, nothing := range map[string]string{"es": "nada que hacer", "en": "Nothing needs doing"} {
			page := string(renderStatus(lang, o))
			head, below, found := strings.Cut(page, "</h1>")
			if !found {
				t.Errorf("%s: no verdict", names)
				return
			}
			red, yellow := false, false
			for _, m := range colour.FindAllStringSubmatch(below, -1) {
				red, yellow = red || m[1] == "bad", yellow || m[1] == "warn"
			}
			if says := strings.Contains(page, nothing); says == (red || yellow || o.Stopped != nil) {
				t.Errorf("%s: red %v, yellow %v below, and the page says %q: %v", names, red, yellow, nothing, says)
			}
			if red && !strings.Contains(head, `class="verdict bad"`) {
				t.Errorf("%s: the verdict is no red one, and something below it is", names)
			}
		}
	}
	check(t, overviews()["normal"], "sound")
	for _, a := range ailments {
		o := overviews()["normal"]
		a.do(o)
		check(t, o, a.name)
		page := string(renderStatus("en", o))
		if shown := map[string]string{"red": `"bad"`, "yellow": `"warn"`}[a.colour]; a.name != "stopped" &&
			shown != "" && !strings.Contains(page, "class="+shown) {
			t.Errorf("%s is not %s on the page: the test has lost it", a.name, a.colour)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		o, names := overviews()["normal"], ""
		for _, a := range rapid.SliceOfNDistinct(rapid.SampledFrom(indexes(len(ailments))), 0, 4,
			func(i int) int { return i }).Draw(t, "ailments") {
			ailments[a].do(o)
			names += ailments[a].name + ", "
		}
		check(t, o, names)
	})
}

func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// TestPage_Failing: the verdict says what is most of a rule's harm: MH's refusals, or its failures.
func TestPage_Failing(t *testing.T) {
	for text, outcomes := range map[string]dte.Outcomes{
		"MH refuses what is issued": {Decided: 99, Refused: 60, Failed: 1},
		"A rule fails":              {Decided: 9, Refused: 1, Failed: 8},
	} {
		o := overviews()["normal"]
		o.Rules.Rules[0].Outcomes = &outcomes
		if head, _, _ := strings.Cut(string(renderStatus("en", o)), "</h1>"); !strings.HasSuffix(head, text) {
			t.Errorf("%+v: %s", outcomes, head)
		}
	}
}

// TestGuardia: the manual page for those on duty has a row for each verdict, and quotes only sentences that this page
// shows.
func TestGuardia(t *testing.T) {
	text, err := os.ReadFile("../../deploy/GUARDIA.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	for key, w := range words {
		sentence := w[0]
		shown[sentence] = true
		if verdict := strings.HasPrefix(key, "verdict.") && words[key+".advice"][0] != ""; verdict &&
			!strings.Contains(string(text), "\n| «"+sentence+"» |") {
			t.Errorf("no row for %q", sentence)
		}
	}
	for _, quoted := range regexp.MustCompile("«([^»]+)»").FindAllStringSubmatch(string(text), -1) {
		if !shown[quoted[1]] {
			t.Errorf("the page never says %q", quoted[1])
		}
	}
}

// TestStopped: no text for tills is on the English page.
func TestStopped(t *testing.T) {
	for _, c := range problem.All() {
		e := &refusal.Error{Code: c.Name, Message: "Texto para la caja", Err: errors.New("the cause")}
		if got := stopped("en", e); got != c.Meaning.EN {
			t.Errorf("%s: %s", c.Name, got)
		}
	}
	if got := stopped("en", ErrNoRules); got != "No rule is valid today." {
		t.Error(got)
	}
}
