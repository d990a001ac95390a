package record

import "time"

// Distant is later than anything is due.
const Distant = 100 * 365 * 24 * time.Hour

// MaxCounted is the most records of a queue that are counted.
const MaxCounted = 100_000
