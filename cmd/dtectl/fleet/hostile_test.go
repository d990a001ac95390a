package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/signed"
)

// put signs a status as a stolen box can: with its key, and without any check.
func (b *box) put(branch string, st fleetproto.Status) {
	b.w.t.Helper()
	payload, err := json.Marshal(&st)
	if err != nil { // a year above 9999
		return
	}
	text, err := signed.Sign(payload, b.signer)
	b.w.must(err)
	b.w.must(b.w.store.Overwrite(b.w.t.Context(), fleetproto.StatusKey(branch, b.epoch()), []byte(text)))
}

// spoil sets one member of a status to an unexpected value.
func spoil(v reflect.Value, r *rand.Rand) {
	texts := []string{"a\n", `a\n`, "\x00", "\u202e", "", "tiendas", "pruebas", "live", "refused", "signing", "api",
		"r1", strings.Repeat("x", 1000), "{x=\"1\"}", "../norte", "Norte"}
	numbers := []int64{-1, 0, 1, 2, 17, 1_000_000, 1 << 62, -1 << 62}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		at := []time.Time{{}, time.Unix(0, 0), time.Unix(1<<40, 0), time.Date(2026, 11, 23, 13, 0, 0, 0, time.UTC)}
		v.Set(reflect.ValueOf(at[r.IntN(len(at))]))
	case v.Kind() == reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case v.CanInt():
		v.SetInt(numbers[r.IntN(len(numbers))])
	case v.CanUint():
		v.SetUint(uint64(numbers[r.IntN(len(numbers))]))
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range []int{1, 3, 6_000}[r.IntN(3)] {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			spoil(key, r)
			spoil(value, r)
			v.SetMapIndex(key, value)
		}
	case v.Kind() == reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		spoil(v.Elem(), r)
	case v.Kind() == reflect.Slice:
		n := []int{1, 2, 3, 100}[r.IntN(4)]
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range min(n, 5) {
			spoil(v.Index(i), r)
		}
	case v.Kind() == reflect.Struct:
		for range 1 + 3*r.IntN(2) {
			spoil(v.Field(r.IntN(v.NumField())), r)
		}
	}
}

// TestHostile: a stolen box of another group, and a box that nobody enrolled, may sign anything: /metrics has at most
// as many series as before, and the verdict on every other branch and group stays the same.
func TestHostile(t *testing.T) {
	w := newWorld(t, "centro", "norte", "sur")
	all := Percent(fleetproto.Whole)
	evil, unknown := w.add("evil"), w.add("unknown")
	evil.status.Group = "pruebas"
	evil.report()
	w.must((&Enrol{All: true}).Run(t.Context(), w.chain))
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	for _, b := range w.boxes[:3] {
		b.status.Certificates = []fleetproto.Certificate{{Name: "signing", Ends: w.now.AddDate(1, 0, 0)}}
	}
	w.boxes = w.boxes[:3]
	w.obey()
	s, server := served(t, w, "")
	verdict := func() (words []string, series int) {
		s.read(t.Context())
		if trouble := s.trouble.Load(); trouble != nil {
			t.Fatal(*trouble)
		}
		found := s.latest.Load()
		for _, r := range found.Branches {
			if r.Name != "evil" && r.Name != "unknown" {
				text := fmt.Sprintf("%s %s %d", r.Name, r.State(), r.Level())
				for _, c := range r.Concerns {
					text += " " + c.Code
				}
				words = append(words, text)
			}
		}
		head := found.Desired("tiendas")
		m := found.Measure(head.Rollout, "tiendas")
		words = append(words, fmt.Sprintf("%+v %q", m, m.Wants(head.Rollout, found.At)))
		code, text := get(t, server.URL+"/metrics")
		if code != 200 {
			t.Fatalf("%d: %s", code, text)
		}
		if err := found.print(new(strings.Builder), func(*Branch) bool { return true }); err != nil {
			t.Fatal(err)
		}
		return words, strings.Count(text, "\ndte_")
	}
	want, series := verdict()
	series += 12 // of evil: one of each name, and four certificates
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 33))
		for _, b := range []*box{evil, unknown} {
			b.status.Sequence++
			good := b.status
			good.At, good.Epoch = w.now, b.epoch()
			good.Head = fleetproto.Head{Kind: "status", Chain: w.chain.Identity.Name,
				Ambiente: w.chain.Identity.Ambiente}
			bad := good
			spoil(reflect.ValueOf(&bad).Elem(), r)
			if r.IntN(3) == 0 { // what becomes labels, more often than one member in twenty
				spoil(reflect.ValueOf(&bad.Certificates).Elem(), r)
			}
			if r.IntN(2) == 0 { // it counts as its own
				bad.Branch, bad.Key, bad.Head, bad.Epoch, bad.At = good.Branch, good.Key, good.Head, good.Epoch, good.At
			}
			b.put(good.Branch, bad)
			got, n := verdict()
			if n > series {
				t.Fatalf("seed %d: %d series, at most %d are bounded", seed, n, series)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %s's status changes another verdict: %q, want %q", seed, good.Branch, got, want)
			}
		}
	}
	// What stolen boxes were seen to sign: names that print the same, the names of others many times, and more than
	// anybody reads.
	for _, names := range [][]string{{"a\n", `a\n`}, {"signing", "signing"}, make([]string, 90), {"new-0", "new-1",
		"new-2", "new-3", "new-4"}} {
		bad := evil.status
		bad.Head = fleetproto.Head{Kind: "status", Chain: w.chain.Identity.Name, Ambiente: w.chain.Identity.Ambiente}
		for _, name := range names {
			bad.Certificates = append(bad.Certificates, fleetproto.Certificate{Name: name, Ends: w.now.AddDate(1, 0,
				0)})
		}
		bad.Epoch, bad.At = 1, w.now
		evil.put("evil", bad)
		if got, n := verdict(); n > series || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %d series, %q", names, n, got)
		}
	}
	// It names the group of the others and a failure of their roll-out.
	evil.status.Group, evil.status.Rollout = "tiendas", &fleetproto.Progress{Name: w.head().Rollout.Name,
		Stage: fleetproto.StageRefused, Since: w.now}
	evil.report()
	if got, _ := verdict(); !reflect.DeepEqual(got, want) {
		t.Errorf("a box of another group fails a roll-out: %q", got)
	}
	if got := w.codes("evil"); !slices.Contains(got, "refused") || !slices.Contains(got, "group") {
		t.Error(got)
	}
}

// TestEnrol_Points: two branches never have one point of sale; if the director signed it nevertheless, both report it.
func TestEnrol_Points(t *testing.T) {
	w := newWorld(t, "centro")
	norte, sur := w.add("norte"), w.add("sur")
	norte.status.Points = w.box("centro").status.Points
	norte.report()
	if err := (&Enrol{All: true}).Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(),
		"M001P001 belongs to centro") {
		t.Errorf("norte gets centro's point of sale: %v", err)
	}
	norte.status.Points = []fleetproto.Point{{Establishment: "M009", Point: "P001"}}
	sur.status.Points = norte.status.Points
	norte.report()
	sur.report()
	if err := (&Enrol{All: true}).Run(t.Context(), w.chain); err == nil || norte.epoch() > 0 || sur.epoch() > 0 {
		t.Errorf("two that wait get one point of sale: %v", err)
	}
	for _, b := range []*box{norte, sur} { // what an older centre signed
		director, err := w.chain.Sign()
		w.must(err)
		data, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: b.status.Branch, Epoch: 1,
			Key: b.status.Key, Group: "tiendas", At: w.now, By: "x", Points: b.status.Points}, director)
		w.must(err)
		w.must(w.store.Create(t.Context(), fleetproto.BoxKey(b.status.Branch, 1), data))
		b.report()
	}
	if got := w.text(); !strings.Contains(got, "M009P001 sur") || !strings.Contains(got, "M009P001 norte") ||
		len(w.codes("centro")) > 0 {
		t.Error(got)
	}
	// A box that numbers a point that it was not given is reported, and a box that somebody moved to another group
	// waits for it.
	w.box("centro").status.Points = []fleetproto.Point{{Establishment: "M008", Point: "P001"}}
	w.box("centro").status.Group = "pruebas"
	w.box("centro").report()
	if got := w.codes("centro"); len(got) != 2 || got[0] != "unbound" || got[1] != "group" {
		t.Error(got)
	}
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(w.box("centro").status.Key)},
		Replace: true}).Run(t.Context(), w.chain))
	w.box("centro").report()
	if got := w.codes("centro"); len(got) > 0 {
		t.Error(got)
	}
}

// TestStore_PutsBack: an old status that is put back never looks fresh, and holds the ring of its branch until somebody
// has looked at it.
func TestStore_PutsBack(t *testing.T) {
	w := newWorld(t, "centro", "norte", "sur")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()
	w.must(w.roll())
	w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}, Pilots: []string{"centro"}, Soak: time.Hour}))
	w.obey()
	b, place := w.box("centro"), fleetproto.StatusKey("centro", 1)
	old := w.store.Held(place)
	b.stage, b.status.Ready, b.status.NotReady = fleetproto.StageReturned, false, []string{"STORE_BEHIND"}
	w.obey()
	if got := w.codes("centro"); !slices.Contains(got, "closed") {
		t.Fatal(got)
	}
	w.must(w.store.Overwrite(t.Context(), place, old))
	if n := w.survey().Counts(); n.Selling != 2 || !strings.Contains(w.text(), "its status was put back: number") {
		t.Errorf("%+v\n%s", n, w.text())
	}
	// Neither a centre that knows this branch nor a new centre opens the next ring on it.
	w.now = w.now.Add(2 * time.Hour)
	for _, cache := range []string{w.chain.Cache, w.at("other")} {
		w.chain.Cache = cache
		w.must(w.store.Overwrite(t.Context(), place, old))
		if err := w.roll(); err != nil || w.head().Rollout.Share != 0 || w.survey().Counts().Selling > 2 {
			t.Errorf("%v: %+v", err, w.head().Rollout)
		}
	}
	// it remembers nothing newer
	if got := w.codes("centro"); !slices.Contains(got, "delay") || !slices.Contains(got, "silent") {
		t.Error(got)
	}
	w.chain.Cache = w.at("cache")
	s := NewSurveyor(w.chain)
	s.Accept = []string{"centro"}
	_, err := s.Read(t.Context())
	w.must(err)
	if got := w.codes("centro"); slices.Contains(got, "older") {
		t.Errorf("somebody has looked at it: %v", got)
	}
	// Neither the same status for ever, nor no status at all.
	for range 3 {
		w.now = w.now.AddDate(0, 0, 10)
		w.must(w.store.Overwrite(t.Context(), fleetproto.StatusKey("norte", 1), w.store.Held(fleetproto.StatusKey("norte",
			1))))
		if got := w.codes("norte"); !slices.Contains(got, "lost") {
			t.Errorf("%v", got)
		}
	}
	w.store.Lose(fleetproto.StatusKey("sur", 1))
	if got := w.codes("sur"); !slices.Equal(got, []string{"older"}) {
		t.Error(got)
	}
	w.store.Lose(fleetproto.BoxKey("norte", 1))
	w.store.Lose(fleetproto.StatusKey("norte", 1))
	if got := w.text(); !strings.Contains(got, "the store has lost the enrolment of epoch 1") ||
		w.survey().Lost() != 3 {
		t.Error(got)
	}
}

// TestStore_LosesActs: an act that the store lost before anybody read it is reported as missing, by status and by log,
// and the last acts that the centre saw, by log.
func TestStore_LosesActs(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	for n, what := range []string{fleetproto.ActAdmitted, fleetproto.ActReturned, fleetproto.ActLive} {
		w.box("centro").act(int64(n+1), what, "")
	}
	w.box("centro").status.Acts = 3
	w.box("centro").report()
	if got := w.codes("centro"); len(got) > 0 {
		t.Error(got)
	}
	w.box("centro").act(4, fleetproto.ActReturned, "")
	w.box("centro").act(5, fleetproto.ActReturned, "")
	w.box("centro").status.Acts = 5
	w.box("centro").report()
	w.store.Lose(fleetproto.ActKey("centro", 4))
	for range 2 {
		if got := w.codes("centro"); !slices.Equal(got, []string{"acts"}) || !strings.Contains(w.text(),
			"has lost its acts 4") {
			t.Error(got, w.text())
		}
	}
	missing := func(c Log, want bool) {
		t.Helper()
		events, err := c.events(t.Context(), w.chain)
		w.must(err)
		if want != slices.ContainsFunc(events, func(e event) bool {
			return e.Number == 4 && strings.HasPrefix(e.Fault, "MISSING")
		}) {
			t.Errorf("%+v: %+v", c, events)
		}
	}
	missing(Log{}, true)
	w.store.Lose(fleetproto.ActKey("centro", 5)) // the last one, after the centre saw it
	missing(Log{}, true)
	missing(Log{Branches: []string{"centro"}}, true)
	missing(Log{Branches: []string{"norte"}}, false)
}

// follow makes a box read on from the version that it verified; it returns the version that the box applies in the end.
func (w *world) follow(held fleetproto.Verified) fleetproto.Verified {
	w.t.Helper()
	for seen, linked := held, true; ; {
		data := w.store.Held(fleetproto.DesiredKey("tiendas", seen.Version+1))
		if data == nil {
			return held
		}
		d, err := w.chain.Identity.OpenDesired(data, []fleetproto.Key{w.chain.Director}, "tiendas", seen.Version+1)
		trusted := err == nil
		if !trusted {
			d, _ = w.chain.Identity.ReadDesired(data, "tiendas", seen.Version+1)
		}
		linked = linked && d != nil && d.Follows(seen) == nil
		mended := trusted && d.Mended(held)
		seen = fleetproto.Verified{Version: seen.Version + 1, Digest: fleetproto.Digest(data)}
		if trusted && (linked || mended) {
			held, linked = seen, true
		}
	}
}

// TestStore_LosesVersions: lost versions of the desired state are put back or mended, and every box continues, whether
// or not it had applied them, and whichever centre published them.
func TestStore_LosesVersions(t *testing.T) {
	for _, c := range []struct {
		name  string
		fresh bool // a centre that has kept nothing
		do    func(w *world)
	}{
		{"lost, kept", false, func(w *world) { w.store.Lose(fleetproto.DesiredKey("tiendas", 3)) }},
		{"lost, not kept", true, func(w *world) { w.store.Lose(fleetproto.DesiredKey("tiendas", 3)) }},
		{"two lost, not kept", true, func(w *world) {
			w.store.Lose(fleetproto.DesiredKey("tiendas", 2))
			w.store.Lose(fleetproto.DesiredKey("tiendas", 3))
		}},
		{"lost before a box read it, and another in its place", false, func(w *world) {
			w.store.Lose(fleetproto.DesiredKey("tiendas", 3))
			own := w.chain.Cache
			w.chain.Cache = w.at("other")
			_, err := w.chain.Next(t.Context(), w.head(), "tiendas", "of another centre", time.Time{}, nil)
			w.must(err)
			w.chain.Cache = own
			for _, name := range []string{"centro", "norte", "sur"} {
				w.box(name).status.Desired = fleetproto.Reached{Version: 1,
					Digest: fleetproto.Digest(w.store.Held(fleetproto.DesiredKey("tiendas", 1)))}
				w.box(name).report()
			}
		}},
		{"all lost, kept", false, func(w *world) {
			for n := range int64(3) {
				w.store.Lose(fleetproto.DesiredKey("tiendas", n+1))
			}
		}},
		{"overwritten before a box read it", true, func(w *world) {
			w.store.Put(fleetproto.DesiredKey("tiendas", 2), []byte("x"))
			w.box("centro").status.Desired = fleetproto.Reached{Version: 1,
				Digest: fleetproto.Digest(w.store.Held(fleetproto.DesiredKey("tiendas", 1)))}
			w.box("centro").report()
		}},
		{"all overwritten", false, func(w *world) {
			for n := int64(2); n <= 3; n++ {
				w.store.Put(fleetproto.DesiredKey("tiendas", n), []byte("x"))
			}
			w.box("centro").status.Desired = fleetproto.Reached{Version: 1,
				Digest: fleetproto.Digest(w.store.Held(fleetproto.DesiredKey("tiendas", 1)))}
			w.box("centro").report()
			w.store.Put(fleetproto.DesiredKey("tiendas", 1), []byte("x"))
		}},
		{"covered", true, func(w *world) {
			for n := int64(4); n < 9; n++ {
				w.must(w.store.Create(t.Context(), fleetproto.DesiredKey("tiendas", n), []byte("x")))
			}
		}},
		{"another group covered", true, func(w *world) {
			w.must(w.store.Create(t.Context(), fleetproto.DesiredKey("zzz",
				1), []byte("x")))
		}},
	} {
		w := newWorld(t, "centro", "norte", "sur")
		all := Percent(fleetproto.Whole)
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
		first := fleetproto.Verified{Version: 1, Digest: w.head().Digest}
		w.obey()
		w.must(w.roll())
		w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}, Pilots: []string{"centro"}}))
		w.obey()
		third := fleetproto.Verified{Version: 3, Digest: w.head().Digest}
		w.survey()
		if c.fresh {
			w.chain.Cache = w.at("other")
		}
		c.do(w)
		if s := w.survey(); strings.Contains(c.name, "lost") && s.Lost() == 0 {
			t.Errorf("%s: nobody says so: %s", c.name, w.text())
		}
		head, _, err := (&Hold{}).look(t.Context(), w.chain)
		w.must(err)
		_, err = w.chain.Next(t.Context(), head, "tiendas", "", time.Time{}, nil)
		w.must(err)
		h := w.head()
		last := fleetproto.Verified{Version: h.Version, Digest: h.Digest}
		for _, held := range []fleetproto.Verified{first, third} {
			if got := w.follow(held); got != last || h.Version <= 3 {
				t.Errorf("%s: a box that held version %d comes to %d of %d", c.name, held.Version, got.Version,
					h.Version)
			}
		}
		w.obey()
		if s := w.survey(); s.Lost() > 0 && c.name != "another group covered" {
			t.Errorf("%s: it is not mended: %s", c.name, w.text())
		}
	}
}

// TestStore_Claims: a version that only one box reports is mended once, whether that box is away or lies.
func TestStore_Claims(t *testing.T) {
	for far, most := range map[int64]int64{3: 300, 200: 800} {
		w := newWorld(t, "centro", "norte")
		all := Percent(fleetproto.Whole)
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
		w.obey()
		w.must(w.roll())
		for n := range 80 { // a lie in each status, and then the box is away
			w.box("norte").status.Desired = fleetproto.Reached{Version: w.head().Version + far,
				Digest: fleetproto.Digest([]byte{byte(min(n, 70))})}
			w.box("norte").report()
			w.must(w.roll())
			if head := w.head(); n > 70 && len(head.Mends) > 50 {
				t.Fatalf("version %d mends %d", head.Version, len(head.Mends))
			}
		}
		last := w.head().Version
		w.must(w.roll())
		if w.head().Version != last || last > most {
			t.Errorf("version %d, then %d: one box's lies are orders", last, w.head().Version)
		}
	}
}

// TestSurvey_EarlierKey: a thief of the earlier key signed many versions, and boxes that have been off since have some
// of them. A survey reads a bounded number of them.
func TestSurvey_EarlierKey(t *testing.T) {
	w := newWorld(t, "centro", "norte", "sur")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.must((&Hold{}).Run(t.Context(), w.chain))
	for _, b := range w.boxes {
		last := w.thieves(w.head().Version+1, w.head().Version+10, nil)
		b.status.Desired = fleetproto.Reached{Version: last.Version, Digest: last.Digest}
		b.report()
	}
	w.thieves(w.head().Version+1, w.head().Version+maxMends, nil)
	w.must((&Rekey{Back: map[string]int64{"tiendas": 2}}).run(t.Context(), w.chain, w.newKey("director 2")))
	read := 0
	w.store.Seen = func(r fleettest.Request, _ error) {
		if r.Verb == "get" && strings.HasPrefix(r.Key, fleetproto.DesiredRoot) {
			read++
		}
	}
	if s := w.survey(); s.Lost() > 0 || read > maxMends+50 {
		t.Errorf("%d versions were read: %q", read, s.Faults)
	}
}

// TestStatus_TwoCopies: two boxes made from one disk image write one status.
func TestStatus_TwoCopies(t *testing.T) {
	w := newWorld(t, "centro")
	b := w.box("centro")
	for range 2 {
		b.report()
		if got := w.codes("centro"); len(got) > 0 {
			t.Error(got)
		}
	}
	b.status.Sequence--
	w.now = w.now.Add(time.Minute)
	b.report()
	for range 2 { // until somebody has looked
		if got := w.codes("centro"); !slices.Equal(got, []string{"older"}) || !strings.Contains(w.text(),
			"two boxes with one key") {
			t.Error(got)
		}
		b.report()
	}
	next := w.add("centro")
	next.report()
	_ = (&Status{Accept: []string{"centro"}}).Run(t.Context(), w.chain)
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
	for range 3 { // the two boxes of the former key are no concern of the one that took their place
		next.report()
		if got := w.codes("centro"); slices.Contains(got, "older") {
			t.Errorf("the box of epoch 2 is doubted: %v", got)
		}
	}
}

// TestEnrol_Remembers: an epoch that the centre saw and the store forgot is given to nobody, and points that one
// group's order closed stay closed in another group.
func TestEnrol_Remembers(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.survey()
	held := w.store.Held(fleetproto.BoxKey("centro", 1))
	w.store.Lose(fleetproto.BoxKey("centro", 1))
	w.store.Lose(fleetproto.StatusKey("centro", 1))
	sur := w.add("sur")
	sur.status.Points = w.box("centro").status.Points
	sur.report()
	enrol := Enrol{Boxes: []string{"sur=" + Fingerprint(sur.status.Key)}}
	if err := enrol.Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(), "belongs to centro") {
		t.Errorf("centro's points of sale are given away: %v", err)
	}
	w.must(os.Remove(w.chain.cached(enrolmentsFile)))
	w.store.Lose(fleetproto.BoxKey("centro", 1))
	if err := enrol.Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(),
		"centro: the store has lost the enrolment") {
		t.Errorf("centro's points of sale are given away: %v", err)
	}
	w.must(w.store.Overwrite(t.Context(), fleetproto.BoxKey("centro", 1), held))
	other := w.add("centro")
	other.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P009"}}
	other.report()
	name := "centro=" + Fingerprint(other.status.Key)
	w.must((&Enrol{Boxes: []string{name}, Replace: true, Close: []string{"M001P001"}}).Run(t.Context(), w.chain))
	other.status.Group = "otros"
	other.report()
	w.must((&Enrol{Boxes: []string{name}, Replace: true}).Run(t.Context(), w.chain))
	v, err := w.chain.Head(t.Context(), "otros")
	w.must(err)
	for _, b := range w.survey().Branches {
		if b.Name == "centro" && (v == nil || len(v.Closed) != 1 || b.Enrolment.Epoch != 3 ||
			b.Enrolment.After != v.Version) {
			t.Errorf("%+v %+v", b.Enrolment, v)
		}
	}
}

// TestStore_LosesEnrolments: an enrolment that the store lost is put back, also one below the highest: a replaced box
// that asks for the next epoch must find it. Where the centre has only seen it, it holds the ring of its branch.
func TestStore_LosesEnrolments(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()
	w.must(w.roll())
	for range 2 {
		next := w.add("centro")
		next.report()
		w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
		next.report()
	}
	w.survey()
	keys := w.store.Keys(fleetproto.BoxesFolder + "centro/")
	for _, lost := range [][]string{keys[2:], keys[1:2], keys} {
		for _, key := range lost {
			w.store.Lose(key)
		}
		if s := w.survey(); s.Lost() == 0 {
			t.Errorf("nobody misses %v", lost)
		}
		w.must(w.roll())
		if got := w.store.Keys(fleetproto.BoxesFolder + "centro/"); !slices.Equal(got, keys) {
			t.Errorf("%v were lost, and the store has %v", lost, got)
		}
	}
	w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}, Pilots: []string{"centro"}, Soak: time.Hour}))
	w.must(os.Remove(w.chain.cached(enrolmentsFile)))
	for _, key := range keys {
		w.store.Lose(key)
	}
	if err := w.roll(); w.head().Rollout.Share > 0 {
		t.Errorf("the ring of a branch whose enrolments are lost opens the next ring: %v", err)
	}
}

// TestRing_OtherGroup: a box that was moved to another group does not confirm a roll-out of its group before, though
// both roll-outs have one name.
func TestRing_OtherGroup(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}}))
	w.obey()
	b := w.box("centro")
	b.status.Group = "otros"
	b.report()
	if m := w.survey().Measure(w.head().Rollout, "tiendas"); m.Succeeded != 0 || m.Waiting != 1 {
		t.Errorf("%+v", m)
	}
}

// TestPublish_Names: a roll-out has the number of its version, also behind fillers of versions that the store lost: a
// box may have taken the lost roll-out of an earlier number.
func TestPublish_Names(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()
	w.must(w.roll())
	b := w.box("centro")
	b.status.Desired = fleetproto.Reached{Version: w.head().Version + 2, Digest: fleetproto.Digest([]byte("lost"))}
	b.report()
	w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}, Share: &all}))
	if h := w.head(); h.Rollout.Name != fmt.Sprintf("r%d", h.Version) {
		t.Errorf("version %d is roll-out %s", h.Version, h.Rollout.Name)
	}
}

// TestRoll_HoldsFirst: a box that claims a lost version does not delay the hold of a roll-out that harms.
func TestRoll_HoldsFirst(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.box("centro").stage = fleetproto.StageReturned
	w.obey()
	b := w.box("norte")
	b.status.Desired = fleetproto.Reached{Version: w.head().Version + 2, Digest: fleetproto.Digest([]byte("a lie"))}
	b.report()
	if err := w.roll(); !errors.Is(err, errHarms) || !w.head().Rollout.Held {
		t.Errorf("it is not held: %v", err)
	}
}

// TestPublish_Clock: an order by a wrong clock would begin, and be watched, at another time than it says.
func TestPublish_Clock(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	files := []string{w.bundle("1.0.0", w.rules)}
	right := w.chain.Now
	for _, wrong := range []time.Duration{-25 * time.Hour, 25 * time.Hour} {
		w.chain.Now = func() time.Time { return right().Add(wrong) }
		err := w.publish(Publish{Files: files, Pilots: []string{"centro"}, Soak: 24 * time.Hour})
		w.chain.Now = right
		if head := w.head(); err == nil || head != nil {
			t.Errorf("a clock that is %s wrong orders: %v, %+v", wrong, err, head)
		}
	}
}

// TestPublish_Pilots: a pilot that nobody enrolled makes a ring without a box, which would prove nothing.
func TestPublish_Pilots(t *testing.T) {
	w := newWorld(t, "centro")
	w.add("norte").report()
	err := w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"norte"}})
	if err == nil || !strings.Contains(err.Error(), "no branch norte of group tiendas is enrolled") {
		t.Error(err)
	}
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}}))
	err = (&Publish{Group: "tienda", Files: []string{w.bundle("1.1.0", w.rules)}, MinSuccess: 1}).Run(t.Context(), w.chain)
	if err == nil || !strings.Contains(err.Error(), "no branch of a group tienda is enrolled") {
		t.Error(err)
	}
}

// TestPublish_Nothing: what is desired already is not published once more: back would take its completed roll-out for
// a roll-out that was taken back.
func TestPublish_Nothing(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		w.must(w.publish(Publish{Files: []string{w.bundle(version, w.rules)}, Share: &all}))
		w.obey()
		w.must(w.roll())
	}
	w.now = w.now.Add(24 * time.Hour)
	before := w.head()
	w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}, Share: &all}))
	if h := w.head(); h.Rollout != nil || !h.Expires.After(before.Expires) {
		t.Errorf("version %d, until %v: %+v", h.Version, h.Expires, h.Rollout)
	}
	w.must((&Back{}).Run(t.Context(), w.chain))
	if got := describe(w.head().Live); got != "catalogues 1.0.0" {
		t.Errorf("back goes to %s", got)
	}
}

// farVersion writes a version of a far number, as a thief of the director's key would.
func (w *world) farVersion(n int64) fleetproto.Desired {
	w.t.Helper()
	d := *w.head().Desired
	d.Version, d.Previous = n, w.head().Digest
	_, err := w.chain.write(w.t.Context(), d, fleetproto.Signer{ID: directorID, Private: key("director")})
	w.must(err)
	return d
}

// TestHead_FarVersion: the number of a version that a thief signed does not exhaust the centre.
func TestHead_FarVersion(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	d := w.farVersion(999_999_999_999)
	if h := w.head(); h.Version != d.Version || h.Hole != 2 {
		t.Errorf("version %d, hole %d", h.Version, h.Hole)
	}
}

// TestEnrol_BeforeRekey: on a new machine, with a new key that has signed nothing yet, no branch that has a box is given
// to the box that waits, and no point of sale of such a branch to another branch.
func TestEnrol_BeforeRekey(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	first, spare := w.box("centro"), w.add("centro")
	spare.report()
	old := w.newKey("director 2")
	w.chain.Cache = w.at("other")
	sur := w.add("sur")
	sur.report()
	sur.status.Points = first.status.Points
	sur.report()
	for _, c := range []Enrol{{All: true}, {Boxes: []string{"centro=" + Fingerprint(spare.status.Key)}},
		{Boxes: []string{"sur=" + Fingerprint(sur.status.Key)}}} {
		err := c.Run(t.Context(), w.chain)
		if err == nil || !strings.Contains(err.Error(), "another key has enrolled a box of centro") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	w.must((&Rekey{}).run(t.Context(), w.chain, old))
	sur.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P099"}}
	sur.report()
	w.must((&Enrol{All: true}).Run(t.Context(), w.chain))
	for _, b := range w.survey().Branches {
		if b.Enrolment == nil || b.Enrolment.Epoch != 1 || b.Name == "centro" && b.Enrolment.Key != first.status.Key {
			t.Errorf("%s: %+v", b.Name, b.Enrolment)
		}
	}
}

// TestRekey_ClosedBetween: a point of sale stays closed that a version closed which --back leaves out, and that the
// thief's later version opened.
func TestRekey_ClosedBetween(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	next := w.add("centro")
	next.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P009"}}
	next.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true,
		Close: []string{"M001P001"}}).Run(t.Context(), w.chain))
	_, err := w.chain.Next(t.Context(), w.head(), "tiendas", "theft", time.Time{},
		func(d *fleetproto.Desired) { d.Closed = nil })
	w.must(err)
	old := w.newKey("director 2")
	w.must((&Rekey{Back: map[string]int64{"tiendas": 1}}).run(t.Context(), w.chain, old))
	if got := w.head().Closed; len(got) != 1 || got[0].Point != "P001" {
		t.Errorf("closed: %v", got)
	}
}

// TestStore_RolledBack: the store is restored from a copy of before the director's key was changed. The centre puts the
// enrolments of the new key back; a machine that still has the old key does not put its own in their place.
func TestStore_RolledBack(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	former := *w.chain
	former.Cache = w.at("other")
	_, err := NewSurveyor(&former).Read(t.Context())
	w.must(err)
	copied, rekeyed := make(map[string][]byte), make(map[string][]byte)
	keys := w.store.Keys(fleetproto.BoxesFolder)
	for _, k := range keys {
		copied[k] = w.store.Held(k)
	}
	w.now = w.now.Add(time.Hour)
	old := w.newKey("director 2")
	w.must((&Rekey{}).run(t.Context(), w.chain, old))
	w.survey()
	for _, k := range keys {
		rekeyed[k] = w.store.Held(k)
		w.must(w.store.Overwrite(t.Context(), k, copied[k]))
	}
	w.must(w.roll())
	_, _ = restored(t.Context(), &former, NewSurveyor(&former))
	for _, k := range keys {
		if string(w.store.Held(k)) != string(rekeyed[k]) {
			t.Errorf("%s is not the new key's", k)
		}
	}
	if s := w.survey(); len(s.Faults) > 0 {
		t.Error(s.Faults)
	}
}

// TestStatus_AcceptKept: an enrolment that the centre has kept is put back, although its loss was accepted: a replaced
// box that is switched on must find its successor's.
func TestStatus_AcceptKept(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	second := w.add("centro")
	second.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(second.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
	second.report()
	w.survey()
	held := w.store.Held(fleetproto.BoxKey("centro", 2))
	w.store.Lose(fleetproto.BoxKey("centro", 2))
	_ = (&Status{Accept: []string{"centro"}}).Run(t.Context(), w.chain)
	w.must(w.roll())
	if string(w.store.Held(fleetproto.BoxKey("centro", 2))) != string(held) {
		t.Error("the centre has forgotten centro's second box")
	}
}

// TestRekey_FarEpoch: an enrolment of a far epoch, which a thief of the director's key signed, does not have the centre
// ask for each epoch before it: neither a survey nor rekey ends with an error.
func TestRekey_FarEpoch(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.obey()
	w.add("centro").report()
	robber := fleetproto.Signer{ID: directorID, Private: key("director")}
	data, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: 1_000_000, Group: "tiendas",
		Key: fleetproto.EncodeKey(fleetproto.Public(robber).Public), At: w.now, By: "x"}, robber)
	w.must(err)
	w.store.Put(fleetproto.BoxKey("centro", 1_000_000), data)
	ctx, cancel := context.WithCancel(t.Context())
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Number > 2000 {
			cancel()
		}
		return fleettest.None
	}
	_, err = NewSurveyor(w.chain).Read(ctx)
	w.must(err)
	w.must((&Rekey{}).run(ctx, w.chain, w.newKey("director 2")))
	for _, b := range w.survey().Branches {
		if b.Enrolment == nil || b.Enrolment.Highest != 1 || b.Lost != "" {
			t.Errorf("%+v", b)
		}
	}
}

// TestSurvey_EpochSteps: a thief's enrolments, each as far behind the last as is listed, do not have the centre ask for
// the epochs between them, neither in a survey nor for each act.
func TestSurvey_EpochSteps(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.box("centro").act(1, fleetproto.ActLive, "")
	w.add("centro").report()
	robber := fleetproto.Signer{ID: directorID, Private: key("director")}
	const step = maxForeign
	for n := int64(1 + step); n < 100*step; n += step {
		data, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: n, Group: "tiendas",
			Key: fleetproto.EncodeKey(fleetproto.Public(robber).Public), At: w.now, By: "x"}, robber)
		w.must(err)
		w.store.Put(fleetproto.BoxKey("centro", n), data)
	}
	w.survey()
	var asked atomic.Int64
	w.store.Fault = func(fleettest.Request) fleettest.Fault { asked.Add(1); return fleettest.None }
	if w.survey(); asked.Load() > 100 {
		t.Errorf("a survey asks %d times", asked.Load())
	}
	asked.Store(0)
	list, err := new(Log).events(t.Context(), w.chain)
	if err != nil || asked.Load() > 100 {
		t.Errorf("the log asks %d times: %v", asked.Load(), err)
	}
	if !slices.ContainsFunc(list, func(e event) bool { return e.What == fleetproto.ActLive && e.Fault == "" }) {
		t.Errorf("%+v", list)
	}
}

// TestRekey_Gap: a version of the thief's behind a gap, or of a far number, does not keep the new key's order from the
// boxes, wherever they have read to; and its loss is not mended by all numbers before it. Without --back, rekey does
// not publish behind a gap.
func TestRekey_Gap(t *testing.T) {
	for name, c := range map[string]struct {
		number int64 // of the thief's last version
		from   int64 // of the thief's versions before it; 0: none
		lost   int64 // the store loses this one after boxes have read on; 0: none
		moved  bool  // the centre has another folder then
	}{
		"behind a gap":         {number: 4},
		"a far number":         {number: 1_000_000_000_000},
		"a gap made later":     {number: 4, from: 3, lost: 3},
		"many behind it":       {number: 63, from: 3, lost: 3},
		"behind a second gap":  {number: 4, lost: 1, moved: true},
		"far, behind a second": {number: 1_000_000_000_000, lost: 1, moved: true},
	} {
		w := newWorld(t, "centro", "norte")
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
		w.must((&Hold{}).Run(t.Context(), w.chain))
		own, robber := w.head(), fleetproto.Signer{ID: directorID, Private: key("director")}
		last, boxes := own.Last, []fleetproto.Verified{own.Last}
		for n := cmp.Or(c.from, c.number); n <= c.number; n++ {
			d := *own.Desired
			d.Version, d.Previous = n, last.Digest
			data, err := w.chain.Identity.Seal(&d, robber)
			w.must(err)
			w.store.Put(fleetproto.DesiredKey("tiendas", n), data)
			last = fleetproto.Verified{Version: n, Digest: fleetproto.Digest(data)}
		}
		if c.lost > 0 {
			w.store.Lose(fleetproto.DesiredKey("tiendas", c.lost))
		}
		if c.from > 0 {
			boxes = append(boxes, last)
		}
		if c.moved {
			w.chain.Cache = t.TempDir()
		}
		old := w.newKey("director 2")
		if err := (&Rekey{}).run(t.Context(), w.chain, old); err == nil || !strings.Contains(err.Error(), "--back") {
			t.Errorf("%s: without --back: %v", name, err)
		}
		if err := (&Rekey{Back: map[string]int64{"tiendas": 2}}).run(t.Context(), w.chain, old); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, b := range boxes {
			if got := w.follow(b); got == b {
				t.Errorf("%s: a box at version %d does not read the new key's order: %q", name, b.Version,
					w.store.Keys(fleetproto.DesiredRoot))
			}
		}
	}
}

// thieves writes versions that a thief of the director's key signed, from one number to another, each after the one
// before, and returns the last; alter changes each.
func (w *world) thieves(from, to int64, alter func(*fleetproto.Desired)) (last fleetproto.Verified) {
	w.t.Helper()
	own := w.head()
	last = own.Last
	for n := from; n <= to; n++ {
		d := *own.Desired
		d.Version, d.Previous = n, last.Digest
		if alter != nil {
			alter(&d)
		}
		data, err := w.chain.Identity.Seal(&d, fleetproto.Signer{ID: directorID, Private: key("director")})
		w.must(err)
		w.store.Put(fleetproto.DesiredKey("tiendas", n), data)
		last = fleetproto.Verified{Version: n, Digest: fleetproto.Digest(data)}
	}
	return last
}

// TestRekey_GapInterrupted: rekey --back ends after its first order, which fills a gap. Run once more, it gives another
// order to the boxes that had read versions behind the gap.
func TestRekey_GapInterrupted(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.must((&Hold{}).Run(t.Context(), w.chain))
	last := w.thieves(3, 63, nil)
	w.store.Lose(fleetproto.DesiredKey("tiendas", 3))
	old, c := w.newKey("director 2"), Rekey{Back: map[string]int64{"tiendas": 2}}
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "create" && r.Key == fleetproto.DesiredKey("tiendas", 64) {
			return fleettest.Failed
		}
		return fleettest.None
	}
	if err := c.run(t.Context(), w.chain, old); !errors.Is(err, fleettest.ErrFault) {
		t.Fatal(err)
	}
	w.store.Fault = nil
	w.must(c.run(t.Context(), w.chain, old))
	if w.follow(last) == last {
		t.Error("a box that read the thief's versions reads no order")
	}
}

// TestRekey_Deleted: all of a thief's versions are deleted after boxes have read them. What these report is mended.
func TestRekey_Deleted(t *testing.T) {
	for _, back := range []map[string]int64{nil, {"tiendas": 1}} {
		w := newWorld(t, "centro", "norte")
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
		last := w.thieves(2, maxMends, nil)
		w.obey()
		for n := int64(2); n <= maxMends; n++ {
			w.store.Lose(fleetproto.DesiredKey("tiendas", n))
		}
		w.chain.Cache = w.at("other") // it has kept none of them
		w.must((&Rekey{Back: back}).run(t.Context(), w.chain, w.newKey("director 2")))
		w.must(w.roll())
		if w.follow(last) == last {
			t.Errorf("back %v: a box at version %d does not read version %d", back, last.Version, w.head().Version)
		}
	}
}

// TestRekey_After: a thief signed a true box's enrolment again, for a box that has read a version that there is not.
// The new key does not require it of a box that lost its state; it requires a version that there is.
func TestRekey_After(t *testing.T) {
	for after, want := range map[int64]int64{1_000_000_000_000: 2, 1: 1} {
		for _, back := range []map[string]int64{nil, {"tiendas": 2}} {
			w := newWorld(t, "centro")
			w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
			w.must((&Hold{}).Run(t.Context(), w.chain))
			e := *w.survey().Branches[0].Enrolment
			e.After = after
			data, err := w.chain.Identity.Seal(&e, fleetproto.Signer{ID: directorID, Private: key("director")})
			w.must(err)
			w.store.Put(fleetproto.BoxKey("centro", 1), data)
			if back != nil {
				w.thieves(3, 4, nil)
			}
			w.must((&Rekey{Back: back}).run(t.Context(), w.chain, w.newKey("director 2")))
			if got := w.survey().Branches[0].Enrolment.After; got != want {
				t.Errorf("%d, back %v: the new key requires version %d", after, back, got)
			}
		}
	}
}

// TestRekey_Life: a version of a thief's that is good for 200 years gives the new key's order no end that no order can
// have.
func TestRekey_Life(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.thieves(2, 2, func(d *fleetproto.Desired) {
		d.Issued, d.Expires = w.now.AddDate(-26, 0, 0), w.now.AddDate(174, 0, 0)
	})
	w.must((&Rekey{}).run(t.Context(), w.chain, w.newKey("director 2")))
	if h := w.head(); h.Expires.Sub(h.Issued) != DefaultLife {
		t.Errorf("good until %v", h.Expires)
	}
}

// TestRekey_ComingYears: however many points of sale a thief closed, the new key can sign; those of coming years, which
// enrol never closes, are open again.
func TestRekey_ComingYears(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	const most = 1_000_000_000_000
	w.thieves(2, 6, func(d *fleetproto.Desired) {
		d.Live.Rules = nil
		for i := range int64(3500) {
			p := fleetproto.ClosedPoint{Branch: strings.Repeat("c", 63), Establishment: fmt.Sprintf("M%03d", d.Version),
				Point: fmt.Sprintf("P%03d", i%1000), Year: 2026, Since: most - i}
			if d.Version == 2 {
				p.Year, p.Since = 2027+int(i), 1
			}
			d.Closed = append(d.Closed, p)
		}
	})
	w.must((&Rekey{Back: map[string]int64{"tiendas": 1}}).run(t.Context(), w.chain, w.newKey("director 2")))
	if h := w.head(); len(h.Closed) != 4000 || slices.ContainsFunc(h.Closed, func(p fleetproto.ClosedPoint) bool {
		return p.Year > 2026
	}) {
		t.Errorf("%d are closed", len(h.Closed))
	}
	w.must((&Hold{}).Run(t.Context(), w.chain))
}

// listing fails a Fetch of a version while its folder is listed: the list's time is limited, and versions may be many.
type listing struct {
	*fleettest.Store
	open atomic.Bool
}

func (s *listing) List(ctx context.Context, prefix string) iter.Seq2[archive.Object, error] {
	return func(yield func(archive.Object, error) bool) {
		defer s.open.Store(false)
		s.open.Store(prefix == fleetproto.DesiredFolder("tiendas"))
		s.Store.List(ctx, prefix)(yield)
	}
}

func (s *listing) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	if s.open.Load() {
		return archive.Held{}, fmt.Errorf("%w: %s is read within the list's time", fleettest.ErrFault, key)
	}
	return s.Store.Fetch(ctx, key, limit)
}

// TestRekey_ManyVersions: rekey does not read a group's versions within the time of a list.
func TestRekey_ManyVersions(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.must((&Hold{}).Run(t.Context(), w.chain))
	w.chain.Store, w.chain.Cache = &listing{Store: w.store}, w.at("other")
	w.must((&Rekey{}).run(t.Context(), w.chain, w.newKey("director 2")))
}

// TestSurvey_ManyEnrolments: a survey whose time is over before it has read all enrolments is not begun anew.
func TestSurvey_ManyEnrolments(t *testing.T) {
	w := newWorld(t, "centro")
	for n := range 200 {
		w.store.Put(fleetproto.BoxKey(fmt.Sprintf("s%d", n), 1), []byte("x"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "get" && asked.Add(1) == 100 {
			cancel()
		}
		return fleettest.None
	}
	if _, err := NewSurveyor(w.chain).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	asked.Store(100)
	if w.survey(); asked.Load() > 250 {
		t.Errorf("it asks %d times", asked.Load()-100)
	}
}

// TestRekey_GapNobody: a gap in a group of a thief's, in which no branch is, does not stop rekey.
func TestRekey_GapNobody(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	d := *w.head().Desired
	d.Group, d.Version, d.Previous = "nadie", 5, w.head().Digest
	_, err := w.chain.write(t.Context(), d, fleetproto.Signer{ID: directorID, Private: key("director")})
	w.must(err)
	w.must((&Rekey{}).run(t.Context(), w.chain, w.newKey("director 2")))
}

// TestRekey_SameNumber: a thief of the key signed the last good version anew, with other contents. The new key signs
// what this centre published, and boxes read it, whichever of the two they hold.
func TestRekey_SameNumber(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	own := w.head()
	d := *own.Desired
	d.Rollout = nil
	data, err := w.chain.Identity.Seal(&d, fleetproto.Signer{ID: directorID, Private: key("director")})
	w.must(err)
	w.store.Put(fleetproto.DesiredKey("tiendas", 1), data)
	old := w.newKey("director 2")
	w.must((&Rekey{Back: map[string]int64{"tiendas": 1}}).run(t.Context(), w.chain, old))
	if w.head().Rollout == nil {
		t.Error("the new key signed the thief's version")
	}
	for _, b := range []fleetproto.Verified{own.Last, {Version: 1, Digest: fleetproto.Digest(data)}} {
		if got := w.follow(b); got == b {
			t.Errorf("a box that holds %+v reads nothing", b)
		}
	}
}

// TestRoll_FarVersion: the store loses a thief's version of a far number, which the centre has kept; roll does not write
// each number before it.
func TestRoll_FarVersion(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	d := w.farVersion(2000)
	w.store.Lose(fleetproto.DesiredKey("tiendas", d.Version))
	_ = w.roll()
	if n := len(w.store.Keys(fleetproto.DesiredRoot)); n > 3 {
		t.Errorf("%d versions", n)
	}
}

// TestRekey_Closings: however many points of sale the versions of a thief close, the chain gets its new key, and what
// was closed before stays closed.
func TestRekey_Closings(t *testing.T) {
	w := newWorld(t, "centro")
	closing := func(branch string, n int) (list []fleetproto.ClosedPoint) {
		for i := range n {
			list = append(list, fleetproto.ClosedPoint{Branch: branch, Establishment: fmt.Sprintf("M%03d", i/900),
				Point: fmt.Sprintf("P%03d", 1+i%900), Year: 2026, Since: 1})
		}
		return list
	}
	var head *Version
	for i, list := range [][]fleetproto.ClosedPoint{closing("centro", 1), closing("x", 3000), closing("y", 3000)} {
		_, err := w.chain.Next(t.Context(), head, "tiendas", "", time.Time{},
			func(d *fleetproto.Desired) { d.Closed = list })
		w.must(err)
		if head = w.head(); head.Version != int64(i+1) {
			t.Fatal(head.Version)
		}
	}
	w.must((&Rekey{Back: map[string]int64{"tiendas": 1}}).run(t.Context(), w.chain, w.newKey("director 2")))
	if got := w.head(); got.Version != 4 || got.Closed[0].Branch != "centro" {
		t.Errorf("version %d closes %v first", got.Version, got.Closed[0])
	}
}

// TestRekey_Says: nothing is called moved that was not, neither with the keys in each other's place, nor by a second
// run; what --except left out is not called late; a dry run names what the store has lost.
func TestRekey_Says(t *testing.T) {
	w := newWorld(t, "centro", "norte", "este", "oeste")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.obey()
	w.survey()
	says := func(c Rekey, old fleetproto.Key, want, not string) {
		t.Helper()
		text := w.prints(func() { w.must(c.run(t.Context(), w.chain, old)) })
		if !strings.Contains(text, want) || strings.Contains(text, not) {
			t.Errorf("%+v says %q, and not %q: %s", c, want, not, text)
		}
	}
	next := fleetproto.Public(fleetproto.Signer{ID: "next", Private: key("director 2")})
	for _, dry := range []bool{true, false} {
		says(Rekey{DryRun: dry}, next, "nothing to sign: next, given as the old key", "moved")
	}
	old := w.newKey("director 2")
	w.store.Lose(fleetproto.BoxKey("centro", 1))
	says(Rekey{DryRun: true}, old, "the store has lost fleet/v1/boxes/centro/1.jws", "nothing to sign")
	says(Rekey{Except: []string{"norte/1"}}, old, "moved from", "nothing to sign")
	w.must((&Status{Accept: []string{"norte"}}).Run(t.Context(), w.chain))
	says(Rekey{}, old, "norte, epoch 1 is left as it is: an earlier run left it out", "moved")
	says(Rekey{Back: map[string]int64{"tiendas": 1}}, old, "signed version 2 already: --back tiendas=1 changes nothing",
		"moved")
	w.newKey("director 3")
	for i := range 6 { // all are named that --except wants
		w.store.Put(fleetproto.BoxKey(fmt.Sprintf("zzz%d", i), 1), []byte("x"))
	}
	w.chain.Cache = w.at("other")
	if err := (&Rekey{}).run(t.Context(), w.chain, next); err == nil || !strings.Contains(err.Error(),
		"norte/1, zzz0/1, zzz1/1, zzz2/1, zzz3/1, zzz4/1, zzz5/1") {
		t.Error(err)
	}
}

// TestRekey_Before: between the new key in fleet.toml and rekey, the reports from before the boxes were enrolled are no
// news, and each verb says what is the matter, and nothing else to do, however many versions the old key signed.
func TestRekey_Before(t *testing.T) {
	for _, last := range []int64{1, maxForeignVersions + 1} {
		w := newWorld(t, "centro", "norte")
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
		w.thieves(2, last, nil)
		w.obey()
		w.survey()
		w.newKey("director 2")
		if s := w.survey(); s.Counts() != (Counts{Branches: 2}) || !strings.Contains(w.text(), "unknown") {
			t.Errorf("%+v %s", s.Counts(), w.text())
		}
		for name, do := range map[string]func() error{
			"roll":    w.roll,
			"back":    func() error { return (&Back{}).Run(t.Context(), w.chain) },
			"hold":    func() error { return (&Hold{Group: "tiendas"}).Run(t.Context(), w.chain) },
			"publish": func() error { return w.publish(Publish{Files: []string{w.bundle("1.0.1", w.rules)}}) },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), "the order for tiendas is not authentic: ") ||
				!strings.Contains(err.Error(), "if the key is being changed, run dtectl fleet rekey") {
				t.Errorf("%s, %d versions: %v", name, last, err)
			}
		}
		said := w.prints(func() {
			if err := (&Status{Group: "tiendas"}).Run(t.Context(), w.chain); err == nil ||
				!strings.Contains(err.Error(), "see above") {
				t.Errorf("status: %v", err)
			}
		})
		if !strings.Contains(said, "the order for tiendas is not authentic") || !strings.Contains(said, "norte ") {
			t.Error(said)
		}
		name := "centro=" + Fingerprint(w.box("centro").status.Key)
		if err := (&Enrol{Boxes: []string{name}, Replace: true}).Run(t.Context(), w.chain); err == nil ||
			!strings.Contains(err.Error(), "if the key is being changed, run dtectl fleet rekey") {
			t.Error(err)
		}
	}
}

// TestRekey_ForeignPoints: a thief signed a true box's enrolment again, with the points of sale of another branch. The
// dry run shows them; left out, and enrolled again, the box takes nothing from the other branch.
func TestRekey_ForeignPoints(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.obey()
	robber := fleetproto.Signer{ID: directorID, Private: key("director")}
	w.now = w.now.Add(time.Hour)
	data, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: 1, Group: "tiendas",
		Key: w.box("centro").status.Key, At: w.now, By: "ana@central", Points: append(w.box("norte").status.Points,
			w.box("centro").status.Points...)}, robber)
	w.must(err)
	w.store.Put(fleetproto.BoxKey("centro", 1), data)
	old := w.newKey("director 2")
	if said := w.prints(func() { w.must((&Rekey{DryRun: true}).run(t.Context(), w.chain, old)) }); !strings.Contains(said,
		"M001P002 M001P001, enrolled") {
		t.Error(said)
	}
	w.must((&Rekey{Except: []string{"centro/1"}}).run(t.Context(), w.chain, old))
	w.must((&Status{Accept: []string{"centro"}}).Run(t.Context(), w.chain))
	w.box("centro").report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(w.box("centro").status.Key)}}).Run(t.Context(), w.chain))
	next := w.add("norte")
	next.report()
	w.must((&Enrol{Boxes: []string{"norte=" + Fingerprint(next.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
}

// TestSurvey_FarClaims: how far above the last version a claim is mended: of one box, less far after each earlier claim;
// of two boxes, always as far. At most fifty are open.
func TestSurvey_FarClaims(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		boxes, mended int
		far           int64 // 0: no claim is mended
	}{{1, 0, 500}, {1, 1, 250}, {1, 4, 100}, {2, 4, 500}, {2, 49, 500}, {2, 50, 0}} {
		for above := range int64(2) {
			last := fleetproto.Verified{Version: 7, Digest: "7"}
			v := &Version{Desired: &fleetproto.Desired{Group: "tiendas", Version: 7, Mends: make([]fleetproto.Verified,
				c.mended)}, Digest: "7", Last: last}
			s := &Survey{Groups: []*Version{v}}
			claim := fleetproto.Verified{Version: 7 + c.far + above, Digest: "x"}
			for range c.boxes {
				s.Branches = append(s.Branches, &Branch{Enrolment: &fleetproto.Enrolment{Group: "tiendas"},
					Status: &fleetproto.Status{Group: "tiendas", Desired: fleetproto.Reached{Version: claim.Version,
						Digest: claim.Digest}}})
			}
			w.must(NewSurveyor(w.chain).compareVersions(t.Context(), s))
			if got := slices.Contains(v.Lost, claim); got != (above == 0 && c.far > 0) || len(v.Lost) > 1 {
				t.Errorf("%+v, %d above: mended %t", c, above, got)
			}
		}
	}
}
