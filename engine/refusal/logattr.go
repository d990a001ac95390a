package refusal

import "log/slog"

// LogAttr returns an error as an attribute for the log. For nil the attribute is empty and is left out: error=<nil> would look
// like an error.
func LogAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Any("error", err)
}
