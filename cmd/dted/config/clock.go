package config

import "time"

// How far the clock may be off what the store knows before nothing is issued: a document's date and hour are law, its
// year is its series.
const (
	ClockBack = 2 * time.Minute     // behind the latest time known right
	ClockFar  = 31 * 24 * time.Hour // ahead of what the last process left: nobody knows how long the box was off
)
