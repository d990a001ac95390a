package fleet

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dtegate/engine/record"
)

// collector collects the metrics of the whole chain or, if only is not empty, of the branch with this name.
type collector struct {
	site *site
	only string
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector. The values are of the last survey.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := cmp.Or(c.site.latest.Load(), new(Survey))
	for _, b := range s.Branches {
		// only enrolled branches: anybody who can write to the store can name others
		if b.Enrolment != nil && (c.only == "" || c.only == b.Name) {
			b.collect(ch)
		}
	}
	if c.only != "" {
		return
	}
	record.SendGauge(ch, "dte_chain_survey_timestamp_seconds", "When the chain's store was last read in full.", s.At)
	if s.At.IsZero() {
		return
	}
	record.SendGauge(ch, "dte_chain_lost", "Branches with objects that the store has lost or put back, plus the "+
		"faults of the store or of a group.", s.Lost())
	for _, v := range s.Groups {
		group := func(name, help string, value any, labels ...string) {
			record.SendGauge(ch, name, help, value, append(labels, "group", v.Group)...)
		}
		group("dte_chain_desired_version", "The last desired state that was published.", float64(v.Version))
		group("dte_chain_desired_expires_timestamp_seconds", "When that state expires.", v.Expires)
		if r := v.Rollout; r != nil {
			m := s.Measure(r, v.Group)
			for stage, n := range map[string]int{"succeeded": m.Succeeded, "failed": len(m.Failed),
				"waiting": m.Waiting} {
				group("dte_chain_rollout_branches", "Branches in the ring of the current roll-out, by outcome.", n,
					"stage", stage)
			}
			group("dte_chain_rollout_held", "1 when the roll-out is held.", r.Held)
		}
	}
}

// collect sends the metrics of a branch. Most numbers come from its box's signed status; an unknown value is absent.
func (b *Branch) collect(ch chan<- prometheus.Metric) {
	gauge := func(name, help string, value any, labels ...string) {
		record.SendGauge(ch, name, help, value, append(labels, "branch", b.Name, "group", b.Group())...)
	}
	gauge("dte_chain_branch_level", "The worst concern: 0 none, 1 a warning, 2 bad.", b.Level())
	if !b.Seen.IsZero() {
		gauge("dte_chain_branch_seen_timestamp_seconds", "When the branch's last status was written.", b.Seen)
	}
	if at := b.deadline(); !at.IsZero() {
		gauge("dte_chain_branch_deadline_timestamp_seconds", "The first legal deadline of what the branch owes MH.", at)
	}
	s := b.Status
	if s == nil {
		return
	}
	gauge("dte_chain_branch_ready", "1 when the branch can sell.", s.Ready && !s.Replaced)
	gauge("dte_chain_branch_contingency", "1 when the branch is in contingency.", s.Contingency != nil)
	gauge("dte_chain_branch_waiting_documents", "Documents that the branch owes MH.", s.Waiting.Documents)
	gauge("dte_chain_branch_desired_version", "The last desired state that the branch verified.",
		float64(s.Desired.Version))
	if ratio, known := s.RefusedRatio(); known {
		gauge("dte_chain_branch_refused_ratio", "The share of refusals in MH's newest decisions about the documents "+
			"of the rule in force that MH refuses most; absent before the first.", ratio)
	}
	for _, e := range s.Certificates { // a Status with an unknown or a repeated name is refused
		gauge("dte_chain_branch_certificate_end_timestamp_seconds", "When a certificate of the branch ends.", e.Ends,
			"certificate", e.Name)
	}
}

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
