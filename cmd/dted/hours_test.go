package main

import (
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dted/config"
)

// The hours are El Salvador's, whatever the clock's zone is.
func TestHours(t *testing.T) {
	var week config.Hours
	if err := week.UnmarshalText([]byte("mon-sat 08:00-20:00")); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC) } // Monday 19:00 there
	shown := metrictest.Values(t, openingHours(config.Branch{Hours: []config.Hours{week}}, now))
	for name, want := range map[string]string{"dte_branch_opens_timestamp_seconds": "2026-11-23T08:00:00-06:00",
		"dte_branch_closes_timestamp_seconds":  "2026-11-23T20:00:00-06:00",
		"dte_branch_reopens_timestamp_seconds": "2026-11-24T08:00:00-06:00"} {
		if at, err := time.Parse(time.RFC3339, want); err != nil || shown[name] != float64(at.Unix()) {
			t.Errorf("%s is %v, not %s", name, time.Unix(int64(shown[name]), 0).UTC(), want)
		}
	}
	if shown := metrictest.Values(t, openingHours(config.Branch{}, now)); len(shown) > 0 {
		t.Errorf("without hours: %v", shown)
	}
}
