package dte

import "time"

// Zone is El Salvador's time: UTC-6 all year, without the system's zone database. A document dated in UTC is one
// day ahead from six in the evening on, which MH observes or, at the end of a month, refuses.
var Zone = time.FixedZone("America/El_Salvador", -6*60*60)

// Date is a fecEmi: the Salvadoran calendar day, YYYY-MM-DD.
func Date(t time.Time) string { return t.In(Zone).Format(time.DateOnly) }

// Hour is a horEmi: the Salvadoran time of day, HH:MM:SS in 24 hours.
func Hour(t time.Time) string { return t.In(Zone).Format(time.TimeOnly) }

// Year is the Salvadoran calendar year: the one that numbers a series.
func Year(t time.Time) int { return t.In(Zone).Year() }
