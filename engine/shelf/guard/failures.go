package guard

import (
	"fmt"
	"time"
)

// When evaluations that fail make the branch return to the bundle before. No sale is lost meanwhile: the bundle before computes
// it. So there is time to see that the rule is at fault, and not what one till asks of it.
const (
	failuresOf   = time.Minute
	mostFailures = 3 // evaluations that failed within failuresOf; where one point of sale alone has asked, see AloneHarms
)

// failures are a bundle's evaluations since the start of the appliance.
type failures struct {
	used   map[int64]bool      // points of sale that it has answered
	recent map[int64][]failure // by point of sale, within failuresOf, the newest AloneHarms
}

type failure struct {
	at    time.Time
	shape Shape
}

func newFailures() *failures {
	return &failures{used: make(map[int64]bool), recent: make(map[int64][]failure)}
}

// add counts an evaluation that failed. One point of sale displaces no failure of another.
func (f *failures) add(point int64, s Shape, now time.Time) {
	list := append(f.recent[point], failure{now, s})
	f.recent[point] = list[max(0, len(list)-AloneHarms):]
}

// leave returns why a bundle is to be left for the one before; "" for no reason.
func (f *failures) leave(points int, now time.Time) string {
	harms, where := 0, newSpread()
	for point := range f.used {
		where.used[point] = true
	}
	for point, list := range f.recent {
		for len(list) > 0 && now.Sub(list[0].at) >= failuresOf {
			list = list[1:]
		}
		f.recent[point] = list
		for _, x := range list {
			harms++
			where.harm(point, x.shape)
		}
	}
	if harms < mostFailures || !where.broad(harms, points) {
		return ""
	}
	return fmt.Sprintf("%d evaluations failed within %v, at %d points of sale", harms, failuresOf, len(where.harmed))
}
