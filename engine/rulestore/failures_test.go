package rulestore

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// evaluated is an evaluation in a stream.
type evaluated struct {
	after  time.Duration // since the one before
	point  int64
	failed bool
	kind   Shape
}

// leaves runs a stream of evaluations, and returns after how many of them the branch wants to return; -1 for never.
func leaves(stream []evaluated, points int) int {
	f, now := newGuard(1).bundle("x").failures, time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	for i, e := range stream {
		if now = now.Add(e.after); !e.failed {
			f.used[e.point] = true
		} else if f.add(e.point, e.kind, now); f.leave(points, now) != "" {
			return i
		}
	}
	return -1
}

// Over random streams of evaluations: no till alone makes the branch return while others sell, failures that lie
// further apart than the window change nothing, and a rule that always fails is left within a bound.
func TestGuard_Failures(t *testing.T) {
	returned := 0
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.IntRange(1, 5).Draw(t, "points")
		good := rapid.IntRange(0, 10).Draw(t, "of ten that end well")
		stream := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) evaluated {
			return evaluated{time.Duration(rapid.IntRange(0, 30).Draw(t, "after")) * time.Second, rapid.Int64Range(1,
				int64(points)).Draw(t, "point"),
				rapid.IntRange(0, 9).Draw(t, "ends") >= good, Shape{rapid.Byte().Draw(t, "kind") % 4}}
		}), 0, 80).Draw(t, "stream")
		if at := leaves(stream, points); at >= 0 {
			returned++
			used, harmed, kinds, recent, age := map[int64]bool{}, map[int64]bool{}, map[Shape]bool{}, 0,
				time.Duration(0)
			for i := at; i >= 0; i-- {
				e := stream[i]
				used[e.point] = used[e.point] || !e.failed || age < failuresOf
				if e.failed && age < failuresOf {
					harmed[e.point], kinds[e.kind], recent = true, true, recent+1
				}
				age += e.after
			}
			if recent < mostFailures || len(used) > 1 && len(harmed) < 2 || len(used) == 1 && (len(kinds) < 2 ||
				points > 1 && recent < AloneHarms) {
				t.Fatalf("the branch returns after %d failures of %d kinds at %d of %d points of sale", recent,
					len(kinds), len(harmed), len(used))
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
		broken, alone := make([]evaluated, AloneHarms), make([]evaluated, AloneHarms)
		for i := range broken {
			broken[i] = evaluated{point: int64(1 + i%points), failed: true, kind: Shape{byte(i % 2)}}
			alone[i] = evaluated{point: 1, failed: true, kind: Shape{byte(i % 2)}}
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
