package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

// A thief with only the store's credentials brings no rule, no version and no box into the chain.
func TestAgent_Forged(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
	w.enrol(1, w.box, director)
	w.live(first)
	w.start()
	w.pass(2 * time.Minute)
	for name, forge := range map[string]func() (back func()){
		"a version of another key": func() func() {
			d := *w.last
			d.Version, d.Previous = 2, fleetproto.Digest(w.data)
			data, err := chain.Seal(&d, thief)
			if err != nil {
				t.Fatal(err)
			}
			w.store.Put(fleetproto.DesiredKey(w.group, 2), data)
			return func() { w.store.Lose(fleetproto.DesiredKey(w.group, 2)) }
		},
		"a version of before": func() func() {
			w.store.Put(fleetproto.DesiredKey(w.group, 2), w.data)
			return func() { w.store.Lose(fleetproto.DesiredKey(w.group, 2)) }
		},
		"a version behind another past": func() func() {
			d := *w.last
			d.Version, d.Previous = 2, fleetproto.Digest(nil)
			data, err := chain.Seal(&d, director)
			if err != nil {
				t.Fatal(err)
			}
			w.store.Put(fleetproto.DesiredKey(w.group, 2), data)
			return func() { w.store.Lose(fleetproto.DesiredKey(w.group, 2)) }
		},
		"another box": func() func() {
			w.enrol(2, thief, thief)
			return func() { w.store.Lose(fleetproto.BoxKey("centro", 2)) }
		},
		"no object at all": func() func() {
			w.store.Put(fleetproto.DesiredKey(w.group, 2), []byte("{"))
			return func() { w.store.Lose(fleetproto.DesiredKey(w.group, 2)) }
		},
	} {
		back := forge()
		w.pass(16 * time.Minute)
		s := w.status()
		if s.Desired.Version != 1 || s.Desired.Trouble == "" || s.Replaced || w.agent.Fence().Standing().Replaced {
			t.Errorf("%s: %+v", name, s)
		}
		back()
		w.pass(16 * time.Minute)
		if s := w.status(); s.Desired.Trouble != "" {
			t.Errorf("%s: behind it: %s", name, s.Desired.Trouble)
		}
	}
	same(t, "changes", w.gate.Changes, "admit catalogos 1.0.0")
	// A file that was exchanged in the store, and a file that is another bundle than the director named.
	data, r := file(t, "catalogos", "1.0.2", author, "2026-01-01")
	w.store.Put(fleetproto.RuleKey(second.File), data)
	w.rollout("r1", second)
	w.pass(16 * time.Minute)
	if s := w.status(); !strings.Contains(s.Desired.Trouble, "digest") || w.where(second)+w.where(r) != "" {
		t.Errorf("%+v", s.Desired)
	}
}

// A stolen director's key brings no bundle that the rules' keys did not sign, none below the floor, and none under
// another name.
func TestAgent_StolenDirector(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("catalogos", "1.0.1"), w.rule("catalogos", "1.0.2")
	w.live(first)
	w.start()
	w.pass(2 * time.Minute)
	unsigned, u := file(t, "catalogos", "9.0.0", thief, "2026-01-01")
	w.store.Put(fleetproto.RuleKey(u.File), unsigned)
	older := w.rule("catalogos", "1.0.0")
	named := second
	named.Version = "7.0.0"
	for i, r := range []fleetproto.Rule{u, older, named} {
		w.rollout("r"+string(rune('1'+i)), r)
		w.pass(16 * time.Minute)
		if got := w.stage(); got != fleetproto.StageRefused {
			t.Errorf("%+v: %s", r, got)
		}
		w.live(r)
		w.pass(16 * time.Minute)
		if trouble := w.status().Desired.Trouble; trouble == "" {
			t.Errorf("%+v: no trouble", r)
		}
		w.live(first)
		w.pass(16 * time.Minute)
	}
	same(t, "changes", w.gate.Changes, "admit catalogos 1.0.1")
}

// A stolen key of a box gives no box anything, and writes no status of another branch. In its own branch it can lie: in
// statuses until the next one, and in acts, after which the true box continues.
func TestAgent_StolenBox(t *testing.T) {
	w := newWorld(t)
	rule := w.rule("catalogos", "1.0.0")
	w.enrol(1, w.box, director)
	w.live(rule)
	w.start()
	w.pass(2 * time.Minute)

	d := *w.last
	d.Version, d.Previous, d.Live = 2, fleetproto.Digest(w.data), fleetproto.State{}
	data, err := chain.Seal(&d, w.box)
	if err != nil {
		t.Fatal(err)
	}
	w.store.Put(fleetproto.DesiredKey(w.group, 2), data)
	w.enrol(2, thief, w.box)
	w.pass(16 * time.Minute)
	if s := w.status(); s.Desired.Version != 1 || s.Desired.Trouble == "" || s.Replaced {
		t.Errorf("%+v", s)
	}
	w.store.Lose(fleetproto.DesiredKey(w.group, 2))
	w.store.Lose(fleetproto.BoxKey("centro", 2))

	other := *w.status()
	other.Branch = "norte"
	if data, err = chain.Seal(&other, w.box); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.OpenStatus(data, "norte", 1, public(signer("norte", 6))); !errors.Is(err,
		fleetproto.ErrSignature) {
		t.Errorf("a status of another branch: %v", err)
	}
	act := fleetproto.Act{Branch: "centro", Epoch: 1, Number: 2, At: w.now, What: fleetproto.ActReturned,
		Rule: "catalogos 1.0.0"}
	if data, err = chain.Seal(&act, w.box); err != nil {
		t.Fatal(err)
	}
	w.store.Put(fleetproto.ActKey("centro", 2), data)
	w.live(w.rule("catalogos", "1.0.1"))
	w.pass(16 * time.Minute)
	same(t, "acts", w.acts(), "live catalogos 1.0.0", "returned catalogos 1.0.0", "live catalogos 1.0.1")
	same(t, "changes", w.gate.Changes, "admit catalogos 1.0.0", "admit catalogos 1.0.1")
}

// TestAgent_StolenActs: a thief of a box's key writes the last act that there may be. With another key, and a person's
// word about the theft, the box's acts go on where the true ones ended.
func TestAgent_StolenActs(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.live(w.rule("catalogos", "1.0.0"))
	w.start()
	w.pass(20 * time.Minute)
	s := w.status()
	s.Sequence, s.Acts = s.Sequence+100, 1_000_000_000_000
	put := func(key string, object fleetproto.Signed) {
		data, err := chain.Seal(object, w.box)
		if err != nil {
			t.Fatal(err)
		}
		w.store.Put(key, data)
	}
	put(fleetproto.StatusKey("centro", 1), s)
	put(fleetproto.ActKey("centro", s.Acts), &fleetproto.Act{Branch: "centro", Epoch: 1, Number: s.Acts, At: w.now,
		What: fleetproto.ActReplaced})
	w.start()
	w.live(w.rule("catalogos", "1.0.1"))
	w.pass(20 * time.Minute)
	w.box = signer("next", 5)
	w.start()
	w.pass(20 * time.Minute)
	w.enrolAs(w.box, director, 2, func(e *fleetproto.Enrolment) { e.Stolen = true })
	w.pass(20 * time.Minute)
	if s := w.status(); s.Desired.Trouble != "" || s.Acts == 0 || w.store.Held(fleetproto.ActKey("centro", s.Acts)) == nil {
		t.Errorf("%+v", s)
	}
}

// endless is a store that has an object of every version, and another act at every number.
type endless struct {
	*fleettest.Store
	asked, created *int
}

func (e endless) Create(ctx context.Context, key string, data []byte) error {
	if strings.Contains(key, "/acts/") && *e.created < 10_000 { // then the test has failed
		*e.created++
		return archive.ErrExists
	}
	return e.Store.Create(ctx, key, data)
}

func (e endless) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	if strings.Contains(key, "/acts/") {
		return archive.Held{Data: []byte("another")}, nil
	}
	if strings.Contains(key, "/desired/") && *e.asked < 100_000 { // then the test has failed
		*e.asked++
		return archive.Held{Data: []byte("nothing")}, nil
	}
	return e.Store.Fetch(ctx, key, limit)
}

// A store that has an object of every version does not block the agent: it continues to read its enrolment and to
// report.
func TestAgent_VersionsWithoutEnd(t *testing.T) {
	w, asked, created := newWorld(t), 0, 0
	w.start()
	w.enrol(1, w.box, director)
	w.pass(10 * time.Minute)
	w.enrol(2, thief, director) // an act: the box is replaced
	o := *w.options()
	o.Store = endless{w.store, &asked, &created}
	agent, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for end := w.now.Add(5 * time.Minute); w.now.Before(end); {
		w.now = w.now.Add(agent.Step(t.Context()))
	}
	if asked == 0 || asked >= 100_000 || created == 0 || created >= 10_000 {
		t.Errorf("%d versions were asked for, %d acts tried", asked, created)
	}
}

// slow is an endless store of which one folder takes long to answer; it notes when the box looked whose the branch is.
type slow struct {
	endless
	w      *world
	folder string
	takes  time.Duration
	looks  *[]time.Time
}

func (s slow) Create(ctx context.Context, key string, data []byte) error {
	if strings.Contains(key, s.folder) {
		s.w.now = s.w.now.Add(s.takes)
	}
	return s.endless.Create(ctx, key, data)
}

func (s slow) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	if strings.HasPrefix(key, fleetproto.BoxesFolder) {
		*s.looks = append(*s.looks, s.w.now)
	}
	if strings.Contains(key, s.folder) {
		s.w.now = s.w.now.Add(s.takes)
		if s.folder == "/rules/" {
			return archive.Held{}, fleettest.ErrFault
		}
		return s.endless.Fetch(ctx, key, limit)
	}
	return s.Store.Fetch(ctx, key, limit)
}

// TestAgent_SlowStore: however slowly a store answers, whatever it answers, the box looks every few minutes whether
// another box has the branch.
func TestAgent_SlowStore(t *testing.T) {
	for folder, takes := range map[string]time.Duration{"/rules/": 4 * time.Minute, "/desired/": 19 * time.Second,
		"/acts/": 19 * time.Second} {
		w, asked, created := newWorld(t), 0, 0
		var looks []time.Time
		w.enrol(1, w.box, director)
		var rules []fleetproto.Rule
		for n := range 8 {
			rules = append(rules, w.rule(fmt.Sprintf("catalogos-%d", n), "1.0.0"))
		}
		w.live(rules...)
		if folder == "/acts/" {
			w.start()
			w.pass(10 * time.Minute)
			w.enrol(2, thief, director) // an act
		}
		o := *w.options()
		o.Store = slow{endless{w.store, &asked, &created}, w, folder, takes, &looks}
		agent, err := fleet.New(o)
		if err != nil {
			t.Fatal(err)
		}
		for end := w.now.Add(2 * time.Hour); w.now.Before(end); {
			w.now = w.now.Add(agent.Step(t.Context()))
		}
		for i := 1; i < len(looks); i++ {
			if gap := looks[i].Sub(looks[i-1]); gap > 13*time.Minute {
				t.Errorf("%s: no look for %s", folder, gap)
			}
		}
		if len(looks) < 10 {
			t.Errorf("%s: %d looks in two hours", folder, len(looks))
		}
	}
}

// TestAgent_LargeStatus: an object that is larger than a status, in the place of its last one, does not keep a box
// without a state from reporting.
func TestAgent_LargeStatus(t *testing.T) {
	w := newWorld(t)
	w.store.Put(fleetproto.StatusKey("centro", 1), make([]byte, fleetproto.MaxJWS+1))
	w.enrol(1, w.box, director)
	w.start()
	w.pass(20 * time.Minute)
	if s := w.status(); s.Epoch != 1 || !s.Ready {
		t.Errorf("%+v", s)
	}
}
