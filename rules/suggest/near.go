// Package suggest finds the known name that is most similar to a misspelt name.
package suggest

import "strings"

// Of returns the index of the name that is nearest to written, and the distance. It uses Levenshtein's distance and
// ignores the case of letters. Without names the index is -1.
func Of(written string, names []string) (index, distance int) {
	index = -1
	for i, name := range names {
		if d := letterChanges(strings.ToLower(name), strings.ToLower(written)); index < 0 || d < distance {
			index, distance = i, d
		}
	}
	return index, distance
}

// longest is the length up to which names are compared, in bytes. A longer name has no similar name.
const longest = 40

func letterChanges(a, b string) int {
	if len(a) > longest || len(b) > longest {
		return 2 * longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
