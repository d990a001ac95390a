package contingency

import (
	"testing"
	"time"
)

// TestStable: MH must have answered twice as long with each further period of the last hour, up to the maximum.
func TestStable(t *testing.T) {
	monday := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	now := monday
	w := &Contingency{branch: Branch{Now: func() time.Time { return now }}, options: Options{}}
	for i, want := range []time.Duration{2, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		if got := w.stable(); got != want*time.Second {
			t.Errorf("after %d periods: %v", i, got)
		}
		w.begun = append(w.begun, now)
		now = now.Add(time.Minute)
	}
	now = monday.Add(time.Hour)
	if got := w.stable(); len(w.begun) != 11 || got != 5*time.Minute {
		t.Errorf("an hour later: %v of %d periods", got, len(w.begun))
	}
	if now = now.Add(4*time.Minute + time.Second); w.stable() != 64*time.Second || len(w.begun) != 6 {
		t.Errorf("an hour after the fifth: %v of %d periods", w.stable(), len(w.begun))
	}
}
