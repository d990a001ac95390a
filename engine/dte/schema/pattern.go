package schema

import (
	"fmt"
	"regexp"
	"strings"
)

// pattern is one regular expression of the schema. MH writes them for an engine with lookaheads and
// back-references; Go's has neither, and runs in linear time for that. All of MH's lookaheads are negative and
// stand directly behind ^, so each of them is an expression of its own that must not match.
type pattern struct {
	source string
	must   *regexp.Regexp
	not    []*regexp.Regexp
}

func compilePattern(source string) (*pattern, error) {
	p := &pattern{source: source}
	rest := source
	for strings.HasPrefix(rest, "^(?!") {
		end := closing(rest, 1)
		if end < 0 {
			return nil, fmt.Errorf("pattern %q: lookahead does not end", source)
		}
		not, err := regexp.Compile("^(?:" + expandRepeat(rest[len("^(?!"):end]) + ")")
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", source, err)
		}
		p.not = append(p.not, not)
		rest = "^" + rest[end+1:]
	}
	must, err := regexp.Compile(rest)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", source, err)
	}
	p.must = must
	return p, nil
}

func (p *pattern) match(s string) bool {
	for _, not := range p.not {
		if not.MatchString(s) {
			return false
		}
	}
	return p.must.MatchString(s)
}

// closing is where the group that opens at i closes, or -1.
func closing(s string, i int) int {
	depth, class := 0, false
	for ; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case class:
			class = s[i] != ']'
		case s[i] == '[':
			class = true
		case s[i] == '(':
			depth++
		case s[i] == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// expandRepeat rewrites ([0-9])\1+ — one digit over and over — as the alternatives 00+|11+|…, the only
// back-reference that MH uses. Any other reaches the compiler and is refused there.
func expandRepeat(s string) string {
	const repeat = `([0-9])\1+`
	if !strings.Contains(s, repeat) {
		return s
	}
	var digits []string
	for d := '0'; d <= '9'; d++ {
		digits = append(digits, string(d)+string(d)+"+")
	}
	return strings.ReplaceAll(s, repeat, "(?:"+strings.Join(digits, "|")+")")
}
