package dte

import (
	"testing"
	"time"
)

func TestBusinessDay(t *testing.T) {
	for day, want := range map[string]bool{
		"2026-11-02": false, "2026-11-03": true, "2026-12-05": false, "2026-12-06": false, "2026-12-25": false,
		"2026-12-24": true,
		// Easter: 5 April
		"2026-04-01": true, "2026-04-02": false, "2026-04-03": false, "2026-04-04": false, "2026-04-06": true,
		"2027-03-25": false, "2027-03-26": false, "2027-03-24": true, "2027-03-29": true, // Easter: 28 March
		"2025-04-17": false, "2025-04-16": true, "2024-03-28": false, "2026-08-06": false,
	} {
		at, err := time.ParseInLocation(time.DateOnly, day, Zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := BusinessDay(at.Add(12 * time.Hour)); got != want {
			t.Errorf("%s: %v", day, got)
		}
	}
	if got := NthBusinessDay(2026, time.January, 10).Format(time.DateOnly); got != "2026-01-15" {
		t.Errorf("the tenth business day of January 2026 is %s", got)
	}
	if got := NthBusinessDay(2027, time.January, 10).Format(time.DateOnly); got != "2027-01-15" {
		t.Errorf("the tenth business day of January 2027 is %s", got)
	}
}
