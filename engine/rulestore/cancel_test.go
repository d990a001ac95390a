package rulestore_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
	"dtegate/storage"
)

// A rollback takes off the bundle in force and leaves future bundles. A future bundle is cancelled by name, and the
// same bundle can be pushed again, before or after a restart.
func TestShelf_Cancel(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	enginetest.Push(t, s, enginetest.Edition(t, "2.1.7"))
	coming := enginetest.Edition(t, "8.0.0", bundletest.In("2026-12-24", ""), bundletest.Param("ivaRate", "0.15"),
		bundletest.Refusals)
	states := func(version string) string {
		for _, b := range s.List().Rules {
			if b.Name == "dte01" && b.Version == version {
				return b.State
			}
		}
		return ""
	}
	expect := func(when, live, next string) {
		t.Helper()
		if got := states(live); got != rulestore.Live {
			t.Errorf("%s: %s is %s", when, live, got)
		}
		if got := states("8.0.0"); got != next {
			t.Errorf("%s: 8.0.0 is %s, want %s", when, got, next)
		}
	}
	enginetest.Push(t, s, coming)
	expect("pushed", "2.1.7", rulestore.Coming)
	target := func(version string) rulestore.Target {
		return rulestore.Target{Name: "dte01", Schema: 2, Version: version}
	}
	why := rulestore.Order{Who: "ana", Reason: "the law was put off"}
	if _, err := s.Rollback(t.Context(), target("2.1.0"), rulestore.Order{Who: "ana"}); !errors.Is(err,
		rulestore.ErrReason) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := s.Rollback(t.Context(), target("2.1.0"), why); err != nil {
		t.Fatal(err)
	}
	expect("rolled back", "2.1.0", rulestore.Coming)
	for version, want := range map[string]string{"2.1.0": "has begun", "7.0.0": "never here"} {
		if _, err := s.Cancel(t.Context(), target(version), why); !errors.Is(err, rulestore.ErrNoSuchRule) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("cancelling %s: %v", version, err)
		}
	}
	if _, err := s.Cancel(t.Context(), target("8.0.0"), rulestore.Order{}); !errors.Is(err, rulestore.ErrReason) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := s.Cancel(t.Context(), target("8.0.0"), why); err != nil {
		t.Fatal(err)
	}
	expect("cancelled", "2.1.0", rulestore.Retired)
	s = w.Shelf(enginetest.Shipped(t)) // as after a restart
	expect("started again", "2.1.0", rulestore.Retired)
	if _, err := s.Cancel(t.Context(), target("8.0.0"), why); !errors.Is(err, rulestore.ErrNoSuchRule) {
		t.Errorf("cancelled twice: %v", err)
	}
	if a := enginetest.Push(t, s, coming); a.State != rulestore.Coming {
		t.Fatalf("pushed again: %+v", a)
	}
	expect("pushed again", "2.1.0", rulestore.Coming)
	s = w.Shelf(enginetest.Shipped(t))
	expect("started once more", "2.1.0", rulestore.Coming)
	if r := at(w, 1, 1130, 1, dte.Null()); r.Rule.Version != "2.1.0" {
		t.Errorf("a sale by %s", r.Rule.Version)
	}
	// On its first day the bundle is in force: from then on a rollback leads back from it.
	w.Clock.Set(time.Date(2026, 12, 24, 6, 0, 1, 0, time.UTC))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), target("8.0.0"), why); !errors.Is(err, rulestore.ErrNoSuchRule) ||
		!strings.Contains(err.Error(), "has begun") {
		t.Errorf("cancelled on its first day: %v", err)
	}
	expect("on its first day", "8.0.0", rulestore.Live)
}

// The branch's own return is shown until somebody has acknowledged it, even after a restart.
func TestShelf_Acknowledge(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	why := rulestore.Order{Who: "ana", Reason: "mended in 2.1.8"}
	if _, err := s.Acknowledge(t.Context(), why); !errors.Is(err, rulestore.ErrNothingToAcknowledge) {
		t.Errorf("nothing has happened: %v", err)
	}
	bad := enginetest.Push(t, s, enginetest.Edition(t, "2.1.7"))
	s.Return(t.Context(), rulestore.Return{Digest: bad.Rule.Digest, Reason: "it does harm"})
	if r := s.List().Return; r == nil || r.Acknowledged != nil || r.To.Version != "2.1.0" {
		t.Fatalf("%+v", r)
	}
	if _, err := s.Acknowledge(t.Context(), rulestore.Order{Who: "ana"}); !errors.Is(err, rulestore.ErrReason) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := s.Acknowledge(t.Context(), why); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := s.List().Return; r == nil || r.Acknowledged == nil || r.Acknowledged.Who != "ana" ||
			r.Acknowledged.At.IsZero() {
			t.Errorf("%+v", r)
		}
		w.Clock.Set(w.Now().Add(time.Minute))
		s = w.Shelf(enginetest.Shipped(t))
	}
}

// The first bundle of a new generation with a future first day is taken off by its name: a rollback to the bundle in
// force is refused, and so is a rollback to the new bundle, and both refusals name the right verb.
func TestShelf_CancelGeneration(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	all := enginetest.Shipped(t)
	delete(all, "dte01/v2")
	all["dte01/v1"] = bundletest.Edition(t, "dte01/v1", "1.5.0", bundletest.In("2026-11-01", ""))
	s := w.Shelf(all)
	next := enginetest.Edition(t, "2.4.0", bundletest.In("2026-12-01", ""))
	if a := enginetest.Push(t, s, next); a.State != rulestore.Coming {
		t.Fatalf("%+v", a)
	}
	why := rulestore.Order{Who: "ana", Reason: "MH put the generation off"}
	coming := rulestore.Target{Name: "dte01", Schema: 2, Version: "2.4.0"}
	for name, to := range map[string]rulestore.Target{"what is in force": {Name: "dte01", Schema: 1, Version: "1.5.0"},
		"itself": coming} {
		if _, err := s.Rollback(t.Context(), to, why); !errors.Is(err, rulestore.ErrNoSuchRule) ||
			!strings.Contains(err.Error(), "2.4.0") ||
			!strings.Contains(err.Error(), "begins on 2026-12-01 only: dtectl rules cancel takes it off") {
			t.Errorf("back to %s: %v", name, err)
		}
	}
	back, err := s.Cancel(t.Context(), coming, why)
	if err != nil || back.To.Version != "1.5.0" || len(back.Off) != 1 {
		t.Fatalf("%+v, %v", back, err)
	}
	w.Clock.Set(time.Date(2026, 12, 1, 16, 0, 0, 0, time.UTC))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := at(w, 1, 1130, 1, dte.Null()); r.Rule.Version != "1.5.0" {
		t.Errorf("on the day a sale by %s", r.Rule.Version)
	}
}

// A type that a careless bundle brought and of which nothing was issued can be brought again otherwise, once its bundle
// is cancelled; not before, and not after a document was issued.
func TestShelf_CancelType(t *testing.T) {
	t.Cleanup(func() { record.Forget("96") })
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	boleta := func(version, closing string) []byte {
		return enginetest.Edition(
			t,
			version,
			bundletest.Small(t, "dte01/v2", bundletest.Trap),
			func(parts map[string][]byte,
				m *bundle.Manifest) {
				m.Name, m.Document = "boleta", "96"
				parts["schema.json"] = bytes.Replace(
					parts["schema.json"],
					[]byte(`"const": "01"`),
					[]byte(`"const": "96"`),
					1,
				)
				parts["type.json"] = []byte(strings.NewReplacer("FACTURA_CONSUMIDOR_FINAL", "BOLETA", "dte01", "boleta",
					"emitirFactura", "emitirBoleta", `"effect"`, `"closing": "`+closing+`", "effect"`).Replace(string(
					parts["type.json"])))
			},
		)
	}
	cancel := func(version string) {
		t.Helper()
		if _, err := s.Cancel(t.Context(), rulestore.Target{Name: "boleta", Schema: 2, Version: version},
			rulestore.Order{Who: "ana", Reason: "it counts sales as purchases"}); err != nil {
			t.Fatal(err)
		}
	}
	if a := enginetest.Push(t, s, boleta("1.0.0", bundle.Purchase)); a.State != rulestore.Live {
		t.Fatalf("%+v", a)
	}
	if a := enginetest.Push(t, s, boleta("1.0.1", bundle.Sale)); !strings.Contains(a.Error, "never changes") {
		t.Fatalf("%+v", a)
	}
	cancel("1.0.0")
	s = w.Shelf(enginetest.Shipped(t)) // as after a restart
	if a := enginetest.Push(t, s, boleta("1.0.1", bundle.Sale)); a.State != rulestore.Live {
		t.Fatalf("%+v", a)
	}
	if got := record.TypeOf("96").Closing; got != bundle.Sale {
		t.Errorf("the type counts as %q", got)
	}
	if _, err := w.Store.Append(t.Context(), storage.Keys{Series: "00/96/M001/P001/2026"}, storage.Draft{
		State: record.Accepted, Head: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	cancel("1.0.1")
	if a := enginetest.Push(t, s, boleta("1.0.2", bundle.Purchase)); !strings.Contains(a.Error, "never changes") {
		t.Errorf("%+v", a)
	}
}

// A bundle of a coming day is tried with the rules of that day: catalogues that lack what the rules need are refused
// at the push, and do not stop the branch at midnight.
func TestActivate_ComingDay(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	lacking := func(list, from string) []byte {
		return bundletest.Edition(t, "catalogues", "9.0.0", bundletest.In(from, ""), func(parts map[string][]byte,
			_ *bundle.Manifest) {
			parts["catalogues.json"] = bytes.ReplaceAll(parts["catalogues.json"], []byte(`"`+list+`"`), []byte(
				`"X`+list+`"`))
		})
	}
	for _, list := range []string{"CAT-022", "catalogues"} { // a list, and the file
		for _, from := range []string{"2026-11-01", "2026-12-24"} {
			if a := enginetest.Push(t, s, lacking(list, from)); a.Refused == "" {
				t.Errorf("without %s from %s: %+v", list, from, a)
			}
		}
	}
	w.Clock.Set(time.Date(2026, 12, 24, 16, 0, 0, 0, time.UTC))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Issued(enginetest.Sale("", 1130), record.EstadoProcessed)
}

// TestActivate_Catalogues: catalogues with which a rule in force, or the rule of their first day, would refuse a golden
// case are refused, unless the order says that it is meant. A text may change.
func TestActivate_Catalogues(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	for _, c := range []struct{ old, text, step string }{
		{`"59": "Unidad"`, `"598": "Unidad"`, "cases"},
		{`"D1": "FOVIAL`, `"D1": "` + strings.Repeat("x", 300) + `FOVIAL`, "cases"},
		{`"D1": "FOVIAL`, `"D1": "Nuevo FOVIAL`, ""},
	} {
		for _, from := range []string{"2026-11-01", "2026-12-24"} {
			data := bundletest.Edition(t, "catalogues", "9.0.0", bundletest.In(from, ""), func(parts map[string][]byte,
				_ *bundle.Manifest) {
				before := parts["catalogues.json"]
				if parts["catalogues.json"] = bytes.ReplaceAll(before, []byte(c.old), []byte(c.text)); bytes.Equal(before,
					parts["catalogues.json"]) {
					t.Fatalf("the catalogues have no %s", c.old)
				}
			})
			a, err := s.Activate(t.Context(), data, rulestore.Order{Who: "test", Dry: true})
			if err != nil || a.Refused != c.step || c.step != "" && !strings.Contains(a.Error, "dte01 2.1.0 with these "+
				"catalogues: cases/") {
				t.Errorf("%s from %s: %+v, %v", c.text, from, a, err)
			}
			if a, err = s.Activate(t.Context(), data, rulestore.Order{Who: "test", Dry: true, FewerCases: true}); err != nil ||
				a.Refused != "" {
				t.Errorf("%s from %s, meant: %+v, %v", c.text, from, a, err)
			}
		}
	}
}

// TestActivate_CataloguesLater: catalogues are also tried with a rule that will begin only after their first day.
func TestActivate_CataloguesLater(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	data := bundletest.Edition(t, "catalogues", "9.0.0", bundletest.In("2026-11-25", ""), func(parts map[string][]byte,
		_ *bundle.Manifest) {
		parts["catalogues.json"] = bytes.Replace(parts["catalogues.json"], []byte(`"22": "Retención IVA 1`),
			[]byte(`"228": "Retención IVA 1`), 1)
	})
	for _, refused := range []string{"", "cases"} {
		a, err := s.Activate(t.Context(), data, rulestore.Order{Who: "test", Dry: true})
		if err != nil || a.Refused != refused || refused != "" && !strings.HasPrefix(a.Error, "dte07 ") {
			t.Errorf("%+v, %v", a, err)
		}
		later := bundletest.Edition(t, "dte07/v2", "9.0.0", bundletest.In("2026-12-24", ""))
		if a := enginetest.Push(t, s, later); refused == "" && a.State != rulestore.Coming {
			t.Errorf("%+v", a)
		}
	}
	// The taxes of a coming rule are named by the catalogues of its first day, those of today's rule by today's.
	enginetest.Push(t, s, bundletest.Edition(t, "catalogues", "9.0.0", bundletest.In("2026-12-24", ""),
		func(parts map[string][]byte, _ *bundle.Manifest) {
			parts["catalogues.json"] = bytes.Replace(parts["catalogues.json"], []byte(`"D1": "FOVIAL`),
				[]byte(`"D1": "Nuevo FOVIAL`), 1)
		}))
	seen := make(map[string]bool)
	for _, b := range s.List().Rules {
		r, want := s.Book().Compiled(b.Digest), "FOVIAL"
		if r == nil {
			continue
		}
		if seen[b.Version] = true; b.Version == "9.0.0" {
			want = "Nuevo FOVIAL"
		}
		if text, _ := r.Catalogues().Lookup("CAT-015", "D1"); !strings.HasPrefix(text, want) {
			t.Errorf("%s %s names D1 %q", b.Name, b.Version, text)
		}
	}
	if !seen["2.1.0"] || !seen["9.0.0"] {
		t.Errorf("the book has %v", seen)
	}
}

// TestActivate_EventCatalogues: an event that needs a list of its first day's catalogues is admitted before that day,
// and so are catalogues without a list that only the event before them needs.
func TestActivate_EventCatalogues(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	for _, c := range []struct{ version, from, list string }{{"9.0.0", "2026-12-24", "CAT-099"}, {"9.1.0", "2026-12-31",
		"CAT-022"}} {
		event := bundletest.Edition(t, "invalidacion/v3", c.version, bundletest.In(c.from, ""),
			func(parts map[string][]byte, _ *bundle.Manifest) {
				parts["overlay.json"] = bytes.ReplaceAll(parts["overlay.json"], []byte("CAT-022"), []byte(c.list))
			})
		catalogues := bundletest.Edition(t, "catalogues", c.version, bundletest.In(c.from, ""),
			func(parts map[string][]byte, _ *bundle.Manifest) {
				all, err := dte.Parse(parts["catalogues.json"])
				if err != nil {
					t.Fatal(err)
				}
				lists := all.Get("catalogues")
				parts["catalogues.json"] = all.With("catalogues", lists.With(c.list, lists.Get("CAT-022"))).Append(nil)
			})
		files := [][]byte{catalogues, event}
		if c.list == "CAT-022" {
			files = [][]byte{event, catalogues}
		}
		for _, data := range files {
			if a := enginetest.Push(t, s, data); a.State != rulestore.Coming {
				t.Errorf("%s: %s: %s", c.version, a.Refused, a.Error)
			}
		}
	}
	for _, day := range []string{"2026-12-24", "2026-12-31"} {
		at, _ := time.ParseInLocation(time.DateOnly, day, dte.Zone)
		w.Clock.Set(at)
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Book().PickEvent("invalidacion", "00", day); err != nil {
			t.Error(err)
		}
	}
}

// TestLoad_LaterCatalogues: what a release ships is checked with the catalogues that are in force by then, not with the
// first ones that the branch ever had.
func TestLoad_LaterCatalogues(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Shelf(map[string][]byte{"catalogues": bundletest.Edition(t, "catalogues", "0.1.0", func(parts map[string][]byte,
		_ *bundle.Manifest) {
		parts["catalogues.json"] = bytes.ReplaceAll(parts["catalogues.json"], []byte(`"59": "Unidad"`),
			[]byte(`"598": "Unidad"`))
	})})
	if on := onList(w.Shelf(enginetest.Shipped(t)), "2.1.0"); on == nil || on.State != rulestore.Live {
		t.Errorf("the rule of a later release is %+v", on)
	}
}

// TestShelf_CancelledDay: a bundle that was cancelled before its day was never in force: once that day has come, its
// version blocks no lower one. A version that was in force blocks lower ones for ever. What MH has decided about the
// bundle in force is not forgotten because another was cancelled.
func TestShelf_CancelledDay(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Change = func(o *engine.Options) { o.PassCodes = true }
	s := w.Shelf(enginetest.Shipped(t))
	enginetest.Push(t, s, enginetest.Edition(t, "2.1.7"))
	at(w, 1, 1130, 1, stranger)
	enginetest.Push(t, s, enginetest.Edition(t, "8.0.0", bundletest.In("2026-12-24", "")))
	if _, err := s.Cancel(t.Context(), rulestore.Target{Name: "dte01", Schema: 2, Version: "8.0.0"},
		rulestore.Order{Who: "ana", Reason: "put off"}); err != nil {
		t.Fatal(err)
	}
	s = restarted(w, s)
	if o := onList(s, "2.1.7").Outcomes; o == nil || o.Refused != 1 {
		t.Errorf("after the cancellation MH has decided %+v", o)
	}
	w.Clock.Set(time.Date(2026, 12, 25, 16, 0, 0, 0, time.UTC))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for version, refused := range map[string]string{"2.1.6": "version", "2.1.8": ""} {
		if a := enginetest.Push(t, s, enginetest.Edition(t, version)); a.Refused != refused {
			t.Errorf("%s, after 8.0.0 was cancelled: %+v", version, a)
		}
	}
}
