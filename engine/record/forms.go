package record

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/storage"
)

// FormArchived is the JWS of a document in a form that this store never had, as the archive holds it: the branch was
// restored from a backup that is older than the form.
const FormArchived = "archived"

// CorrectionSent returns when the nth correction, from 1, was first sent, by MH's clock; zero: never, or not known.
func (h *Head) CorrectionSent(n int) time.Time {
	if n < 1 || n > len(h.Corrections) {
		return time.Time{}
	}
	return h.Corrections[n-1].Forwarded
}

// CorrectionNumber is n of the form of the nth correction, 0 of any other form.
func CorrectionNumber(form string) int {
	text, corrected := strings.CutPrefix(form, FormCorrection)
	if !corrected {
		return 0
	}
	n, _ := strconv.Atoi(text) // our own name
	return n
}

// FormsOf returns the signed forms among the parts of a record, in the order in which they were made.
func FormsOf(parts []storage.Part) []storage.Part {
	rank := func(name string) int {
		switch n := CorrectionNumber(name); {
		case name == FormNormal:
			return 1
		case name == FormContingency:
			return 2
		case n > 0:
			return 2 + n
		case name == FormArchived:
			return 1_000_000
		}
		return 0
	}
	forms := slices.DeleteFunc(slices.Clone(parts), func(p storage.Part) bool { return rank(p.Name) == 0 })
	slices.SortFunc(forms, func(a, b storage.Part) int { return rank(a.Name) - rank(b.Name) })
	return forms
}

// FormSealed returns which of its forms MH sealed, by MH's time of the seal: the last of those that were sent before. forms is
// not empty, in the order in which they were made. doubt is how far the times of MH's machines may differ.
func (h *Head) FormSealed(forms []string, sealed time.Time, doubt time.Duration) string {
	held := forms[0]
	if held == FormNormal && len(forms) > 1 && h.Sent.IsZero() {
		held = forms[1] // the normal form certainly did not reach MH
	}
	for _, form := range forms[1:] {
		at := h.Forwarded
		if n := CorrectionNumber(form); n > 0 {
			at = h.CorrectionSent(n)
		}
		if !at.IsZero() && (sealed.IsZero() || !sealed.Before(at.Truncate(time.Second).Add(-doubt))) {
			held = form
		}
	}
	return held
}
