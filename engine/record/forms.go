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

// CorrectionSent returns when the nth correction was first sent, by MH's clock; n begins at 1. Zero means never, or not
// known.
func (h *Head) CorrectionSent(n int) time.Time {
	if n < 1 || n > len(h.Corrections) {
		return time.Time{}
	}
	return h.Corrections[n-1].Forwarded
}

// CorrectionNumber returns n for the form of the nth correction, and 0 for any other form.
func CorrectionNumber(form string) int {
	text, corrected := strings.CutPrefix(form, FormCorrection)
	if !corrected {
		return 0
	}
	n, _ := strconv.Atoi(text) // our own name
	return n
}

// formRank orders forms by when they are made; 0 is no form.
func formRank(name string) int {
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

// FormsOf returns the signed forms among the parts of a record, in the order in which they were made.
func FormsOf(parts []storage.Part) []storage.Part {
	forms := slices.DeleteFunc(slices.Clone(parts), func(p storage.Part) bool { return formRank(p.Name) == 0 })
	slices.SortFunc(forms, func(a, b storage.Part) int { return formRank(a.Name) - formRank(b.Name) })
	return forms
}

// FormSealed returns the form that MH sealed: the last form that was sent before MH's time of the seal. forms is not
// empty, and is in the order in which the forms were made. doubt is how far the clocks of MH's machines may differ.
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

// QueryDoubt is the doubt for FormSealed if a query found the document: then MH most likely holds the last form, whose
// answer was lost. If MH refused the last form as already registered, the doubt is 0: then MH most likely holds the
// form before it.
const QueryDoubt = 2 * time.Second

// Forms returns the names of the forms that a document was signed in, in the order in which they were made. parts are
// what the store has of the document: the head names forms that are lost.
func (h *Head) Forms(parts []storage.Part) []string {
	var names []string
	for _, f := range FormsOf(parts) {
		names = append(names, f.Name)
	}
	signed := []string{h.Form}
	if n := CorrectionNumber(h.Form); n > 0 {
		signed = append(signed, FormContingency)
		for i := range n - 1 {
			signed = append(signed, FormCorrection+strconv.Itoa(i+1))
		}
	}
	if !h.Sent.IsZero() && h.Forwarded.IsZero() {
		signed = append(signed, FormNormal) // no other form has been sent
	}
	for _, name := range signed {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return formRank(a) - formRank(b) })
	return names
}

// SignedForm returns the JWS of a document in the form that its record names. ErrLost if the store has lost it.
func SignedForm(store *storage.Store, code storage.Code, h *Head) ([]byte, error) {
	return Part(store, code, h.Form)
}
