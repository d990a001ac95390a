package record

import (
	"math"
	"time"
)

// Whenever is the latest time that a queue holds: all that stands in a queue is due then.
var Whenever = time.Unix(0, math.MaxInt64)

// MaxCounted is the most records of a queue that are counted.
const MaxCounted = 100_000
