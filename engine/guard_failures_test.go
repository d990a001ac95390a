package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/rules/bundletest"
)

// One till whose sales make a rule fail does not undo a push, of however many kinds they are; each is computed by the bundle
// before. Two tills' failures do, and so do those of a till that sells alone.
func TestGuard_OneTillFails(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	s := w.shelf(shipped(t))
	s.o.Points = 2
	// It refuses sales of seven lines, and fails in all others.
	bad := push(t, s, edition(t, "2.1.7", bundletest.Small(t, "dte01/v2", bundletest.Trap)))
	fails := func(point, lines int) {
		t.Helper()
		if r := w.at(point, 1130, lines, dte.Null()); r.Estado != record.EstadoProcessed || r.Rule.Version != "2.1.0" {
			t.Fatalf("%s by %+v", r.Estado, r.Rule)
		}
	}
	asked := func() bool { return len(s.guard.returns) > 0 || s.Book().Compiled(bad.Rule.Digest).Suspended() }
	other := sale("", 1130)
	line := other.Facts.Get("cuerpoDocumento").Index(0)
	other.Facts, other.Caller = other.Facts.With("cuerpoDocumento", dte.Arr(line, line, line, line, line, line, line)), testCaller(2)
	if _, err := w.engine.Issue(t.Context(), other); err == nil {
		t.Fatal("a sale of seven lines is not refused")
	}
	for i := range 30 {
		fails(1, 1+i%5)
	}
	if asked() {
		t.Fatal("one till made the branch return")
	}
	fails(2, 1)
	if !asked() {
		t.Error("two tills' failures do not make the branch return")
	}
	s.giveUp(t.Context(), <-s.guard.returns)
	if got := s.List().Return; got == nil || got.To.Version != "2.1.0" {
		t.Errorf("%+v", got)
	}
}

// evaluated is an evaluation in a stream.
type evaluated struct {
	after  time.Duration // since the one before
	point  int64
	failed bool
	kind   shape
}

// leaves runs a stream of evaluations, and returns after how many the branch wants to return; -1 for never.
func leaves(stream []evaluated, points int) int {
	f, now := newFailures(), start
	for i, e := range stream {
		if now = now.Add(e.after); !e.failed {
			f.used[e.point] = true
		} else if f.add(e.point, e.kind, now); f.leave(points, now) != "" {
			return i
		}
	}
	return -1
}

// Over random streams of evaluations: no till alone makes the branch return while others sell, failures that lie further apart
// than the window change nothing, and a rule that always fails is left within a bound.
func TestGuard_Failures(t *testing.T) {
	returned := 0
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.IntRange(1, 5).Draw(t, "points")
		good := rapid.IntRange(0, 10).Draw(t, "of ten that end well")
		stream := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) evaluated {
			return evaluated{time.Duration(rapid.IntRange(0, 30).Draw(t, "after")) * time.Second, rapid.Int64Range(1, int64(points)).Draw(t, "point"),
				rapid.IntRange(0, 9).Draw(t, "ends") >= good, shape{rapid.Byte().Draw(t, "kind") % 4}}
		}), 0, 80).Draw(t, "stream")
		if at := leaves(stream, points); at >= 0 {
			returned++
			used, harmed, kinds, recent, age := map[int64]bool{}, map[int64]bool{}, map[shape]bool{}, 0, time.Duration(0)
			for i := at; i >= 0; i-- {
				e := stream[i]
				used[e.point] = used[e.point] || !e.failed || age < failuresOf
				if e.failed && age < failuresOf {
					harmed[e.point], kinds[e.kind], recent = true, true, recent+1
				}
				age += e.after
			}
			if recent < mostFailures || len(used) > 1 && len(harmed) < 2 || len(used) == 1 && (len(kinds) < 2 || points > 1 && recent < aloneHarms) {
				t.Fatalf("the branch returns after %d failures of %d kinds at %d of %d points of sale", recent, len(kinds), len(harmed), len(used))
			}
		}
		// The attack: one till, whatever it sends, beside another that sells.
		attacker := rapid.Int64Range(1, int64(points)).Draw(t, "attacker")
		attack := []evaluated{{point: attacker + 1}}
		for _, e := range stream {
			if e.point == attacker || !e.failed {
				attack = append(attack, e)
			}
		}
		if points > 1 && leaves(attack, points) >= 0 {
			t.Fatal("one till undid the push")
		}
		rare := make([]evaluated, len(stream))
		for i, e := range stream {
			e.after = failuresOf
			rare[i] = e
		}
		if leaves(rare, points) >= 0 {
			t.Fatal("failures that lie a minute apart made the branch return")
		}
		// The broken rule: every sale fails, at all points of sale in turn, or at one alone.
		broken, alone := make([]evaluated, aloneHarms), make([]evaluated, aloneHarms)
		for i := range broken {
			broken[i] = evaluated{point: int64(1 + i%points), failed: true, kind: shape{byte(i % 2)}}
			alone[i] = evaluated{point: 1, failed: true, kind: shape{byte(i % 2)}}
		}
		if n := leaves(broken, points); n != mostFailures-1 {
			t.Fatalf("a broken rule is left after %d failures", n+1)
		}
		if n := leaves(alone, points); n < 0 {
			t.Fatal("a broken rule is not left where one point of sale alone sells")
		}
	})
	if returned == 0 && !testing.Short() {
		t.Error("no stream made the branch return: the property says nothing")
	}
}
