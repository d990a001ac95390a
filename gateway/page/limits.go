package page

import "time"

// When the page turns yellow: where an alert watches the same, with the alert (TestLimits_Alerts).

const oneDay = 24 * time.Hour

// soon is how long before a deadline, or before the end of a certificate, by their names.
var soon = map[string]time.Duration{"event": 6 * time.Hour, "documents": 12 * time.Hour, "correction": 23 * time.Hour, "refused": 6 * time.Hour,
	"signing": 30 * oneDay, "api": 21 * oneDay, "ops": 21 * oneDay, "ca": 21 * oneDay}

const (
	lowDisk = 2           // times what is kept free
	skewed  = time.Minute // between the box's clock and MH's
)
