package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Settings are all that the centre may set on its boxes. What is not in this list (addresses, keys, tokens, the taxpayer, the
// points of sale) only somebody at the box changes. A member that is left out stays as the box is configured. The file bears
// no signature: the desired state names it by its digest.
type Settings struct {
	Kind string `json:"kind"` // "settings"
	// Poll and Report are how often the box asks for the desired state, 15s to 1h, and writes its status, 1m to 6h. In force at
	// once; all others from the next start of the appliance.
	Poll   string `json:"poll,omitempty"`
	Report string `json:"report,omitempty"`
	// Closed are days on which the store stays closed, "2026-12-25", beside the box's own.
	Closed []string `json:"closed,omitempty"`
	// Footer is the last line of printed documents, Greeting the line behind the salutation of mails: at most 200 characters.
	Footer   string `json:"print_footer,omitempty"`
	Greeting string `json:"mail_greeting,omitempty"`
	// Payments map the tills' own payment codes to CAT-017's, beside the box's own.
	Payments map[string]string `json:"payment_codes,omitempty"`
}

// Bounds of the times that can be set.
const (
	MinPoll, MaxPoll     = 15 * time.Second, time.Hour
	MinReport, MaxReport = time.Minute, 6 * time.Hour
	maxLine              = 200 // characters
	maxSettings          = 500 // closed days, or payment codes
)

// EncodeSettings checks settings and returns the file.
func EncodeSettings(s Settings) ([]byte, error) {
	s.Kind = kindSettings
	return encode("settings", &s)
}

// ParseSettings reads a settings file strictly. Errors: ErrFormat.
func ParseSettings(data []byte) (*Settings, error) {
	s := new(Settings)
	return s, parse("settings", data, s)
}

// PollEvery is how often the box asks for the desired state, ReportEvery how often it writes its status; 0: as it is configured.
func (s *Settings) PollEvery() time.Duration   { return duration(s.Poll) }
func (s *Settings) ReportEvery() time.Duration { return duration(s.Report) }

func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text) // check has seen it
	return d
}

const kindSettings = "settings"

func (s *Settings) check() error {
	var faults []error
	if s.Kind != kindSettings {
		faults = append(faults, fmt.Errorf("kind: %q", s.Kind))
	}
	faults = append(faults, checkDuration("poll", s.Poll, MinPoll, MaxPoll), checkDuration("report", s.Report, MinReport, MaxReport))
	for _, line := range []struct{ name, text string }{{"print_footer", s.Footer}, {"mail_greeting", s.Greeting}} {
		if utf8.RuneCountInString(line.text) > maxLine || strings.ContainsFunc(line.text, unicode.IsControl) {
			faults = append(faults, fmt.Errorf("%s: it is not one line of at most %d characters", line.name, maxLine))
		}
	}
	if len(s.Closed) > maxSettings || len(s.Payments) > maxSettings {
		faults = append(faults, fmt.Errorf("closed, payment_codes: at most %d each", maxSettings))
	}
	for _, day := range s.Closed {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			faults = append(faults, fmt.Errorf("closed: %q is not a date like 2026-12-25", day))
		}
	}
	for _, till := range slices.Sorted(maps.Keys(s.Payments)) {
		code := s.Payments[till]
		if len(code) != 2 || strings.Trim(code, "0123456789") != "" {
			faults = append(faults, fmt.Errorf("payment_codes.%s: %q is no code of CAT-017", till, code))
		}
	}
	return errors.Join(faults...)
}

// checkDuration says what is wrong with a duration that may be left out.
func checkDuration(name, text string, least, most time.Duration) error {
	if text == "" {
		return nil
	}
	if d, err := time.ParseDuration(text); err != nil || d < least || d > most {
		return fmt.Errorf("%s: %q is not a time from %s to %s", name, text, least, most)
	}
	return nil
}
