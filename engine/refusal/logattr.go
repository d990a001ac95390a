package refusal

import "log/slog"

// LogAttr is an error as an attribute of a line of the log. Without an error the attribute is left out: error=<nil> would read as
// if there were one.
func LogAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Any("error", err)
}
