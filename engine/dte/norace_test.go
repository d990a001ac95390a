//go:build !race

package dte

// raceEnabled: allocations can be counted.
const raceEnabled = false
