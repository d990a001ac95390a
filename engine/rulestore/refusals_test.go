package rulestore

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dtegate/engine/record"
)

// decision runs a stream of verdicts over a bundle and the previous one, and returns after how many of the bundle's own
// verdicts the branch wants to return; -1 for never.
func decision(before, after []Verdict, points int) int {
	was, now := newTally(), newTally()
	for _, v := range before {
		was.count(v)
	}
	for i, v := range after {
		if now.count(v) && !v.Accepted && now.leave(was, points) != "" {
			return i
		}
	}
	return -1
}

func verdicts(t *rapid.T, name string, points int) []Verdict {
	good := rapid.IntRange(0, 10).Draw(t, name+": of ten accepted")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Verdict {
		v := Verdict{Point: rapid.Int64Range(1, int64(points)).Draw(t, "point"), Accepted: rapid.IntRange(0, 9).Draw(t,
			"accepted") < good}
		if !v.Accepted {
			v.Cause, v.Shape = rapid.SampledFrom([]string{CauseRule, CauseRequest, CauseUnclear}).Draw(t, "cause"),
				Shape{rapid.Byte().Draw(t, "shape") % 4}
		}
		return v
	}), 0, 120).Draw(t, name)
}

func filter(list []Verdict, keep func(Verdict) bool) (kept []Verdict) {
	for _, v := range list {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// Over random streams of what MH decides: no till alone makes the branch return while others sell, verdicts that no
// rule can have caused change nothing, and a rule whose every document is refused is left within a bound.
func TestGuard_Streams(t *testing.T) {
	returned := 0
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.IntRange(1, 5).Draw(t, "points")
		before, after := verdicts(t, "before", points), verdicts(t, "after", points)
		if rapid.Bool().Draw(t, "a good rule before") {
			before = filter(before, func(v Verdict) bool { return v.Accepted })
		}
		if rapid.Bool().Draw(t, "a bad rule after") {
			before = filter(before, func(v Verdict) bool { return v.Accepted })
			for i := range 2 * AloneHarms {
				after = append(after, Verdict{Point: int64(1 + i%points), Cause: CauseRule, Shape: Shape{byte(i % 2)}})
			}
		}
		counts := func(v Verdict) bool { return v.Accepted || v.Cause == CauseRule }
		at := decision(before, after, points)
		short := decision(filter(before, counts), filter(after, counts), points)
		if (at < 0) != (short < 0) || at >= 0 && len(filter(after[:at], counts)) != short {
			t.Fatalf("refusals that no rule causes moved the return from %d to %d", short, at)
		}
		if at >= 0 {
			returned++
			sold, refusing, refused := map[int64]bool{}, map[int64]bool{}, 0
			for _, v := range filter(after[:at+1], counts) {
				sold[v.Point] = true
				if !v.Accepted {
					refusing[v.Point] = true
					refused++
				}
			}
			if refused < MostRefused || len(sold) > 1 && len(refusing) < 2 || len(sold) == 1 && points > 1 &&
				refused < AloneHarms {
				t.Fatalf("the branch returns after %d refusals at %d of %d points of sale", refused, len(refusing),
					len(sold))
			}
		}
		// The attack: one till, whatever it does, beside others that sell.
		attacker := rapid.Int64Range(1, int64(points)).Draw(t, "attacker")
		others := false
		attack := filter(after, func(v Verdict) bool {
			others = others || v.Point != attacker
			return v.Point == attacker || v.Accepted
		})
		first := []Verdict{{Point: attacker + 1, Accepted: true}}
		if points > 1 && others && decision(before, append(first, attack...), points) >= 0 {
			t.Fatal("one till undid the push")
		}
		// The wrong rule: every document is refused, at all points of sale in turn.
		wrong := make([]Verdict, 2*AloneHarms)
		for i := range wrong {
			wrong[i] = Verdict{Point: int64(1 + i%points), Cause: CauseRule, Shape: Shape{byte(i % 2)}}
		}
		good := filter(before, func(v Verdict) bool { return v.Accepted })
		if n := decision(good, wrong, points); n != MostRefused-1 {
			t.Fatalf("a wrong rule is left after %d refusals", n+1)
		}
		alone := filter(wrong, func(v Verdict) bool { return v.Point == 1 })
		for len(alone) < AloneHarms {
			alone = append(alone, Verdict{Point: 1, Cause: CauseRule, Shape: Shape{byte(len(alone) % 2)}})
		}
		for i := range alone {
			alone[i].Shape = Shape{byte(i % 2)}
		}
		if n := decision(good, alone, points); n < 0 || n >= AloneHarms {
			t.Fatalf("a wrong rule, where one point of sale alone sells, is left after %d refusals", n+1)
		}
	})
	if returned == 0 && !testing.Short() {
		t.Error("no stream made the branch return: the property says nothing")
	}
}

// TestGuard_Bounds: the branch leaves a bundle at exactly the decision that its bounds name, not before.
func TestGuard_Bounds(t *testing.T) {
	// many returns decisions at two points of sale, of which the given number are refused.
	many := func(refused, accepted int) *tally {
		tally := newTally()
		for i := range refused + accepted {
			tally.count(Verdict{Point: int64(i % 2), Accepted: i >= refused, Cause: CauseRule, Shape: Shape{byte(i)}})
		}
		return tally
	}
	for name, c := range map[string]struct {
		before, now *tally
		leave       bool
	}{
		"four refused":                           {nil, many(MostRefused-1, 0), false},
		"five refused":                           {nil, many(MostRefused, 0), true},
		"half of them":                           {nil, many(MostRefused, MostRefused), true},
		"less than half":                         {nil, many(MostRefused, MostRefused+1), false},
		"few before: half of them":               {many(0, EnoughBefore-1), many(MostRefused, MostRefused+1), false},
		"enough before, none refused":            {many(0, EnoughBefore), many(MostRefused, 90), true},
		"three times the ratio before":           {many(1, EnoughBefore-1), many(6, 34), false},
		"more than three times the ratio before": {many(1, EnoughBefore-1), many(6, 33), true},
	} {
		if why := c.now.leave(c.before, 2); (why != "") != c.leave {
			t.Errorf("%s: %q", name, why)
		}
	}
	alone := newTally()
	for i := range MostRefused {
		alone.count(Verdict{Point: 1, Cause: CauseRule, Shape: Shape{byte(i)}})
	}
	alone.count(Verdict{Point: 2, Accepted: true})
	if why := alone.leave(nil, 2); why != "" {
		t.Errorf("one till alone, beside another that sells: %s", why)
	}
}

// TestGuard_AsksOnce: the guard asks for a return once; again after the return could not be made, and again from zero
// after the bundle was put back.
func TestGuard_AsksOnce(t *testing.T) {
	g, r, now := newGuard(2), &Rule{Ref: record.RuleRef{Digest: "d"}}, time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	fail := func(times int) (asked int) {
		for i := range times {
			g.Failed(r, int64(i%2), Shape{byte(i)}, errors.New("it traps"), now)
		}
		asked = len(g.wanted)
		for range asked {
			<-g.wanted
		}
		return asked
	}
	steps := []struct {
		what  string
		do    func()
		times int
		want  int
	}{
		{"two fail", func() {}, mostFailures - 1, 0},
		{"the third", func() {}, 1, 1},
		{"more", func() {}, 5, 0},
		{"the return was not made", func() { g.NotMade("d") }, 1, 1},
		{"put back: two fail", func() { g.Forgive("d") }, mostFailures - 1, 0},
		{"and the third", func() {}, 1, 1},
		{"nobody has taken the requests before", func() {
			g.NotMade("d")
			for range cap(g.wanted) {
				g.wanted <- Return{Digest: "another"}
			}
		}, 1, cap(g.wanted)},
		{"they are taken", func() {}, 1, 1},
		{"a minute later", func() { g.NotMade("d"); now = now.Add(failuresOf) }, mostFailures - 1, 0},
		{"within the minute", func() { now = now.Add(failuresOf - 1) }, 1, 1},
	}
	for _, s := range steps {
		s.do()
		if asked := fail(s.times); asked != s.want {
			t.Errorf("%s: asked for %d returns, want %d", s.what, asked, s.want)
		}
	}
	if !r.Suspended() {
		t.Error("sales still use the bundle")
	}
}
