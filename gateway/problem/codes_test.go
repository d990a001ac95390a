package problem_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"dtegate/engine/dte/schema"
	"dtegate/gateway/problem"
)

// TestAll_EveryCode: every code that the sources can answer is in the list, with its status and its place, and the list
// has no other.
func TestAll_EveryCode(t *testing.T) {
	known := make(map[string]problem.Code)
	for _, c := range problem.All() {
		known[c.Name] = c
	}
	met := make(map[string]bool)
	for _, f := range scan(t) {
		at := fmt.Sprintf("%s:%d", f.file, f.line)
		if f.code == "" || f.code == "…" || f.code == schema.Contradiction { // answered as RULE_FAILED
			continue
		}
		c, listed := known[f.code]
		met[f.code] = true
		switch {
		case !listed:
			t.Errorf("%s: %s is not in the list", at, f.code)
		case f.status != 0 && !slices.Contains(c.Status, f.status):
			t.Errorf("%s: %s is answered with %d, and the list says %v", at, f.code, f.status, c.Status)
		case f.fault && !c.Fault && c.Name != "RETENTION_BELOW_THRESHOLD":
			t.Errorf("%s: %s is an element of errors, and the list does not say so", at, f.code)
		case !f.fault && len(c.Status) == 0:
			t.Errorf("%s: %s is the type of an answer, and has no status", at, f.code)
		}
	}
	for name := range known {
		if !met[name] {
			t.Errorf("%s is in the list, and no source answers it", name)
		}
	}
}

// TestAll_OneMeaning: no code is listed twice, no meaning has two codes in one place, and both languages explain each
// code in full.
func TestAll_OneMeaning(t *testing.T) {
	names, meanings := make(map[string]bool), make(map[string]string)
	for _, c := range problem.All() {
		if names[c.Name] {
			t.Errorf("%s stands twice", c.Name)
		}
		names[c.Name] = true
		if !faultCode.MatchString(c.Name) {
			t.Errorf("%s is not the form of a code", c.Name)
		}
		for _, text := range []problem.Text{c.Meaning, c.Action} {
			if text.ES == "" && !c.Operator || text.EN == "" || strings.HasSuffix(text.ES, ".") || strings.HasSuffix(text.EN, ".") ||
				strings.ContainsAny(text.ES+text.EN, "|\n") {
				t.Errorf("%s: %+v: one sentence in each language, without full stop", c.Name, text)
			}
		}
		if other := meanings[c.Meaning.EN]; other != "" {
			t.Errorf("%s and %s mean the same", c.Name, other)
		}
		meanings[c.Meaning.EN] = c.Name
	}
}

// english are the files whose faults operators read, without a mark of their own.
var english = map[string]bool{"engine/contingency/watch.go": true, "engine/contingency/technical.go": true,
	"engine/rulestore/typecheck.go": true}

// strange are the marks of a text that a cashier does not understand: English, the words of schemas, regular
// expressions.
var strange = regexp.MustCompile(
	`\b(the|is|not|must|and|of|invalid|required|should|with|null|UUID|JSON|hexadecimal|cursor|bytes|ASCII)\b|[\^$\\|*{}]|\bhay tipo`)

// technical are texts for the developer of a till, whom alone they concern: about HTTP, JSON, paths.
var technical = map[string]bool{"gateway/requestbody.go": true, "gateway/reply/http.go": true, "gateway/lookuproutes.go": true,
	"gateway/printroutes.go": true, "gateway/auth.go": true, "engine/dte/parse.go": true, "gateway/issueroutes.go": true,
	"gateway/gateway.go": true, "gateway/form/form.go": true}

// TestMessages: every message of the sources is in testdata/messages.txt, where people read it; messages for tills are
// Spanish, those for operators English.
func TestMessages(t *testing.T) {
	var b strings.Builder
	seen := make(map[string]bool)
	for _, f := range scan(t) {
		at := fmt.Sprintf("%s:%d", f.file, f.line)
		text := f.message
		if f.cause && !f.operator && !english[f.file] {
			t.Errorf("%s: %q tells a till the text of an error", at, text)
		}
		if text == "" || strings.Trim(text, "… ") == "" || f.file == "engine/dte/schema/message.go" ||
			strings.HasPrefix(f.file, "engine/dte/") && f.file != "engine/dte/parse.go" &&
				f.file != "engine/dte/schema/fill.go" {
			continue // those of layouts are in engine/dte/testdata/messages.txt
		}
		spanish := !f.operator && !english[f.file]
		switch {
		case spanish && !technical[f.file] && strange.MatchString(text):
			t.Errorf("%s: %q is not for a cashier", at, text)
		case spanish && regexp.MustCompile(`\b(the|is|not|must|and|invalid|required|with)\b`).MatchString(text):
			t.Errorf("%s: %q is English, and a till reads it", at, text)
		case !spanish && regexp.MustCompile(`\b(el|la|los|debe|lleva|hay|de|no existe)\b`).MatchString(text):
			t.Errorf("%s: %q is Spanish, and an operator reads it", at, text)
		case utf8.RuneCountInString(text) > 160:
			t.Errorf("%s: %q is too long", at, text)
		case strings.HasSuffix(text, "."):
			t.Errorf("%s: %q ends in a full stop", at, text)
		}
		first, _ := utf8.DecodeRuneInString(text)
		if spanish && unicode.IsLower(first) && !strings.HasPrefix(f.file, "engine/dte/") && !strings.HasPrefix(text,
			"x-api-token") {
			t.Errorf("%s: %q does not begin as a sentence", at, text)
		}
		line := f.file + "\t" + f.code + "\t" + text
		if !seen[line] {
			b.WriteString(line + "\n")
		}
		seen[line] = true
	}
	golden(t, "testdata/messages.txt", b.String())
}
