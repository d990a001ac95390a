package authority

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text is a member that MH writes as a string and that decides nothing: a null is "", and a number or whatever else
// keeps its literal. A sealed document must not count as unknown because of the type of codigoMsg.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = ""
		return nil
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = string(b)
	}
	*t = text(bounded(s))
	return nil
}

// What is kept of MH's words: they stand in every record, on tills and on operators' terminals, whoever wrote them.
const (
	maxText  = 2000 // characters of one text; MH's longest seen has some 300
	maxTexts = 100  // texts of one list; a document has at most 2,000 lines, and nobody reads as many
)

// bounded is a text of MH's as it is kept: one line without control characters, cut at maxText characters.
func bounded(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > maxText {
		s = string([]rune(s)[:maxText-1]) + "…"
	}
	return s
}

// texts is a list of text, or one alone, or null. MH pads its list with empty texts: they are left out.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(b []byte) error {
	var list []text
	if json.Unmarshal(b, &list) != nil {
		var one text
		if err := one.UnmarshalJSON(b); err != nil {
			return err
		}
		list = []text{one}
	}
	*t = texts{}
	for _, s := range list {
		if s := strings.TrimSpace(string(s)); s != "" {
			*t = append(*t, s)
		}
	}
	if more := len(*t) - maxTexts; more > 0 {
		*t = append((*t)[:maxTexts:maxTexts], fmt.Sprintf("y %d observaciones más", more))
	}
	return nil
}
