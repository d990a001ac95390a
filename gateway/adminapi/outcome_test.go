package adminapi

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/engine/audit"
	"dtegate/engine/refusal"
)

// noBackups begins no backup, and remembers what it was asked for.
type noBackups struct{ dir string }

func (n *noBackups) Begin(dir string) bool { n.dir = dir; return true }
func (*noBackups) State() any              { return nil }

// TestOutcome: the trail distinguishes what was refused from what went wrong here, and says what an act was about.
func TestOutcome(t *testing.T) {
	for code, want := range map[string]string{refusal.CodeValidation: audit.Refused, refusal.CodeBusy: audit.Refused,
		refusal.CodeInternal: audit.Failed, refusal.CodeUnavailable: audit.Failed} {
		if got, _ := outcome(new(fasthttp.RequestCtx), &refusal.Error{Code: code}); got != want {
			t.Errorf("%s is %s", code, got)
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
