package demo

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"dtegate/cmd/cmdtest"
)

// TestAwaitFree: a demonstration does not begin beside another one on its addresses, and says what to do.
func TestAwaitFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		taken := l.Addr().String()
		if err := awaitFree(context.Background(), cmdtest.Port(t), taken); err == nil || !strings.Contains(err.Error(), taken+" is not free: if another demonstration runs, end it first") {
			t.Errorf("%v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := awaitFree(context.Background(), taken); err != nil {
			t.Error(err)
		}
	})
}
