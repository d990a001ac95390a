package fleet_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
)

// powerCut is the panic value of a crash.
type powerCut struct{}

// survive is pass through power cuts: after each the box starts again.
func (w *world) survive(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		func() {
			defer func() {
				switch r := recover(); r {
				case nil:
				case powerCut{}:
					w.startAgain()
				default:
					panic(r)
				}
			}()
			w.pass(end.Sub(w.now))
		}()
	}
}

// startAgain starts until a start succeeds.
func (w *world) startAgain() {
	defer func() {
		switch r := recover(); r {
		case nil:
		case powerCut{}:
			w.startAgain()
		default:
			panic(r)
		}
	}()
	w.start()
}

// outcome is the result of a chain's months.
func (w *world) outcome() string {
	w.t.Helper()
	var out strings.Builder
	fmt.Fprintln(&out, "changes:", strings.Join(w.gate.Changes, ", "))
	fmt.Fprintln(&out, "acts:", strings.Join(w.acts(), ", "))
	s := w.status()
	fmt.Fprintf(&out, "status: version %d, epoch %d, replaced %v, settings %.8s, trouble %q, acts %d",
		s.Desired.Version, s.Epoch, s.Replaced, s.Settings, s.Desired.Trouble, s.Acts)
	if s.Rollout != nil {
		fmt.Fprintf(&out, ", %s %s", s.Rollout.Name, s.Rollout.Stage)
	}
	for _, r := range s.Rules {
		fmt.Fprintf(&out, ", %s %s %v", r.Name, r.Version, r.Live)
	}
	return out.String()
}

// months are the centre's orders for a branch, step by step, and events of the branch: a roll-out that becomes live,
// one that the gate refuses in part, one that is taken back, one with dates and settings, one that the branch leaves by
// itself, and another box.
func months(w *world) []func() {
	a := func(version string) fleetproto.Rule { return w.rule("a", version) }
	b1, bad, later := w.rule("b", "1.0.0"), w.rule("b", "1.0.1"), w.rule("b", "2.0.0", "2026-12-01")
	w.gate.Refuse = func(b *bundle.Bundle) string {
		if b.Manifest.Name == "b" && b.Manifest.Version == "1.0.1" {
			return "case 3 differs"
		}
		return ""
	}
	values, err := fleetproto.EncodeSettings(fleetproto.Settings{Footer: "hola"})
	if err != nil {
		w.t.Fatal(err)
	}
	settings := fleetproto.Digest(values)
	w.store.Put(fleetproto.SettingsKey(settings), values)
	return []func(){
		func() { w.enrol(1, w.box, director); w.live(a("1.0.0")) },
		func() { w.live(a("1.0.0"), b1) },
		func() { w.rollout("r1", a("1.0.1")) },
		func() { w.live(a("1.0.1"), b1); w.rollout("r2", a("1.0.2"), bad) },
		func() { w.live(a("1.0.1"), b1) },
		func() { w.rollout("r3", a("1.0.3")) },
		func() { w.live(a("1.0.1"), b1) }, // back
		func() {
			w.publish(func(d *fleetproto.Desired) {
				d.Rollout = &fleetproto.Rollout{Name: "r4", State: fleetproto.State{Rules: []fleetproto.Rule{later}},
					Share: fleetproto.Whole, Opened: w.now}
			})
		},
		func() { w.live(a("1.0.1"), later) },
		func() { w.publish(func(d *fleetproto.Desired) { d.Live.Settings = settings }) },
		func() { w.rollout("r5", a("1.0.5")) },
		func() { w.gate.Return(a("1.0.5").Digest, "MH refuses") },
		func() { w.enrol(2, signer("other", 4), director) },
	}
}

// play plays the months with one fault, and returns the outcome.
func play(t *testing.T, arm func(*world)) (*world, string) {
	t.Helper()
	w := newWorld(t)
	steps := months(w)
	arm(w)
	w.startAgain()
	for i, step := range steps {
		step()
		if i == len(steps)-1 {
			w.survive(4 * time.Minute)
		}
		w.survive(4 * time.Minute)
	}
	w.store.Fault, w.store.Seen, w.disk.Commit, w.gate.Commit, w.disk.Fail = nil, nil, nil, nil, nil
	w.survive(22 * time.Minute) // so that a status is written after everything
	return w, w.outcome()
}

// TestAgent_CrashEverywhere cuts the power before and after every write of the box and every request to the store; it
// loses, fails, repeats and makes stale every request, and makes every write fail. Whatever failed once, the branch
// ends with the desired state, the same changes were made once and in the same order, and each was reported to the
// centre once (P10, P11, P12).
func TestAgent_CrashEverywhere(t *testing.T) {
	requests, commits := 0, 0
	always := make(map[string]bool) // played in every run: acts, and requests around a change of the rules
	w, want := play(t, func(w *world) {
		w.store.Seen = func(r fleettest.Request, _ error) {
			requests = r.Number
			always[fmt.Sprint("request ", r.Number)] = r.Verb == "create"
		}
		w.disk.Commit = func(what string, _ bool) {
			if commits++; what != "save" {
				for n := commits - 1; n <= commits+2; n++ {
					always[fmt.Sprint("commit ", n)] = true
				}
			}
		}
		w.gate.Commit = w.disk.Commit
	})
	for _, say := range []string{"admit a 1.0.0, admit b 1.0.0, admit a 1.0.1, admit a 1.0.2, back to a 1.0.1, admit " +
		"a 1.0.3, back to a 1.0.1, admit b 2.0.0, admit a 1.0.5, return from a 1.0.5\n",
		"live a 1.0.0, live b 1.0.0, live a 1.0.1, refused b 1.0.1, live a 1.0.3, withdrawn a 1.0.3, admitted b " +
			"2.0.0, settings , live a 1.0.5, returned a 1.0.5, replaced \n",
		"version 12, epoch 1, replaced true"} {
		if !strings.Contains(want, say) {
			t.Fatalf("nothing went wrong, and it ends with\n%s\ninstead of %s", want, say)
		}
	}
	if !w.agent.Fence().Standing().Replaced {
		t.Error("the fence is open")
	}
	check := func(what string, arm func(*world)) {
		w, got := play(t, arm)
		if got != want {
			t.Errorf("%s:\n%s\ninstead of\n%s", what, got, want)
		}
		if !w.agent.Fence().Standing().Replaced {
			t.Errorf("%s: the fence is open", what)
		}
	}
	stride := 9
	switch {
	case os.Getenv("DTE_SOAK") == "1":
		stride = 1
	case testing.Short():
		stride = 11
	}
	t.Logf("%d requests, %d points around writes", requests, commits)
	for n := 1; n <= commits; n++ {
		if n%stride != 0 && !always[fmt.Sprint("commit ", n)] {
			continue
		}
		check(fmt.Sprintf("power cut at point %d of the writes", n), func(w *world) {
			at := 0
			w.disk.Commit = func(string, bool) {
				if at++; at == n {
					panic(powerCut{})
				}
			}
			w.gate.Commit = w.disk.Commit
		})
	}
	for n := 1; n <= commits/2; n += stride {
		check(fmt.Sprintf("write %d of the state fails", n), func(w *world) {
			saves := 0
			w.disk.Commit = func(_ string, done bool) {
				if done {
					saves++
					w.disk.Fail = nil
					if saves == n {
						w.disk.Fail = errFull
					}
				}
			}
			w.store.Seen = func(fleettest.Request, error) { w.disk.Fail = nil } // it fails until the next request
		})
	}
	for n := 1; n <= requests; n++ {
		if n%stride != 0 && !always[fmt.Sprint("request ", n)] {
			continue
		}
		for _, fault := range fleettest.Faults {
			check(fmt.Sprintf("request %d is %s", n, fault), func(w *world) {
				w.store.Fault = func(r fleettest.Request) fleettest.Fault {
					if r.Number == n {
						return fault
					}
					return fleettest.None
				}
			})
		}
		check(fmt.Sprintf("power cut before request %d", n), func(w *world) {
			w.store.Fault = func(r fleettest.Request) fleettest.Fault {
				if r.Number == n {
					panic(powerCut{})
				}
				return fleettest.None
			}
		})
		check(fmt.Sprintf("power cut behind request %d", n), func(w *world) {
			w.store.Seen = func(r fleettest.Request, _ error) {
				if r.Number == n {
					panic(powerCut{})
				}
			}
		})
	}
}

var errFull = errors.New("no space left on device")

// Two random faults together, and a store that is away for an hour from any moment on.
func TestAgent_CrashTwice(t *testing.T) {
	_, want := play(t, func(*world) {})
	rounds := 20
	if os.Getenv("DTE_SOAK") == "1" {
		rounds = 5000
	}
	for seed := range rounds {
		r := rnd(seed)
		first, second := 1+r.IntN(90), 1+r.IntN(90)
		_, got := play(t, func(w *world) {
			w.store.Fault = func(q fleettest.Request) fleettest.Fault {
				if q.Number == first || q.Number == second {
					if r.IntN(3) == 0 {
						panic(powerCut{})
					}
					return fleettest.Faults[r.IntN(len(fleettest.Faults))]
				}
				return fleettest.None
			}
			at, cut := 0, 1+r.IntN(150)
			w.disk.Commit = func(string, bool) {
				if at++; at == cut {
					panic(powerCut{})
				}
			}
			w.gate.Commit = w.disk.Commit
		})
		if got != want {
			t.Errorf("seed %d:\n%s\ninstead of\n%s", seed, got, want)
		}
	}
}
