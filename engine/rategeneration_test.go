package engine_test

import (
	"bytes"
	"errors"
	"math/big"
	"testing"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// TestRate_NewGeneration: the rate changes on the first day of a new generation of the layout, of which no bundle was
// in force when the original was issued. The original's day still decides, once the generation has a bundle for earlier
// originals: one of the same first day, of a lower version, with the old rate, whose own dates end on that day. Of two
// such bundles the later version decides.
func TestRate_NewGeneration(t *testing.T) {
	for name, carried := range map[string]bool{"the first bundle alone": false, "with one for originals": true} {
		t.Run(name, func(t *testing.T) {
			w := enginetest.NewWorld(t)
			defer w.Close()
			all := enginetest.Shipped(t)
			for _, name := range []string{"dte03/v3", "dte05/v3"} {
				all[name] = bundletest.Edition(t, name, "1.0.0", bundletest.In("2026-01-01", ""))
			}
			s := w.Shelf(all)
			names := bundletest.Edition(t, "catalogues", "8.0.0", bundletest.In(changeDay, ""),
				func(parts map[string][]byte, _ *bundle.Manifest) {
					parts["catalogues.json"] = bytes.Replace(parts["catalogues.json"],
						[]byte("Impuesto al Valor Agregado 13%"), []byte("Impuesto al Valor Agregado 15%"), 1)
				})
			files := [][]byte{names}
			for name, document := range map[string]string{"dte03/v4": "03", "dte05/v4": "05"} {
				if carried {
					wrong := bundletest.Edition(t, name, "7.9.9", bundletest.In(changeDay, changeDay),
						bundletest.Param("ivaRate", "0.10"), bundletest.Refusals)
					files = append(files, wrong, bundletest.Edition(t, name, "8.0.0", bundletest.In(changeDay,
						changeDay)))
				}
				files = append(files, bundletest.Edition(t, name, "8.0.1", bundletest.In(changeDay, ""),
					bundletest.Param("ivaRate", "0.15"), bundletest.Refusals))
				if err := w.Sim.Enact(simulator.Law{Document: document, From: changeDay, VAT: big.NewRat(15,
					100)}); err != nil {
					t.Fatal(err)
				}
			}
			for _, data := range files {
				if a := enginetest.Push(t, s, data); a.State != rulestore.Coming &&
					!(carried && a.State == rulestore.Spare) {
					t.Fatalf("%+v", a)
				}
			}
			charged := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "4", "25")), record.EstadoProcessed)
			if v := enginetest.Text(t, charged, "identificacion", "version"); v != "3" {
				t.Fatalf("the original is of generation %s", v)
			}
			turnDay(w)
			later := w.Issued(enginetest.Voucher("later", enginetest.Item(1, "4", "25")), record.EstadoProcessed)
			if tax := numbers(t, later, "resumen", "tributos").Index(0); engine.AmountOf(tax, "valor").
				Fixed2() !=
				"15.00" {
				t.Errorf("a voucher of the day has %s", tax.Append(nil))
			}
			if !carried {
				w.Issued(enginetest.NoteOn("05", "n", charged, enginetest.Item(1, "1", "25")), record.EstadoRejected)
				return
			}
			n := w.Issued(enginetest.NoteOn("05", "n", charged, enginetest.Item(1, "1", "25")), record.EstadoProcessed)
			tax := numbers(t, n, "resumen", "tributos").Index(0)
			if engine.AmountOf(tax, "valor").Fixed2() != "3.25" || tax.Get("descripcion").Text() != "Impuesto al Valor "+
				"Agregado 13%" ||
				enginetest.Text(t, n, "identificacion", "version") != "4" {
				t.Errorf("a note of 25.00 sold at 13 %% has %s", tax.Append(nil))
			}
			if n = w.Issued(enginetest.NoteOn("05", "n2", later, enginetest.Item(1, "1", "25")), record.EstadoProcessed); engine.AmountOf(numbers(t, n,
				"resumen", "tributos").Index(0), "valor").
				Fixed2() !=
				"3.75" {
				t.Errorf("a note of 25.00 sold at 15 %%:\n%s", n.JSON)
			}
			s = w.Shelf(all) // as after a restart
			n = w.Issued(enginetest.NoteOn("05", "n3", charged, enginetest.Item(1, "1", "25")), record.EstadoProcessed)
			if c, err := s.Replay(t.Context(), enginetest.CodeOf(n)); err != nil || c.Result != rulestore.MadeSame ||
				n.Rule.Version != "8.0.0" {
				t.Errorf("by %s, replayed: %+v, %v", n.Rule.Version, c, err)
			}
			if breaches := w.Sim.Audit(); len(breaches) > 0 {
				t.Error(breaches)
			}
		})
	}
}

// A sale of that day whose rule fails is not computed by the bundle for originals, though that one's dates hold: its
// rate is the old one.
func TestRate_NewGenerationFails(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	all := enginetest.Shipped(t)
	delete(all, "dte01/v2")
	all["dte01/v1"] = bundletest.Edition(t, "dte01/v1", "1.5.0", bundletest.In("2026-01-01", ""))
	s := w.Shelf(all)
	for _, data := range [][]byte{enginetest.Edition(t, "7.9.9", bundletest.In(changeDay, changeDay)), enginetest.Edition(t, "8.0.0",
		bundletest.Small(t, "dte01/v2", bundletest.Trap), bundletest.In(changeDay, ""))} {
		if a := enginetest.Push(t, s, data); a.Refused != "" {
			t.Fatalf("%+v", a)
		}
	}
	turnDay(w)
	r, err := w.Engine.Issue(t.Context(), enginetest.Sale("", 1130))
	var refused *refusal.Error
	if !errors.As(err, &refused) || refused.Code != refusal.CodeRuleFailed {
		t.Errorf("sold: %+v, %v", r, err)
	}
}
