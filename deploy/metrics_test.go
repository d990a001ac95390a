// Package deploy_test checks what is shipped with the programs: the page of metrics, the alerts, the dashboard, the
// runbook, the systemd unit and the packages.
package deploy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// metric is a row of METRICS.md, or a metric according to the sources.
type metric struct {
	kind   string // counter, gauge, histogram; "" if the source does not show it
	labels []string
	absent bool // at times, according to the page
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// page reads METRICS.md.
func page(t *testing.T) map[string]metric {
	t.Helper()
	all := make(map[string]metric)
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|([^|]*)\\| (.+) \\|$").FindAllStringSubmatch(
		text(t, "METRICS.md"), -1) {
		if _, twice := all[m[1]]; twice {
			t.Errorf("METRICS.md: %s stands twice", m[1])
		}
		all[m[1]] = metric{m[2], strings.Fields(strings.ReplaceAll(m[3], "`", " ")),
			regexp.MustCompile("(?i)absent").MatchString(m[4])}
	}
	return all
}

var metricName = regexp.MustCompile(`^dte_[a-z0-9_]+$`)

// sources finds every metric that the sources name: the string literals of that form in files that import Prometheus.
func sources(t *testing.T) map[string]metric {
	t.Helper()
	all := make(map[string]metric)
	for _, folder := range []string{"cmd", "engine", "gateway", "rules", "storage"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
				return i.Path.Value == `"github.com/prometheus/client_golang/prometheus"`
			}) {
				collect(f, all)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// collect reads the kind from the name of a call around the literal, and the labels from its list of strings.
func collect(f *ast.File, all map[string]metric) {
	var calls []*ast.CallExpr
	var walk func(ast.Node) bool
	walk = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			calls = append(calls, n)
			ast.Inspect(n.Fun, walk)
			for _, a := range n.Args {
				ast.Inspect(a, walk)
			}
			calls = calls[:len(calls)-1]
			return false
		case *ast.BasicLit:
			if name, err := strconv.Unquote(n.Value); err == nil && metricName.MatchString(name) {
				all[name] = describe(calls)
			}
		}
		return true
	}
	ast.Inspect(f, walk)
}

// describe looks at the calls around a name, the nearest first.
func describe(calls []*ast.CallExpr) metric {
	for _, c := range slices.Backward(calls) {
		var called string
		switch f := c.Fun.(type) {
		case *ast.SelectorExpr:
			called = f.Sel.Name
		case *ast.Ident:
			called = f.Name
		}
		for _, kind := range []string{"counter", "gauge", "histogram"} {
			if strings.Contains(strings.ToLower(called), kind) {
				return metric{kind: kind, labels: labels(c)}
			}
		}
		if called == "NewDesc" {
			return metric{labels: labels(c)}
		}
	}
	return metric{}
}

// labels is the list of strings among a call's arguments.
func labels(c *ast.CallExpr) (list []string) {
	for _, a := range c.Args {
		l, ok := a.(*ast.CompositeLit)
		if !ok {
			continue
		}
		if _, ok := l.Type.(*ast.ArrayType); !ok {
			continue
		}
		for _, e := range l.Elts {
			if s, ok := e.(*ast.BasicLit); ok {
				v, _ := strconv.Unquote(s.Value)
				list = append(list, v)
			}
		}
	}
	return list
}

// TestMetricsPage: the page and the sources name the same metrics.
func TestMetricsPage(t *testing.T) {
	listed, named := page(t), sources(t)
	if len(named) < 40 {
		t.Fatalf("only %d metrics found in the sources: the test has lost them", len(named))
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		is := named[name]
		row, ok := listed[name]
		switch {
		case !ok:
			t.Errorf("METRICS.md lacks %s %s %v", name, is.kind, is.labels)
		case is.kind != "" && is.kind != row.kind:
			t.Errorf("METRICS.md says %s is a %s, the source says %s", name, row.kind, is.kind)
		case is.labels != nil && !slices.Equal(is.labels, row.labels):
			t.Errorf("METRICS.md gives %s the labels %v, the source %v", name, row.labels, is.labels)
		}
	}
	for name := range listed {
		if _, ok := named[name]; !ok {
			t.Errorf("METRICS.md lists %s, which no source names", name)
		}
	}
}

// TestMetricNames: base units, and _total only on counters.
func TestMetricNames(t *testing.T) {
	for name, m := range page(t) {
		if total := strings.HasSuffix(name, "_total"); total != (m.kind == "counter") {
			t.Errorf("%s is a %s: a counter, and nothing else, ends in _total", name, m.kind)
		}
		if m.kind == "histogram" && !strings.HasSuffix(name, "_seconds") && !strings.HasSuffix(name, "_units") &&
			!strings.HasSuffix(name, "_bytes") {
			t.Errorf("%s: a histogram ends in its unit", name)
		}
	}
}

// standard are the metrics of Prometheus and of its Go client that alerts and dashboard may use.
var standard = []string{"up", "process_start_time_seconds", "process_resident_memory_bytes", "go_build_info",
	"go_goroutines"}

// recorded are the names of the recording rules of alerts.yml; promtool's tests check that they exist.
var recorded = regexp.MustCompile(`\bbranch:\w+:\w+`)

// check reports every metric of an expression that is not on the page.
func check(t *testing.T, where, expression string, listed map[string]metric) {
	t.Helper()
	expression = recorded.ReplaceAllString(expression, "")
	for _, name := range regexp.MustCompile(`\b(?:dte|process|go)_[a-z0-9_]+`).FindAllString(expression, -1) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		switch m, ok := listed[name]; {
		case ok && m.kind == "histogram":
			t.Errorf("%s: %s is a histogram: use _bucket, _sum or _count", where, name)
		case !ok && listed[base].kind != "histogram" && !slices.Contains(standard, name):
			t.Errorf("%s: %s is not in METRICS.md", where, name)
		}
	}
	for _, m := range regexp.MustCompile(`(dte_[a-z0-9_]+)\{([^}]*)\}`).FindAllStringSubmatch(expression, -1) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")
		have := append([]string{"job", "instance", "branch", "le"}, append(listed[m[1]].labels,
			listed[base].labels...)...)
		for _, l := range regexp.MustCompile(`(\w+)\s*[=!]~?=?\s*"`).FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(have, l[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
		}
	}
}
