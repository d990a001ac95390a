package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/fleet"
	records "dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// TestCentreRules: what the centre orders is tried at the branch's last sales first. A rule that fails at one of them,
// that refuses more than one in a hundred, or that changes an amount unless the order permits it, is not admitted. The
// trail has each order once, and the centre reads who took which bundle off.
func TestCentreRules(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Box, w.Points = recordmac.New(), 2
	s := w.Shelf(enginetest.Shipped(t))
	trail := audit.New(w.Store, "00", w.Box, w.Now)
	c := &centreRules{shelf: s, trail: trail, store: w.Store, log: enginetest.Quiet, now: w.Now}
	order := fleet.Order{Who: fleet.Who("ana"), Reason: "a new law", FewerCases: true}
	acts := func() (text string) {
		list, err := trail.Acts(100)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			text += fmt.Sprintln(a.Who, a.What, a.Target, a.Outcome, a.Error)
		}
		return text
	}
	admit := func(data []byte, o fleet.Order, refused string) {
		t.Helper()
		a, err := c.Admit(t.Context(), data, o)
		if err != nil || (a.Refused == "") != (refused == "") || !strings.Contains(a.Reason, refused) {
			t.Errorf("%+v %v, want %q", a, err, refused)
		}
	}
	limited := func(version string) []byte { // refuses sales of more than 20 dollars
		return enginetest.Edition(t, version, bundletest.Refusals, func(parts map[string][]byte, _ *bundle.Manifest) {
			parts["overlay.json"] = []byte(strings.Replace(string(parts["overlay.json"]), `"add": [`,
				`"add": [{"path":"resumen.totalPagar","schema":{"maximum":20},"reason":"r"},`, 1))
		})
	}
	for i := range 99 {
		w.Issued(enginetest.Sale("", map[bool]int{true: 5000, false: 1000}[i == 50]), records.EstadoProcessed)
	}
	trap := enginetest.Edition(t, "2.1.1", bundletest.Small(t, "dte01/v2", bundletest.Trap))
	admit(trap, order, "it fails at 99 of the branch's last 99 sales")
	admit(limited("2.1.1"), order, "it refuses 1 of the branch's last 99 sales")
	dear := enginetest.Edition(t, "2.1.1", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals)
	admit(dear, order, "it changes the amounts of 99 of the branch's last 99 sales")
	w.Issued(enginetest.Sale("", 1000), records.EstadoProcessed)
	good := limited("2.1.1")
	before := strings.Count(acts(), "\n")
	for range 2 { // the second is here already
		admit(good, order, "")
	}
	if text := acts(); strings.Count(text, "\n") != before+1 ||
		!strings.Contains(text, order.Who+" rules.push dte01 2.1.1 done") || strings.Count(text, "refused backtest: ") != 3 {
		t.Errorf("the trail has\n%s", text)
	}
	permitted := order
	permitted.AmountsChange = true
	dear = enginetest.Edition(t, "2.1.2", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals)
	a, err := c.Admit(t.Context(), dear, permitted)
	if err != nil || a.Refused != "" || !strings.Contains(a.Reason, "it changes the amounts of 100 of the branch's last "+
		"100 sales (") {
		t.Errorf("%+v %v", a, err)
	}
	find := func(version string) (b fleet.Bundle) {
		for _, b = range c.Bundles() {
			if b.Name == "dte01" && b.Version == version {
				return b
			}
		}
		t.Fatalf("no %s in %+v", version, c.Bundles())
		return b
	}
	if b := find("2.1.2"); b.Where != fleet.Live || !b.Ordered || b.Off != "" {
		t.Errorf("%+v", b)
	}
	target := func(version string) rulestore.Target {
		return rulestore.Target{Name: "dte01", Schema: 2, Version: version}
	}
	if _, err := s.Rollback(t.Context(), target("2.1.1"), rulestore.Order{Who: "eva", Reason: "too dear"}); err != nil {
		t.Fatal(err)
	}
	if b := find("2.1.2"); b.Where != fleet.Retired || b.Off != fleet.OffOperator || b.Reason != "too dear" {
		t.Errorf("a person took it off: %+v", b)
	}
	if err := c.StepBack(t.Context(), find("2.1.0"), order); err != nil {
		t.Fatal(err)
	}
	if b := find("2.1.1"); b.Off != fleet.OffCentre || b.Reason != "a new law" ||
		!strings.Contains(acts(), order.Who+" rules.rollback dte01 2.1.0 done") {
		t.Errorf("the centre took it off: %+v\n%s", b, acts())
	}
	bad := enginetest.Push(t, s, enginetest.Edition(t, "2.1.3"))
	s.Return(t.Context(), rulestore.Return{Digest: bad.Rule.Digest, Reason: "harm"})
	if b := find("2.1.3"); b.Off != fleet.OffItself || !strings.Contains(b.Reason, "harm") || b.Ordered {
		t.Errorf("the branch left it: %+v", b)
	}
	if b := find("2.1.0"); b.Where != fleet.Live || b.Ordered || b.From == "" || b.Document != "01" {
		t.Errorf("%+v on %s", b, dte.Date(w.Now()))
	}
}

// TestCentreRules_Generation: a sale of the generation before, which lacks what the next one wants, keeps no correction
// of the next one out.
func TestCentreRules_Generation(t *testing.T) {
	w := enginetest.NewWorldIn(t, "01", nil, nil)
	defer w.Close()
	w.Clock.Set(time.Date(2026, 11, 30, 17, 0, 0, 0, time.UTC))
	s := w.Shelf(enginetest.Shipped(t))
	w.Adopt(s)
	address := dte.Texts("departamento", "06", "municipio", "23", "complemento", "Calle Arce 1020") // no distrito
	sale := enginetest.Sale("", 1130)
	sale.Facts = sale.Facts.With("receptor", enginetest.Taxpayer.With("direccion", address))
	w.Issued(sale, records.EstadoProcessed)
	w.Clock.Set(time.Date(2026, 12, 1, 17, 0, 0, 0, time.UTC))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &centreRules{shelf: s, trail: audit.New(w.Store, "01", nil, w.Now), store: w.Store, log: enginetest.Quiet,
		now: w.Now}
	order := fleet.Order{Who: fleet.Who("ana")}
	if a, err := c.Admit(t.Context(), enginetest.Edition(t, "2.1.1"), order); err != nil || a.Refused != "" {
		t.Errorf("%+v %v", a, err)
	}
	w.Issued(enginetest.Sale("", 1130), records.EstadoProcessed)
	a, err := c.Admit(t.Context(), enginetest.Edition(t, "2.1.2", bundletest.Small(t, "dte01/v2", bundletest.Trap)), order)
	if err != nil || a.Reason != "it fails at 1 of the branch's last 1 sales" {
		t.Errorf("%+v %v", a, err)
	}
}

// TestCentreRules_Late: the same if the next generation comes after its first day: it had been put off.
func TestCentreRules_Late(t *testing.T) {
	w := enginetest.NewWorldIn(t, "01", nil, nil)
	defer w.Close()
	w.Clock.Set(time.Date(2026, 11, 30, 17, 0, 0, 0, time.UTC))
	all := enginetest.Shipped(t)
	s := w.Shelf(all)
	w.Adopt(s)
	if _, err := s.Cancel(t.Context(), rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.0"},
		rulestore.Order{Who: "eva", Reason: "MH puts it off"}); err != nil {
		t.Fatal(err)
	}
	w.Clock.Set(time.Date(2026, 12, 2, 17, 0, 0, 0, time.UTC))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := dte.Texts("departamento", "06", "municipio", "23", "complemento", "Calle Arce 1020") // no distrito
	sale := enginetest.Sale("", 1130)
	sale.Facts = sale.Facts.With("receptor", enginetest.Taxpayer.With("direccion", address))
	w.Issued(sale, records.EstadoRejected) // this authority did not put it off
	if a := enginetest.Push(t, s, all["dte01/v2"]); a.State != rulestore.Live {
		t.Fatalf("%+v", a)
	}
	c := &centreRules{shelf: s, trail: audit.New(w.Store, "01", nil, w.Now), store: w.Store, log: enginetest.Quiet,
		now: w.Now}
	if a, err := c.Admit(t.Context(), enginetest.Edition(t, "2.1.1"), fleet.Order{}); err != nil || a.Refused != "" {
		t.Errorf("%+v %v", a, err)
	}
}

// TestRecordReturn: the branch's own return is in the trail once, however often the appliance starts; the next return
// is another act.
func TestRecordReturn(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	trail := audit.New(w.Store, "00", nil, w.Now)
	back := &rulestore.StepBack{Who: "the branch", To: records.RuleRef{Name: "dte01", Version: "2.1.0"}, Reason: "harm",
		At: w.Now()}
	again := *back
	again.At = again.At.Add(time.Hour)
	for i, b := range []*rulestore.StepBack{nil, back, back, &again, &again} {
		w.Clock.Set(w.Now().Add(time.Minute))
		recordReturn(trail, b, enginetest.Quiet)
		list, err := trail.Acts(10)
		if want := []int{0, 1, 1, 2, 2}[i]; err != nil || len(list) != want || want > 0 && (list[0].What != actReturn ||
			list[0].Target != "dte01 2.1.0" || list[0].Who != "the branch") {
			t.Errorf("after %d starts: %+v %v", i, list, err)
		}
	}
}
