package fleet

import (
	"net/url"
	"slices"
	"strings"

	"dtegate/cmd/dtectl/fleet/controlplane"
)

const (
	sameAtLeast = 3   // so many branches with one trouble stand on one line
	sameNamed   = 5   // so many of them are named there
	sameSearch  = 200 // runes of the trouble that the line's link searches for
)

// ordered are the concerns that come of what the centre desires: one bundle is refused by many branches in the same
// words.
var ordered = []string{"returned", "refused", "trouble", "expired", "lacks"}

// sameView is one line for several branches of which the same is to be known, and nothing else.
type sameView struct {
	Count int
	Names []string // the first sameNamed, in the page's order
	Link  string   // the page with all of them, line by line
}

// sameKey is equal for branches that one line can stand for; "": this branch needs its own.
func (r *rowView) sameKey() string {
	if len(r.Concerns) == 0 || slices.ContainsFunc(r.Concerns,
		func(c controlplane.Concern) bool { return !slices.Contains(ordered, c.Code) }) {
		return ""
	}
	key := r.Group + "\n" + r.State
	for _, w := range r.Words {
		key += "\n" + w.Level + "\n" + w.Text
	}
	return key
}

// gather puts branches of which the same is to be known on the line of the first of them.
func (v *view) gather(rows []rowView) (lines []rowView) {
	count := make(map[string]int)
	for i := range rows {
		count[rows[i].sameKey()]++
	}
	at := make(map[string]int) // the line of a key
	for _, r := range rows {
		key := r.sameKey()
		if key == "" || count[key] < sameAtLeast {
			lines = append(lines, r)
			continue
		}
		i, ok := at[key]
		if !ok {
			i = len(lines)
			at[key] = i
			r.Same = &sameView{Count: count[key], Link: v.search(r.Words[0].Text)}
			lines = append(lines, r)
		}
		if s := lines[i].Same; len(s.Names) < sameNamed {
			s.Names = append(s.Names, r.Title)
		}
	}
	return lines
}

// search is the page of the branches of which a text is said.
func (v *view) search(text string) string {
	runes := []rune(text)
	return "?" + url.Values{"q": {strings.TrimSpace(string(runes[:min(len(runes), sameSearch)]))},
		"lang": {v.Lang}}.Encode()
}
