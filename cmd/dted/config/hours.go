package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hours are the branch's opening hours on some days of the week, as text "mon-sat 08:00-20:00". Days are three letters
// in English: one day ("sun"), a range ("mon-fri") or a list with commas. An end that is not after the beginning is on
// the next day: "fri,sat 18:00-02:00". "mon-sun 00:00-00:00" means always.
type Hours struct {
	Days     [7]bool       // from Sunday
	From, To time.Duration // since midnight; To is after From and at most 48 h
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (h *Hours) UnmarshalText(text []byte) error {
	bad := fmt.Errorf("%q is not of the form \"mon-sat 08:00-20:00\"", text)
	days, span, ok := strings.Cut(string(text), " ")
	if !ok {
		return bad
	}
	*h = Hours{}
	for part := range strings.SplitSeq(days, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if from < 0 || to < 0 {
			return bad
		}
		for day := from; ; day = (day + 1) % 7 {
			h.Days[day] = true
			if day == to {
				break
			}
		}
	}
	from, to, ok := strings.Cut(span, "-")
	begin, err1 := ofDay(from)
	end, err2 := ofDay(to)
	if !ok || err1 != nil || err2 != nil {
		return bad
	}
	if h.From, h.To = begin, end; end <= begin {
		h.To += 24 * time.Hour
	}
	return nil
}

func ofDay(text string) (time.Duration, error) {
	if text == "24:00" {
		return 24 * time.Hour, nil
	}
	t, err := time.Parse("15:04", text)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err
}

// Opening is a period in which the branch is open.
type Opening struct{ From, To time.Time }

const farthest = 60 // days

// NextOpenings returns the current or next opening, and the opening after it, in the time zone of now. ok is false if
// no hours are configured, or fewer than two openings come in the next sixty days.
func (b *Branch) NextOpenings(now time.Time) (first, second Opening, ok bool) {
	var list []Opening
	for ahead := -2; ahead <= farthest; ahead++ {
		day := time.Date(now.Year(), now.Month(), now.Day()+ahead, 0, 0, 0, 0, now.Location())
		if slices.Contains(b.Closed, day.Format(time.DateOnly)) {
			continue
		}
		for _, h := range b.Hours {
			if o := (Opening{day.Add(h.From), day.Add(h.To)}); h.Days[day.Weekday()] && o.To.After(now) {
				list = append(list, o)
			}
		}
	}
	if len(list) < 2 {
		return first, second, false
	}
	slices.SortFunc(list, func(a, b Opening) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
	return list[0], list[1], true
}
