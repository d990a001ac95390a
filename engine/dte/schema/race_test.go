//go:build race

package schema

// raceEnabled is true: sync.Pool drops items on purpose under the race detector, so that allocations cannot be counted.
const raceEnabled = true
