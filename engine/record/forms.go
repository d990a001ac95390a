package record

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// FormArchived names a form that was read from the archive, because the store, restored from a backup, lacks it.
const FormArchived = "archived"

// CorrectionSent returns when the nth correction (from 1) was first sent, by MH's clock; zero if unknown or never.
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
	n, _ := strconv.Atoi(text) // this program made the name
	return n
}

// formRank returns the place of a form in the order in which forms are made, 0 for other parts.
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
// empty, and the form made first comes first. doubt is how far MH's clocks may differ from each other.
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

// QueryDoubt is FormSealed's doubt after a query that found the document. It favours the last form: most likely MH's
// answer to it was lost. If MH has just refused the last form, doubt is 0: MH likely has an earlier form.
const QueryDoubt = 2 * time.Second

// Forms returns the names of a document's signed forms, in the order in which they were made. parts are the stored
// parts of the document; the head also names forms that are lost.
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
		signed = append(signed, FormNormal) // the only form that was sent
	}
	for _, name := range signed {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return formRank(a) - formRank(b) })
	return names
}

// SignedBytes returns the signed bytes of a document in the form that its record names. Errors: see SignedForm.
func SignedBytes(store *storage.Store, code storage.Code, h *Head) ([]byte, error) {
	jws, err := SignedForm(store, code, h)
	if err != nil {
		return nil, err
	}
	return Payload(jws)
}

// SignedForm returns the JWS of a document in the form that its record names. ErrLost if the store has lost it.
func SignedForm(store *storage.Store, code storage.Code, h *Head) ([]byte, error) {
	return Part(store, code, h.Form)
}

// NormalMarks are the marks of a normal document. See ContingencyMarks (MF2 p.18; NV2 Anexo IV n.º 9).
var NormalMarks = marks(1, dte.Null(), dte.Null())

// ContingencyMarks returns the marks of a document issued in contingency: cause (CAT-005), and motive if cause is 5.
func ContingencyMarks(cause int64, motive string) []dte.Member {
	text := dte.Null()
	if cause == 5 {
		text = dte.Str(motive)
	}
	return marks(2, dte.Int(cause), text)
}

func marks(how int64, cause, motive dte.Value) []dte.Member {
	return []dte.Member{
		{Name: "tipoModelo", Value: dte.Int(how)},
		{Name: "tipoOperacion", Value: dte.Int(how)},
		{Name: "tipoContingencia", Value: cause},
		{Name: "motivoContin", Value: motive},
	}
}

// ReplaceMarks returns a signed document with other marks. Every other byte stays: the contingency form of a normal
// document keeps the code, number, date and amounts.
func ReplaceMarks(document []byte, marks []dte.Member) ([]byte, error) {
	v, err := dte.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("reading the normal form: %w", err)
	}
	id := v.Get("identificacion")
	for _, m := range marks {
		const misspelt = "motivoContigencia" // in type 11 before DTE 2.0
		if m.Name == "motivoContin" && id.Get(misspelt).Exists() {
			m.Name = misspelt
		}
		id = id.With(m.Name, m.Value)
	}
	return v.With("identificacion", id).Append(nil), nil
}

// Counters of an origin. Counters 1 to 2,000 hold the quantity that was returned of each line. The constants are the
// numbers of the other counters.
const (
	LineActive   = 1 << 24         // notes and returns in force: they block the origin's invalidation
	LineCredited = LineActive + 1  // credited amounts, and the number of credit notes: see engine's creditableNames
	LineReturned = LineActive + 16 // amounts of returned lines, by kind
)

// Draw is an amount that a document takes from a counter of its origin.
type Draw struct {
	Line   uint32 `json:"line"`
	Amount int64  `json:"amount"` // in 1e-8 of a unit or a USD; 1 for the number of credit notes
}

// Effect returns how a document's change of state changes its origin's counters; for a new document, from is 0. A
// credit note or a return takes its draws when it is signed, in contingency too. It gives the draws back when it is
// refused or invalidated. A debit note adds to the creditable amounts only while its state is Accepted.
func Effect(how bundle.Effect, from, to storage.State, draws []Draw, origin storage.Code) []storage.Counter {
	weight := func(s storage.State) (drawn, active int64) {
		switch {
		case s == 0 || s == Rejected || s == Invalidated:
			return 0, 0
		case how == bundle.Debits && s == Accepted:
			return -1, 1
		case how == bundle.Debits:
			return 0, 1
		}
		return 1, 1
	}
	drawnBefore, activeBefore := weight(from)
	drawnAfter, activeAfter := weight(to)
	var counters []storage.Counter
	if n := activeAfter - activeBefore; n != 0 {
		counters = append(counters, storage.Counter{Origin: origin, Line: LineActive, Value: n})
	}
	if n := drawnAfter - drawnBefore; n != 0 {
		for _, d := range draws {
			counters = append(counters, storage.Counter{Origin: origin, Line: d.Line, Value: n * d.Amount})
		}
	}
	return counters
}
