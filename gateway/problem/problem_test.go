package problem_test

import (
	"errors"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/page"
	"dtegate/gateway/problem"
)

// TestProblem_English: a Spanish text for tills becomes the English text of the list of codes for an operator; a text
// written for operators stays as it is.
func TestProblem_English(t *testing.T) {
	for _, c := range problem.All() {
		p := &refusal.Error{Code: c.Name, Message: "Texto para la caja", Faults: []dte.Fault{{Path: "p", Code: c.Name,
			Message: "Otro texto"}}}
		e := problem.InEnglish(p)
		if e.Message != c.Meaning.EN || e.Faults[0].Message != c.Meaning.EN || e.Faults[0].Path != "p" {
			t.Errorf("%s: %+v", c.Name, e)
		}
		if p.Message != "Texto para la caja" || p.Faults[0].Message != "Otro texto" {
			t.Errorf("%s: the problem for tills has changed: %+v", c.Name, p)
		}
	}
	if p := problem.ForOperator("RULE_EXPIRED", "its dates are over"); problem.InEnglish(p) != p {
		t.Error("a problem of operators was changed")
	}
}

// TestOperatorText: nothing that /readyz and the supervisor say of an error is a text for tills.
func TestOperatorText(t *testing.T) {
	for _, c := range problem.All() {
		e := &refusal.Error{Code: c.Name, Message: "Texto para la caja", Err: errors.New("the cause")}
		if got := problem.OperatorText(e); got != c.Name+": "+c.Meaning.EN+": the cause" {
			t.Errorf("%s: %s", c.Name, got)
		}
		e.English = "Text for operators"
		if got := problem.OperatorText(e); got != c.Name+": Text for operators: the cause" {
			t.Errorf("%s: %s", c.Name, got)
		}
	}
	if got := problem.OperatorText(page.ErrNoRules); got != "no rule is valid today" {
		t.Error(got)
	}
}
