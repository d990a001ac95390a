// Package cmdtest serves the tests that run our programs.
package cmdtest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// lastPort counts the ports given out. They are below the ports that the system gives to clients, and apart from those
// of other processes: a port that is free now is still free when the program uses it.
var lastPort atomic.Int32

// Port is an address of loopback on which a program of a test may listen.
func Port(t testing.TB) string {
	t.Helper()
	for range 1000 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+(os.Getpid()*997+int(lastPort.Add(1)))%20_000))
		if err == nil {
			defer ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// Listen is a listener of loopback on a port that the system gives.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// Resident is a process's memory in bytes.
func Resident(t testing.TB, pid int) (n int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); err == nil {
			return n << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
