package health

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPulse: a commit resets the watchdog, a commit that hangs lets it expire; READY=1 comes once.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unready, disk := errors.New("no rule is valid today"), make(chan struct{}, 100)
		var ready error = unready
		var told []string
		p := Pulse{every: 10 * time.Second, ready: func() error { return ready },
			beat: func() error { <-disk; return nil }, tell: func(s string) { told = append(told, s) }}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		after := func(d time.Duration) []string {
			told = nil
			time.Sleep(d)
			synctest.Wait()
			return told
		}
		if got := after(time.Minute); len(got) != 0 {
			t.Errorf("told before a commit: %q", got)
		}
		for range 100 {
			disk <- struct{}{}
		}
		if got := after(0); !slices.Equal(got, []string{"WATCHDOG=1\nREADY=1\nSTATUS=not issuing: no rule is valid " +
			"today"}) {
			t.Errorf("after a minute in vain: %q", got)
		}
		ready = nil
		if got := after(10 * time.Second); !slices.Equal(got, []string{"WATCHDOG=1\nSTATUS=issuing"}) {
			t.Errorf("ready: %q", got)
		}
		if got := after(time.Hour); len(got) != 98 {
			t.Errorf("%d commits fed the watchdog %d times", 98, len(got))
		}
		stop()
		disk <- struct{}{}
		if err := <-done; err != nil {
			t.Error(err)
		}
		told = nil
		if p.Stopping(); !slices.Equal(told, []string{"STOPPING=1"}) {
			t.Errorf("at the end: %q", told)
		}
		p.beat = func() error { return unready }
		if err := p.Run(t.Context()); !errors.Is(err, unready) || len(told) != 1 {
			t.Errorf("a commit that fails: %v, told %q", err, told)
		}
	})
}

// TestSystemd: three commits fit into the supervisor's timeout, if that timeout is meant for this process.
func TestSystemd(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		usec, pid string
		every     time.Duration
	}{{"", "", beatEvery}, {"90000000", "", 30 * time.Second}, {"600000", own, 200 * time.Millisecond},
		{"600000", own + "0", beatEvery}, {"soon", own, beatEvery}} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		if s := systemd(nil); s.every != c.every {
			t.Errorf("%+v: a commit every %v", c, s.every)
		}
	}
}

// TestPulse_Ready: READY=1 comes with /readyz, not before, and within a second of it.
func TestPulse_Ready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := errors.New("clock")
		var at time.Duration
		began := time.Now()
		p := Pulse{every: 10 * time.Second, beat: func() error { return nil }, ready: func() error { return ready },
			tell: func(s string) {
				if strings.Contains(s, "READY=1") {
					at = time.Since(began)
				}
			}}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		time.AfterFunc(4500*time.Millisecond, func() { ready = nil })
		if err := p.Run(ctx); err != nil || at != 5*time.Second {
			t.Errorf("ready after %v, %v", at, err)
		}
	})
}
