package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"dtegate/rules/bundletest"
)

// TestOperator_Return: MH refuses what a pushed rule computes, the branch goes back by itself and reports it
// everywhere, and the operator puts the rule back. Before that, one till's refusals for a wrong customer had no effect.
func TestOperator_Return(t *testing.T) {
	t.Parallel()
	o := newBranch(t).operated()
	// MH should refuse the customer, not the box
	o.reconfigure("rate = 100000", `rate = 100000, unknown_codes = "pass"`)
	o.start()
	defer func() { o.stop() }()
	wrong := regexp.MustCompile(`"receptor":\{[^}]*\}`).ReplaceAllString(sale01,
		`"receptor":{"nombre":"Ana","direccion":{"departamento":"06","municipio":"99","distrito":"14","complemento":"Calle 1"}}`)
	bad := o.file("bad", bundletest.Edition(t, "dte01/v2", "2.1.4", bundletest.Param("ivaRate", "0.15"),
		bundletest.Refusals))
	o.refused("rules push --reason test "+bad, "FAILED", "--fewer-cases")
	o.does("rules push --fewer-cases --reason test " + bad)
	for i := range 50 {
		status, answer, err := o.post("/dte/dte01", 1, fmt.Sprint("wrong-", i), wrong)
		if err != nil || status != http.StatusCreated || decode(t, answer).Estado != "REJECTED" {
			t.Fatalf("%d %v %s", status, err, answer)
		}
	}
	// One till is enough for the alarm: every page and command names the rule in force that MH refuses.
	if n := o.metric(`dte_rule_outcomes{document="01",kind="document",outcome="other",schema="2",version="2.1.4"}`); n != 50 {
		t.Errorf("%v refusals of a request", n)
	}
	if _, page := o.getOps("/?lang=en"); !strings.Contains(string(page), "MH refuses what is issued") ||
		!strings.Contains(string(page), "2.1.4: MH refuses 50 out of 50.") {
		t.Error("the page's verdict is silent about a rule that MH refuses")
	}
	if _, status := o.getOps("/status"); !regexp.MustCompile(
		`"dte01 2.1.4": *{\s*"decided": 50,\s*"refused": 50`).Match(status) {
		t.Errorf("/status is silent about a rule that MH refuses: %s", status)
	}
	o.refused("doctor", "MH refused 50 of the last 50 documents or events of dte01 2.1.4")
	if n := o.metric(`dte_rule_step_backs_total{way="return"}`); n != 0 {
		t.Fatal("one till's wrong customer made the branch return")
	}
	for i := 0; o.metric(`dte_rule_step_backs_total{way="return"}`) == 0; i++ {
		if _, _, err := o.post("/dte/dte01", 1+i%2, "", sale01); err != nil || i > 20 {
			t.Fatalf("no return after %d refusals: %v", i, err)
		}
	}
	if got := o.sold(sale01); got.Estado != "PROCESSED" {
		t.Errorf("after the return: %s", got.Estado)
	}
	why := "MH refused 5 of its last 5 documents for what the rule made, at 2 points of sale"
	o.does("rules list", "to dte01 2.1.0: dte01 2.1.4: "+why)
	o.does("audit", "rules.return", "the branch", why)
	if n := o.metric("dte_rule_return_timestamp_seconds"); n == 0 {
		t.Error("the metric does not tell of the return")
	}
	if _, page := o.getOps("/"); !strings.Contains(string(page), "MH refused 5 of") {
		t.Error("the status page does not say why the branch returned")
	} else if strings.Contains(string(page), "Hacienda rechaza lo que se emite") {
		t.Error("the page's verdict blames a rule that is out of force")
	}
	o.refused("rules reinstate dte01 2 2.1.0 --reason x", "was not taken off")
	o.refused("rules reinstate dte01 2 2.1.4", "--reason")
	o.does("rules reinstate dte01 2 2.1.4 --reason circular", "dte01 2.1.4 is live\n")
	o.kill()
	o.start()
	if got := o.sold(sale01); got.Estado != "REJECTED" {
		t.Errorf("the operator's word does not hold: %s", got.Estado)
	}
	said := o.does("audit", "rules.reinstate", "circular")
	if n := strings.Count(said, "rules.return"); n != 1 {
		t.Errorf("%d returns in the trail", n)
	}
	if said := o.does("rules list"); strings.Contains(said, "returned") {
		t.Errorf("a return that was cancelled is shown:\n%s", said)
	}
}
