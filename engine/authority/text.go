package authority

import (
	"encoding/json"
	"strings"
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
	*t = text(s)
	return nil
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
	return nil
}
