// Package redacted has a type for secret texts: printing, logging and encoding show only "[redacted]".
package redacted

import (
	"fmt"
	"io"
	"log/slog"
)

// Text is a password or the key of an account.
type Text string

const shown = "[redacted]"

func (Text) String() string       { return shown }
func (Text) GoString() string     { return shown }
func (Text) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalText hides the secret from encoders (JSON, TOML). Format hides it from the verbs of fmt that bypass String.
func (Text) MarshalText() ([]byte, error) { return []byte(shown), nil }
func (Text) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, shown) }
