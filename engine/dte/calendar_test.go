package dte

import (
	"strings"
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

// easters are the Easter Sundays of the years from 2024.
var easters = strings.Fields("2024-03-31 2025-04-20 2026-04-05 2027-03-28 2028-04-16 2029-04-01 2030-04-21 " +
	"2031-04-13 2032-03-28 2033-04-17 2034-04-09 2035-03-25 2036-04-13 2037-04-05 2038-04-25 2039-04-10 2040-04-01")

// Every day of seventeen years, in its first and its last second.
func TestBusinessDay_Always(t *testing.T) {
	rest := make(map[string]bool)
	for i, sunday := range easters {
		if got := easter(2024 + i).Format(time.DateOnly); got != sunday {
			t.Errorf("Easter is on %s, not on %s", got, sunday)
		}
		at, _ := time.Parse(time.DateOnly, sunday)
		rest[at.AddDate(0, 0, -3).Format(time.DateOnly)], rest[at.AddDate(0, 0, -2).Format(time.DateOnly)] = true, true
	}
	fixed := " 01-01 05-01 05-10 06-17 08-06 09-15 11-02 12-25 "
	nth := make(map[time.Month]int)
	for day := time.Date(2024, 1, 1, 0, 0, 0, 0, Zone); day.Year() <= 2040; day = day.AddDate(0, 0, 1) {
		want := day.Weekday() != time.Saturday && day.Weekday() != time.Sunday &&
			!rest[day.Format(time.DateOnly)] && !strings.Contains(fixed, day.Format(" 01-02 "))
		if BusinessDay(day.UTC()) != want || BusinessDay(day.Add(24*time.Hour-1).UTC()) != want {
			t.Errorf("%s: want %v", day, want)
		}
		if day.Day() == 1 {
			clear(nth)
		}
		if want {
			nth[day.Month()]++
			if n := nth[day.Month()]; n <= 15 && !NthBusinessDay(day.Year(), day.Month(), n).Equal(day) {
				t.Errorf("%s is not business day %d", day, n)
			}
		}
	}
}

// The computus of Butcher (1876) gives the same days for centuries.
func TestEaster(t *testing.T) {
	for y := 1900; y < 2500; y++ {
		a, b, c := y%19, y/100, y%100
		h := (19*a + b - b/4 - (b-(b+8)/25+1)/3 + 15) % 30
		l := (32 + 2*(b%4) + 2*(c/4) - h - c%4) % 7
		n := h + l - 7*((a+11*h+22*l)/451) + 114
		if want := time.Date(y, time.Month(n/31), n%31+1, 0, 0, 0, 0, Zone); !easter(y).Equal(want) {
			t.Errorf("%s, want %s", easter(y), want)
		}
	}
}

func TestMonthsAfter(t *testing.T) {
	for _, c := range []struct {
		day    string
		months int
		want   string
	}{
		{"2026-11-30", 3, "2027-02-28"}, {"2027-11-30", 3, "2028-02-29"}, {"2026-12-31", 1, "2027-01-31"},
		{"2026-08-31", 1, "2026-09-30"}, {"2026-01-01", 24, "2028-01-01"}, {"2026-05-31", 0, "2026-05-31"},
		{"2026-03-31", -1, "2026-02-28"}, {"2026-02-28", 1, "2026-03-28"}, {"2026-10-15", 3, "2027-01-15"},
	} {
		if got := MonthsAfter(c.day, c.months); got != c.want {
			t.Errorf("%d months after %s: %s, want %s", c.months, c.day, got, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", time.Minute - 1: "59 s", time.Minute: "1 min", time.Hour - 1: "59 min",
		time.Hour: "1 h 0 min", 24*time.Hour - 1: "23 h 59 min", 24 * time.Hour: "1 d 0 h",
		240*time.Hour - 1: "9 d 23 h", 240 * time.Hour: "10 d", 263 * time.Hour: "10 d",
		2*time.Hour + 61*time.Second: "2 h 1 min",
	} {
		if got := Span(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	for day, want := range map[string]string{"2026-12-01": "01/12/2026", "2026-02-30": "2026-02-30", "": "",
		"hoy": "hoy"} {
		if got := FormatDay(day); got != want {
			t.Errorf("%s: %s, want %s", day, got, want)
		}
	}
}
