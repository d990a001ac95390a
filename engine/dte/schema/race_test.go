//go:build race

package schema

// raceEnabled: sync.Pool drops on purpose under the race detector, so that allocations cannot be counted.
const raceEnabled = true
