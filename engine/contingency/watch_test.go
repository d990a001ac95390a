package contingency

import (
	"testing"
	"time"
)

// TestStable: MH must have answered twice as long with each further period of the last hour, up to the most.
func TestStable(t *testing.T) {
	monday := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	now := monday
	w := &Watch{common: &common{branch: Branch{Now: func() time.Time { return now }}, options: Options{Stable: 2 * time.Second, StableMax: time.Minute}}}
	for i, want := range []time.Duration{2, 2, 4, 8, 16, 32, 60, 60} {
		if got := w.stable(); got != want*time.Second {
			t.Errorf("after %d periods: %v", i, got)
		}
		w.begun = append(w.begun, now)
		now = now.Add(time.Minute)
	}
	now = monday.Add(time.Hour)
	if got := w.stable(); len(w.begun) != 8 || got != time.Minute {
		t.Errorf("an hour later: %v of %d periods", got, len(w.begun))
	}
	if now = now.Add(4*time.Minute + time.Second); w.stable() != 8*time.Second || len(w.begun) != 3 {
		t.Errorf("an hour after the fifth: %v of %d periods", w.stable(), len(w.begun))
	}
}
