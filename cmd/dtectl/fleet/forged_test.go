package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/signed"
)

// forge puts a version that looks like the director's, but that the director did not sign, on top of a group.
func (w *world) forge(live fleetproto.State) {
	w.t.Helper()
	h := w.head()
	d := *h.Desired
	d.Version, d.Previous, d.Live, d.Reason = h.Last.Version+1, h.Last.Digest, live, "as ana wished"
	d.Rollout = &fleetproto.Rollout{Name: "r9", State: live, Opened: w.now, Share: fleetproto.Whole}
	payload, err := json.Marshal(&d)
	w.must(err)
	text, err := signed.Sign(payload, fleetproto.Signer{ID: directorID, Private: key("somebody")})
	w.must(err)
	w.must(w.store.Create(w.t.Context(), fleetproto.DesiredKey("tiendas", d.Version), []byte(text)))
}

// TestBack_Forged: an object that the director did not sign, between two of the director's versions, is neither what
// back goes back to nor what the log shows as an order, and does not stop back.
func TestBack_Forged(t *testing.T) {
	for name, put := range map[string]func(w *world){
		"forged": func(w *world) {
			evil := w.head().Live
			evil.Rules = slices.Clone(evil.Rules)
			evil.Settings = fleetproto.Digest([]byte("evil"))
			w.forge(evil)
		},
		"junk": func(w *world) {
			w.must(w.store.Create(t.Context(), fleetproto.DesiredKey("tiendas", w.head().Version+1), []byte("x")))
		},
	} {
		w := newWorld(t, "centro")
		all := Percent(fleetproto.Whole)
		for _, version := range []string{"1.0.0", "1.1.0"} {
			w.must(w.publish(Publish{Files: []string{w.bundle(version, w.rules)}, Share: &all}))
			w.obey()
			if version == "1.1.0" {
				put(w)
			}
			w.now = w.now.Add(2 * time.Hour)
			w.obey()
			w.must(w.roll())
		}
		before, err := w.chain.Version(t.Context(), "tiendas", 2)
		w.must(err)
		events, err := w.chain.orders(t.Context(), w.now.AddDate(0, 0, -1))
		w.must(err)
		for _, e := range events {
			if strings.Contains(e.Detail, "as ana wished") && e.Fault == "" {
				t.Errorf("%s: the log believes %+v", name, e)
			}
		}
		err = (&Back{}).Run(t.Context(), w.chain)
		if h := w.head(); err != nil || fmt.Sprint(h.Live) != fmt.Sprint(before.Live) {
			t.Errorf("%s: back: %v: %+v, not %+v", name, err, h.Live, before.Live)
		}
	}
}

// TestRoll_EmptyRing: a ring without a branch opens no ring of several branches that nobody has tried.
func TestRoll_EmptyRing(t *testing.T) {
	w := newWorld(t, "a", "b", "c", "d", "e", "f")
	for n := range 12 {
		w.must(w.publish(Publish{Files: []string{w.bundle(fmt.Sprintf("1.%d.0", n), w.rules)}, Soak: time.Hour}))
		for range 8 {
			r := w.head().Rollout
			if r == nil {
				break
			}
			ring := 0
			for _, b := range w.boxes {
				if r.InRing(b.status.Branch) {
					ring++
				}
			}
			if took := w.survey().Measure(r, "tiendas"); ring > 1 && took.Succeeded == 0 {
				t.Errorf("%s: %d of 6 branches take it at once, and none has tried it", r.Name, ring)
			}
			if ring > 0 {
				w.obey()
				w.now = w.now.Add(2 * time.Hour)
				w.obey()
			}
			w.must(w.roll())
		}
	}
}

// TestSurvey_ManyGroups: groups that somebody with the store's credentials names hide no group of the chain.
func TestSurvey_ManyGroups(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	for n := range maxGroups + 1 {
		w.must(w.store.Create(t.Context(), fleetproto.DesiredKey(fmt.Sprintf("a%d", n), 1), []byte("x")))
	}
	for _, cache := range []string{w.chain.Cache, w.at("other")} {
		w.chain.Cache = cache
		if s := w.survey(); s.Desired("tiendas") == nil {
			t.Errorf("the group is hidden: %q", s.Faults[:1])
		}
	}
}

// TestSurvey_StoreClock: a store whose clock is behind does not make a dead branch look alive.
func TestSurvey_StoreClock(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.survey()
	right := w.chain.Now
	w.chain.Now = func() time.Time { return right().AddDate(0, 0, 30) } // the store's clock stands still
	w.box("norte").status.At = w.chain.Now()
	w.box("norte").report()
	if s := w.survey(); s.Counts().Selling > 1 && len(s.Faults) == 0 {
		t.Errorf("nobody says that a clock is wrong: %s", w.text())
	}
}

// TestStatus_Names: a branch or a group that does not exist is neither accepted, shown nor waited for in silence.
func TestStatus_Names(t *testing.T) {
	w := newWorld(t, "centro")
	for _, c := range []interface {
		Run(context.Context, *Chain) error
	}{
		&Status{Accept: []string{"cento"}}, &Status{Branches: []string{"centro", "cento"}}, &Status{Group: "cento"},
		&Log{Branches: []string{"cento"}},
	} {
		if err := c.Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(), "cento") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	w.must((&Status{Branches: []string{"centro"}, Group: "tiendas"}).Run(t.Context(), w.chain))
	w.must((&Log{Branches: []string{"centro"}}).Run(t.Context(), w.chain))
}

// endless lists without an end.
type endless struct{ fleetproto.Lister }

func (e endless) List(ctx context.Context, prefix string) iter.Seq2[archive.Object, error] {
	return func(yield func(archive.Object, error) bool) {
		for n := 0; ctx.Err() == nil; n++ {
			time.Sleep(time.Second)
			if !yield(archive.Object{Key: fmt.Sprintf("%sx/%d", prefix, n)}, nil) {
				return
			}
		}
		yield(archive.Object{}, ctx.Err())
	}
}

// TestLists_Endless: no verb reads a list without an end for ever.
func TestLists_Endless(t *testing.T) {
	w := newWorld(t, "centro")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		chain := *w.chain
		chain.Store = endless{w.store}
		_, err := (&Log{}).events(t.Context(), &chain)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		err = (&Rekey{DryRun: true}).run(t.Context(), &chain, chain.Director)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Hour {
			t.Errorf("the lists are read for %s", took)
		}
	})
}

// counted counts what a list yields.
type counted struct {
	fleetproto.Lister
	listed *int
}

func (c counted) List(ctx context.Context, prefix string) iter.Seq2[archive.Object, error] {
	return c.ListAfter(ctx, prefix, "")
}

func (c counted) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[archive.Object, error] {
	return func(yield func(archive.Object, error) bool) {
		for e, err := range c.Lister.ListAfter(ctx, prefix, after) {
			if *c.listed++; !yield(e, err) {
				return
			}
		}
	}
}

// TestSurvey_FilledFolders: whoever has a branch's credentials fills the folders of its statuses and acts. A survey
// does not read all of it, and sees every other branch.
func TestSurvey_FilledFolders(t *testing.T) {
	w, n := newWorld(t, "centro", "centro-2", "norte"), 0
	for i := range 5 * maxObjects {
		w.store.Put(fmt.Sprintf("%scentro/0-%06d%s", fleetproto.StatusFolder, i, strings.Repeat("/x", i%2)), nil)
		w.store.Put(fmt.Sprintf("%scentro/000000000001.jws-%d", fleetproto.ActsFolder, i), nil)
	}
	for _, b := range w.boxes {
		b.act(1, fleetproto.ActLive, "")
		b.act(2, fleetproto.ActLive, "")
		b.status.Acts = 2
		b.report()
	}
	w.chain.Store = counted{w.store, &n}
	s := w.survey()
	if counts := s.Counts(); n > 3*maxObjects || counts.Selling < 2 || len(s.Faults) != 1 {
		t.Errorf("%d objects are listed: %+v %q", n, counts, s.Faults)
	}
	for _, b := range s.Branches {
		if b.has("acts") || b.Name != "centro" && b.Level() > Fine {
			t.Errorf("%s: %v", b.Name, b.words())
		}
	}
}

// TestBack_Mended: versions that mend what the store lost make back go neither to a stranger's state, nor, once the
// store has lost what came since, to what was desired long before.
func TestBack_Mended(t *testing.T) {
	for name, harm := range map[string]func(w *world, live func(version string, put ...string)){
		// A box claims a version that does not exist: the centre fills its place, above a stranger's object.
		"filled": func(w *world, live func(version string, put ...string)) {
			live("1.1.0")
			evil := w.head().Live
			evil.Settings = fleetproto.Digest([]byte("evil"))
			w.forge(evil)
			w.box("norte").status.Desired = fleetproto.Reached{Version: w.head().Version + 4,
				Digest: fleetproto.Digest([]byte("a lie"))}
			w.box("norte").report()
			w.must(w.roll())
		},
		// Long ago a version mended what lay under a stranger's object.
		"overwritten": func(w *world, live func(version string, put ...string)) {
			live("1.1.0", "x")
			live("1.2.0")
			live("1.3.0")
			for n := int64(4); n < w.head().Version; n++ {
				w.must(w.store.Overwrite(t.Context(), fleetproto.DesiredKey("tiendas", n), []byte("y")))
			}
		},
		// A stranger's object lay below the last order, and is gone.
		"gone": func(w *world, live func(version string, put ...string)) {
			live("1.1.0", "x")
			w.store.Lose(fleetproto.DesiredKey("tiendas", w.head().Version-1))
		},
		"gone, long after another": func(w *world, live func(version string, put ...string)) {
			live("1.1.0", "x")
			live("1.2.0")
			live("1.3.0", "x", "y")
			w.must(w.store.Overwrite(t.Context(), fleetproto.DesiredKey("tiendas", w.head().Version-1), []byte("z")))
		},
	} {
		w := newWorld(t, "centro", "norte")
		var states []string
		live := func(version string, put ...string) {
			all := Percent(fleetproto.Whole)
			w.must(w.publish(Publish{Files: []string{w.bundle(version, w.rules)}, Share: &all}))
			w.obey()
			for _, junk := range put {
				w.must(w.store.Create(t.Context(), fleetproto.DesiredKey("tiendas", w.head().Last.Version+1), []byte(junk)))
			}
			w.now = w.now.Add(2 * time.Hour)
			w.obey()
			w.must(w.roll())
			states = append(states, fmt.Sprint(w.head().Live))
		}
		live("1.0.0")
		harm(w, live)
		other := *w.chain // a centre that kept nothing cannot know, and goes nowhere
		other.Cache = w.at("other")
		if _, err := (&Back{}).liveBefore(t.Context(), &other, w.head()); (err == nil) != (name != "overwritten") {
			t.Errorf("%s, without the centre's copies: %v", name, err)
		}
		w.must((&Back{}).Run(t.Context(), w.chain))
		if got := fmt.Sprint(w.head().Live); got != states[len(states)-2] {
			t.Errorf("%s: back: %s, of %q", name, got, states)
		}
	}
}
