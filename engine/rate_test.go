package engine_test

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
	"dtegate/storage"
)

// changeDay is when the VAT of these tests becomes 15 %.
const changeDay = "2026-11-25"

// changing is a branch whose VAT is 13 % until changeDay and 15 % from then on, by its rules, its catalogues and its
// authority.
func changing(t *testing.T) *enginetest.World {
	w := enginetest.NewWorld(t)
	all := enginetest.Shipped(t)
	for _, name := range []string{"dte03/v4", "dte05/v4", "dte06/v4", "retorno/v1"} {
		all[name] = plugintest.Bundle(t, name)
	}
	s := w.Shelf(all)
	for name, document := range map[string]string{"dte01/v2": "01", "dte03/v4": "03", "dte05/v4": "05",
		"dte06/v4": "06", "retorno/v1": "18"} {
		data := bundletest.Edition(t, name, "8.0.0", bundletest.In(changeDay, ""), bundletest.Param("ivaRate", "0.15"),
			bundletest.Refusals)
		if a := enginetest.Push(t, s, data); a.State != rulestore.Coming {
			t.Fatalf("%s: %+v", name, a)
		}
		if err := w.Sim.Enact(simulator.Law{Document: document, From: changeDay, VAT: big.NewRat(15,
			100)}); err != nil {
			t.Fatal(err)
		}
	}
	names := bundletest.Edition(t, "catalogues", "8.0.0", bundletest.In(changeDay, ""), func(parts map[string][]byte,
		_ *bundle.Manifest) {
		parts["catalogues.json"] = bytes.Replace(parts["catalogues.json"], []byte("Impuesto al Valor Agregado 13%"),
			[]byte("Impuesto al Valor Agregado 15%"), 1)
	})
	if a := enginetest.Push(t, s, names); a.State != rulestore.Coming {
		t.Fatalf("catalogues: %+v", a)
	}
	return w
}

// turn sets the clock to a day of the new rate.
func turnDay(w *enginetest.World) {
	w.Clock.Set(time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC))
	if err := w.Engine.Shelf().Refresh(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

func numbers(t *testing.T, r *record.View, path ...string) dte.Value {
	t.Helper()
	v, err := dte.Parse(r.JSON)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range path {
		v = v.Get(name)
	}
	return v
}

// A sale made at 13 % is returned at 13 %, whatever the rate is by then: 6.95 returns 0.80 of VAT, not 0.91. The
// document names the rule that computed it, and the tax is named by the rate that it was computed with.
func TestRate_GivenBack(t *testing.T) {
	w := changing(t)
	defer w.Close()
	sold := w.Issued(enginetest.Invoice("i", enginetest.Item(1, "1", "6.95")), record.EstadoProcessed)
	charged := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "4", "25")), record.EstadoProcessed)
	turnDay(w)

	later := w.Issued(enginetest.Voucher("later", enginetest.Item(1, "4", "25")), record.EstadoProcessed)
	if tax := numbers(t, later, "resumen", "tributos").Index(0); engine.AmountOf(tax, "valor").Fixed2() != "15.00" ||
		tax.Get("descripcion").Text() != "Impuesto al Valor Agregado 15%" {
		t.Errorf("a voucher of the day has %s", tax.Append(nil))
	}
	r := w.Issued(enginetest.ReturnOf("r", sold, enginetest.Back(1, "1")), record.EstadoProcessed)
	if iva := engine.AmountOf(numbers(t, r, "resumen"), "totalIva").Fixed2(); iva != "0.80" || r.Total != "6.95" {
		t.Errorf("of 6.95 come back %s with %s of VAT", r.Total, iva)
	}
	n := w.Issued(enginetest.NoteOn("05", "n", charged, enginetest.Item(1, "1", "25")), record.EstadoProcessed)
	tax := numbers(t, n, "resumen", "tributos").Index(0)
	if engine.AmountOf(tax, "valor").Fixed2() != "3.25" ||
		tax.Get("descripcion").Text() != "Impuesto al Valor Agregado 13%" {
		t.Errorf("a note of 25.00 sold at 13 %% has %s", tax.Append(nil))
	}
	if n = w.Issued(enginetest.NoteOn("05", "n2", later, enginetest.Item(1, "1", "25")), record.EstadoProcessed); engine.AmountOf(numbers(t, n,
		"resumen", "tributos").Index(0), "valor").
		Fixed2() !=
		"3.75" {
		t.Errorf("a note of 25.00 sold at 15 %%:\n%s", n.JSON)
	}
	for _, r := range []*record.View{r, n} {
		code, err := dte.ParseCode(r.Code)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := w.Engine.Shelf().Replay(t.Context(), code); err != nil || c.Result != rulestore.MadeSame {
			t.Errorf("replayed: %+v, %v", c, err)
		}
	}
	if breaches := w.Sim.Audit(); len(breaches) > 0 {
		t.Error(breaches)
	}
}

// TestRate_Pieces: sell, change the rate, return everything in pieces. What comes back is what was paid, and its VAT
// what was charged, both to the cent.
func TestRate_Pieces(t *testing.T) {
	w := changing(t)
	defer w.Close()
	rng := rand.New(rand.NewPCG(21, 1))
	var sales []*record.View
	var units []int
	for i := range 12 {
		var lines []dte.Value
		n := 1 + rng.IntN(4)
		for line := range n {
			lines = append(
				lines,
				enginetest.Item(int64(line+1), "3", fmt.Sprintf("%d.%02d", rng.IntN(40), 1+rng.IntN(99))),
			)
		}
		sales, units = append(
			sales,
			w.Issued(enginetest.Invoice(fmt.Sprint("sale ", i), lines...), record.EstadoProcessed),
		),
			append(
				units,
				n,
			)
	}
	turnDay(w)
	for i, sold := range sales {
		var total, iva dte.Amount
		for piece := range 3 {
			var lines []dte.Value
			for line := range units[i] {
				lines = append(lines, enginetest.Back(int64(line+1), "1"))
			}
			r := w.Issued(enginetest.ReturnOf(fmt.Sprint(i, " piece ", piece), sold, lines...), record.EstadoProcessed)
			sum := numbers(t, r, "resumen")
			total += engine.AmountOf(sum, "totalPagar")
			iva += engine.AmountOf(sum, "totalIva")
		}
		was := numbers(t, sold, "resumen")
		if total != engine.AmountOf(was, "totalPagar") {
			t.Errorf("%s was paid, and %s came back", sold.Total, total.Fixed2())
		}
		if iva != engine.AmountOf(was, "totalIva") {
			t.Errorf("%s of VAT was charged, and %s came back", engine.AmountOf(was, "totalIva").Fixed2(), iva.Fixed2())
		}
	}
	if breaches := w.Sim.Audit(); len(breaches) > 0 {
		t.Error(strings.Join(breaches, "\n"))
	}
}

// The cases of a law are compared with the catalogues of its first day, not with today's. A law pushed before its
// catalogues is refused; pushed after them it waits for its day, and today's vouchers keep today's name.
func TestRate_CasesOfTheDay(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	all := enginetest.Shipped(t)
	all["dte03/v4"] = plugintest.Bundle(t, "dte03/v4")
	s := w.Shelf(all)
	of13, of15 := []byte("Impuesto al Valor Agregado 13%"), []byte("Impuesto al Valor Agregado 15%")
	law := bundletest.Edition(t, "dte03/v4", "8.0.0", bundletest.In(changeDay, ""), func(parts map[string][]byte,
		_ *bundle.Manifest) {
		for name, part := range parts {
			if strings.HasPrefix(name, "cases/") {
				parts[name] = bytes.ReplaceAll(part, of13, of15)
			}
		}
	})
	if a := enginetest.Push(t, s, law); a.Refused == "" {
		t.Fatalf("names that no catalogue has: %+v", a)
	}
	names := bundletest.Edition(t, "catalogues", "8.0.0", bundletest.In(changeDay, ""), func(parts map[string][]byte,
		_ *bundle.Manifest) {
		parts["catalogues.json"] = bytes.Replace(parts["catalogues.json"], of13, of15, 1)
	})
	for _, data := range [][]byte{names, law} {
		if a := enginetest.Push(t, s, data); a.State != rulestore.Coming {
			t.Fatalf("%+v", a)
		}
	}
	tax := numbers(
		t,
		w.Issued(enginetest.Voucher("today", enginetest.Item(1, "4", "25")), record.EstadoProcessed),
		"resumen",
		"tributos",
	).Index(0)
	if got := tax.Get("descripcion").Text(); got != string(of13) {
		t.Errorf("today's voucher has %q", got)
	}
}

// What was sold at 13 % and is corrected on a day of 15 % stays at 13 %, also if the rule of its own day fails.
func TestRate_Corrected(t *testing.T) {
	w := changing(t)
	defer w.Close()
	if err := w.Sim.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	sold := w.Issued(enginetest.Sale("", 1130), record.EstadoContingency)
	entry, h, err := record.Read(w.Store, storage.Code(enginetest.CodeOf(sold)))
	if err != nil {
		t.Fatal(err)
	}
	h.Refused, h.Response = w.Now().Add(90*time.Hour), &authority.Response{CodigoMsg: "003"}
	for _, state := range []storage.State{record.Reported, record.Rejected} {
		if entry, err = w.Engine.Move(t.Context(), entry, storage.Change{To: state}, h); err != nil {
			t.Fatal(err)
		}
	}
	if a := enginetest.Push(t, w.Engine.Shelf(), enginetest.Edition(t, "2.9.9", bundletest.Small(t, "dte01/v2",
		bundletest.Trap))); a.State != rulestore.Live {
		t.Fatalf("%+v", a)
	}
	turnDay(w)
	r, err := w.Engine.Correct(t.Context(), enginetest.CodeOf(sold), enginetest.Sale("", 1130))
	if err != nil {
		t.Fatal(err)
	}
	if iva := engine.AmountOf(numbers(t, r, "resumen"), "totalIva").Fixed2(); iva != "1.30" ||
		r.Rule.Version == "8.0.0" {
		t.Errorf("of 11.30 sold at 13 %%, %s is VAT by %s", iva, r.Rule.Version)
	}
}
