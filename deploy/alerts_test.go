package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
)

// alert is a rule of prometheus/alerts.yml.
type alert struct {
	name, severity, expression string
	runbook                    map[string]string // by reason, "" if the alert has none: the heading that it leads to
}

func alerts(t *testing.T) []alert {
	t.Helper()
	field := func(block, expression string) string {
		if m := regexp.MustCompile(expression).FindStringSubmatch(block); m != nil {
			return m[1]
		}
		return ""
	}
	var all []alert
	annotations := make(map[string]string) // by anchor of YAML
	for _, block := range strings.Split(text(t, "prometheus/alerts.yml"), "- alert: ")[1:] {
		if name := field(block, `annotations: &(\w+)`); name != "" {
			annotations[name] = block
		}
		a := alert{name: field(block, `^(\w+)`), severity: field(block, `severity: (\w+)`),
			expression: field(block, `(?s)expr: (.*?)\n +(?:for|labels):`), runbook: make(map[string]string)}
		heading := field(block+annotations[field(block, `annotations: \*(\w+)`)], `runbook_url: deploy/RUNBOOK.md#(.+)`)
		reasons := regexp.MustCompile(`"reason",\s+"([a-z-]+)"`).FindAllStringSubmatch(a.expression, -1)
		if len(reasons) == 0 {
			reasons = [][]string{{"", field(block, `reason: ([a-z-]+)`)}}
		}
		for _, m := range reasons {
			a.runbook[m[1]] = strings.ReplaceAll(heading, "{{ $labels.reason }}", m[1])
		}
		all = append(all, a)
	}
	return all
}

// TestAlerts: the alerts are few; each names existing metrics, leads to a heading of the runbook for each of its
// reasons, fires in the unit tests for each, and is in the runbook's table with its severities and reasons.
func TestAlerts(t *testing.T) {
	listed, tests := page(t), text(t, "prometheus/alerts_test.yml")+text(t, "prometheus/days_test.yml")+text(t,
		"prometheus/weeks_test.yml")
	headings, all, names := anchors(t), alerts(t), make(map[string][]string)
	for _, a := range all {
		if a.expression == "" || a.severity != "page" && a.severity != "ticket" {
			t.Errorf("%s: no expression, or severity %q", a.name, a.severity)
		}
		check(t, a.name, a.expression, listed)
		names[a.name] = append(names[a.name], a.severity)
		for reason, heading := range a.runbook {
			if !headings[heading] {
				t.Errorf("%s: the runbook has no heading for %q", a.name, heading)
			}
			fires := `value: 1, labels: '{alertname="` + a.name + `", `
			if reason != "" {
				fires += `reason="` + reason + `", `
				names[a.name] = append(names[a.name], "`"+reason+"`")
			}
			if !strings.Contains(tests, fires+`severity="`+a.severity+`"`) {
				t.Errorf("%s %s (%s) never fires in the unit tests", a.name, reason, a.severity)
			}
		}
	}
	if len(names) < 20 || len(names) > 32 {
		t.Errorf("%d alerts: the test has lost them, or nobody can know them all", len(names))
	}
	rows := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(DTE\\w+)` \\| (.+) \\|$").FindAllStringSubmatch(text(t,
		"RUNBOOK.md"), -1) {
		if rows[m[1]] = m[2]; names[m[1]] == nil {
			t.Errorf("the runbook's table has %s, which is no alert", m[1])
		}
	}
	for name, words := range names {
		for _, word := range words {
			if !strings.Contains(rows[name], word) {
				t.Errorf("the runbook's table does not say %s of %s: %q", word, name, rows[name])
			}
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

// without are the sections of the runbook to which a till or a verb leads, and no alert.
var without = []string{"archive-differs", "documents-of-a-wrong-rule", "no-mark-at-the-start",
	"one-till-asks-for-too-much"}

// TestRunbookSections: every section of the runbook's second part has its alert, or another way to it, and its three
// parts.
func TestRunbookSections(t *testing.T) {
	_, part, ok := strings.Cut(text(t, "RUNBOOK.md"), "\n# Alerts\n")
	if !ok {
		t.Fatal("the runbook has no part Alerts")
	}
	led := make(map[string]bool)
	for _, a := range alerts(t) {
		for _, heading := range a.runbook {
			led[heading] = true
		}
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

// anchorOf returns a heading in the form of links.
func anchorOf(heading string) string {
	return strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), ""),
		" ", "-")
}

// TestRunbookLinks: every link inside the runbook leads to a heading.
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
	for _, args := range []string{"check rules alerts.yml", "test rules alerts_test.yml days_test.yml weeks_test.yml",
		"check config scrape.yml"} {
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
	skip.Test(t, "promtool", "install Debian's package prometheus, or run deploy/prometheus/promtool.sh")
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
