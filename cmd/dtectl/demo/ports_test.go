package demo

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"dtegate/cmd/cmdtest"
)

// TestChild: a box of the demonstration listens where its own configuration says, whatever its parent's environment
// contains.
func TestChild(t *testing.T) {
	t.Setenv("DTED_API_ADDR", "127.0.0.1:1")
	t.Setenv("DTED_OPS_ADDR", "127.0.0.1:2")
	t.Setenv("DTESIM_ADDR", "127.0.0.1:3")
	if env := strings.Join(child("dted").Env, "\n"); strings.Contains(env, "DTED_") ||
		!strings.Contains(env, "DTESIM_ADDR=127.0.0.1:3") {
		t.Error(env)
	}
}

// TestAwaitFree: a demonstration does not start on the addresses of another one, and prints what to do.
func TestAwaitFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		taken := l.Addr().String()
		if err := awaitFree(context.Background(), place{"A", cmdtest.Port(t)}, place{"DTESIM_ADDR",
			taken}); err == nil ||
			!strings.Contains(err.Error(),
				taken+" is not free: if another demonstration runs, end it first (Ctrl-C), or set DTESIM_ADDR: ") {
			t.Errorf("%v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := awaitFree(context.Background(), place{"DTESIM_ADDR", taken}); err != nil {
			t.Error(err)
		}
	})
}
