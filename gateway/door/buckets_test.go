package door

import (
	"fmt"
	"net"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := NewBuckets(50, time.Second, 200)
	for i := range 200 {
		if wait := b.Take("a", now); wait != 0 {
			t.Fatalf("number %d of a burst waits %v", i+1, wait)
		}
	}
	if wait := b.Take("a", now); wait != 20*time.Millisecond {
		t.Errorf("beyond the burst: %v", wait)
	}
	if b.Take("b", now) != 0 {
		t.Error("one name pays for another")
	}
	let := 0
	for range 1000 { // ten seconds at 100 a second
		now = now.Add(10 * time.Millisecond)
		if b.Take("a", now) == 0 {
			let++
		}
	}
	if let != 500 {
		t.Errorf("%d in ten seconds, want 500", let)
	}
	for i := range 10_001 { // all live: they are walked once, and again when there are twice as many
		b.Take(fmt.Sprint(i), now)
	}
	if b.swept < 10_000 {
		t.Errorf("a sweep left %d", b.swept)
	}
	for i := 0; len(b.empty) <= 2*b.swept; i++ {
		b.Take(fmt.Sprint("x", i), now)
	}
	b.Take("late", now.Add(time.Hour))
	if len(b.empty) != 1 {
		t.Errorf("%d names are kept", len(b.empty))
	}
}

// TestBuckets_GiveBack: attempts that are given back do not count against later ones.
func TestBuckets_GiveBack(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := NewBuckets(5, time.Minute, 5)
	for i := range 50 {
		if b.Take("x", now) > 0 {
			t.Fatalf("attempt %d has to wait", i)
		}
		b.GiveBack("x")
	}
	for range 5 {
		if b.Take("x", now) > 0 {
			t.Fatal("five are too many")
		}
	}
	if wait := b.Take("x", now); wait != 12*time.Second {
		t.Errorf("the sixth waits %v", wait)
	}
}

// TestOwnHost: on loopback, Host is an address or localhost; any other name is another page's. Elsewhere the DNS
// decides.
func TestOwnHost(t *testing.T) {
	loopback, lan := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7),
		Port: 9090}
	for host, own := range map[string]bool{"": true, "localhost:9090": true, "LOCALHOST": true, "127.0.0.1:9090": true,
		"[::1]:9090": true, "[::1]": true, "::1": true, "127.0.0.1": true, "LocalHost:80": true, "localhost.": false,
		"[evil.example]:9090": false, "[evil.example]": false,
		"evil.example:9090": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "caja": false} {
		if OwnHost(loopback, host) != own || OwnHost(&net.TCPAddr{IP: net.IPv6loopback}, host) != own ||
			!OwnHost(lan, host) || !OwnHost(nil, host) {
			t.Errorf("%q: own is not %v", host, own)
		}
	}
}
