//go:build race

package dte

// raceEnabled: sync.Pool drops on purpose under the race detector, so that allocations cannot be counted.
const raceEnabled = true
