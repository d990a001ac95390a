package mutant

import "math/rand/v2"

// Pick chooses n mutants of some folders: a tenth of n from each folder, and the rest in proportion to the folders'
// sizes. It divides a folder's code into equal stretches and takes one mutant from each, chosen by the seed. It
// replaces a mutant that is not alive by the next one.
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
