package record

import (
	"math"
	"time"
)

// Whenever is the latest time that a queue can hold. Reading a queue up to Whenever returns all of its records.
var Whenever = time.Unix(0, math.MaxInt64)

// MaxCounted is the largest number of records of one queue that is counted.
const MaxCounted = 100_000
