//go:build !race

package schema

// raceEnabled is false: allocations can be counted.
const raceEnabled = false
