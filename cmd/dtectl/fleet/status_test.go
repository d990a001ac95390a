package fleet

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

// What IT asks first: each concern is reported, the worst first.
func TestStatus_Concerns(t *testing.T) {
	for _, c := range []struct {
		code  string
		level int
		do    func(w *world, b *box)
	}{
		{"replaced", Bad, func(_ *world, b *box) { b.status.Replaced, b.status.Ready = true, false }},
		{"closed", Bad, func(_ *world, b *box) {
			b.status.Ready, b.status.NotReady = false,
				[]string{"the disk is full"}
		}},
		{"contingency", Warning, func(w *world, b *box) {
			b.status.Contingency = &fleetproto.Contingency{Since: w.now.Add(-time.Hour), Cause: 1,
				Deadline: w.now.Add(48 * time.Hour)}
		}},
		{"contingency", Bad, func(w *world, b *box) {
			b.status.Contingency = &fleetproto.Contingency{Since: w.now.Add(-time.Hour), Cause: 1,
				Deadline: w.now.Add(5 * time.Hour)}
		}},
		{"late", Bad, func(w *world, b *box) {
			b.status.Contingency = &fleetproto.Contingency{Since: w.now.Add(-time.Hour), Cause: 1,
				Deadline: w.now.Add(-time.Minute)}
		}},
		{"late", Bad, func(w *world, b *box) {
			b.status.Waiting = fleetproto.Waiting{Documents: 3, Deadline: w.now.Add(-time.Minute)}
		}},
		{"owing", Bad, func(w *world, b *box) {
			b.status.Waiting = fleetproto.Waiting{Documents: 3, Deadline: w.now.Add(time.Hour)}
		}},
		{"ends", Warning, func(w *world, b *box) {
			b.status.Certificates = []fleetproto.Certificate{{Name: "signing", Ends: w.now.AddDate(0, 0, 20)}}
		}},
		{"ends", Bad, func(w *world, b *box) {
			b.status.Certificates = []fleetproto.Certificate{{Name: "signing", Ends: w.now.AddDate(0, 0, 3)}}
		}},
		{"ended", Bad, func(w *world, b *box) {
			b.status.Certificates = []fleetproto.Certificate{{Name: "signing", Ends: w.now.AddDate(0, 0, -1)}}
		}},
		{"trouble", Warning, func(_ *world,
			b *box) {
			b.status.Desired.Trouble = "version 7 is not signed"
		}},
		{"expired", Warning, func(w *world,
			b *box) {
			b.status.Desired.Expires = w.now.Add(-time.Minute)
		}},
		{"copy", Warning, func(_ *world, b *box) {
			b.status.Copy = &fleetproto.Shipped{Mode: "async",
				Why: "the archive is full"}
		}},
		{"refused", Bad, func(_ *world, b *box) {
			b.status.Rollout = &fleetproto.Progress{Name: "r1", Stage: fleetproto.StageRefused, Reason: "cases"}
		}},
	} {
		w := newWorld(t, "centro", "norte")
		b := w.box("norte")
		c.do(w, b)
		b.report()
		rows := w.survey().Branches
		if got := rows[0].Concerns; rows[0].Name != "norte" || len(got) != 1 || got[0].Code != c.code ||
			got[0].Level != c.level || len(rows[1].Concerns) != 0 {
			t.Errorf("%s: %s %+v, %+v", c.code, rows[0].Name, got, rows[1].Concerns)
		}
		for _, lang := range []string{"en", "es"} {
			if text := rows[0].Concerns[0].Say(lang); strings.Contains(text, "%!") {
				t.Error(text)
			}
		}
	}
}

// Silence is judged by the store's time, whatever the box's clock shows.
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

// A branch that does not have the desired state is named, once it had time to apply it.
func TestStatus_Lacks(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	if got := w.codes("norte"); len(got) > 0 {
		t.Error(got)
	}
	w.obey()
	w.box("norte").status.Rules = nil
	w.box("norte").report()
	w.now = w.now.Add(TakesWithin)
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
	if got := w.codes("centro"); !slices.Equal(got, []string{"stranger"}) || strings.Contains(w.text(), "forged") ||
		w.survey().Counts().Closed != 0 {
		t.Errorf("%v\n%s", got, w.text())
	}
	stranger.status.Epoch = 1
	signed, err := w.chain.Identity.Seal(&stranger.status, stranger.signer)
	w.must(err)
	for _, forged := range [][]byte{signed, []byte("{}")} {
		w.must(w.store.Overwrite(t.Context(), fleetproto.StatusKey("centro", 1), forged))
		if got := w.codes("centro"); !slices.Equal(got, []string{"forged", "stranger"}) {
			t.Error(got)
		}
	}
	// One box's report under another box's name.
	w = newWorld(t, "centro", "norte")
	w.must(w.store.Overwrite(t.Context(), fleetproto.StatusKey("centro", 1), w.store.Held(fleetproto.StatusKey("norte", 1))))
	if got := w.codes("centro"); !slices.Equal(got, []string{"forged"}) {
		t.Error(got)
	}
}

// A box is enrolled under the key that somebody compared; a second box of a branch gets the next epoch, and the first
// box is distinguished from it.
func TestEnrol(t *testing.T) {
	w := newWorld(t)
	b := w.add("centro")
	b.report()
	if got := w.codes("centro"); !slices.Equal(got, []string{"waits"}) {
		t.Error(got)
	}
	for _, argument := range []string{"centro", "centro=0123", "norte=" + Fingerprint(b.status.Key)} {
		if err := (&Enrol{Boxes: []string{argument}}).Run(t.Context(), w.chain); err == nil {
			t.Errorf("%s enrols", argument)
		}
	}
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(b.status.Key)}}).Run(t.Context(), w.chain))
	if got := w.codes("centro"); len(got) > 0 {
		t.Error(got)
	}
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()

	second := w.add("centro")
	second.report()
	argument := "centro=" + Fingerprint(second.status.Key)
	if err := (&Enrol{All: true}).Run(t.Context(), w.chain); err == nil {
		t.Error("--all replaces a box")
	}
	if err := (&Enrol{Boxes: []string{argument}}).Run(t.Context(), w.chain); err == nil {
		t.Error("a box is replaced without a word")
	}
	w.must((&Enrol{Boxes: []string{argument}, Replace: true, Close: []string{"M001P001"}}).Run(t.Context(), w.chain))
	e, err := w.chain.Identity.OpenEnrolment(w.store.Held(fleetproto.BoxKey("centro", 2)),
		[]fleetproto.Key{w.chain.Director}, "centro", 2)
	if err != nil || e.Key != second.status.Key {
		t.Errorf("%+v %v", e, err)
	}
	if got := w.head().Closed; !slices.Equal(got, []fleetproto.ClosedPoint{{Branch: "centro", Establishment: "M001",
		Point: "P001", Year: 2026, Since: 2}}) {
		t.Errorf("%+v", got)
	}
	if got := w.codes("centro"); len(got) > 0 {
		t.Error(got)
	}
	w.now = w.now.Add(time.Minute)
	b.report() // the old one is still alive
	if got := w.codes("centro"); !slices.Equal(got, []string{"former"}) {
		t.Error(got)
	}
}

// Epochs that this director did not sign (an earlier key's, or a stranger's) are skipped, as boxes skip them, once
// somebody says that the branch is given away: it may have a box, and the director's key another place.
func TestEnrol_Foreign(t *testing.T) {
	w := newWorld(t)
	b := w.add("centro")
	b.report()
	old, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: 1, Key: b.status.Key,
		At: w.now, By: "x", Points: []fleetproto.Point{}}, fleetproto.Signer{ID: directorID,
		Private: key("old director")})
	w.must(err)
	w.must(w.store.Create(t.Context(), fleetproto.BoxKey("centro", 1), old))
	w.must(w.store.Create(t.Context(), fleetproto.BoxKey("centro", 2), []byte("x")))
	name := []string{"centro=" + Fingerprint(b.status.Key)}
	for _, c := range []Enrol{{All: true}, {Boxes: name}} {
		if err := c.Run(t.Context(), w.chain); err == nil {
			t.Errorf("%+v gives a branch away that may have a box", c)
		}
	}
	w.must((&Enrol{Boxes: name, Replace: true}).Run(t.Context(), w.chain))
	if got := w.survey().Branches[0]; got.Enrolment == nil || got.Enrolment.Epoch != 3 || len(w.codes("centro")) > 0 {
		t.Errorf("%+v", got)
	}
}

// A thief who has only the store's credentials takes no branch and gives no order.
func TestStatus_StoreStolen(t *testing.T) {
	w := newWorld(t, "centro")
	thief := fleetproto.Signer{ID: directorID, Private: key("thief")}
	e, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: 2,
		Key: w.add("centro").status.Key, At: w.now, By: "x", Points: []fleetproto.Point{}}, thief)
	w.must(err)
	w.must(w.store.Create(t.Context(), fleetproto.BoxKey("centro", 2), e))
	w.must(w.store.Create(t.Context(), fleetproto.BoxKey("centro", 9), []byte("x")))
	if b := w.survey().Branches[0]; b.Enrolment.Epoch != 1 || b.Status == nil {
		t.Errorf("%+v", b)
	}
	d, err := w.chain.Identity.Seal(&fleetproto.Desired{Group: "tiendas", Version: 1, Issued: w.now,
		Expires: w.now.Add(time.Hour), By: "x"}, thief)
	w.must(err)
	w.must(w.store.Create(t.Context(), fleetproto.DesiredKey("tiendas", 1), d))
	if s := w.survey(); len(s.Groups) > 0 || len(s.Faults) != 1 || !strings.Contains(s.Faults[0], "signed") {
		t.Errorf("an order that the director did not sign: %+v", s)
	}
}

// A second reading asks only for what has changed.
func TestSurvey_Again(t *testing.T) {
	w := newWorld(t, "centro", "norte", "sur")
	s := NewSurveyor(w.chain)
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
	// Objects that the director did not sign are read once, by this process and the next.
	for i := range 50 {
		w.must(w.store.Create(t.Context(), fleetproto.BoxKey(fmt.Sprintf("x%d", i), 1), []byte("x")))
	}
	_, err = s.Read(t.Context())
	w.must(err)
	before = w.store.Requests()
	for _, s := range []*Surveyor{s, NewSurveyor(w.chain)} {
		_, err := s.Read(t.Context())
		w.must(err)
	}
	if n := w.store.Requests() - before; n != 3+3+6 { // the new process reads the statuses
		t.Errorf("%d requests beside 50 enrolments that nobody signed", n)
	}
	if again.Branches[0].Name != "norte" || again.Counts().Closed != 1 {
		t.Errorf("%+v", again.Counts())
	}
}

func TestLog(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Reason: "tasa nueva"}))
	w.now = w.now.Add(time.Minute)
	w.box("centro").act(1, fleetproto.ActAdmitted, "")
	w.now = w.now.Add(time.Minute)
	w.box("norte").act(1, fleetproto.ActRefused, "cases")
	// reported twice
	w.must(w.store.Create(t.Context(), fleetproto.ActKey("norte", 2), w.store.Held(fleetproto.ActKey("norte", 1))))
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
	if events, err := (&Log{Branches: []string{"centro"}}).events(t.Context(), w.chain); err != nil ||
		len(events) != 1 {
		t.Error(events, err)
	}
	w.now = w.now.AddDate(0, 0, 8)
	if events, err := (&Log{}).events(t.Context(), w.chain); err != nil || len(events) != 0 {
		t.Error(events, err)
	}
}

// TestRekey: the director's key is lost, or stolen by somebody who has published and enrolled since. The new key signs
// again what the old key signed, except the thief's objects; an interrupted rekey continues; afterwards the store has
// nothing that the old key can change.
func TestRekey(t *testing.T) {
	for name, stolen := range map[string]bool{"lost": false, "stolen": true} {
		w := newWorld(t, "centro", "norte")
		all := Percent(fleetproto.Whole)
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
		w.obey()
		w.must(w.roll())
		good := w.head()
		closed := []fleetproto.ClosedPoint{{Branch: "centro", Establishment: "M009", Point: "P001", Year: 2026, Since: 1}}
		_, err := w.chain.Next(t.Context(), good, "tiendas", "a box was lost", time.Time{},
			func(d *fleetproto.Desired) { d.Closed = closed })
		w.must(err)
		old := w.chain.Director
		// A group for which nothing was published, and objects that somebody with the store's credentials puts in the
		// way.
		b := w.add("sur")
		b.status.Group = "otros"
		b.report()
		w.must((&Enrol{All: true}).Run(t.Context(), w.chain))
		for _, key := range []string{fleetproto.DesiredKey("tiendas", 999_999_999_999), fleetproto.DesiredKey("zzz", 1),
			fleetproto.DesiredKey("tiendas", 7)} {
			w.must(w.store.Create(t.Context(), key, []byte("x")))
		}
		rekey := Rekey{}
		if stolen {
			w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}, Share: &all}))
			_, err := w.chain.Next(t.Context(), w.head(), "tiendas", "", time.Time{},
				func(d *fleetproto.Desired) { d.Live = d.Rollout.State })
			w.must(err)
			thief := w.add("norte")
			data, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "norte", Epoch: 2,
				Key: thief.status.Key, Group: "tiendas", At: w.now, By: "x"},
				fleetproto.Signer{ID: directorID, Private: key("director")})
			w.must(err)
			w.must(w.store.Create(t.Context(), fleetproto.BoxKey("norte", 2), data))
			// With the store's credentials the thief also overwrites the version that is to be gone back to.
			w.must(w.store.Overwrite(t.Context(), fleetproto.DesiredKey("tiendas", good.Version), []byte("x")))
			rekey = Rekey{Except: []string{"norte/2"}, Back: map[string]int64{"tiendas": good.Version}}
		}
		w.newKey("director 2")
		if _, err := w.chain.Head(t.Context(), "tiendas"); !errors.Is(err, fleetproto.ErrSignature) {
			t.Errorf("%s: the old key's order counts: %v", name, err)
		}
		for ends := 1; ; ends++ { // interrupted after each request
			n := 0
			w.store.Fault = func(fleettest.Request) fleettest.Fault {
				if n++; n > ends {
					return fleettest.Failed
				}
				return fleettest.None
			}
			err := rekey.run(t.Context(), w.chain, old)
			if err == nil {
				break
			}
			if ends > n {
				t.Fatalf("%s: with every request answered: %v", name, err)
			}
		}
		w.store.Fault = nil
		head := w.head()
		if fmt.Sprint(head.Live) != fmt.Sprint(good.Live) || head.Rollout != nil {
			t.Errorf("%s: %+v", name, head.Desired)
		}
		if _, err := w.chain.Version(t.Context(), "otros", 1); err != nil {
			t.Errorf("%s: boxes for which nothing was published do not hear of the new key: %v", name, err)
		}
		for v := head; v != nil; {
			before, err := w.chain.Before(t.Context(), v) // history stays
			w.must(err)
			v = before
		}
		surveyor := NewSurveyor(w.chain)
		for _, e := range rekey.Except { // the centre saw the thief's epoch
			branch, _, _ := strings.Cut(e, "/")
			surveyor.Accept = append(surveyor.Accept, branch)
		}
		s, err := surveyor.Read(t.Context())
		w.must(err)
		for _, b := range s.Branches {
			if b.Enrolment == nil || b.Enrolment.Epoch != 1 || b.Enrolment.Highest != 1 || b.Lost != "" {
				t.Errorf("%s: %s: %+v", name, b.Name, b.Enrolment)
			}
		}
		if v := w.head(); !slices.Equal(v.Closed, closed) {
			t.Errorf("%s: %v are closed, not %v", name, v.Closed, closed)
		}
		seen := w.box("centro") // what the centre saw under the old key counts
		seen.status.Sequence -= 2
		seen.report()
		if got := w.codes("centro"); !slices.Contains(got, "older") {
			t.Errorf("%s: an older status looks fresh: %q", name, got)
		}
		seen.status.Sequence += 2
		seen.report()
		w.must(rekey.run(t.Context(), w.chain, old)) // once more changes nothing
		if w.head().Version != head.Version {
			t.Errorf("%s: version %d, then %d", name, head.Version, w.head().Version)
		}
		// The thief writes once more, and central IT runs the verb once more.
		thief := fleetproto.Signer{ID: directorID, Private: key("director")}
		d := *head.Desired
		d.Version, d.Previous, d.Live.Settings = head.Version+1, head.Digest, fleetproto.Digest([]byte("evil"))
		d.Rollout = &fleetproto.Rollout{Name: "evil", State: d.Live, Opened: w.now}
		d.Closed = append(slices.Clone(closed), fleetproto.ClosedPoint{Branch: "sur", Establishment: "M001", Point: "P003",
			Year: 2026, Since: 1})
		order, err := w.chain.Identity.Seal(&d, thief)
		w.must(err)
		taken, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "sur", Epoch: 2, Group: "otros", At: w.now,
			Key: w.box("norte").status.Key, By: "x"}, thief)
		w.must(err)
		w.must(w.store.Overwrite(t.Context(), fleetproto.DesiredKey("tiendas", d.Version), order))
		w.must(w.store.Create(t.Context(), fleetproto.BoxKey("sur", 2), taken))
		late := map[string][]byte{fleetproto.BoxKey("sur", 2): taken}
		own := make(map[string][]byte)
		// A new branch, and every enrolment that the new key had signed.
		for _, branch := range []string{"este", "centro", "norte", "sur"} {
			data, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: branch, Epoch: 1, Group: "nuevo", At: w.now,
				Key: w.box("norte").status.Key, By: "x"}, thief)
			w.must(err)
			late[fleetproto.BoxKey(branch, 1)], own[branch] = data, w.store.Held(fleetproto.BoxKey(branch, 1))
			w.must(w.store.Overwrite(t.Context(), fleetproto.BoxKey(branch, 1), data))
		}
		w.must(rekey.run(t.Context(), w.chain, old))
		if h := w.head(); fmt.Sprint(h.Live) != fmt.Sprint(good.Live) || h.Rollout != nil || !slices.Equal(h.Closed, closed) {
			t.Errorf("%s: the new key signs what the thief wrote later: %+v", name, h.Desired)
		}
		for key, data := range late {
			if string(w.store.Held(key)) != string(data) {
				t.Errorf("%s: the new key signs the thief's %s", name, key)
			}
		}
		for range 2 { // also once the new key has signed again what it desires
			live, err := (&Back{}).liveBefore(t.Context(), w.chain, w.head())
			if err == nil && fmt.Sprint(live) != fmt.Sprint(good.Live) {
				t.Errorf("%s: back goes to what the thief desired: %+v", name, live)
			}
			_, err = w.chain.Next(t.Context(), w.head(), "tiendas", "signed again", time.Time{}, nil)
			w.must(err)
		}
		// The key is replaced once more: then neither the thief's key nor the key of the versions before is the present.
		for branch, data := range own {
			w.must(w.store.Overwrite(t.Context(), fleetproto.BoxKey(branch, 1), data))
		}
		_ = (&Status{Accept: []string{"este", "sur", "norte"}}).Run(t.Context(), w.chain) // zzz is a fault
		second := w.newKey("director 3")
		w.must((&Rekey{}).run(t.Context(), w.chain, second))
		for v := w.head(); v != nil; {
			if v.Live.Settings != "" {
				t.Errorf("%s: the history has the thief's version %d", name, v.Version)
			}
			v, err = w.chain.Before(t.Context(), v)
			w.must(err)
		}
	}
}

// TestStatus_ImageBeforeEnrolment: an image of the enrolled box from before its enrolment reports as a box that waits: the
// centre shows what it says last. An earlier report of that kind does not replace a status that the store has lost.
func TestStatus_ImageBeforeEnrolment(t *testing.T) {
	w := newWorld(t, "centro")
	b := w.box("centro")
	waits := func() {
		data, err := w.chain.Identity.Seal(&b.status, b.signer)
		w.must(err)
		w.store.Put(fleetproto.StatusKey("centro", 0), data)
	}
	b.status.Sequence = 50
	b.report()
	w.survey()
	w.now = w.now.Add(5 * time.Minute)
	b.status.Epoch, b.status.Sequence, b.status.At, b.status.Ready = 0, 3, w.now, false
	b.status.NotReady = []string{"this store lacks numbers"}
	waits()
	for range 2 {
		if got := w.codes("centro"); !slices.Equal(got, []string{"closed"}) {
			t.Errorf("%q: %s", got, w.text())
		}
	}
	b.status.At = w.now.Add(-time.Hour) // it is put back
	waits()
	if got := w.codes("centro"); len(got) > 0 {
		t.Errorf("an earlier report counts: %q", got)
	}
	b.status.At = w.now.Add(time.Hour) // by a clock that was ahead, before it was enrolled
	waits()
	w.now = w.now.Add(time.Minute)
	b.status.Sequence, b.status.Ready = 60, true
	b.report()
	if got := w.codes("centro"); len(got) > 0 {
		t.Errorf("a clock was ahead: %q", got)
	}
	b.status.At = w.now.Add(-time.Hour)
	waits()
	w.store.Lose(fleetproto.StatusKey("centro", 1))
	if got := w.codes("centro"); !slices.Contains(got, "older") {
		t.Errorf("its status was lost: %q", got)
	}
}

// TestEnrol_Again: a box that has another point of sale is enrolled again in its place, and no epoch that a status
// shows is given twice.
func TestEnrol_Again(t *testing.T) {
	w := newWorld(t, "centro")
	b := w.box("centro")
	b.status.Points = append(b.status.Points, fleetproto.Point{Establishment: "M001", Point: "P002"})
	b.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(b.status.Key)}}).Run(t.Context(), w.chain))
	if e := w.survey().Branches[0].Enrolment; e.Epoch != 1 || len(e.Points) != 2 {
		t.Errorf("%+v", e)
	}
	w.store.Lose(fleetproto.BoxKey("centro", 1))
	w.chain.Cache = ""
	other := w.add("centro")
	other.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(other.status.Key)}}).Run(t.Context(), w.chain))
	if e := w.survey().Branches[0].Enrolment; e.Epoch != 2 || e.Key != other.status.Key {
		t.Errorf("an epoch is given twice: %+v", e)
	}
	for _, x := range []*box{b, other} { // each box sees whose the branch is
		agent, err := fleet.New(fleet.Options{Store: w.store, Chain: w.chain.Identity, Branch: "centro",
			Group: "tiendas", Director: []fleetproto.Key{w.chain.Director}, Box: x.signer, Points: x.status.Points,
			Rules: &fleettest.Gate{Today: func() string { return "2026-11-23" }}, State: &fleettest.File{},
			Last: fleettest.NoNumbers, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now }})
		w.must(err)
		agent.Step(t.Context())
		if s := agent.Fence().Standing(); s.Numbers(x.status.Points[0]) != (x == other) {
			t.Errorf("%+v", s)
		}
	}
}

// TestRekey_Lost: the new key does not sign a replaced box's enrolment as the branch's last because the store has lost
// its successor's.
func TestRekey_Lost(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	other := w.add("centro")
	other.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(other.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
	other.report()
	w.survey()
	old := w.newKey("director 2")
	w.store.Lose(fleetproto.BoxKey("centro", 2))
	w.must((&Rekey{}).run(t.Context(), w.chain, old))
	if e := w.survey().Branches[0].Enrolment; e == nil || e.Epoch != 2 || e.Key != other.status.Key {
		t.Errorf("%+v", e)
	}
	w.must(os.Remove(w.chain.cached(enrolmentsFile)))
	w.store.Lose(fleetproto.BoxKey("centro", 2))
	if err := (&Rekey{}).run(t.Context(), w.chain, old); err == nil || !strings.Contains(err.Error(),
		"centro: the store has lost the enrolment of epoch 2") {
		t.Error(err)
	}
}

// TestBranch_Deadline: the earlier of the two legal deadlines counts, and the only one if there is one.
func TestBranch_Deadline(t *testing.T) {
	now := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	var none time.Time
	for _, c := range []struct{ documents, contingency, want time.Time }{{none, none, none}, {now, none, now},
		{none, now, now}, {now, now.Add(1), now}, {now.Add(1), now, now}} {
		b := &Branch{Status: &fleetproto.Status{Waiting: fleetproto.Waiting{Deadline: c.documents},
			Contingency: &fleetproto.Contingency{Deadline: c.contingency}}}
		if got := b.deadline(); got != c.want {
			t.Errorf("%v and %v: %v", c.documents, c.contingency, got)
		}
	}
}

// TestJudge: each concern begins at exactly its limit, and says only what the branch's report and the desired state
// prove.
func TestJudge(t *testing.T) {
	const SilentAfter, lostAfter, lawSoon, TakesWithin = 45 * time.Minute, 24 * time.Hour, 24 * time.Hour, 10 * time.Minute
	const endsSoon, endsNow = 30 * 24 * time.Hour, 7 * 24 * time.Hour
	now := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	first, next := fleetproto.Rule{Digest: "1", Name: "dte01", Version: "1.0.0", Document: "01"},
		fleetproto.Rule{Digest: "2", Name: "dte01", Version: "1.0.1", Document: "01"}
	runs := func(s *fleetproto.Status, list ...fleetproto.Rule) {
		for _, r := range list {
			s.Rules = append(s.Rules, fleetproto.Running{Digest: r.Digest, Name: r.Name, Version: r.Version, Live: true})
		}
	}
	due := func(s *fleetproto.Status, documents int64, left time.Duration) {
		s.Waiting = fleetproto.Waiting{Documents: documents, Deadline: now.Add(left)}
	}
	for _, c := range []struct {
		what string
		do   func(b *Branch, s *fleetproto.Status, d *Version)
		want string // codes and levels: "late 2"
	}{
		{"nothing", func(*Branch, *fleetproto.Status, *Version) {}, ""},
		{"silent for 45 min", func(b *Branch, _ *fleetproto.Status, _ *Version) { b.Seen = now.Add(-SilentAfter) }, ""},
		{"longer", func(b *Branch, _ *fleetproto.Status, _ *Version) { b.Seen = now.Add(-SilentAfter - 1) }, "silent 1"},
		{"a day", func(b *Branch, _ *fleetproto.Status, _ *Version) { b.Seen = now.Add(-lostAfter) }, "silent 1"},
		{"more", func(b *Branch, _ *fleetproto.Status, _ *Version) { b.Seen = now.Add(-lostAfter - 1) }, "lost 2"},
		{"never", func(b *Branch, _ *fleetproto.Status, _ *Version) { b.Seen = time.Time{} }, "never 2"},
		{"owes until tomorrow", func(_ *Branch, s *fleetproto.Status, _ *Version) { due(s, 3, lawSoon) }, ""},
		{"owes until soon", func(_ *Branch, s *fleetproto.Status, _ *Version) { due(s, 3, lawSoon-1) }, "owing 2"},
		{"owes since now", func(_ *Branch, s *fleetproto.Status, _ *Version) { due(s, 3, 0) }, "owing 2"},
		{"owed", func(_ *Branch, s *fleetproto.Status, _ *Version) { due(s, 3, -1) }, "late 2"},
		{"a period's report", func(_ *Branch, s *fleetproto.Status, _ *Version) { due(s, 0, lawSoon-1) }, ""},
		{"in contingency", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Contingency = &fleetproto.Contingency{Since: now, Deadline: now.Add(lawSoon)}
		}, "contingency 1"},
		{"in contingency, no deadline", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Contingency = &fleetproto.Contingency{Since: now}
		}, "contingency 1"},
		{"in contingency, nearly too long", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Contingency = &fleetproto.Contingency{Since: now, Deadline: now}
		}, "contingency 2"},
		{"in contingency too long", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Contingency = &fleetproto.Contingency{Since: now, Deadline: now.Add(-1)}
		}, "late 2"},
		{"certificates", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			for name, left := range map[string]time.Duration{"a": endsSoon, "b": endsSoon - 1} {
				s.Certificates = append(s.Certificates, fleetproto.Certificate{Name: name, Ends: now.Add(left)})
			}
		}, "ends 1"},
		{"a certificate of a week", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Certificates = []fleetproto.Certificate{{Name: "a", Ends: now.Add(endsNow)}}
		}, "ends 1"},
		{"of less", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Certificates = []fleetproto.Certificate{{Name: "a", Ends: now.Add(endsNow - 1)}}
		}, "ends 2"},
		{"of nothing", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Certificates = []fleetproto.Certificate{{Name: "a", Ends: now}}
		}, "ended 2"},
		{"a copy with a hole", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Copy = &fleetproto.Shipped{Lacks: "piece 2", Why: "slow"}
		}, "copy 2"},
		{"a version behind", func(_ *Branch, s *fleetproto.Status, d *Version) { d.Version = 8 }, "lacks 1"},
		{"a version behind, just published", func(_ *Branch, s *fleetproto.Status, d *Version) {
			d.Version, d.Issued = 8, now.Add(-TakesWithin+1)
		}, ""},
		{"a rule less", func(_ *Branch, s *fleetproto.Status, d *Version) { s.Rules = nil }, "lacks 1"},
		{"a roll-out not yet taken", func(_ *Branch, _ *fleetproto.Status, d *Version) {
			d.Rollout = &fleetproto.Rollout{Name: "r7", Pilots: []string{"centro"}, State: fleetproto.State{
				Rules: []fleetproto.Rule{next}}}
		}, "lacks 1"},
		{"a roll-out of others", func(_ *Branch, _ *fleetproto.Status, d *Version) {
			d.Rollout = &fleetproto.Rollout{Name: "r7", Pilots: []string{"norte"}, State: fleetproto.State{
				Rules: []fleetproto.Rule{next}}}
		}, ""},
		{"a roll-out that began just now", func(_ *Branch, _ *fleetproto.Status, d *Version) {
			d.Rollout = &fleetproto.Rollout{Name: "r7", Pilots: []string{"centro"}, NotBefore: now.Add(-TakesWithin + 1),
				State: fleetproto.State{Rules: []fleetproto.Rule{next}}}
		}, ""},
		{"a roll-out taken", func(_ *Branch, s *fleetproto.Status, d *Version) {
			s.Rules = nil
			runs(s, next)
			d.Rollout = &fleetproto.Rollout{Name: "r7", Pilots: []string{"centro"}, State: fleetproto.State{
				Rules: []fleetproto.Rule{next}}}
		}, ""},
		{"a roll-out refused", func(_ *Branch, s *fleetproto.Status, d *Version) {
			s.Rules, s.Rollout = nil, &fleetproto.Progress{Name: "r7", Stage: fleetproto.StageRefused}
			d.Rollout = &fleetproto.Rollout{Name: "r7", Pilots: []string{"centro"}, State: fleetproto.State{
				Rules: []fleetproto.Rule{next}}}
		}, "refused 2"},
		{"went back by itself", func(_ *Branch, s *fleetproto.Status, _ *Version) {
			s.Rollout = &fleetproto.Progress{Name: "r7", Stage: fleetproto.StageReturned}
		}, "returned 2"},
		{"no report", func(b *Branch, _ *fleetproto.Status, d *Version) { b.Status, d.Version = nil, 8 }, ""},
		{"of a store that put it back", func(b *Branch, _ *fleetproto.Status, _ *Version) {
			b.Seen = time.Time{}
			b.add(Bad, "older", "x")
		}, "older 2"},
	} {
		s := &fleetproto.Status{Group: "tiendas", Ready: true, Desired: fleetproto.Reached{Version: 7}}
		runs(s, first)
		b := &Branch{Name: "centro", Status: s, Seen: now, Enrolment: &fleetproto.Enrolment{Group: "tiendas"}}
		d := &Version{Desired: &fleetproto.Desired{Group: "tiendas", Version: 7, Issued: now.Add(-TakesWithin),
			Live: fleetproto.State{Rules: []fleetproto.Rule{first}}}}
		c.do(b, s, d)
		b.judge(now, d)
		var got []string
		for _, c := range b.Concerns {
			got = append(got, fmt.Sprint(c.Code, " ", c.Level))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.what, text, c.want, b.words())
		}
	}
}

// TestSettled: whom fleet status --wait waits for: enrolled branches that can be reached, and have not taken the order.
func TestSettled(t *testing.T) {
	now := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	order := &Version{Desired: &fleetproto.Desired{Group: "tiendas", Version: 3}}
	at := func(stage fleetproto.Stage) func(*Branch) {
		return func(b *Branch) {
			b.Status.Desired.Version, b.Status.Rollout = 3, &fleetproto.Progress{Name: "r1", Stage: stage}
		}
	}
	for name, c := range map[string]struct {
		alter   func(*Branch)
		settled bool
	}{
		"lacks the order":          {func(*Branch) {}, false},
		"has it":                   {func(b *Branch) { b.Status.Desired.Version = 3 }, true},
		"is silent":                {func(b *Branch) { b.Seen = now.Add(-SilentAfter - 1) }, true},
		"is not yet silent":        {func(b *Branch) { b.Seen = now.Add(-SilentAfter) }, false},
		"was never seen":           {func(b *Branch) { b.Seen = time.Time{} }, true},
		"is not enrolled":          {func(b *Branch) { b.Enrolment = nil }, true},
		"never reported":           {func(b *Branch) { b.Status = nil }, true},
		"is of another group":      {func(b *Branch) { b.Enrolment.Group = "otra" }, true},
		"is not asked for":         {func(b *Branch) { b.Name = "sur" }, true},
		"still takes the roll-out": {at(fleetproto.StageWaiting), false},
		"refused the roll-out":     {at(fleetproto.StageRefused), true},
		"is live":                  {at(fleetproto.StageLive), true},
	} {
		b := &Branch{Name: "centro", Enrolment: &fleetproto.Enrolment{Group: "tiendas"}, Seen: now,
			Status: &fleetproto.Status{Group: "tiendas", Desired: fleetproto.Reached{Version: 2}}}
		c.alter(b)
		s := &Survey{At: now, Branches: []*Branch{b}, Groups: []*Version{order}}
		if got := s.settled((&Status{Branches: []string{"centro"}}).shows); got != c.settled {
			t.Errorf("a branch that %s: settled %v", name, got)
		}
	}
}

// TestCounts: each branch is counted as what it is: selling, closed or silent, and also in contingency and waiting.
func TestCounts(t *testing.T) {
	now := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	ready, closed := fleetproto.Status{Ready: true}, fleetproto.Status{}
	for name, c := range map[string]struct {
		b     Branch
		want  Counts
		ready float64
	}{
		"sells":           {Branch{Status: &ready}, Counts{Selling: 1}, 1},
		"cannot sell":     {Branch{Status: &closed}, Counts{Closed: 1}, 0},
		"is replaced":     {Branch{Status: &fleetproto.Status{Ready: true, Replaced: true}}, Counts{Closed: 1}, 0},
		"is silent":       {Branch{Status: &ready, Seen: now.Add(-SilentAfter - 1)}, Counts{Silent: 1}, 1},
		"never reported":  {Branch{Seen: time.Unix(1, 0)}, Counts{Silent: 1}, -1},
		"lost its status": {Branch{}, Counts{}, -1},
		"has a stranger":  {Branch{Status: &ready, Stranger: &closed}, Counts{Selling: 1, Waiting: 1}, 1},
		"is to enrol":     {Branch{Status: &ready, Enrolment: nil, Name: "new"}, Counts{Selling: 1, Waiting: 1}, 1},
		"lost its epoch":  {Branch{Status: &ready, Name: "new", Lost: "x"}, Counts{Selling: 1}, 1},
		"is in contingency": {Branch{Status: &fleetproto.Status{Ready: true, Contingency: &fleetproto.Contingency{}}},
			Counts{Selling: 1, Contingency: 1}, 1},
	} {
		b := c.b
		if b.Name == "" {
			b.Name, b.Enrolment = "centro", &fleetproto.Enrolment{Epoch: 1}
		}
		if b.Seen.IsZero() {
			b.Seen = now
		}
		c.want.Branches = 1
		if got := (&Survey{At: now, Branches: []*Branch{&b}}).Counts(); got != c.want {
			t.Errorf("a branch that %s: %+v", name, got)
		}
		if c.ready >= 0 {
			got := metrictest.Values(t, prometheus.CollectorFunc(b.collect))["dte_chain_branch_ready/"+b.Name+"/"]
			if got != c.ready {
				t.Errorf("a branch that %s: ready %v", name, got)
			}
		}
	}
}

// TestStatus_Waits: status --wait ends when the branches have taken the order, and otherwise when its time is over.
func TestStatus_Waits(t *testing.T) {
	for _, c := range []struct{ after, wait, want time.Duration }{{time.Hour, 0, 0}, {0, time.Minute, 0},
		{3 * time.Second, time.Minute, 4 * time.Second}, {time.Hour, 6 * time.Second, 6 * time.Second},
		{time.Hour, 6*time.Second + 1, 8 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "centro")
			w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}}))
			if c.after == 0 {
				w.obey()
			}
			later := time.AfterFunc(c.after, func() {
				if c.after > 0 {
					w.obey()
				}
			})
			began := time.Now()
			w.must((&Status{Wait: c.wait}).Run(t.Context(), w.chain))
			if got := time.Since(began); got != c.want {
				t.Errorf("%+v: it waits %v", c, got)
			}
			later.Stop()
		})
	}
}
