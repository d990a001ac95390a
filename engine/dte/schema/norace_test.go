//go:build !race

package schema

// raceEnabled: allocations can be counted.
const raceEnabled = false
