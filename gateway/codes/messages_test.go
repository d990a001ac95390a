package codes_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// english are the files whose faults operators read, without a mark of their own.
var english = map[string]bool{"gateway/operators/rules.go": true, "engine/contingency/watch.go": true, "engine/contingency/technical.go": true}

// strange are the marks of a text that a cashier does not understand: English, the words of schemas, regular expressions.
var strange = regexp.MustCompile(`\b(the|is|not|must|and|of|invalid|required|should|with|null|UUID|JSON|hexadecimal|cursor|bytes|ASCII)\b|[\^$\\|*{}]|\bhay tipo`)

// technical are texts for who writes the till's program, whom alone they can concern: of HTTP, of JSON, of paths.
var technical = map[string]bool{"gateway/unreadable.go": true, "gateway/bodies.go": true, "gateway/exchange/request.go": true, "gateway/exchange/router.go": true, "gateway/changes.go": true, "gateway/list.go": true,
	"gateway/printed.go": true, "gateway/auth.go": true, "engine/dte/parse.go": true, "gateway/issue.go": true, "gateway/routes.go": true, "gateway/form/fill.go": true}

// TestMessages: every message of the sources stands in testdata/messages.txt, where people read it; those for tills are
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
		if text == "" || strings.Trim(text, "… ") == "" || f.file == "engine/dte/schema/message.go" || strings.HasPrefix(f.file, "engine/dte/") && f.file != "engine/dte/parse.go" && f.file != "engine/dte/schema/run.go" {
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
		if spanish && unicode.IsLower(first) && !strings.HasPrefix(f.file, "engine/dte/") && !strings.HasPrefix(text, "x-api-token") {
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
