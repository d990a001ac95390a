package door

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/audit"
)

// trail records acts.
type trail struct {
	mu   sync.Mutex
	acts []audit.Act
}

func (r *trail) Record(_ context.Context, a audit.Act) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acts = append(r.acts, a)
	return nil
}

func (r *trail) take() []audit.Act {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.acts
	r.acts = nil
	return list
}

// The first wrong admin token is in the trail at once; those of the next minute become one act per address. Any number
// of addresses makes few acts; none is lost at the end.
func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(trail)
		l := NewLogins(r.Record, slog.New(slog.DiscardHandler), time.Now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		l.Failed("10.0.0.1")
		synctest.Wait()
		if got := r.take(); len(got) != 1 || got[0].From != "10.0.0.1" || got[0].What != "admin.login" ||
			got[0].Outcome != audit.Refused || !strings.HasPrefix(got[0].Detail, "1 wrong") {
			t.Fatalf("%+v", got)
		}
		for i := range 1000 {
			l.Failed("10.0.0.1")
			l.Failed(fmt.Sprintf("2001:db8::%x", i))
		}
		synctest.Wait()
		if got := r.take(); len(got) != 0 {
			t.Fatalf("%d acts in one minute", len(got))
		}
		time.Sleep(loginActs)
		synctest.Wait()
		total := 0
		got := r.take()
		for _, a := range got {
			n := 0
			if _, err := fmt.Sscanf(a.Detail, "%d wrong admin tokens", &n); err != nil {
				t.Fatal(err)
			}
			total += n
		}
		if len(got) > maxLogins+1 || total != 2000 {
			t.Errorf("%d acts of %d failures", len(got), total)
		}
		l.Failed("10.0.0.9")
		stop()
		<-done
		if got := r.take(); len(got) != 1 {
			t.Errorf("at the end %d acts", len(got))
		}
	})
}
