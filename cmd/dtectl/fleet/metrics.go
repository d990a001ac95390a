package fleet

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dtegate/cmd/dtectl/fleet/controlplane"
)

// What /metrics tells of the whole chain, from the last survey. A branch's numbers are those that its box signed.
var (
	surveyTime = prometheus.NewDesc("dte_chain_survey_timestamp_seconds",
		"When the chain's store was last read whole.", nil, nil)
	storeLost = prometheus.NewDesc("dte_chain_lost", "Branches and groups of which the store has lost or put "+
		"back something.", nil, nil)
	branchSeen = prometheus.NewDesc("dte_chain_branch_seen_timestamp_seconds",
		"When the branch's last status was written.", []string{"branch", "group"}, nil)
	branchLevel = prometheus.NewDesc("dte_chain_branch_level", "0 nothing to know, 1 something, 2 something bad.",
		[]string{"branch", "group"}, nil)
	branchReady = prometheus.NewDesc("dte_chain_branch_ready", "1 when the branch can sell.", []string{"branch",
		"group"}, nil)
	branchPeriod = prometheus.NewDesc("dte_chain_branch_contingency", "1 when the branch is in contingency.",
		[]string{"branch", "group"}, nil)
	branchDeadline = prometheus.NewDesc("dte_chain_branch_deadline_timestamp_seconds",
		"The first legal deadline of what the branch owes MH.", []string{"branch", "group"}, nil)
	branchWaiting = prometheus.NewDesc("dte_chain_branch_waiting_documents", "Documents that the branch owes MH.",
		[]string{"branch", "group"}, nil)
	branchEnds = prometheus.NewDesc("dte_chain_branch_certificate_end_timestamp_seconds",
		"When a certificate of the branch ends.", []string{"branch", "group", "certificate"}, nil)
	branchVersion = prometheus.NewDesc("dte_chain_branch_desired_version",
		"The last desired state that the branch verified.", []string{"branch", "group"}, nil)
	branchRefused = prometheus.NewDesc("dte_chain_branch_refused_ratio",
		"The part of MH's newest decisions about documents that were refusals, of the rule in force that MH refuses "+
			"most; absent before the first.", []string{"branch", "group"}, nil)
	groupVersion = prometheus.NewDesc("dte_chain_desired_version", "The last desired state that was published.",
		[]string{"group"}, nil)
	groupExpires = prometheus.NewDesc("dte_chain_desired_expires_timestamp_seconds", "Until when it is good.",
		[]string{"group"}, nil)
	rolloutBoxes = prometheus.NewDesc("dte_chain_rollout_branches",
		"Branches of the ring of the roll-out that is on its way, by what became of it.", []string{"group", "stage"},
		nil)
	rolloutHeld = prometheus.NewDesc("dte_chain_rollout_held", "1 when the roll-out is held.", []string{"group"},
		nil)
)

// collector tells of all branches, or of one.
type collector struct {
	site *site
	only string
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.site.latest.Load()
	if s == nil {
		ch <- gauge(surveyTime, 0)
		return
	}
	for _, r := range s.Rows() {
		// whoever can write to the store can name branches
		if r.Enrolment != nil && (c.only == "" || c.only == r.Name) {
			collectRow(r, ch)
		}
	}
	if c.only != "" {
		return
	}
	ch <- gauge(surveyTime, seconds(s.At))
	ch <- gauge(storeLost, float64(s.Lost()))
	for _, v := range s.Groups {
		ch <- gauge(groupVersion, float64(v.Version), v.Group)
		ch <- gauge(groupExpires, seconds(v.Expires), v.Group)
		if r := v.Rollout; r != nil {
			m := s.Measure(r, v.Group)
			ch <- gauge(rolloutBoxes, float64(m.Succeeded), v.Group, "succeeded")
			ch <- gauge(rolloutBoxes, float64(len(m.Failed)), v.Group, "failed")
			ch <- gauge(rolloutBoxes, float64(m.Waiting), v.Group, "waiting")
			ch <- gauge(rolloutHeld, one(r.Held), v.Group)
		}
	}
}

func collectRow(r *controlplane.Row, ch chan<- prometheus.Metric) {
	group := r.Group()
	ch <- gauge(branchLevel, float64(r.Level()), r.Name, group)
	if !r.Seen.IsZero() {
		ch <- gauge(branchSeen, seconds(r.Seen), r.Name, group)
	}
	st := r.Status
	if st == nil {
		return
	}
	ch <- gauge(branchReady, one(st.Ready && !st.Replaced), r.Name, group)
	ch <- gauge(branchPeriod, one(st.Contingency != nil), r.Name, group)
	ch <- gauge(branchWaiting, float64(st.Waiting.Documents), r.Name, group)
	ch <- gauge(branchVersion, float64(st.Desired.Version), r.Name, group)
	deadline := st.Waiting.Deadline
	if p := st.Contingency; p != nil && !p.Deadline.IsZero() && (deadline.IsZero() || p.Deadline.Before(deadline)) {
		deadline = p.Deadline
	}
	if !deadline.IsZero() {
		ch <- gauge(branchDeadline, seconds(deadline), r.Name, group)
	}
	if ratio, known := st.RefusedRatio(); known {
		ch <- gauge(branchRefused, ratio, r.Name, group)
	}
	for _, c := range st.Certificates { // of a closed list, each once: see Status
		ch <- gauge(branchEnds, seconds(c.Ends), r.Name, group, c.Name)
	}
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func seconds(t time.Time) float64 { return float64(t.Unix()) }

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// branchMetrics is one branch's part of /metrics. A silent one answers 503, therefore Prometheus's own up tells it.
func (s *site) branchMetrics(w http.ResponseWriter, r *http.Request) {
	name, found := r.PathValue("branch"), s.latest.Load()
	var b *controlplane.Branch
	if found != nil {
		for _, o := range found.Branches {
			if o.Name == name {
				b = o
			}
		}
	}
	switch {
	case found == nil, s.surveyor.Chain.Now().Sub(found.At) > controlplane.SilentAfter:
		http.Error(w, "the chain's store was not read", http.StatusServiceUnavailable)
	case b == nil:
		http.NotFound(w, r)
	case b.Seen.IsZero() || found.At.Sub(b.Seen) > controlplane.SilentAfter:
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

// targets lists the branches that are enrolled, each as a path of this server.
func (s *site) targets(w http.ResponseWriter, r *http.Request) {
	found := s.latest.Load()
	if found == nil {
		// Prometheus keeps what it has
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

// json is the whole survey.
func (s *site) json(w http.ResponseWriter, r *http.Request) {
	found := s.latest.Load()
	if found == nil {
		http.Error(w, "the chain's store was not read yet", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found.Report(func(*controlplane.Row) bool { return true }))
}
