package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/engine/authority/simulator"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// fakeClock is a box whose clock can be set while its time goes on.
type fakeClock struct {
	*clock
	wall time.Time
	mono time.Duration
}

var noon = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)

func newFakeClock(stored time.Time) *fakeClock {
	f := &fakeClock{clock: newClock(stored, time.Now, slog.New(slog.DiscardHandler)), wall: noon}
	f.now, f.elapsed = func() time.Time { return f.wall }, func() time.Duration { return f.mono }
	return f
}

func (f *fakeClock) pass(d time.Duration) { f.wall, f.mono = f.wall.Add(d), f.mono+d }
func (f *fakeClock) set(by time.Duration) { f.wall = f.wall.Add(by) }
func (f *fakeClock) mh(off time.Duration) { f.observe(f.wall.Add(-off).Format(http.TimeFormat)) }

func (f *fakeClock) wants(t *testing.T, what string, right bool) {
	t.Helper()
	err := f.check()
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
	for name, off := range map[string]time.Duration{"back an hour": -time.Hour, "ahead an hour": time.Hour, "ahead a year": 366 * 24 * time.Hour} {
		c.set(off)
		c.wants(t, name, false)
		c.pass(48 * time.Hour)
		c.wants(t, name+", two days later", false)
		if c.trusted().Equal(c.wall) {
			t.Errorf("%s: the store would take it for right", name)
		}
		c.set(-off)
		c.wants(t, name+", and set right", true)
	}
}

// MH clears a doubt for good, and raises none once the process has issued a document.
func TestClock_Authority(t *testing.T) {
	c := newFakeClock(noon.AddDate(0, 0, 40)) // it was a month ahead when it sold last
	c.wants(t, "start", false)
	c.observe("yesterday")
	c.mh(time.Hour)
	c.wants(t, "MH says another time", false)
	c.mh(-30 * time.Second)
	c.wants(t, "MH says the same", true)
	if got := c.trusted(); !got.Equal(c.wall) {
		t.Errorf("the store learns %v, it is %v", got, c.wall)
	}
	if _, skew, known := c.state(); skew != -30*time.Second || !known {
		t.Errorf("skew %v, %v", skew, known)
	}
	c.admitted()
	c.mh(5 * time.Hour)
	c.wants(t, "MH's own clock is wrong", true)
	if _, skew, _ := c.state(); skew != 5*time.Hour {
		t.Errorf("skew %v", skew)
	}
}

// TestClockSetBack: the clock stands an hour before what the store knows. A sale is refused with the reason, one that was
// answered already is answered again, and nobody does anything before the branch sells on.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	first := decode(t, b.insist(1, "before", hammerSale(1, 1)))
	b.stop()
	s, err := storage.Open(b.storeOptions())
	if err == nil {
		err = errors.Join(s.Beat(time.Now().Add(time.Hour)), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.chaos(simulator.Chaos{Outage: true})
	b.launch()
	if said := b.await(http.StatusServiceUnavailable); !strings.Contains(said, "CLOCK_WRONG") {
		t.Errorf("/readyz says %q", said)
	}
	if status, said := b.getOps("/livez"); status != http.StatusOK || string(said) != "ok\n" { // a restart would mend nothing
		t.Errorf("/livez says %d %q", status, said)
	}
	status, body, err := b.post("/dte/dte01", 1, "now", hammerSale(1, 2))
	var problem struct{ Type, Message string }
	if err := errors.Join(err, json.Unmarshal(body, &problem)); err != nil || status != 503 || problem.Type != refusal.CodeClockWrong || !strings.Contains(problem.Message, "atrasado") {
		t.Errorf("%d %s %v", status, body, err)
	}
	if status, body, err := b.post("/dte/dte01", 1, "before", hammerSale(1, 1)); err != nil || status != 201 || decode(t, body).Code != first.Code {
		t.Errorf("the sale of before: %d %s %v", status, body, err)
	}
	if b.metric("dte_clock_doubted") != 1 {
		t.Errorf("no doubt in the metrics")
	}
	b.chaos(simulator.Chaos{}) // and MH says the time
	b.await(http.StatusOK)
	second := decode(t, b.insist(1, "now", hammerSale(1, 2)))
	if doubted, skew := b.metric("dte_clock_doubted"), b.metric("dte_clock_skew_seconds"); doubted != 0 || skew > 60 {
		t.Errorf("the metrics still doubt the clock: %v, %v s off", doubted, skew)
	}
	if second.ControlNumber[len(second.ControlNumber)-1] != '2' {
		t.Errorf("%s after %s", second.ControlNumber, first.ControlNumber)
	}
	b.stop()
	b.fsck(2, 1)
}

// metric is what a series of the metrics shows.
func (b *branch) metric(series string) float64 {
	b.t.Helper()
	_, shown := b.getOps("/metrics")
	for line := range strings.Lines(string(shown)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return n
		}
	}
	b.t.Fatalf("the metrics have no %s", series)
	return 0
}
