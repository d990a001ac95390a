package mutant

import "math/rand/v2"

// Pick chooses n of the mutants of some folders: a tenth of n from each folder and the rest by their sizes, of a folder
// one from each of as many stretches of its code. The seed says which of a stretch; one that is not alive is left out
// for the next.
func Pick(of [][]*Made, n int, seed uint64, alive func(*Made) bool) (list []*Made) {
	all := 0
	for _, f := range of {
		all += len(f)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	rest, left := n-len(of)*(n/10), n
	for i, f := range of {
		share := n/10 + rest*len(f)/all
		if i == len(of)-1 {
			share = left
		}
		left -= share
		for k := range share {
			stretch := f[k*len(f)/share : (k+1)*len(f)/share]
			for first, at := r.IntN(max(1, len(stretch))), 0; at < len(stretch); at++ {
				if m := stretch[(first+at)%len(stretch)]; alive(m) {
					list = append(list, m)
					break
				}
			}
		}
	}
	return list
}
