package adminapi

import (
	"slices"
	"strings"
	"testing"
)

// TestOperators_Routes: which routes the operators' listener answers, and under which name the trail records a change.
// Every GET has a HEAD.
func TestOperators_Routes(t *testing.T) {
	want := []string{
		"DELETE /admin/contingency", "DELETE /admin/rules/shadow", "DELETE /admin/tokens/{id}",
		"GET /", "GET /admin/archive/check", "GET /admin/audit", "GET /admin/books",
		"GET /admin/contingency/report",
		"GET /admin/delivery", "GET /admin/rules", "GET /admin/rules/documents", "GET /admin/rules/replay",
		"GET /admin/rules/shadow",
		"GET /admin/tokens", "GET /livez", "GET /metrics", "GET /readyz", "GET /status",
		"POST /admin/backup", "POST /admin/contingency", "POST /admin/contingency/report",
		"POST /admin/delivery/forget",
		"POST /admin/delivery/retry", "POST /admin/invalidation", "POST /admin/invalidation/check", "POST /admin/rules",
		"POST /admin/rules/acknowledge", "POST /admin/rules/backtest", "POST /admin/rules/cancel",
		"POST /admin/rules/reinstate",
		"POST /admin/rules/rollback", "POST /admin/rules/shadow", "POST /admin/tokens",
		"POST /admin/tokens/{id}/rotate",
	}
	// Routes that change nothing; the tokens' keeper records its own acts.
	idle := []string{"POST /admin/rules/backtest", "POST /admin/invalidation/check"}
	o := newRoutes(Options{})
	routes, acts := o.Router().List(), make(map[string]string)
	for _, a := range o.administration() {
		acts[a.method+" "+a.path] = a.act
	}
	var got []string
	for method, paths := range routes {
		for _, p := range paths {
			route := method + " " + p
			switch {
			case method == "HEAD":
				if !slices.Contains(routes["GET"], p) {
					t.Errorf("%s without GET", route)
				}
				continue
			case method == "GET":
				if !slices.Contains(routes["HEAD"], p) {
					t.Errorf("%s without HEAD", route)
				}
			case acts[route] == "" && !strings.HasPrefix(p, "/admin/tokens") && !slices.Contains(idle, route):
				t.Errorf("%s has no name in the trail", route)
			}
			got = append(got, route)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("answers:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
