package deploy_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dted/config"
)

// weekStory has, for each alert, the event of a normal week that comes nearest to the alert and must not raise it. An
// alert without a story fails TestAlerts_Week, and so does a story without its alert.
var weekStory = map[string]string{
	"DTEBranchDown": "boxes are switched off at night while the router lives; two outages of the WAN; an " +
		"update; a holiday",
	"DTEBranchAway": "outages of the WAN in opening hours; a router that goes off with its box; a branch " +
		"without hours, off on Sunday",
	"DTENotScraped": "a target that does not answer is still a target; all branches that close at night are " +
		"away together",
	"DTEBoxFailing": "a start each morning, and an update; invalidations in contingency get 503; an update " +
		"cuts two requests off",
	"DTECannotSell": "the clock is set after the start; a branch that starts says that it is not ready; store " +
		"and disk are sound",
	"DTESlow": "a slow day at MH, the 95th percentile is six seconds; a sale of 30 s late in the " +
		"evening; a sync of 400 ms in fifty",
	"DTEWithoutMH": "outages of 12 and 25 minutes; a slow day with a contingency of two hours; a start has " +
		"asked nothing yet",
	"DTECredentialsRefused": "logins each morning, all taken",
	"DTERejections":         "two documents a day are refused for their customer's data",
	"DTEDeadlineNear": "each contingency leaves an event for a moment; one goes in the morning after; MH " +
		"refuses an event once",
	"DTEDeadlineMissed": "the event that waited for the morning is in time",
	"DTEQueueStuck":     "documents of yesterday wait at the start in the morning",
	"DTELostRecords":    "every record is one that this version wrote",
	"DTERuleFailing": "sales that a rule refuses are no failures of it; a rule is pushed in the middle of the " +
		"week",
	"DTEExpires":  "a rule ends in three months, as a certificate of TLS; what a chain desires in two",
	"DTEDelivery": "the mail server refuses the box for a quarter of an hour; letters wait over the night",
	"DTEMark": "proved each minute, not while the box is off; 400 ms for one write in fifty during a " +
		"backup",
	"DTENotProtected": "no backup on Sunday; the card takes ten minutes after a start; the first minutes are " +
		"not shipped yet",
	"DTEDiskFilling":    "the disk loses 100 MB a day, and 2 GB for the minutes of a backup",
	"DTEClockSkew":      "90 seconds off in the first minutes of a start, until NTP has set it",
	"DTEAccess":         "sound files; a till with an old token tries thirty times, somebody's scanner forty",
	"DTEChainOutOfStep": "the store is not reached in the first minutes of a start",
	"DTEChain": "the centre cannot read the store for half an hour of each day; boxes are off at night " +
		"and on a holiday",
}

// naive are alerts that page for normal events, and that the week must provoke: otherwise its silence proves nothing.
var naive = map[string]string{
	"NaiveBoxDown":      "up{job=\"dted\"} == 0",
	"NaiveOpenBoxDown":  "up{job=\"dted\"} == 0 and on (job, instance, branch) branch:dte_expected:bool == 1",
	"NaiveRouterAnswer": "up{job=\"dted\"} == 0 and on (branch) branch:dte_router_answers:bool == 1",
	"NaiveAuthority":    "dte_authority_up == 0",
	"NaiveContingency":  "time() - (dte_contingency_since_timestamp_seconds > 0) > 30 * 60",
	"NaiveEvent":        "(branch:dte_event_deadline:last > 0) - time() < 20 * 3600",
	"NaiveErrors":       "sum by (branch) (increase(dte_http_requests_total{class=\"5xx\"}[20m])) > 3",
	"NaiveSlow": "histogram_quantile(0.95, sum by (branch, le) " +
		"(rate(dte_issue_duration_seconds_bucket{path=\"online\"}[30m]))) > 8",
	"NaiveBackup":      "time() - dte_store_backup_timestamp_seconds > 30 * 3600",
	"NaiveSecondCopy":  "dte_store_second_copy_live == 0",
	"NaiveSkew":        "abs(dte_clock_skew_seconds) > 60",
	"NaiveQueue":       "time() - (dte_queue_oldest_timestamp_seconds > 0) > 2 * 3600",
	"NaiveRead":        "dte_store_read_timestamp_seconds < time() - 86400",
	"NaiveDisk":        "predict_linear(dte_store_free_bytes[30m], 14 * 86400) < 1e9",
	"NaiveChainSilent": "dte_chain_survey_timestamp_seconds - dte_chain_branch_seen_timestamp_seconds > 86400",
	"NaiveMarkClock":   "changes(dte_store_mark_proved_timestamp_seconds[15m]) == 0",
}

const (
	weekDays = 8               // Thursday to Thursday: every day and night, Sunday, and the days before them
	weekStep = 5 * time.Minute // between two samples: the longest gap that Prometheus allows within one series
)

// TestAlerts_Week checks that every alert is silent over a normal week of four branches. One closes at night and
// switches its box off. One leaves its box on and is scraped over another link, so that its contingencies are seen. One
// names no hours and has no router that is probed. One switches box and router off together and keeps a holiday.
func TestAlerts_Week(t *testing.T) {
	all := alerts(t)
	w := simulateWeek()
	shown := make(map[string]bool)
	for name := range w.series {
		shown[name[:strings.IndexByte(name, '{')]] = true
	}
	known := make(map[string]bool)
	for _, a := range all {
		known[a.name] = true
		if weekStory[a.name] == "" {
			t.Errorf("%s has no story in the normal week", a.name)
		}
		for _, name := range regexp.MustCompile(`\b(?:dte|process)_[a-z0-9_]+|\bup\b|\bprobe_success\b`).FindAllString(
			recorded.ReplaceAllString(a.expression, ""), -1) {
			if !shown[name] {
				t.Errorf("%s asks for %s, of which the week has no sample: its silence says nothing", a.name, name)
			}
		}
	}
	for name := range weekStory {
		if !known[name] {
			t.Errorf("the story of %s has no alert", name)
		}
	}
	tool := promtool(t)
	every := "10m"
	switch {
	case os.Getenv("DTE_SOAK") == "1":
		every = "5m"
	case testing.Short():
		skip.Short(t)
	}
	var b strings.Builder
	rules, err := filepath.Abs("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fmt.Fprintf(&b, "rule_files: [%q, naive.yml]\nevaluation_interval: %s\n", rules, every)
	fmt.Fprintf(&b, "group_eval_order: [%s]\n", strings.Join(append(alertGroups(t), "naive"), ", "))
	fmt.Fprintf(&b, "tests:\n  - interval: %s\n    input_series:\n", weekStep)
	for _, name := range slices.Sorted(maps.Keys(w.series)) {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", name, notation(w.series[name]))
	}
	b.WriteString("    promql_expr_test:\n")
	for _, name := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintf(&b, "      - {eval_time: %dh, expr: 'sum by (alertname, severity, branch) "+
			"(count_over_time(ALERTS{alertname=\"%s\", alertstate=\"firing\"}[%dd]))', exp_samples: []}\n", weekDays*24,
			name, weekDays)
	}
	var provoked strings.Builder
	provoked.WriteString("groups:\n  - name: naive\n    rules:\n")
	for _, name := range slices.Sorted(maps.Keys(naive)) {
		fmt.Fprintf(&provoked, "      - {alert: %s, expr: %q}\n", name, naive[name])
		fmt.Fprintf(&b, "      - {eval_time: %dh, expr: 'count(count_over_time(ALERTS{alertname=\"%s\", "+
			"alertstate=\"firing\"}[%dd])) > bool 0', exp_samples: [{labels: '{}', value: 1}]}\n", weekDays*24, name,
			weekDays)
	}
	for name, content := range map[string]string{"week.yml": b.String(), "naive.yml": provoked.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(tool, "test", "rules", "week.yml")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// alertGroups are the groups of alerts.yml in their order.
func alertGroups(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^  - name: (\w+)$`).FindAllStringSubmatch(text(t,
		"prometheus/alerts.yml"), -1) {
		names = append(names, m[1])
	}
	return names
}

// notation writes samples as promtool reads them: runs of one value, and the mark that a series ended. NaN means no
// sample.
func notation(samples []float64) string {
	var list []string
	for i := 0; i < len(samples); {
		n := i
		for n < len(samples) && (samples[n] == samples[i] || math.IsNaN(samples[n]) && math.IsNaN(samples[i])) {
			n++
		}
		switch {
		case !math.IsNaN(samples[i]):
			list = append(list, strconv.FormatFloat(samples[i], 'f', -1, 64)+"x"+strconv.Itoa(n-i-1))
		case i == 0:
			list = append(list, "_x"+strconv.Itoa(n-i))
		default:
			list = append(list, "stale")
			if n-i > 1 {
				list = append(list, "_x"+strconv.Itoa(n-i-1))
			}
		}
		i = n
	}
	return strings.Join(list, " ")
}

// week is the samples of a normal week by series.
type week struct {
	series map[string][]float64
	now    int // sample
}

func (w *week) put(name string, value float64) {
	s, ok := w.series[name]
	if !ok {
		s = make([]float64, weekDays*24*int(time.Hour/weekStep)+1)
		for i := range s {
			s[i] = math.NaN()
		}
		w.series[name] = s
	}
	s[w.now] = value
}

// simulateWeek simulates Thursday 1 January 1970 and the days after it: promtool's time begins there.
func simulateWeek() *week {
	w := &week{series: make(map[string][]float64)}
	branches := []*simulated{
		{id: "001", hours: shopHours(), router: true, card: true},
		{id: "002", hours: shopHours(), router: true, night: true, apart: true, evening: true},
		{id: "003"},
		{id: "004", hours: shopHours("1970-01-06"), router: true, oneSwitch: true, card: true},
	}
	for i := range weekDays*24*int(time.Hour/weekStep) + 1 {
		w.now = i
		for _, b := range branches {
			b.sample(w, time.Unix(0, 0).UTC().Add(time.Duration(i)*weekStep))
		}
	}
	return w
}

func shopHours(closed ...string) *config.Branch {
	b := &config.Branch{Closed: closed}
	for _, text := range []string{"mon-sat 08:00-20:00", "sun 09:00-13:00"} {
		var h config.Hours
		if err := h.UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
		b.Hours = append(b.Hours, h)
	}
	return b
}
