package clock

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"dtegate/engine/refusal"
)

// fakeClock is a box whose clock can be set while time passes.
type fakeClock struct {
	*Clock
	wall time.Time
	mono time.Duration
}

var noon = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)

func newFakeClock(stored time.Time) *fakeClock {
	f := &fakeClock{Clock: New(stored, time.Now, slog.New(slog.DiscardHandler)), wall: noon}
	f.Now, f.Elapsed = func() time.Time { return f.wall }, func() time.Duration { return f.mono }
	return f
}

func (f *fakeClock) pass(d time.Duration) { f.wall, f.mono = f.wall.Add(d), f.mono+d }
func (f *fakeClock) set(by time.Duration) { f.wall = f.wall.Add(by) }
func (f *fakeClock) mh(off time.Duration) { f.Observe(f.wall.Add(-off).Format(http.TimeFormat)) }

func (f *fakeClock) wants(t *testing.T, what string, right bool) {
	t.Helper()
	err := f.Check()
	var said *refusal.Error
	switch {
	case (err == nil) != right:
		t.Errorf("%s: %v", what, err)
	case err != nil && (!errors.As(err, &said) || said.Code != refusal.CodeClockWrong || said.RetryAfter == 0):
		t.Errorf("%s: %v", what, err)
	}
}

func TestClock_Start(t *testing.T) {
	for name, c := range map[string]struct {
		stored time.Time
		right  bool
	}{
		"empty store":              {time.Time{}, true},
		"a moment later":           {noon.Add(-time.Second), true},
		"NTP took a second back":   {noon.Add(time.Second), true},
		"set back an hour":         {noon.Add(time.Hour), false},
		"a month's holiday":        {noon.AddDate(0, 0, -30), true},
		"a dead battery, the 1970": {noon.AddDate(56, 0, 0), false},
		"two years ahead":          {noon.AddDate(-2, 0, 0), false},
	} {
		newFakeClock(c.stored).wants(t, name, c.right)
	}
	c := newFakeClock(noon.Add(time.Hour))
	c.wants(t, "set back an hour", false)
	c.pass(57 * time.Minute)
	c.wants(t, "not yet there", false)
	c.pass(time.Minute)
	c.wants(t, "as late as the store knows", true)
}

func TestClock_Running(t *testing.T) {
	c := newFakeClock(noon.Add(-time.Minute))
	c.wants(t, "start", true)
	for range 100 { // NTP slews
		c.pass(time.Hour)
		c.set(time.Second)
		c.wants(t, "a second off an hour", true)
	}
	for name, off := range map[string]time.Duration{"back an hour": -time.Hour, "ahead an hour": time.Hour,
		"ahead a year": 366 * 24 * time.Hour} {
		c.set(off)
		c.wants(t, name, false)
		was := map[bool][2]string{true: {"adelantado", "ahead of"}, false: {"atrasado", "behind"}}[off > 0]
		by := (off + 100*time.Second).Abs() // with the slews
		want := fmt.Sprintf("%v %s the latest time that was right", by, was[1])
		if said, ok := errors.AsType[*refusal.Error](c.Check()); !ok || !strings.Contains(said.English, want) ||
			!strings.Contains(said.Message, fmt.Sprintf("%s %v respecto", was[0], by)) {
			t.Errorf("%s: %+v", name, said)
		}
		c.pass(48 * time.Hour)
		c.wants(t, name+", two days later", false)
		if c.Trusted().Equal(c.wall) {
			t.Errorf("%s: the store would take it for right", name)
		}
		c.set(-off)
		c.wants(t, name+", and set right", true)
	}
}

// MH clears a doubt for good, and raises none once the process has issued a document.
func TestClock_Authority(t *testing.T) {
	c := newFakeClock(noon.AddDate(0, 0, 40)) // it was a month ahead at the last sale
	c.wants(t, "start", false)
	c.Observe("yesterday")
	c.mh(time.Hour)
	c.wants(t, "MH says another time", false)
	c.mh(-30 * time.Second)
	c.wants(t, "MH says the same", true)
	if got := c.Trusted(); !got.Equal(c.wall) {
		t.Errorf("the store learns %v, it is %v", got, c.wall)
	}
	if _, skew, known := c.State(); skew != -30*time.Second || !known {
		t.Errorf("skew %v, %v", skew, known)
	}
	c.Admitted()
	c.mh(5 * time.Hour)
	c.wants(t, "MH's own clock is wrong", true)
	if _, skew, _ := c.State(); skew != 5*time.Hour {
		t.Errorf("skew %v", skew)
	}
}

// TestClock_Walks: the clock is moved by any steps, between any number of looks, while MH gives the right time or none.
// A trusted clock is then never further from the right time than two allowances of MH's, or one and the drift while MH
// gives no time.
func TestClock_Walks(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newFakeClock(noon.Add(-time.Minute))
		c.Synced = func() bool { return true } // the time server is the liar
		c.wants(t, "start", true)
		c.Admitted()
		answers, towards, shift := r.IntN(4) > 0, 1-2*time.Duration(r.IntN(2)), time.Duration(0)
		c.Observe(noon.Format(http.TimeFormat))
		for range 3000 {
			c.pass(time.Duration(r.Int64N(int64(4 * time.Second))))
			step := towards * time.Duration(r.Int64N(int64([]time.Duration{time.Millisecond, time.Second,
				14 * time.Minute}[r.IntN(3)])))
			shift += step
			c.set(step)
			err := c.Check()
			limit := clockAhead + c.mono/clockDrift
			if answers {
				limit += clockNear
			}
			if err == nil && shift.Abs() > limit+time.Second {
				t.Fatalf("seed %d: a clock that is %v off is trusted after %v", seed, shift, c.mono)
			}
			if err != nil && r.IntN(2) == 0 { // set back a little, so that it looks right again
				c.set(-step)
				shift -= step
			}
			if answers && r.IntN(8) == 0 {
				c.Observe(c.wall.Add(-shift).Format(http.TimeFormat))
			}
		}
	}
}

// After the first document MH alone stops nobody, and neither does an archive with a third time. Both together do,
// whatever a time server reports, until MH agrees again.
func TestClock_Together(t *testing.T) {
	c := newFakeClock(noon)
	c.Synced = func() bool { return true }
	c.wants(t, "start", true)
	c.Admitted()
	archive := func(off time.Duration) { c.Second(c.wall.Add(-off).Format(http.TimeFormat)) }
	c.mh(48 * time.Hour)
	c.wants(t, "MH alone", true)
	archive(24 * time.Hour)
	c.wants(t, "an archive with a third time", true)
	archive(48 * time.Hour)
	c.wants(t, "both", false)
	c.pass(time.Hour)
	c.wants(t, "both, an hour later", false)
	c.mh(0)
	c.wants(t, "MH agrees", true)
	c.mh(48 * time.Hour)
	archive(0)
	archive(48 * time.Hour)
	c.wants(t, "the archive agreed with the box first", true)
}

// TestClock_Forgets: once MH agrees, what it and the archive said before counts no more: a time server outvotes MH again.
func TestClock_Forgets(t *testing.T) {
	for _, synced := range []bool{false, true} {
		c := newFakeClock(noon)
		c.Synced = func() bool { return synced }
		archive := func(off time.Duration) { c.Second(c.wall.Add(-off).Format(http.TimeFormat)) }
		for range 2 {
			c.mh(48 * time.Hour)
			c.wants(t, "MH alone, before the first document", synced)
			if c.IsDisputed() == synced {
				t.Errorf("synced %v: disputed %v", synced, !synced)
			}
			c.mh(48 * time.Hour)
			archive(48*time.Hour + clockNear)
			c.wants(t, "with the archive", false)
			archive(0)
			c.wants(t, "the archive says the box's time now", true)
			c.mh(48 * time.Hour)
			archive(48*time.Hour - clockNear)
			c.wants(t, "with the archive again", false)
			c.mh(clockNear)
			c.wants(t, "MH agrees", true)
			archive(48 * time.Hour)
			c.wants(t, "nothing is disputed", true)
		}
	}
	c := newFakeClock(noon)
	c.Synced = func() bool { return false }
	c.mh(clockNear + time.Second)
	c.wants(t, "MH just beyond", false)
}

// The first sale waits for MH's time no longer than AskFirst from the start.
func TestClock_FirstSaleBounded(t *testing.T) {
	c := New(time.Time{}, time.Now, slog.New(slog.DiscardHandler))
	c.Elapsed = func() time.Duration { return AskFirst }
	c.AwaitFirst()
	c.Elapsed = func() time.Duration { return AskFirst - time.Millisecond }
	c.AwaitFirst() // nobody ever answers
}
