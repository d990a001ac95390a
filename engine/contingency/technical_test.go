package contingency

import (
	"testing"
	"time"
)

// TestStretches: what MH counts as one contingency.
func TestStretches(t *testing.T) {
	at := func(h float64) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(h * float64(time.Hour))) }
	period := func(began, ended float64) *Period {
		p := &Period{Began: at(began)}
		if ended > 0 {
			p.Ended = at(ended)
		}
		return p
	}
	l := law{report: 72 * time.Hour}
	for name, c := range map[string]struct {
		periods []*Period
		now     float64
		want    []bool // too long, by stretch
	}{
		"nothing":                    {nil, 0, nil},
		"three days to the second":   {[]*Period{period(0, 72)}, 100, []bool{false}},
		"a second more":              {[]*Period{period(0, 72+1./3600)}, 100, []bool{true}},
		"going on":                   {[]*Period{period(0, 0)}, 73, []bool{true}},
		"three in a row":             {[]*Period{period(0, 30), period(40, 60), period(65, 73)}, 100, []bool{true}},
		"the gap is a day":           {[]*Period{period(0, 50), period(74, 100)}, 100, []bool{false, false}},
		"going on after a short gap": {[]*Period{period(0, 50), period(60, 0)}, 80, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			list := stretches(c.periods, 24*time.Hour)
			if len(list) != len(c.want) {
				t.Fatalf("%d stretches, want %d", len(list), len(c.want))
			}
			for i, s := range list {
				if got := s.tooLong(l, at(c.now)); got != c.want[i] {
					t.Errorf("stretch %d: too long is %v", i, got)
				}
			}
		})
	}
}
