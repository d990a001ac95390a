package engine

import (
	"testing"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/record"
)

// TestCorrectForm: of a document that MH sealed in the time that the store has lost, a form is certain if its sending is
// recorded, or if no later form can have been sent before the seal.
func TestCorrectForm(t *testing.T) {
	made := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	e := &Engine{sender: &authority.Sender{DoubtFor: 2 * time.Minute}}
	both := []string{record.FormNormal, record.FormContingency}
	for name, c := range map[string]struct {
		forms  []string
		head   record.Head
		sealed time.Duration // after the document was made
		form   string
		sure   bool
	}{
		"one form, while it was settled":           {both[:1], record.Head{}, settleAfter - 1, record.FormNormal, true},
		"one form, later":                          {both[:1], record.Head{}, settleAfter, record.FormNormal, false},
		"only in contingency":                      {both[1:], record.Head{}, time.Hour, record.FormContingency, true},
		"the last form, by the sendings":           {both, record.Head{Form: record.FormContingency}, time.Hour, record.FormContingency, true},
		"the normal form, later than its doubt":    {both, record.Head{Sent: made}, 2 * time.Minute, record.FormContingency, false},
		"the normal form, soon after its sending":  {both, record.Head{Sent: made}, 2*time.Minute - 1, record.FormNormal, true},
		"the normal form, though another was sent": {both, record.Head{Sent: made, Forwarded: made}, time.Hour, record.FormNormal, true},
	} {
		h := c.head
		if h.CreatedAt = made; h.Form == "" {
			h.Form = c.forms[0]
		}
		if sure := e.correctForm(&h, c.forms, made.Add(c.sealed)); h.Form != c.form || sure != c.sure {
			t.Errorf("%s: %s, certain %v", name, h.Form, sure)
		}
	}
}

// TestShowForm: a correction recorded by program 1.0 has neither rule nor version; the head keeps its own.
func TestShowForm(t *testing.T) {
	for _, version := range []int{0, 2} {
		rule := record.RuleRef{Name: "dte01", Version: "2.1.0"}
		h := &record.Head{Form: record.FormNormal, Rule: rule, Version: 1, Total: "1.00",
			Corrections: []record.Correction{{Version: version, Total: "2.00"}}}
		showForm(h, nil)
		if kept := version == 0; (h.Version == 1) != kept || (h.Rule == rule) != kept || (h.Total == "1.00") != kept {
			t.Errorf("version %d: %+v", version, h)
		}
	}
}
