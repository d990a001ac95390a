package rulestore_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
	"dtegate/storage"
)

func opened(t testing.TB, data []byte) (*bundle.Bundle, rulestore.Admitted) {
	t.Helper()
	b, err := bundle.Inspect(data)
	if err != nil {
		t.Fatal(err)
	}
	m := b.Manifest
	return b, rulestore.Admitted{RuleRef: record.RuleRef{Name: m.Name, Version: m.Version, Digest: b.Digest},
		Kind: m.Kind, Document: m.Document, Schema: m.Schema,
		From: m.Validity["00"].From, Until: m.Validity["00"].Until, Signers: []string{"test"}, Way: "pushed",
		Who: "somebody"}
}

func sells(w *enginetest.World, version string) {
	w.T.Helper()
	r, err := w.Engine.Issue(context.Background(), enginetest.Sale("", 1130))
	if err != nil || r.Rule.Version != version {
		w.T.Errorf("a sale is computed by %+v, want %s: %v", r, version, err)
	}
}

func onList(s *rulestore.Store, version string) *rulestore.ShownBundle {
	for _, b := range s.List().Rules {
		if b.Version == version {
			return &b
		}
	}
	return nil
}

// TestShelf_Tampered: a signed bundle whose envelope somebody without a key has rewritten is refused, or survives a
// restart.
func TestShelf_Tampered(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer func() { x.Close() }()
	x.Box = recordmac.New()
	s := x.Shelf(enginetest.Shipped(t))
	next := enginetest.Edition(t, "2.1.1")
	if a := enginetest.Push(t, s, bundletest.Tampered(t, next, bundletest.Payload)); a.Refused != "signature" ||
		!strings.Contains(a.Error, "Payload: there is no such field") {
		t.Errorf("%+v", a)
	}
	spaced := bundletest.Tampered(t, next, func(s string) string { return strings.ReplaceAll(s, ",", " ,\n\t") })
	if a := enginetest.Push(t, s, spaced); a.State != rulestore.Live {
		t.Fatalf("%+v", a)
	}
	code, err := rulestore.CodeOf(onList(s, "2.1.1").Digest)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := x.Store.Part(code, rulestore.PartBundle)
	if err != nil || !bytes.Equal(bundletest.Entries(t, stored)[0].Content, bundletest.Entries(t, next)[0].Content) {
		t.Errorf("the store does not hold the canonical form: %v", err)
	}
	_, log := x.Restart()
	sells(x, "2.1.1")
	if strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}

// TestShelf_Unmarked: records without a mark of this box, such as those of a backup, open where pinned keys have signed
// their bundle; from then on they bear this box's mark.
func TestShelf_Unmarked(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer func() { x.Close() }()
	x.Shelf(enginetest.Shipped(t)) // without a key of the box: no marks
	next := enginetest.Edition(t, "2.1.1")
	b, a := opened(t, next)
	x.Record(b.Digest, a, storage.Part{Name: rulestore.PartBundle, Data: next})
	x.Box = recordmac.New()
	_, log := x.Restart()
	sells(x, "2.1.1")
	if strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
	entries, err := x.Store.Due(record.QueueRules, enginetest.Start.AddDate(100, 0, 0), 1000)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d records of rules: %v", len(entries), err)
	}
	for _, e := range entries {
		if x.Box.Check(e.Head, recordmac.Place{Series: e.Series, Number: e.Number, Code: e.Code,
			State: uint8(e.State)}) != recordmac.Own {
			t.Errorf("record %d is not marked", e.Number)
		}
	}
	// No pinned key has signed anything: the box remembers that one did before.
	x.Pinned = []bundle.Key{{ID: "next", Public: ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)}}
	s, log := x.Restart()
	sells(x, "2.1.1")
	if got := onList(s, "2.1.1"); got.Vouched != rulestore.VouchedByBox || !strings.Contains(got.Sentence(),
		"vouched for by this box, which admitted it signed by test") {
		t.Errorf("%+v", got)
	}
	if strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}

// TestShelf_RestoredElsewhere: on a new box, which has another key, only bundles that pinned keys have signed compute.
// A bundle signed by an old key is refused until it is pushed again with a signature of today.
func TestShelf_RestoredElsewhere(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer func() { x.Close() }()
	x.Box = recordmac.New()
	s := x.Shelf(enginetest.Shipped(t))
	next := enginetest.Edition(t, "2.1.1")
	enginetest.Push(t, s, next)
	newKey := bundle.Signer{ID: "next", Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))}
	pinned := []bundle.Key{{ID: "next", Public: newKey.Private.Public().(ed25519.PublicKey)}}
	x.Box, x.Pinned = recordmac.New(), pinned
	s, log := x.Restart()
	if _, err := x.Engine.Issue(t.Context(), enginetest.Sale("", 1130)); code(err) != refusal.CodeUnavailable {
		t.Errorf("a sale without any rule: %v", err)
	}
	if got := onList(s, "2.1.1"); got.State != rulestore.TroubleUnvouched || !strings.Contains(got.Sentence(),
		"nobody's signature") {
		t.Errorf("%+v", got)
	}
	if metrictest.Values(t, s)["dte_rules_refused/unvouched"] != 4 ||
		!strings.Contains(log, "a stored rule may not compute: push it again") {
		t.Errorf("%v\n%s", metrictest.Values(t, s), log)
	}
	cosign := func(data []byte) []byte {
		both, err := bundle.Cosign(data, []bundle.Key{plugintest.Key()}, newKey)
		if err != nil {
			t.Fatal(err)
		}
		return both
	}
	for _, data := range [][]byte{plugintest.Bundle(t, "catalogues"), next} {
		if a := enginetest.Push(t, s, data); a.Refused != "signature" {
			t.Errorf("%+v", a)
		}
		if a := enginetest.Push(t, s, cosign(data)); a.State != rulestore.Live {
			t.Errorf("%+v", a)
		}
	}
	sells(x, "2.1.1")
	s, _ = x.Restart()
	sells(x, "2.1.1")
	if got := onList(s, "2.1.1"); got.Vouched != rulestore.VouchedByKeys || got.Part == "" {
		t.Errorf("%+v", got)
	}
	// A store that nobody runs shows the same; it has no engine.
	o := x.ShelfOptions()
	o.Host, o.Interpreter = nil, nil
	still, err := rulestore.Inspect(o)
	running := s.List()
	if err != nil || still.Engine != "" || running.Engine != "compiler" || len(still.Rules) != len(running.Rules) {
		t.Fatalf("%+v, running %+v, %v", still, running, err)
	}
	for n, r := range still.Rules {
		if other := running.Rules[n]; r.State != other.State || r.Vouched != other.Vouched ||
			r.Digest != other.Digest || r.Sentence() != other.Sentence() {
			t.Errorf("%+v, running %+v", r, other)
		}
	}
	// A bundle that the installation ships mends a record as a push does.
	refused := func() float64 { return metrictest.Values(t, s)["dte_rules_refused/unvouched"] }
	before := refused()
	s = x.Shelf(map[string][]byte{"dte01/v1": cosign(plugintest.Bundle(t, "dte01/v1"))})
	if before != 2 || refused() != 1 {
		t.Errorf("%v rules were refused, and %v after the shipped one", before, refused())
	}
}

// TestShelf_FarVersion: whoever stole a key can put the highest version that there is in force. Once the key is no longer
// pinned and the version is taken off, the branch takes new versions again.
func TestShelf_FarVersion(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer func() { x.Close() }()
	x.Box = recordmac.New()
	stolen := bundle.Signer{ID: "stolen", Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))}
	x.Pinned = []bundle.Key{plugintest.Key(), {ID: "stolen", Public: stolen.Private.Public().(ed25519.PublicKey)}}
	s := x.Shelf(enginetest.Shipped(t))
	const far = "999999.999999.999999"
	if a := enginetest.Push(t, s, bundletest.EditionSigned(t, "dte01/v2", far, stolen)); a.State != rulestore.Live {
		t.Fatalf("%+v", a)
	}
	next := enginetest.Edition(t, "2.2.0")
	if _, err := s.Rollback(t.Context(), rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.0"},
		rulestore.Order{Who: "test", Reason: "stolen"}); err != nil {
		t.Fatal(err)
	}
	if a := enginetest.Push(t, s, next); a.Refused != "version" {
		t.Errorf("while the key is pinned: %+v", a)
	}
	x.Pinned = x.Pinned[:1]
	s, _ = x.Restart()
	if a := enginetest.Push(t, s, bundletest.EditionSigned(t, "dte01/v2", far, stolen)); a.Refused != "signature" {
		t.Errorf("the thief again: %+v", a)
	}
	if a := enginetest.Push(t, s, next); a.State != rulestore.Live {
		t.Errorf("%+v", a)
	}
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.9")); a.Refused != "version" {
		t.Errorf("below the new floor: %+v", a)
	}
	x.Restart()
	sells(x, "2.2.0")
}

func code(err error) string {
	var e *refusal.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// TestShelf_BadRecords: whatever is wrong with the record of a rule, the start goes on with the newest that opens, says
// so, and accepts the rule when it is pushed again.
func TestShelf_BadRecords(t *testing.T) {
	next := enginetest.Edition(t, "2.1.1")
	b, good := opened(t, next)
	stranger := plugintest.Signer()
	stranger.Private = ed25519.NewKeyFromSeed(make([]byte, 32))
	forged := bundletest.EditionSigned(t, "dte01/v2", "2.1.1", stranger, bundletest.Param("ivaRate", "0.01"))
	fb, fa := opened(t, forged)
	bytesOf := func(data []byte) storage.Part { return storage.Part{Name: rulestore.PartBundle, Data: data} }
	with := func(change func(*rulestore.Admitted)) rulestore.Admitted { a := good; change(&a); return a }
	brokenSchema := enginetest.Edition(t, "2.1.1", func(parts map[string][]byte,
		_ *bundle.Manifest) {
		parts["schema.json"] = []byte("{")
	})
	sb, sa := opened(t, brokenSchema)
	noModule := enginetest.Edition(t, "2.1.1", func(parts map[string][]byte,
		_ *bundle.Manifest) {
		parts["module.wasm"] = []byte("no module")
	})
	mb, ma := opened(t, noModule)
	// What an older build took, and this one would not: the checks of an admission hold at a start too.
	edited := func(part, old, with string) (data []byte, b *bundle.Bundle, a rulestore.Admitted) {
		data = enginetest.Edition(t, "2.1.1", func(parts map[string][]byte, _ *bundle.Manifest) {
			if !strings.Contains(string(parts[part]), old) {
				t.Fatalf("%s has no %s", part, old)
			}
			parts[part] = []byte(strings.Replace(string(parts[part]), old, with, 1))
		})
		b, a = opened(t, data)
		return data, b, a
	}
	otherIssuer, ib, ia := edited("overlay.json", `"from": [`, `"from": [{"path":"emisor.nit","value":"06140101901019","reason":"r"},`)
	noOutage, ob, oa := edited("overlay.json", `"add": [`, `"add": [{"path":"identificacion.tipoOperacion","schema":{"enum":[1]},"reason":"r"},`)
	noLimit, lb, la := edited("overlay.json", `"add": [`, `"add": [{"path":"resumen.totalPagar","schema":{"minimum":null},"reason":"r"},`)
	for name, c := range map[string]struct {
		digest string
		head   any
		parts  []storage.Part
		why    string
		says   string
		again  []byte // pushed afterwards
	}{
		"a head that is no JSON": {b.Digest, []byte("\x00\x01"), []storage.Part{bytesOf(next)},
			rulestore.TroubleDamaged, "decoding the record", next},
		"a head without a digest": {b.Digest, with(func(a *rulestore.Admitted) { a.Digest = "" }),
			[]storage.Part{bytesOf(next)}, rulestore.TroubleDamaged, "not where its digest", nil},
		"no bytes": {b.Digest, good, nil, rulestore.TroubleDamaged, "not found", nil},
		"half the bytes": {b.Digest, good, []storage.Part{bytesOf(next[:len(next)/2])},
			rulestore.TroubleDamaged, "not a rule bundle", next},
		"another bundle's bytes": {b.Digest, good, []storage.Part{bytesOf(enginetest.Edition(t, "2.1.2"))},
			rulestore.TroubleDamaged, "the record says", nil},
		"a forged bundle": {fb.Digest, fa, []storage.Part{bytesOf(forged)}, rulestore.TroubleUnvouched,
			"0 of the 1 pinned keys have signed", next},
		"a forged bundle in another form": {fb.Digest, fa, []storage.Part{bytesOf(bundletest.Tampered(t, forged,
			bundletest.Payload))}, rulestore.TroubleDamaged, "no such field", nil},
		"a forged bundle with a mark": {fb.Digest, recordmac.New().Mark(must(json.Marshal(fa)), recordmac.Place{}),
			[]storage.Part{bytesOf(forged)}, rulestore.TroubleUnvouched, "this box's mark", nil},
		"a signed bundle from another day": {b.Digest, with(func(a *rulestore.Admitted) { a.From = "2026-03-01" }),
			[]storage.Part{bytesOf(next)}, rulestore.TroubleUnvouched,
			`its record says from "2026-03-01"`, next},
		"a signed bundle of another version": {b.Digest, with(func(a *rulestore.Admitted) { a.Version = "9.0.0" }),
			[]storage.Part{bytesOf(next)}, rulestore.TroubleUnvouched, "its record says version", nil},
		"a signed bundle that compiles not": {sb.Digest, sa, []storage.Part{bytesOf(brokenSchema)},
			rulestore.TroubleDamaged, "compiling schema", nil},
		"a signed bundle without a module": {mb.Digest, ma, []storage.Part{bytesOf(noModule)},
			rulestore.TroubleDamaged, "not a rule module", enginetest.Edition(t, "2.1.2")},
		"a signed bundle of another issuer": {ib.Digest, ia, []storage.Part{bytesOf(otherIssuer)},
			rulestore.TroubleDamaged, "must be its own fact", enginetest.Edition(t, "2.1.2")},
		"a signed bundle without outages": {ob.Digest, oa, []storage.Part{bytesOf(noOutage)},
			rulestore.TroubleDamaged, "takes no document in contingency", enginetest.Edition(t, "2.1.2")},
		"a signed bundle with a limit that is none": {lb.Digest, la, []storage.Part{bytesOf(noLimit)},
			rulestore.TroubleDamaged, "not a JSON number", enginetest.Edition(t, "2.1.2")},
	} {
		t.Run(name, func(t *testing.T) {
			x := enginetest.NewWorld(t)
			defer func() { x.Close() }()
			x.Box = recordmac.New()
			x.Shelf(enginetest.Shipped(t))
			x.Record(c.digest, c.head, c.parts...)
			s, log := x.Restart()
			sells(x, "2.1.0")
			values := metrictest.Values(t, s)
			if values["dte_rules_refused/"+c.why] != 1 || !strings.Contains(log, "level=ERROR") ||
				!strings.Contains(log, `goes_on="dte01 2.1.0"`) && c.why != rulestore.TroubleDamaged ||
				!strings.Contains(strings.ReplaceAll(log, `\"`, `"`), c.says) {
				t.Errorf("%v\n%s", values, log)
			}
			o := x.ShelfOptions()
			if list, err := rulestore.Inspect(o); err != nil || len(list.Rules) != 4 {
				t.Errorf("%+v, %v", list, err)
			}
			if c.again == nil {
				return
			}
			// It takes the good one, over the bad record or beside it, and keeps it.
			if a := enginetest.Push(t, s, c.again); a.State != rulestore.Live {
				t.Fatalf("pushed again: %+v", a)
			}
			b, _ := opened(t, c.again)
			sells(x, b.Manifest.Version)
			x.Restart()
			sells(x, b.Manifest.Version)
		})
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestShelf_NoCatalogues: without catalogues nothing can be filled. The branch starts, refuses sales, and accepts
// catalogues.
func TestShelf_NoCatalogues(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer func() { x.Close() }()
	x.Shelf(enginetest.Shipped(t))
	x.Box, x.Pinned = recordmac.New(), []bundle.Key{{ID: "x", Public: ed25519.NewKeyFromSeed(make([]byte,
		32)).Public().(ed25519.PublicKey)}}
	s, log := x.Restart()
	if _, err := x.Engine.Issue(t.Context(), enginetest.Sale("", 1130)); code(err) != refusal.CodeUnavailable ||
		!strings.Contains(log, "nothing can be issued") {
		t.Errorf("%v\n%s", err, log)
	}
	if _, ok := x.Engine.Catalogue("CAT-014", "59"); ok {
		t.Error("a catalogue from nowhere")
	}
	if len(s.List().Rules) != 3 {
		t.Errorf("%+v", s.List())
	}
}

// TestShelf_RollbackToExpired: a step back to a rule whose own dates are over must be explicit, and leaves a trace.
func TestShelf_RollbackToExpired(t *testing.T) {
	x := enginetest.NewWorld(t)
	defer func() { x.Close() }()
	x.Box = recordmac.New()
	s := x.Shelf(enginetest.Shipped(t))
	x.Clock.Set(enginetest.Start.AddDate(0, 0, -10))
	enginetest.Push(t, s, enginetest.Edition(t, "2.1.1", bundletest.In("2026-11-01", "2026-11-15")))
	x.Clock.Set(enginetest.Start)
	enginetest.Push(t, s, enginetest.Edition(t, "2.1.2", bundletest.In("2026-11-16", "")))
	to := rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.1"}
	_, err := s.Rollback(t.Context(), to, rulestore.Order{Who: "ana", Reason: "test"})
	if !errors.Is(err, rulestore.ErrExpired) || !strings.Contains(err.Error(), "from 2026-11-01 until 2026-11-15") {
		t.Errorf("%v", err)
	}
	sells(x, "2.1.2")
	to.Expired = true
	back, err := s.Rollback(t.Context(), to, rulestore.Order{Who: "ana", Reason: "test"})
	if err != nil || back.Expired != "2026-11-15" {
		t.Errorf("%+v, %v", back, err)
	}
	sells(x, "2.1.1")
	s, log := x.Restart()
	if off := onList(s, "2.1.2").Off; off == nil || off.Expired != "2026-11-15" {
		t.Errorf("%+v", off)
	}
	if len(s.List().Notes) != 0 || strings.Contains(log, "mark") {
		t.Errorf("the box does not know its own step back: %v\n%s", s.List().Notes, log)
	}
	// Another box does not know who made it.
	x.Box = recordmac.New()
	s, log = x.Restart()
	if notes := s.List().Notes; len(notes) != 1 || !strings.Contains(notes[0], "step back to dte01 2.1.1") ||
		!strings.Contains(log, "lacks this box's mark") {
		t.Errorf("%v\n%s", notes, log)
	}
}
