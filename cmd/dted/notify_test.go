package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPulse: a commit feeds the watchdog, one that does not come back starves it; READY=1 comes once.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unready, disk := errors.New("no rule is valid today"), make(chan struct{}, 100)
		var ready error = unready
		var told []string
		p := pulse{every: 10 * time.Second, ready: func() error { return ready },
			beat: func() error { <-disk; return nil }, tell: func(s string) { told = append(told, s) }}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.run(ctx) }()
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
		if got := after(0); !slices.Equal(got, []string{"WATCHDOG=1\nREADY=1\nSTATUS=not issuing: no rule is valid today"}) {
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
	})
}

// TestPulse_Ready: READY=1 comes with /readyz, not before, and within a second of it.
func TestPulse_Ready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := errors.New("clock")
		var at time.Duration
		began := time.Now()
		p := pulse{every: 10 * time.Second, beat: func() error { return nil }, ready: func() error { return ready },
			tell: func(s string) {
				if strings.Contains(s, "READY=1") {
					at = time.Since(began)
				}
			}}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		time.AfterFunc(4500*time.Millisecond, func() { ready = nil })
		if err := p.run(ctx); err != nil || at != 5*time.Second {
			t.Errorf("ready after %v, %v", at, err)
		}
	})
}

// TestNotify: the program tells a real socket that it is ready when /readyz says so, feeds the watchdog, and says that
// it stops.
func TestNotify(t *testing.T) {
	b := newBranch(t)
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "600000")
	read := func() string {
		t.Helper()
		buffer := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
	b.start()
	if got := read(); got != "WATCHDOG=1\nREADY=1\nSTATUS=issuing" {
		t.Errorf("first it says %q", got)
	}
	began := time.Now()
	for range 5 {
		if got := read(); got != "WATCHDOG=1\nSTATUS=issuing" {
			t.Errorf("then %q", got)
		}
	}
	if took := time.Since(began); took < 700*time.Millisecond || took > 5*time.Second {
		t.Errorf("five times within %v, its patience is 600 ms", took)
	}
	b.stop()
	said := read()
	for strings.HasPrefix(said, "WATCHDOG=1") {
		said = read()
	}
	if said != "STOPPING=1" {
		t.Errorf("at last %q", said)
	}
}
