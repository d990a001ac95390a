package rulestore_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

func TestShelf_Activate(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer x.Close()
	s := x.Shelf(enginetest.Shipped(t))
	if r, _ := x.Engine.Issue(t.Context(), enginetest.Sale("a", 1130)); r.Rule.Version != "2.1.0" {
		t.Fatalf("shipped: %+v", r.Rule)
	}
	stranger := plugintest.Signer()
	stranger.Private = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	for _, c := range []struct {
		name, step, text string
		data             []byte
	}{
		{"good", "", "", enginetest.Edition(t, "2.1.5")},
		{"older", "version", "not newer than 2.1.5", enginetest.Edition(t, "2.1.4")},
		{"the same version again, changed", "version", "not newer than 2.1.5", enginetest.Edition(t, "2.1.5",
			bundletest.Param("ivaRate", "0.15"), bundletest.Refusals)},
		{"forged", "signature", "not signed", bundletest.EditionSigned(t, "dte01/v2", "2.1.6", stranger)},
		{"rubbish", "signature", "not a rule bundle", []byte("PK")},
		{"wrong cents", "interpreter", "is 1.", enginetest.Edition(t, "2.1.6", bundletest.Param("ivaRate", "0.14"))},
		{"no case", "compiler", "has no golden cases", enginetest.Edition(t, "2.1.6", bundletest.Small(t, "dte01/v2",
			bundletest.Loop), bundletest.Caseless)},
		{"not for 2,000 lines", "lines", "with 2000 lines", enginetest.Edition(t, "2.1.6", func(_ map[string][]byte,
			m *bundle.Manifest) {
			m.Fuel = 200_000
		})},
		{"never in force", "dates", "would never be in force", enginetest.Edition(t, "2.1.6", bundletest.In("2025-06-01", ""))},
		{"not of this ambiente", "dates", "no dates for this ambiente", enginetest.Edition(t, "2.1.6", func(_ map[string][]byte,
			m *bundle.Manifest) {
			delete(m.Validity, "00")
		})},
	} {
		a := enginetest.Push(t, s, c.data)
		if a.Refused != c.step || !strings.Contains(a.Error, c.text) {
			t.Errorf("%s: refused at %q: %s", c.name, a.Refused, a.Error)
		}
	}
	if again := enginetest.Push(t, s, enginetest.Edition(t, "2.1.5")); !again.Already || again.State != rulestore.Live {
		t.Errorf("pushed again: %+v", again)
	}
	r, err := x.Engine.Issue(t.Context(), enginetest.Sale("b", 1130))
	if err != nil || r.Rule.Version != "2.1.5" {
		t.Fatalf("%+v, %v", r, err)
	}
	if back, err := s.Rollback(t.Context(), rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.0"},
		rulestore.Order{Who: "test", Reason: "why not"}); err != nil || len(back.Off) != 1 {
		t.Fatalf("%+v, %v", back, err)
	}
	if _, err := s.Rollback(t.Context(), rulestore.Target{Name: "dte01", Schema: 2, Version: "1.9.9"},
		rulestore.Order{Reason: "test"}); !errors.Is(err, rulestore.ErrNoSuchRule) {
		t.Errorf("a version that was never here: %v", err)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.3")); a.Refused != "version" {
		t.Errorf("the floor fell with the rollback: %+v", a)
	}
	// A restart loads exactly that bundle, whatever was shipped and whoever is trusted now.
	s = x.Shelf(nil)
	if r, _ := x.Engine.Issue(t.Context(), enginetest.Sale("c", 1130)); r.Rule.Version != "2.1.0" {
		t.Errorf("after a restart: %+v", r.Rule)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.4")); a.Refused != "version" {
		t.Errorf("the floor fell with the restart: %+v", a)
	}
	for _, key := range []string{"a", "b", "c"} {
		r, _ := x.Engine.Issue(t.Context(), enginetest.Sale(key, 1130))
		if c, err := s.Replay(t.Context(), enginetest.CodeOf(r)); err != nil || c.Result != rulestore.MadeSame ||
			c.Rule != r.Rule {
			t.Errorf("replaying %s: %+v, %v", key, c, err)
		}
	}
}

// TestShelf_FewerCases: a bundle of a document or of an event with fewer golden cases than the bundle that it replaces is
// refused, unless the order says that it is meant. A bundle of another generation replaces none.
func TestShelf_FewerCases(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer x.Close()
	shipped := enginetest.Shipped(t)
	shipped["invalidacion"] = plugintest.Bundle(t, "invalidacion/v3")
	s := x.Shelf(shipped)
	for _, name := range []string{"dte01/v2", "invalidacion/v3"} {
		data := bundletest.Edition(t, name, "9.0.0", bundletest.Refusals)
		a, err := s.Activate(t.Context(), data, rulestore.Order{Who: "test"})
		if err != nil || a.Refused != "cases" || !strings.Contains(a.Error, "--fewer-cases") {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if a := enginetest.Push(t, s, data); a.State != rulestore.Live {
			t.Errorf("%s, meant: %+v", name, a)
		}
	}
	data := bundletest.Edition(t, "dte01/v1", "9.0.0", bundletest.Refusals, bundletest.In("2026-12-01", ""))
	if a, err := s.Activate(t.Context(), data, rulestore.Order{Who: "test"}); err != nil || a.State != rulestore.Coming {
		t.Errorf("another generation: %+v, %v", a, err)
	}
	// A bundle that waits for its day is replaced like a bundle in force.
	enginetest.Push(t, s, bundletest.Edition(t, "dte01/v1", "9.1.0", bundletest.In("2026-12-02", "")))
	data = bundletest.Edition(t, "dte01/v1", "9.2.0", bundletest.Refusals, bundletest.In("2026-12-02", ""))
	if a, err := s.Activate(t.Context(), data, rulestore.Order{Who: "test"}); err != nil || a.Refused != "cases" {
		t.Errorf("before a waiting bundle: %+v, %v", a, err)
	}
}

// A rule that fails: the last good one computes the sale, and after three failures, of two kinds, the branch returns to
// it.
func TestShelf_ReturnsFromTraps(t *testing.T) {
	for name, code := range map[string][]byte{"traps": bundletest.Trap, "loops": bundletest.Loop} {
		t.Run(name, func(t *testing.T) {
			x := enginetest.NewWorld(t)
			defer x.Close()
			s := x.Shelf(enginetest.Shipped(t))
			// Its golden case does not have a sale of one line.
			if a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.7", bundletest.Small(t, "dte01/v2", code))); a.State != rulestore.Live {
				t.Fatalf("%+v", a)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			for i := range 3 {
				if r := at(x, 1, 1130, 1+i%2, dte.Null()); r.Rule.Version != "2.1.0" || r.Total != []string{"11.30",
					"22.60"}[i%2] {
					t.Fatalf("%+v", r)
				}
			}
			go func() { defer close(done); _ = s.Run(ctx) }()
			for s.List().Return == nil {
				<-time.After(time.Millisecond)
			}
			stop()
			<-done
			if got := s.List().Return; got.To.Version != "2.1.0" || !strings.Contains(got.Reason,
				"3 evaluations failed within 1m0s, at 1 points of sale") {
				t.Errorf("%+v", got)
			}
			if s.Book().Active("00", "2026-11-21")["01"].Version != "2.1.0" {
				t.Error("the bad rule is still live")
			}
		})
	}
}

// A bundle that comes weeks before its day takes over at midnight in El Salvador, and one whose time is over goes on.
func TestShelf_Dates(t *testing.T) {
	newYear := time.Date(2027, 1, 1, 6, 0, 0, 0, time.UTC)
	x := enginetest.NewWorld(t)
	defer x.Close()
	s := x.Shelf(enginetest.Shipped(t))
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.2.0", bundletest.In("2026-12-01", "2026-12-31"))); a.State != rulestore.Coming ||
		a.From != "2026-12-01" {
		t.Fatalf("%+v", a)
	}
	for _, c := range []struct {
		at      time.Time
		version string
		ends    time.Time // as the metric shows it
		expired bool
	}{
		{enginetest.Start, "2.1.0", time.Time{}, false},
		{time.Date(2026, 12, 1, 5, 59, 59, 0, time.UTC), "2.1.0", time.Time{}, false},
		{time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC), "2.2.0", newYear, false},
		{time.Date(2027, 2, 1, 6, 0, 0, 0, time.UTC), "2.2.0", newYear, true},
	} {
		x.Clock.Set(c.at)
		r, err := x.Engine.Issue(t.Context(), enginetest.Sale("", 1130))
		if err != nil || r.Rule.Version != c.version {
			t.Errorf("%v: %+v, %v", c.at, r, err)
		}
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, b := range s.List().Rules {
			if b.Document == "01" && b.State == rulestore.Live && b.Expired != c.expired {
				t.Errorf("%v: %s %s expired: %v", c.at, b.Name, b.Version, b.Expired)
			}
		}
		shown := metrictest.Values(t, s)
		ends, ending := shown["dte_rule_expiry_timestamp_seconds/01/document"]
		if ending == c.ends.IsZero() || ending && int64(ends) != c.ends.Unix() ||
			(shown["dte_rules_expired"] == 1) != c.expired {
			t.Errorf("%v: the rule ends at %v, %v rules are expired", c.at, ends, shown["dte_rules_expired"])
		}
	}
	// A document of an ended generation is corrected in the form of its day.
	for day, opened := range map[string]bool{"2025-12-31": true, "2026-12-01": false} {
		if kind := s.TypeOn("01", day); kind == nil || kind.Form == nil || (kind != x.Engine.TypeAt("dte01")) != opened {
			t.Errorf("%s: %+v", day, kind)
		}
	}
	if kind := s.TypeOn("01", "2022-12-31"); kind != nil {
		t.Errorf("%+v", kind)
	}
}

// TestShelf_CorrectionForm: MH refuses documents because their form lacks something. The bundle that mends the form
// computes their corrections, and its form reads them.
func TestShelf_CorrectionForm(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer x.Close()
	s := x.Shelf(enginetest.Shipped(t))
	r := x.Issued(enginetest.Sale("", 1130), record.EstadoProcessed)
	mended := func(parts map[string][]byte, _ *bundle.Manifest) {
		parts["form.json"] = bytes.Replace(parts["form.json"], []byte(`"members": [`), []byte(`"members": [
			{"name": "ventaTercero", "shape": "object", "members": [{"name": "nombre", "required": true}]},`), 1)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.7", mended)); a.State != rulestore.Live {
		t.Fatalf("%+v", a)
	}
	kind := x.Engine.TypeOf(r)
	if i := slices.IndexFunc(kind.Form.Members, func(m bundle.Member) bool { return m.Name == "ventaTercero" }); i < 0 {
		t.Errorf("the form of %s %s, and 2.1.7 computes the correction", r.Rule.Name, r.Rule.Version)
	}
}

// The switch of the generation in production, under load: a bundle pushed weeks before takes over at midnight, between
// two sales, without an error: consumer invoices go from version 1 to 2, tax credit vouchers from 3 to 4.
func TestShelf_MidnightUnderLoad(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Wire.Sever() // MH plays no part
	w.Change = func(o *engine.Options) { o.Issuer.Ambiente = "01" }
	first := enginetest.Shipped(t)
	next := [][]byte{first["dte01/v2"], plugintest.Bundle(t, "dte03/v4")}
	delete(first, "dte01/v2")
	first["dte03/v3"] = plugintest.Bundle(t, "dte03/v3")
	s := w.Shelf(first)
	for _, data := range next {
		if a := enginetest.Push(t, s, data); a.State != rulestore.Coming || a.From != "2026-12-01" {
			t.Fatalf("%+v", a)
		}
	}
	midnight := time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)
	w.Clock.Set(midnight.Add(-time.Second))
	var wg sync.WaitGroup
	var days [2]atomic.Int64
	for till := range 8 {
		wg.Go(func() {
			for i := range 15 {
				req, versions := enginetest.Sale("", 1130), [2]string{"1", "2"}
				if (till+i)%2 == 0 {
					req, versions = enginetest.Voucher("", enginetest.Item(1, "1", "5")), [2]string{"3", "4"}
				}
				r, err := w.Engine.Issue(context.Background(), req)
				if err != nil {
					t.Error(err)
					return
				}
				day, want := 0, [2]string{"2026-11-30", versions[0]}
				if enginetest.Text(t, r, "identificacion", "fecEmi") != want[0] {
					day, want = 1, [2]string{"2026-12-01", versions[1]}
				}
				if got := [2]string{enginetest.Text(t, r, "identificacion", "fecEmi"), enginetest.Text(t, r, "identificacion",
					"version")}; got != want {
					t.Errorf("got %v", got)
				}
				if days[day].Add(1); days[0].Load() == 40 {
					w.Clock.Set(midnight)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if days[0].Load() < 40 || days[1].Load() < 40 || s.Book().Active("01", "2026-12-01")["01"].Version != "2.1.0" {
		t.Errorf("%d documents before midnight and %d after", days[0].Load(), days[1].Load())
	}
}
