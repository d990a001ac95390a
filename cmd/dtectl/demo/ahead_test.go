package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
)

// A demonstration's clock is put ahead by whole days, and never back.
func TestAhead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ahead")
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, dte.Zone)
	for _, c := range []struct {
		before, day string
		want        time.Duration
		refused     string
	}{
		{"", "", 0, ""},
		{"", "2026-11-23", 0, ""},
		{"", "2027-01-01", 39 * 24 * time.Hour, ""},
		{"936h0m0s\n", "", 936 * time.Hour, ""},
		{"936h0m0s\n", "2027-01-02", 960 * time.Hour, ""},
		{"936h0m0s\n", "2026-12-31", 0, "it is in this demonstration"},
		{"", "2026-11-22", 0, "before 2026-11-23"},
		{"", "01/01/2027", 0, "not a day"},
		{"x", "", 0, "reading"},
	} {
		os.Remove(file)
		if c.before != "" {
			if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ahead(file, c.day, noon)
		if c.refused == "" && (err != nil || got != c.want) || c.refused != "" && (err == nil ||
			!strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
