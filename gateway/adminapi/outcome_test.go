package adminapi

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/engine/audit"
	"dtegate/engine/refusal"
)

// TestOutcome: the trail distinguishes what was refused from what went wrong here.
func TestOutcome(t *testing.T) {
	for code, want := range map[string]string{refusal.CodeValidation: audit.Refused, refusal.CodeBusy: audit.Refused,
		refusal.CodeInternal: audit.Failed, refusal.CodeUnavailable: audit.Failed} {
		if got, _ := outcome(new(fasthttp.RequestCtx), &refusal.Error{Code: code}); got != want {
			t.Errorf("%s is %s", code, got)
		}
	}
}

// newRoutes are routes whose log nobody reads.
func newRoutes(o Options) *Routes {
	return New(o, Front{Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
}
