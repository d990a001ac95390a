package record

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/authority"
	"dtegate/storage"
)

// FormArchived is the JWS of a document in a form that this store never had, as the archive holds it: the branch was
// restored from a backup that is older than the form.
const FormArchived = "archived"

// CorrectionSent returns when the nth correction was first sent, by MH's clock; n begins at 1. Zero means never, or not known.
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

// FormSealed returns the form that MH sealed: the last form that was sent before MH's time of the seal. forms is not empty, and
// is in the order in which the forms were made. doubt is how far the clocks of MH's machines may differ.
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

// QueryDoubt is the doubt for FormSealed if a query found the document: then MH most likely holds the last form, whose answer
// was lost. If MH refused the last form as already registered, the doubt is 0: then MH most likely holds the form before it.
const QueryDoubt = 2 * time.Second

// SignedForm returns the JWS of a document in the form that its record names, and the name of that form. After a restoration an
// earlier version of this program wrote records that name a form which was never signed. For such a record it returns the form
// that MH sealed.
func SignedForm(store *storage.Store, entry storage.Entry, h *Head) (jws []byte, form string, err error) {
	jws, err = store.Part(entry.Code, h.Form)
	if !errors.Is(err, storage.ErrNotFound) {
		return jws, h.Form, err
	}
	parts, readErr := store.Parts(entry.Code)
	forms := FormsOf(parts)
	if readErr != nil || len(forms) == 0 {
		return nil, h.Form, errors.Join(err, readErr)
	}
	names := make([]string, len(forms))
	for i, f := range forms {
		names[i] = f.Name
	}
	form = names[len(names)-1]
	if h.Response != nil {
		form = h.FormSealed(names, authority.ParseTime(h.Response.FhProcesamiento), QueryDoubt)
	}
	for _, f := range forms {
		if f.Name == form {
			jws = f.Data
		}
	}
	return jws, form, nil
}
