package adminapi

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/engine/audit"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
)

// noBackups begins no backup, and remembers what it was asked for.
type noBackups struct{ dir string }

func (n *noBackups) Begin(dir string) bool { n.dir = dir; return true }
func (*noBackups) State() any              { return nil }

// TestOutcome: the trail distinguishes what was refused from what went wrong here, and says what an act was about.
func TestOutcome(t *testing.T) {
	for status, want := range map[int]string{400: audit.Refused, 499: audit.Refused, 500: audit.Failed,
		503: audit.Failed} {
		if got, _ := outcome(new(fasthttp.RequestCtx), &problem.Problem{Status: status,
			Type: refusal.CodeInternal}); got != want {
			t.Errorf("%d is %s", status, got)
		}
	}
	backups := &noBackups{}
	ctx := new(fasthttp.RequestCtx)
	ctx.Request.SetBodyString(`{"dir":"/media/usb"}`)
	if _, err := newRoutes(Options{Backups: backups}).beginBackup(ctx); err != nil || backups.dir != "/media/usb" ||
		callerText(ctx, actTarget) != "/media/usb" || callerText(ctx, actDetail) != "" {
		t.Errorf("%v, %q about %q %q", err, backups.dir, callerText(ctx, actTarget), callerText(ctx, actDetail))
	}
}

// newRoutes are routes whose log nobody reads.
func newRoutes(o Options) *Routes {
	return New(o, Front{Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
}
