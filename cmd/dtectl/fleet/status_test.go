package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtectl/fleet/centre"
	"dtegate/engine/fleet/wire"
)

// What IT asks first: each ailment is told, and the worst stands first.
func TestStatus_Concerns(t *testing.T) {
	for _, c := range []struct {
		code  string
		level int
		do    func(w *world, b *box)
	}{
		{"replaced", centre.Bad, func(_ *world, b *box) { b.status.Replaced, b.status.Ready = true, false }},
		{"closed", centre.Bad, func(_ *world, b *box) { b.status.Ready, b.status.NotReady = false, []string{"the disk is full"} }},
		{"contingency", centre.Warning, func(w *world, b *box) {
			b.status.Contingency = &wire.Contingency{Since: w.now.Add(-time.Hour), Cause: 1, Deadline: w.now.Add(48 * time.Hour)}
		}},
		{"contingency", centre.Bad, func(w *world, b *box) {
			b.status.Contingency = &wire.Contingency{Since: w.now.Add(-time.Hour), Cause: 1, Deadline: w.now.Add(5 * time.Hour)}
		}},
		{"late", centre.Bad, func(w *world, b *box) {
			b.status.Contingency = &wire.Contingency{Since: w.now.Add(-time.Hour), Cause: 1, Deadline: w.now.Add(-time.Minute)}
		}},
		{"late", centre.Bad, func(w *world, b *box) {
			b.status.Waiting = wire.Waiting{Documents: 3, Deadline: w.now.Add(-time.Minute)}
		}},
		{"owing", centre.Bad, func(w *world, b *box) {
			b.status.Waiting = wire.Waiting{Documents: 3, Deadline: w.now.Add(time.Hour)}
		}},
		{"ends", centre.Warning, func(w *world, b *box) {
			b.status.Certificates = []wire.Certificate{{Name: "signing", Ends: w.now.AddDate(0, 0, 20)}}
		}},
		{"ends", centre.Bad, func(w *world, b *box) {
			b.status.Certificates = []wire.Certificate{{Name: "signing", Ends: w.now.AddDate(0, 0, 3)}}
		}},
		{"ended", centre.Bad, func(w *world, b *box) {
			b.status.Certificates = []wire.Certificate{{Name: "signing", Ends: w.now.AddDate(0, 0, -1)}}
		}},
		{"trouble", centre.Warning, func(_ *world, b *box) { b.status.Desired.Trouble = "version 7 is not signed" }},
		{"expired", centre.Warning, func(w *world, b *box) { b.status.Desired.Expires = w.now.Add(-time.Minute) }},
		{"copy", centre.Warning, func(_ *world, b *box) { b.status.Copy = &wire.Shipped{Mode: "async", Why: "the archive is full"} }},
		{"refused", centre.Bad, func(_ *world, b *box) {
			b.status.Rollout = &wire.Progress{Name: "r1", Stage: wire.StageRefused, Reason: "cases"}
		}},
	} {
		w := newWorld(t, "centro", "norte")
		b := w.box("norte")
		c.do(w, b)
		b.report()
		rows := w.survey().Rows()
		if got := rows[0].Concerns; rows[0].Name != "norte" || len(got) != 1 || got[0].Code != c.code || got[0].Level != c.level || len(rows[1].Concerns) != 0 {
			t.Errorf("%s: %s %+v, %+v", c.code, rows[0].Name, got, rows[1].Concerns)
		}
		for _, lang := range []string{"en", "es"} {
			if text := rows[0].Concerns[0].Say(lang); strings.Contains(text, "%!") {
				t.Error(text)
			}
		}
	}
}

// Silence is told by the store's time, whatever the box's clock says.
func TestStatus_Silence(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.now = w.now.Add(44 * time.Minute)
	if got := w.codes("norte"); len(got) > 0 {
		t.Error(got)
	}
	w.now = w.now.Add(2 * time.Minute)
	w.box("centro").report()
	if got := w.codes("norte"); !slices.Equal(got, []string{"silent"}) || w.survey().Counts().Silent != 1 {
		t.Error(got)
	}
	w.now = w.now.Add(24 * time.Hour)
	if got := w.codes("norte"); !slices.Equal(got, []string{"lost"}) {
		t.Error(got)
	}
}

// Who lacks what is desired is named, once it had the time.
func TestStatus_Lacks(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	all := centre.Percent(wire.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	if got := w.codes("norte"); len(got) > 0 {
		t.Error(got)
	}
	w.obey()
	w.box("norte").status.Rules = nil
	w.box("norte").report()
	w.now = w.now.Add(centre.TakesWithin)
	if got := w.codes("norte"); !slices.Equal(got, []string{"lacks"}) || len(w.codes("centro")) > 0 {
		t.Error(got)
	}
}

// A status counts only if the box that the director enrolled has signed it.
func TestStatus_Forged(t *testing.T) {
	w := newWorld(t, "centro")
	stranger := w.add("centro")
	stranger.status.NotReady, stranger.status.Ready = []string{"forged"}, false
	stranger.report()
	if got := w.codes("centro"); !slices.Equal(got, []string{"stranger"}) || strings.Contains(w.text(), "forged") || w.survey().Counts().Closed != 0 {
		t.Errorf("%v\n%s", got, w.text())
	}
	w.must(w.store.Put(t.Context(), wire.StatusKey("centro"), []byte("{}")))
	if got := w.codes("centro"); !slices.Equal(got, []string{"forged"}) {
		t.Error(got)
	}
	// One box's word under another's name.
	w = newWorld(t, "centro", "norte")
	w.must(w.store.Put(t.Context(), wire.StatusKey("centro"), w.store.Held(wire.StatusKey("norte"))))
	if got := w.codes("centro"); !slices.Equal(got, []string{"forged"}) {
		t.Error(got)
	}
}

// A box is enrolled under the key that somebody compared; a second box of a branch takes the next epoch, and the first one is told apart.
func TestEnrol(t *testing.T) {
	w := newWorld(t)
	b := w.add("centro")
	b.report()
	if got := w.codes("centro"); !slices.Equal(got, []string{"waits"}) {
		t.Error(got)
	}
	for _, argument := range []string{"centro", "centro=0123", "norte=" + centre.Fingerprint(b.status.Key)} {
		if err := (&Enrol{Boxes: []string{argument}}).run(t.Context(), w.chain); err == nil {
			t.Errorf("%s enrols", argument)
		}
	}
	w.must((&Enrol{Boxes: []string{"centro=" + centre.Fingerprint(b.status.Key)}}).run(t.Context(), w.chain))
	if got := w.codes("centro"); len(got) > 0 {
		t.Error(got)
	}
	all := centre.Percent(wire.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()

	second := w.add("centro")
	second.report()
	argument := "centro=" + centre.Fingerprint(second.status.Key)
	if err := (&Enrol{All: true}).run(t.Context(), w.chain); err == nil {
		t.Error("--all replaces a box")
	}
	if err := (&Enrol{Boxes: []string{argument}}).run(t.Context(), w.chain); err == nil {
		t.Error("a box is replaced without a word")
	}
	w.must((&Enrol{Boxes: []string{argument}, Replace: true, Close: []string{"M001P001"}}).run(t.Context(), w.chain))
	e, err := wire.OpenEnrolment(w.store.Held(wire.BoxKey("centro", 2)), []wire.Key{w.chain.Director}, "centro", 2)
	if err != nil || e.Key != second.status.Key {
		t.Errorf("%+v %v", e, err)
	}
	if got := w.head().Closed; !slices.Equal(got, []wire.ClosedPoint{{Branch: "centro", Establishment: "M001", Point: "P001", Year: 2026, Since: 2}}) {
		t.Errorf("%+v", got)
	}
	if got := w.codes("centro"); len(got) > 0 {
		t.Error(got)
	}
	b.report() // the old one is still alive
	if got := w.codes("centro"); !slices.Equal(got, []string{"former"}) {
		t.Error(got)
	}
}

// Epochs that this director did not sign, an earlier key's or a stranger's, are passed over as boxes pass over them.
func TestEnrol_Foreign(t *testing.T) {
	w := newWorld(t)
	b := w.add("centro")
	b.report()
	old, err := wire.SealEnrolment(wire.Enrolment{Branch: "centro", Epoch: 1, Key: b.status.Key, At: w.now, By: "x", Points: []wire.Point{}}, wire.Signer{ID: centre.DirectorID, Private: key("old director")})
	w.must(err)
	w.must(w.store.Create(t.Context(), wire.BoxKey("centro", 1), old))
	w.must(w.store.Create(t.Context(), wire.BoxKey("centro", 2), []byte("x")))
	w.must((&Enrol{All: true}).run(t.Context(), w.chain))
	if got := w.survey().Branches[0]; got.Enrolment == nil || got.Enrolment.Epoch != 3 || len(w.codes("centro")) > 0 {
		t.Errorf("%+v", got)
	}
}

// Who holds the store's credentials alone takes no branch and gives no order.
func TestStatus_StoreStolen(t *testing.T) {
	w := newWorld(t, "centro")
	thief := wire.Signer{ID: centre.DirectorID, Private: key("thief")}
	e, err := wire.SealEnrolment(wire.Enrolment{Branch: "centro", Epoch: 2, Key: w.add("centro").status.Key, At: w.now, By: "x", Points: []wire.Point{}}, thief)
	w.must(err)
	w.must(w.store.Create(t.Context(), wire.BoxKey("centro", 2), e))
	w.must(w.store.Create(t.Context(), wire.BoxKey("centro", 9), []byte("x")))
	if b := w.survey().Branches[0]; b.Enrolment.Epoch != 1 || b.Status == nil {
		t.Errorf("%+v", b)
	}
	d, err := wire.SealDesired(wire.Desired{Group: "tiendas", Version: 1, Issued: w.now, Expires: w.now.Add(time.Hour), By: "x"}, thief)
	w.must(err)
	w.must(w.store.Create(t.Context(), wire.DesiredKey("tiendas", 1), d))
	if _, err := centre.NewSurveyor(w.chain).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "signed") {
		t.Errorf("an order that the director did not sign: %v", err)
	}
}

// A second reading asks for what has changed alone.
func TestSurvey_Again(t *testing.T) {
	w := newWorld(t, "centro", "norte", "sur")
	s := centre.NewSurveyor(w.chain)
	_, err := s.Read(t.Context())
	w.must(err)
	w.box("norte").status.Ready = false
	w.box("norte").report()
	before := w.store.Requests()
	again, err := s.Read(t.Context())
	w.must(err)
	if n := w.store.Requests() - before; n != 4 { // three lists, one status
		t.Errorf("%d requests", n)
	}
	if again.Rows()[0].Name != "norte" || again.Counts().Closed != 1 {
		t.Errorf("%+v", again.Counts())
	}
}

func TestLog(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Reason: "tasa nueva"}))
	w.now = w.now.Add(time.Minute)
	w.box("centro").act(1, wire.ActAdmitted, "")
	w.now = w.now.Add(time.Minute)
	w.box("norte").act(1, wire.ActRefused, "cases")
	w.must(w.store.Create(t.Context(), wire.ActKey("norte", 2), w.store.Held(wire.ActKey("norte", 1)))) // told twice
	events, err := (&Log{}).events(t.Context(), w.chain)
	w.must(err)
	var got []string
	for _, e := range events {
		got = append(got, e.Branch+e.Group+" "+e.What)
		if (e.Fault != "") != (e.Number == 2) {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(got, []string{"tiendas desired", "centro admitted", "norte refused", "norte ?"}) {
		t.Error(got)
	}
	if events, err := (&Log{Branches: []string{"centro"}}).events(t.Context(), w.chain); err != nil || len(events) != 1 {
		t.Error(events, err)
	}
	w.now = w.now.AddDate(0, 0, 8)
	if events, err := (&Log{}).events(t.Context(), w.chain); err != nil || len(events) != 0 {
		t.Error(events, err)
	}
}
