package engine

import (
	"testing"
	"time"
)

// TestStable: MH must have answered twice as long with each further period of the last hour, up to the most.
func TestStable(t *testing.T) {
	now := monday
	c := &contingency{now: func() time.Time { return now }, options: Contingency{Stable: 2 * time.Second, StableMax: time.Minute}}
	for i, want := range []time.Duration{2, 2, 4, 8, 16, 32, 60, 60} {
		if got := c.stable(); got != want*time.Second {
			t.Errorf("after %d periods: %v", i, got)
		}
		c.begun = append(c.begun, now)
		now = now.Add(time.Minute)
	}
	now = monday.Add(time.Hour)
	if got := c.stable(); len(c.begun) != 8 || got != time.Minute {
		t.Errorf("an hour later: %v of %d periods", got, len(c.begun))
	}
	if now = now.Add(4*time.Minute + time.Second); c.stable() != 8*time.Second || len(c.begun) != 3 {
		t.Errorf("an hour after the fifth: %v of %d periods", c.stable(), len(c.begun))
	}
}
