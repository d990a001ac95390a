package fleet

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dtegate/engine/fleet/fleetproto"
)

// Metrics of the whole chain, from the last survey. A branch's numbers come from its box's signed status.
var (
	surveyTime = describeMetric("dte_chain_survey_timestamp_seconds", "When the chain's store was last read in full.")
	storeLost  = describeMetric("dte_chain_lost",
		"Branches with objects that the store has lost or put back, plus the faults of the store or of a group.")

	groupVersion = describeMetric("dte_chain_desired_version", "The last desired state that was published.", "group")
	groupExpires = describeMetric("dte_chain_desired_expires_timestamp_seconds", "When that state expires.", "group")
	rolloutBoxes = describeMetric("dte_chain_rollout_branches",
		"Branches in the ring of the current roll-out, by outcome.", "group", "stage")
	rolloutHeld = describeMetric("dte_chain_rollout_held", "1 when the roll-out is held.", "group")

	branchEnds = describeMetric("dte_chain_branch_certificate_end_timestamp_seconds",
		"When a certificate of the branch ends.", "branch", "group", "certificate")
)

// branchGauges are the metrics of each branch; an unknown value is absent.
var branchGauges = []struct {
	desc  *prometheus.Desc
	value func(*Branch) (float64, bool)
}{
	{branchMetric("dte_chain_branch_level", "The worst concern: 0 none, 1 a warning, 2 bad."),
		func(b *Branch) (float64, bool) { return float64(b.Level()), true }},
	{branchMetric("dte_chain_branch_seen_timestamp_seconds", "When the branch's last status was written."),
		func(b *Branch) (float64, bool) { return seconds(b.Seen), !b.Seen.IsZero() }},
	{branchMetric("dte_chain_branch_deadline_timestamp_seconds",
		"The first legal deadline of what the branch owes MH."),
		func(b *Branch) (float64, bool) { return seconds(b.deadline()), !b.deadline().IsZero() }},
	{branchMetric("dte_chain_branch_ready", "1 when the branch can sell."),
		said(func(s *fleetproto.Status) float64 { return one[s.Ready && !s.Replaced] })},
	{branchMetric("dte_chain_branch_contingency", "1 when the branch is in contingency."),
		said(func(s *fleetproto.Status) float64 { return one[s.Contingency != nil] })},
	{branchMetric("dte_chain_branch_waiting_documents", "Documents that the branch owes MH."),
		said(func(s *fleetproto.Status) float64 { return float64(s.Waiting.Documents) })},
	{branchMetric("dte_chain_branch_desired_version", "The last desired state that the branch verified."),
		said(func(s *fleetproto.Status) float64 { return float64(s.Desired.Version) })},
	{branchMetric("dte_chain_branch_refused_ratio", "The share of refusals in MH's newest decisions about the "+
		"documents of the rule in force that MH refuses most; absent before the first."),
		func(b *Branch) (float64, bool) {
			if b.Status == nil {
				return 0, false
			}
			return b.Status.RefusedRatio()
		}},
}

func describeMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func branchMetric(name, help string) *prometheus.Desc {
	return describeMetric(name, help, "branch", "group")
}

// said returns a gauge's function for a value in the status; without a status, the value is unknown.
func said(value func(*fleetproto.Status) float64) func(*Branch) (float64, bool) {
	return func(b *Branch) (float64, bool) {
		if b.Status == nil {
			return 0, false
		}
		return value(b.Status), true
	}
}

// collector collects the metrics of the whole chain or, if only is not empty, of the branch with this name.
type collector struct {
	site *site
	only string
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := c.site.latest.Load()
	if s == nil {
		gauge(surveyTime, 0)
		return
	}
	for _, b := range s.Branches {
		// anybody who can write to the store can name branches
		if b.Enrolment == nil || c.only != "" && c.only != b.Name {
			continue
		}
		for _, g := range branchGauges {
			if v, known := g.value(b); known {
				gauge(g.desc, v, b.Name, b.Group())
			}
		}
		if b.Status != nil {
			for _, e := range b.Status.Certificates { // a Status with an unknown or a repeated name is refused
				gauge(branchEnds, seconds(e.Ends), b.Name, b.Group(), e.Name)
			}
		}
	}
	if c.only != "" {
		return
	}
	gauge(surveyTime, seconds(s.At))
	gauge(storeLost, float64(s.Lost()))
	for _, v := range s.Groups {
		gauge(groupVersion, float64(v.Version), v.Group)
		gauge(groupExpires, seconds(v.Expires), v.Group)
		if r := v.Rollout; r != nil {
			m := s.Measure(r, v.Group)
			gauge(rolloutBoxes, float64(m.Succeeded), v.Group, "succeeded")
			gauge(rolloutBoxes, float64(len(m.Failed)), v.Group, "failed")
			gauge(rolloutBoxes, float64(m.Waiting), v.Group, "waiting")
			gauge(rolloutHeld, one[r.Held], v.Group)
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.Unix()) }

var one = map[bool]float64{true: 1}

// branchMetrics serves one branch's part of /metrics. A silent branch gets 503: Prometheus then records up = 0.
func (s *site) branchMetrics(w http.ResponseWriter, r *http.Request) {
	name, found := r.PathValue("branch"), s.latest.Load()
	if found == nil || s.surveyor.Chain.Now().Sub(found.At) > SilentAfter {
		http.Error(w, "the chain's store was not read", http.StatusServiceUnavailable)
		return
	}
	switch i := slices.IndexFunc(found.Branches, func(b *Branch) bool { return b.Name == name }); {
	case i < 0:
		http.NotFound(w, r)
	case found.Branches[i].silent(found.At):
		http.Error(w, "the branch is silent", http.StatusServiceUnavailable)
	default:
		registry := prometheus.NewRegistry()
		registry.MustRegister(&collector{s, name})
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}
}

// target is an element of Prometheus's HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targets lists the enrolled branches, each as a path of this server.
func (s *site) targets(w http.ResponseWriter, r *http.Request) {
	found := s.latest.Load()
	if found == nil {
		// with this status Prometheus keeps its targets
		http.Error(w, "the chain's store was not read yet", http.StatusServiceUnavailable)
		return
	}
	list := []target{}
	for _, b := range found.Branches {
		if b.Enrolment != nil {
			list = append(list, target{[]string{r.Host}, map[string]string{"__metrics_path__": "/metrics/branch/" +
				b.Name, "__scheme__": s.scheme, "instance": b.Name, "branch": b.Name, "group": b.Group()}})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}
