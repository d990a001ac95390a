package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// alert is a rule of prometheus/alerts.yml.
type alert struct{ name, severity, expression, runbook string }

func alerts(t *testing.T) []alert {
	t.Helper()
	field := func(block, expression string) string {
		if m := regexp.MustCompile(expression).FindStringSubmatch(block); m != nil {
			return m[1]
		}
		return ""
	}
	var all []alert
	for _, block := range strings.Split(text(t, "prometheus/alerts.yml"), "- alert: ")[1:] {
		all = append(all, alert{name: field(block, `^(\w+)`), severity: field(block, `severity: (\w+)`),
			expression: field(block, `(?s)expr: (.*?)\n +(?:for|labels):`), runbook: field(block, `runbook_url: (\S+)`)})
	}
	return all
}

// TestAlerts: every alert names metrics that exist, has a summary, and leads to a heading of the runbook; every alert
// fires in the unit tests.
func TestAlerts(t *testing.T) {
	listed, tests := page(t), text(t, "prometheus/alerts_test.yml")+text(t, "prometheus/days_test.yml")+text(t, "prometheus/weeks_test.yml")
	headings := anchors(t)
	all := alerts(t)
	if len(all) < 20 {
		t.Fatalf("only %d alerts found: the test has lost them", len(all))
	}
	for _, a := range all {
		if a.expression == "" || a.severity != "page" && a.severity != "ticket" {
			t.Errorf("%s: no expression, or severity %q", a.name, a.severity)
		}
		check(t, a.name, a.expression, listed)
		anchor, ok := strings.CutPrefix(a.runbook, "deploy/RUNBOOK.md#")
		if !ok || !headings[anchor] {
			t.Errorf("%s: the runbook has no heading for %q", a.name, a.runbook)
		}
		if !regexp.MustCompile(`value: 1, labels: '\{alertname="` + a.name + `"[^}]*severity="` + a.severity + `"`).MatchString(tests) {
			t.Errorf("%s (%s) never fires in the unit tests", a.name, a.severity)
		}
	}
}

// anchors are the headings of the runbook as links name them.
func anchors(t *testing.T) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllStringSubmatch(text(t, "RUNBOOK.md"), -1) {
		anchor := anchorOf(m[1])
		if all[anchor] {
			t.Errorf("the runbook has two headings %s", anchor)
		}
		all[anchor] = true
	}
	return all
}

// without are the sections of the runbook that a till or a verb leads to, and no alert.
var without = []string{"archive-differs", "documents-of-a-wrong-rule", "no-mark-at-the-start", "one-till-asks-for-too-much"}

// TestRunbookSections: every section of the runbook's second part has its alert, or another way to it, and the three parts.
func TestRunbookSections(t *testing.T) {
	_, part, ok := strings.Cut(text(t, "RUNBOOK.md"), "\n# Alerts\n")
	if !ok {
		t.Fatal("the runbook has no part Alerts")
	}
	led := make(map[string]bool)
	for _, a := range alerts(t) {
		led[strings.TrimPrefix(a.runbook, "deploy/RUNBOOK.md#")] = true
	}
	for _, section := range strings.Split(part, "\n## ")[1:] {
		heading, body, _ := strings.Cut(section, "\n")
		anchor := anchorOf(heading)
		if !led[anchor] && !slices.Contains(without, anchor) {
			t.Errorf("no alert leads to the section %q", heading)
		}
		for _, part := range []string{"**Symptom.**", "**Look.**", "**Do.**"} {
			if !strings.Contains(body, part) {
				t.Errorf("the section %q lacks %s", heading, part)
			}
		}
	}
}

// anchorOf is a heading as links name it.
func anchorOf(heading string) string {
	return strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// TestRunbookLinks: what the runbook links to inside itself is there.
func TestRunbookLinks(t *testing.T) {
	headings := anchors(t)
	for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(text(t, "RUNBOOK.md"), -1) {
		if !headings[m[1]] {
			t.Errorf("the runbook links to #%s, which is no heading", m[1])
		}
	}
}

// TestPromtool checks the rules, runs their unit tests and checks the sample of the scrape.
func TestPromtool(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	for _, args := range []string{"check rules alerts.yml", "test rules alerts_test.yml days_test.yml weeks_test.yml", "check config scrape.yml"} {
		cmd := exec.Command(tool, strings.Fields(args)...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}

// promtool finds Prometheus' tool, or skips the test.
func promtool(t *testing.T) string {
	t.Helper()
	built, err := filepath.Abs("../var/tools/promtool")
	if err != nil {
		t.Fatal(err)
	}
	installed, _ := exec.LookPath("promtool")
	for _, path := range []string{os.Getenv("PROMTOOL"), installed, built} {
		if path != "" && exists(path) {
			return path
		}
	}
	t.Skip("no promtool: install Debian's package prometheus, or run deploy/prometheus/promtool.sh")
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
