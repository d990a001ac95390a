package rulestore

import (
	"testing"

	"pgregory.net/rapid"
)

// decision runs a stream of verdicts over a bundle and the one before it, and returns after how many of the bundle's own
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
		v := Verdict{Point: rapid.Int64Range(1, int64(points)).Draw(t, "point"), Accepted: rapid.IntRange(0, 9).Draw(t, "accepted") < good}
		if !v.Accepted {
			v.Cause, v.Shape = rapid.SampledFrom([]string{CauseRule, CauseRequest, CauseUnclear}).Draw(t, "cause"), Shape{rapid.Byte().Draw(t, "shape") % 4}
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

// Over random streams of what MH decides: no till alone makes the branch return while others sell, what no rule can have
// caused changes nothing, and a rule whose every document is refused is left within a bound.
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
			if refused < MostRefused || len(sold) > 1 && len(refusing) < 2 || len(sold) == 1 && points > 1 && refused < AloneHarms {
				t.Fatalf("the branch returns after %d refusals at %d of %d points of sale", refused, len(refusing), len(sold))
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
