package config

import (
	"strings"
	"testing"
	"time"
)

func TestBranch_NextOpenings(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		v, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	week := []string{"mon-sat 08:00-20:00", "sun 09:00-13:00"}
	lunch := []string{"mon-fri 08:00-12:00", "mon-fri 14:00-18:00"}
	for _, c := range []struct {
		hours, closed            []string
		now                      string
		opens, closes, nextOpens string // "": none
	}{
		{week, nil, "2026-11-23 07:59", "2026-11-23 08:00", "2026-11-23 20:00", "2026-11-24 08:00"}, // Monday
		{week, nil, "2026-11-23 08:00", "2026-11-23 08:00", "2026-11-23 20:00", "2026-11-24 08:00"},
		{week, nil, "2026-11-23 20:00", "2026-11-24 08:00", "2026-11-24 20:00", "2026-11-25 08:00"},
		{week, nil, "2026-11-28 21:00", "2026-11-29 09:00", "2026-11-29 13:00", "2026-11-30 08:00"},
		{week, []string{"2026-11-29", "2026-11-30"}, "2026-11-28 21:00", "2026-12-01 08:00", "2026-12-01 20:00",
			"2026-12-02 08:00"},
		{lunch, nil, "2026-11-27 13:00", "2026-11-27 14:00", "2026-11-27 18:00", "2026-11-30 08:00"},
		{[]string{"fri,sat 18:00-02:00"}, nil, "2026-11-28 01:00", "2026-11-27 18:00", "2026-11-28 02:00",
			"2026-11-28 18:00"},
		{[]string{"sat-sun 10:00-12:00"}, nil, "2026-11-28 12:00", "2026-11-29 10:00", "2026-11-29 12:00",
			"2026-12-05 10:00"},
		{[]string{"mon-sun 00:00-00:00"}, nil, "2026-11-28 12:00", "2026-11-28 00:00", "2026-11-29 00:00",
			"2026-11-29 00:00"},
		{[]string{"mon-sun 00:00-24:00"}, nil, "2026-11-28 00:00", "2026-11-28 00:00", "2026-11-29 00:00",
			"2026-11-29 00:00"},
		{nil, nil, "2026-11-28 12:00", "", "", ""},
	} {
		b := Branch{Closed: c.closed}
		for _, text := range c.hours {
			var h Hours
			if err := h.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			b.Hours = append(b.Hours, h)
		}
		first, second, ok := b.NextOpenings(at(c.now))
		if ok != (c.opens != "") || ok && (first != Opening{at(c.opens), at(c.closes)} ||
			second.From != at(c.nextOpens)) {
			t.Errorf("%v at %s: %v, %v, %v", c.hours, c.now, first, second, ok)
		}
	}
}

func TestHours_Refused(t *testing.T) {
	for _, text := range []string{"", "mon", "mon 8-20", "Mon 08:00-20:00", "mon-sta 08:00-20:00", "mon 08:00",
		"mon 08:00-25:00", "lun 08:00-20:00", "mon  08:00-20:00"} {
		if err := new(Hours).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if err := prepare(&Branch{Closed: []string{"2026-13-01"}}, "branch.", ""); err == nil {
		t.Error("a date that is none is taken")
	}
	if err := (&Config{Branch: Branch{Closed: []string{"2026-12-25"}}}).check(); !strings.Contains(err.Error(),
		"branch.closed: needs branch.hours") {
		t.Error(err)
	}
}
