package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as text with a binary unit: "512MiB", "2 GiB".
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		number, ok := strings.CutSuffix(string(text), unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if shift := 10 * (i + 1); err == nil && n > 0 && n <= math.MaxInt64>>shift {
			*s = Size(n << shift)
			return nil
		}
	}
	return fmt.Errorf("size %q must be a positive whole number and KiB, MiB, GiB or TiB", text)
}
