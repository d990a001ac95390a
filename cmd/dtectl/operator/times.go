package operator

import (
	"time"

	"dtegate/engine/dte"
)

// Local writes a time as people of El Salvador read it, with the zone, whatever the box's own zone is:
// 2026-12-01 08:00:00 -06:00.
func Local(t time.Time) string { return t.In(dte.Zone).Format("2006-01-02 15:04:05 -07:00") }
