package gateway

import (
	"io"
	"net/http"
	"testing"

	"dtegate/engine/dte"
	"dtegate/gateway/codes"
)

// TestProblem_English: what a till is told in Spanish an operator is told in English, by the list of codes; what was
// written for operators stays as it is.
func TestProblem_English(t *testing.T) {
	for _, c := range codes.All() {
		p := &Problem{Type: c.Name, Message: "Texto para la caja", Faults: []dte.Fault{{Path: "p", Code: c.Name, Message: "Otro texto"}}}
		e := p.english()
		if e.Message != c.Meaning.EN || e.Faults[0].Message != c.Meaning.EN || e.Faults[0].Path != "p" {
			t.Errorf("%s: %+v", c.Name, e)
		}
		if p.Message != "Texto para la caja" || p.Faults[0].Message != "Otro texto" {
			t.Errorf("%s: the problem for tills has changed: %+v", c.Name, p)
		}
	}
	if p := operatorProblem(http.StatusConflict, "RULE_EXPIRED", "its dates are over"); p.english() != p {
		t.Error("a problem of operators was changed")
	}
}

// TestOperators_English: whatever the operators' listener refuses, it refuses in English.
func TestOperators_English(t *testing.T) {
	g := New(Options{AdminToken: [32]byte{1}})
	url := served(t, g.ServeOps)
	for _, r := range [][2]string{{"GET", "/nothing"}, {"PUT", "/status"}, {"POST", "/admin/contingency"}, {"GET", "/admin/tokens"}} {
		req, err := http.NewRequest(r[0], url+r[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		v, err := dte.Parse(answer)
		if err != nil {
			t.Fatalf("%s %s: %s", r[0], r[1], answer)
		}
		c, ok := codes.Find(v.Get("type").Text())
		if got := v.Get("message").Text(); !ok || got != c.Meaning.EN {
			t.Errorf("%s %s: %s", r[0], r[1], answer)
		}
	}
}
