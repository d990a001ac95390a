package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNotify: the program tells a real socket that it is ready when /readyz is, resets the watchdog, and announces that
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
