package controlplane

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
)

// Percent is a part of 10,000, written as a percentage of at most two decimals: "5", "0.25".
type Percent int

var percentForm = regexp.MustCompile(`^(\d{1,3})(?:\.(\d{1,2}))?%?$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Percent) UnmarshalText(text []byte) error {
	m := percentForm.FindStringSubmatch(string(text))
	if m == nil {
		return fmt.Errorf("%q is no percentage of at most two decimals", text)
	}
	n, err := strconv.Atoi(m[1] + (m[2] + "00")[:2])
	if err != nil || n > fleetproto.Whole {
		return fmt.Errorf("%q is above 100", text)
	}
	*p = Percent(n)
	return nil
}

func (p Percent) String() string {
	text := strings.TrimRight(fmt.Sprintf("%d.%02d", p/100, p%100), "0")
	return strings.TrimSuffix(text, ".") + " %"
}

// Moment is a time on the command line: RFC 3339, or a day or an hour of El Salvador, "2026-12-01", "2026-12-01T06:00".
type Moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Moment) UnmarshalText(text []byte) (err error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", time.RFC3339} {
		if m.Time, err = time.ParseInLocation(layout, string(text), dte.Zone); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is no time: 2026-12-01, 2026-12-01T06:00 (El Salvador) or RFC 3339", text)
}
