package registry

import (
	"slices"
	"strings"
	"time"
)

// holidays are the national holidays with a fixed date (Código de Trabajo art. 190), as month and day.
var holidays = strings.Fields("01-01 05-01 05-10 06-17 08-06 09-15 11-02 12-25")

// deadline returns the last day on which a document may be invalidated (MF2 pp.9-17): three months after its seal for
// 01, 11 and 14, otherwise the tenth business day of the month after the seal.
func deadline(tipo string, sealed time.Time) string {
	if lasting(tipo) {
		return addMonths(sealed.Format(time.DateOnly), 3)
	}
	day := time.Date(sealed.Year(), sealed.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	for open := 0; ; day = day.AddDate(0, 0, 1) {
		if business(day) {
			open++
		}
		if open == 10 {
			return day.Format(time.DateOnly)
		}
	}
}

func lasting(tipo string) bool { return tipo == "01" || tipo == "11" || tipo == "14" }

func business(day time.Time) bool {
	weekday := day.Weekday()
	return weekday != time.Saturday && weekday != time.Sunday && !slices.Contains(holidays, day.Format("01-02")) &&
		!holy(day)
}

// holy reports whether day is Thursday, Friday or Saturday of Holy Week (Código de Trabajo art. 190).
func holy(day time.Time) bool {
	month, sunday := easter(day.Year())
	before := time.Date(day.Year(), month, sunday, 0, 0, 0, 0, time.UTC).YearDay() - day.YearDay()
	return 1 <= before && before <= 3
}

// easter returns the day of Easter Sunday by Gauss's rule, with its two exceptions, for the years 1900 to 2099.
func easter(year int) (time.Month, int) {
	d := (19*(year%19) + 24) % 30
	e := (2*(year%4) + 4*(year%7) + 6*d + 5) % 7
	march := 22 + d + e
	if d == 29 && e == 6 || d == 28 && e == 6 && year%19 > 10 {
		march -= 7
	}
	if march > 31 {
		return time.April, march - 31
	}
	return time.March, march
}

// addMonths returns the date some months later, or the last day of that month if the month lacks the day.
func addMonths(date string, months int) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		panic("simulator: a date that the schema let pass: " + date)
	}
	last := time.Date(t.Year(), t.Month()+time.Month(months)+1, 0, 0, 0, 0, 0, time.UTC)
	return last.AddDate(0, 0, min(t.Day(), last.Day())-last.Day()).Format(time.DateOnly)
}
