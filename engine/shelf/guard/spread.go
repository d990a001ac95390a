package guard

// One till must not be able to undo a push for the whole branch, whatever it sends: this holds for MH's refusals
// (refusals.go) and for evaluations that fail (failures.go).
const (
	AloneHarms   = 10 // harmed sales, where one point of sale alone has used a bundle and the branch has more
	shapesHarmed = 2  // kinds of sale among them, where one point of sale alone has used it
)

// spread is where a bundle did harm, among the points of sale that used it.
type spread struct {
	used   map[int64]bool // points of sale
	harmed map[int64]bool // those of them with a harmed sale
	shapes map[Shape]bool // of the harmed sales, at most shapesHarmed
}

func newSpread() spread {
	return spread{used: make(map[int64]bool), harmed: make(map[int64]bool), shapes: make(map[Shape]bool)}
}

// harm notes a harmed sale.
func (s *spread) harm(point int64, kind Shape) {
	s.used[point], s.harmed[point] = true, true
	if len(s.shapes) < shapesHarmed {
		s.shapes[kind] = true
	}
}

// broad returns whether the harm goes beyond what one till does, in a branch with so many points of sale.
func (s *spread) broad(harms, points int) bool {
	if len(s.used) > 1 {
		return len(s.harmed) > 1
	}
	return len(s.shapes) >= shapesHarmed && (points <= 1 || harms >= AloneHarms)
}
