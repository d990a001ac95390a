package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

type dashboardPanel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr string }
}

// dashboard reads grafana/dashboard.json.
func dashboard(t *testing.T) (panels []dashboardPanel, annotations []string) {
	t.Helper()
	var d struct {
		Panels      []dashboardPanel
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(text(t, "grafana/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	for _, a := range d.Annotations.List {
		annotations = append(annotations, a.Expr)
	}
	return d.Panels, annotations
}

// TestDashboard: panels have unique names and do not overlap, and the metrics that they query exist.
func TestDashboard(t *testing.T) {
	listed := page(t)
	panels, annotations := dashboard(t)
	taken, ids, asked := make(map[[2]int]string), make(map[int]bool), 0
	for _, p := range panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d stands twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q lies on %q or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("%s: no query, or no description", p.Title)
		}
		for _, q := range p.Targets {
			check(t, "dashboard, "+p.Title, q.Expr, listed)
			asked++
		}
	}
	for _, a := range annotations {
		check(t, "dashboard, annotation", a, listed)
	}
	if asked < 30 {
		t.Errorf("only %d queries found: the test has lost them", asked)
	}
}

// TestDashboardQueries has promtool parse every query.
func TestDashboardQueries(t *testing.T) {
	tool := promtool(t)
	panels, annotations := dashboard(t)
	for _, p := range panels {
		for _, q := range p.Targets {
			annotations = append(annotations, q.Expr)
		}
	}
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for i, expression := range annotations {
		fmt.Fprintf(&rules, "      - record: q%d\n        expr: %q\n", i, strings.ReplaceAll(expression,
			"$__rate_interval", "5m"))
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDashboard_Alerts: each metric of an alert's expression has a panel.
func TestDashboard_Alerts(t *testing.T) {
	panels, _ := dashboard(t)
	var shown strings.Builder
	for _, p := range panels {
		for _, q := range p.Targets {
			shown.WriteString(q.Expr + "\n")
		}
	}
	metric := regexp.MustCompile(`\bdte_[a-z0-9_]+`)
	base := func(name string) string { return regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "") }
	found := make(map[string]bool)
	for _, name := range metric.FindAllString(shown.String(), -1) {
		found[base(name)] = true
	}
	listed := page(t) // the dashboard ignores other metrics, such as the inventory's
	watched := 0
	for line := range strings.Lines(text(t, "prometheus/alerts.yml")) {
		if comment, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(comment, "#") {
			continue
		}
		for _, name := range metric.FindAllString(line, -1) {
			if name = base(name); listed[name].kind == "" {
				continue
			}
			if watched++; !found[name] {
				t.Errorf("an alert watches %s, and no panel shows it", name)
			}
		}
	}
	if watched < 30 {
		t.Errorf("only %d metrics of alerts found", watched)
	}
}
