package dte

import (
	"fmt"
	"time"
)

// holidays lists the fixed days of rest (Labour Code art. 190, decrees 399/2016 and 208/2012), as month and day.
var holidays = map[[2]int]bool{{1, 1}: true, {5, 1}: true, {5, 10}: true, {6, 17}: true, {8, 6}: true, {9, 15}: true,
	{11, 2}: true, {12, 25}: true}

// BusinessDay reports whether a Salvadoran day is neither on a weekend nor a national holiday. Thursday, Friday and
// Saturday of Holy Week are holidays. Holidays of public offices only (3 and 5 August, 24 and 31 December) count as
// business days: too early a deadline harms nobody.
func BusinessDay(t time.Time) bool {
	t = t.In(Zone)
	if d := t.Weekday(); d == time.Saturday || d == time.Sunday || holidays[[2]int{int(t.Month()), t.Day()}] {
		return false
	}
	before := easter(t.Year()).YearDay() - t.YearDay()
	return before < 1 || before > 3
}

// NthBusinessDay returns the start of the n-th business day of a month, in El Salvador's time. n is 1 to 15.
func NthBusinessDay(year int, month time.Month, n int) time.Time {
	day := time.Date(year, month, 1, 0, 0, 0, 0, Zone)
	for {
		if BusinessDay(day) {
			if n--; n == 0 {
				return day
			}
		}
		day = day.AddDate(0, 0, 1)
	}
}

// MonthsAfter returns the day (yyyy-mm-dd) some months after another. If the later month has no such day, it returns
// the month's last day: three months from 30 November end on 28 February (MF2 p.12).
func MonthsAfter(day string, months int) string {
	at, _ := time.Parse(time.DateOnly, day)
	first := time.Date(at.Year(), at.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	return first.AddDate(0, 0, min(at.Day(), first.AddDate(0, 1, -1).Day())-1).Format(time.DateOnly)
}

// easter returns Easter Sunday by the Gregorian computus (Meeus, Astronomical Algorithms, chapter 8).
func easter(year int) time.Time {
	a, b, c := year%19, year/100, year%100
	g := (8*b + 13) / 25
	h := (19*a + b - b/4 - g + 15) % 30
	m := (a + 11*h) / 319
	r := (2*(b%4) + 2*(c/4) - c%4 - h + m + 32) % 7
	n := (h - m + r + 90) / 25
	return time.Date(year, time.Month(n), (h-m+r+n+19)%32, 0, 0, 0, 0, Zone)
}

// Zone is El Salvador's time, UTC-6 all year, without the system's zone database. In the evening a UTC date would be
// one day ahead: MH notes the difference or, at the end of a month, refuses the document.
var Zone = time.FixedZone("America/El_Salvador", -6*60*60)

// Date returns a fecEmi: the Salvadoran calendar day, YYYY-MM-DD.
func Date(t time.Time) string { return t.In(Zone).Format(time.DateOnly) }

// FormatDay writes 2026-12-01 as 01/12/2026. Any other text stays as it is.
func FormatDay(s string) string {
	if at, err := time.Parse(time.DateOnly, s); err == nil {
		return at.Format("02/01/2006")
	}
	return s
}

// Hour returns a horEmi: the Salvadoran time of day, HH:MM:SS in 24 hours.
func Hour(t time.Time) string { return t.In(Zone).Format(time.TimeOnly) }

// Year returns the Salvadoran calendar year. A series of numbers lasts one year.
func Year(t time.Time) int { return t.In(Zone).Year() }

// Span returns a length of time in one or two units, with symbols that are the same in English and Spanish.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 10*day:
		return fmt.Sprintf("%d d", d/day)
	case d >= day:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", max(0, d/time.Second))
}
