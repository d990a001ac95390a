package deploy_test

import (
	"bufio"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
)

// TestScrape compares the page with the /metrics of a running appliance, whose text is in DTE_SCRAPE (TestREADME of
// cmd/dtectl runs it so): every metric in it is on the page with that type and those labels, and every metric that an
// alert or the dashboard names is in it, except those that the page calls absent at times. A labelled counter appears
// only once something was counted: sell before, in contingency too.
func TestScrape(t *testing.T) {
	url := os.Getenv("DTE_SCRAPE")
	skip.Unless(t, url != "", "TestREADME")
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	listed, kinds, shown := page(t), make(map[string]string), make(map[string]bool)
	label := regexp.MustCompile(`[{,](\w+)="`)
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		line := s.Text()
		if kind, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(kind, " ")
			kinds[name] = kind
			continue
		}
		full := regexp.MustCompile(`^\w+`).FindString(line)
		name := full
		if kinds[name] == "" {
			name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(full, "")
		}
		shown[name] = true
		if !strings.HasPrefix(name, "dte_") {
			continue
		}
		var have []string
		for _, m := range label.FindAllStringSubmatch(line, -1) {
			if m[1] != "le" {
				have = append(have, m[1])
			}
		}
		want := slices.Sorted(slices.Values(listed[name].labels))
		if slices.Sort(have); kinds[name] != listed[name].kind || !slices.Equal(have, want) {
			t.Errorf("%s is a %s with the labels %v; METRICS.md: %s %v", name, kinds[name], have, listed[name].kind,
				want)
		}
	}
	named := make(map[string]string) // by whom
	name := func(who, expression string) {
		for _, name := range regexp.MustCompile(`\b(?:dte|process|go)_[a-z0-9_]+`).FindAllString(
			recorded.ReplaceAllString(expression, ""), -1) {
			if !shown[name] {
				name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			}
			named[name] = who
		}
	}
	for _, a := range alerts(t) {
		name(a.name, a.expression)
	}
	panels, annotations := dashboard(t)
	for _, p := range panels {
		for _, q := range p.Targets {
			name("the dashboard's "+p.Title, q.Expr)
		}
	}
	for _, a := range annotations {
		name("an annotation of the dashboard", a)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !shown[name] && !listed[name].absent {
			t.Errorf("%s names %s, which is not shown", named[name], name)
		}
	}
}
