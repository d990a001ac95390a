package rulestore

import (
	"cmp"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// Listing lists the bundles of a branch, including those taken off.
type Listing struct {
	Day    string        `json:"day"`
	Engine string        `json:"engine"` // compiler or interpreter
	Rules  []ShownBundle `json:"rules"`
	Return *StepBack     `json:"return"` // the latest automatic step back; null: none, or its bundle was reinstated
	// Notes are remarks about the records, in sentences.
	Notes []string `json:"notes,omitempty"`
}

// Sentence returns a text that names who vouches for the bundle, or why it may not be used.
func (b *ShownBundle) Sentence() string {
	switch {
	case b.Trouble != nil && b.Trouble.Why == TroubleUnvouched:
		return "nobody's signature: it computes nothing (" + b.Trouble.Text + ")"
	case b.Trouble != nil:
		return "damaged: it computes nothing (" + b.Trouble.Text + ")"
	case b.Vouched == VouchedByKeys:
		return "signed by " + strings.Join(b.SignedBy, ", ")
	}
	return "vouched for by this box, which admitted it signed by " + strings.Join(b.SignedBy, ", ") +
		"; not enough of these keys are pinned today, or it was not opened since the start"
}

// ShownBundle is a bundle and its state.
type ShownBundle struct {
	Admitted
	State string `json:"state"` // live, coming, spare, retired, damaged or unvouched
	// Vouched names who vouches for the bundle: "keys" (the keys in SignedBy, pinned today), "box" (this box admitted
	// the bundle while its keys were pinned), or "" (nobody: the bundle is not used).
	Vouched  string   `json:"vouched"`
	SignedBy []string `json:"signed_by"`
	Trouble  *Trouble `json:"trouble"` // why the bundle may not be used, null if it may be used
	// Floor is the highest version of the generation that has begun here. A bundle pushed for today must exceed it.
	Floor string `json:"floor"`
	// Expires is the last day of a bundle without a successor. Expired: the day has passed; the bundle stays in force.
	Expires string `json:"expires,omitempty"`
	Expired bool   `json:"expired,omitempty"`
	// Outcomes are MH's newest decisions about the bundle's documents, and its failures; absent without any for a week.
	Outcomes *dte.Outcomes `json:"outcomes,omitempty"`
	Off      *StepBack     `json:"off,omitempty"` // why the bundle was taken off
}

// Inspect opens every bundle of a store, and lists the bundles and who vouches for them. It changes nothing, and uses
// the options Store, Keys, Box, Ambiente and Now. Only a start shows whether a module runs.
func Inspect(o Options) (*Listing, error) {
	o.Logger = slog.New(slog.DiscardHandler) // the list has all findings
	s := New(o)
	if err := s.restore(); err != nil {
		return nil, err
	}
	for _, i := range s.items {
		if i.trouble != nil {
			continue
		}
		if _, err := s.openBundle(i); err != nil {
			s.refuse(i, err)
		}
	}
	if err := s.recount(); err != nil {
		return nil, err
	}
	return s.List(), nil
}

// List lists every bundle, sorted by kind, document, generation and version.
func (s *Store) List() *Listing {
	on := s.computable()
	l := &Listing{Day: s.today()}
	if s.o.Host != nil {
		l.Engine = s.o.Host.Engine()
	}
	s.mu.RLock()
	l.Return, l.Notes = s.last, s.notes
	for _, i := range s.items {
		shown := ShownBundle{Admitted: i.Admitted, State: place(on, i, l.Day), Off: i.off, Vouched: i.vouched,
			SignedBy: i.signedBy, Trouble: i.trouble}
		shown.Steps = nil
		if o := s.guard.Outcomes(i.Digest, s.o.Now()); o.Decided+o.Failed > 0 {
			shown.Outcomes = &o
		}
		switch {
		case i.trouble != nil:
			shown.Vouched, shown.SignedBy = "", nil
			if i.off == nil {
				shown.State = i.trouble.Why
			}
		case i.vouched == "" && i.word == recordmac.Own: // the bundle has not been opened since the start
			shown.Vouched, shown.SignedBy = VouchedByBox, i.Signers
		}
		if shown.State == Live {
			if until := expiry(on, i); until != "" {
				shown.Expires, shown.Expired = until, until < l.Day
			}
		}
		l.Rules = append(l.Rules, shown)
	}
	s.mu.RUnlock()
	for n := range l.Rules {
		r := &l.Rules[n]
		r.Floor = s.floor(&bundle.Manifest{Kind: r.Kind, Document: r.Document, Schema: r.Schema})
	}
	slices.SortStableFunc(l.Rules, func(a, b ShownBundle) int {
		return cmp.Or(cmp.Compare(a.Kind+a.Document, b.Kind+b.Document), cmp.Compare(a.Schema, b.Schema),
			bundle.Compare(a.Version, b.Version))
	})
	return l
}

// place returns the state of a bundle on a day: Live, Coming, Spare or Retired.
func place(on []*shelved, i *shelved, day string) string {
	at := slices.IndexFunc(on, func(o *shelved) bool { return o.Digest == i.Digest })
	switch {
	case at < 0:
		return Retired
	case inForce(on, on[at], day) == on[at]:
		return Live
	case on[at].From > day && inForce(on, on[at], on[at].From) == on[at]:
		return Coming
	}
	return Spare
}

func (s *Store) stateOf(i *shelved) string { return place(s.computable(), i, s.today()) }

// expiry returns the last day of a bundle that has no successor, otherwise "".
func expiry(on []*shelved, i *shelved) string {
	if i.Until == "" {
		return ""
	}
	last, err := time.Parse(time.DateOnly, i.Until)
	if err != nil || inForce(on, i, last.AddDate(0, 0, 1).Format(time.DateOnly)) != i {
		return ""
	}
	return i.Until
}

func (s *Store) module(digest string) *rules.Module {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.loaded[digest]; r != nil {
		return r.Module
	}
	return nil
}

type metrics struct {
	activations *prometheus.CounterVec
	steppedBack *prometheus.CounterVec
	shadowed    *prometheus.CounterVec
	retried     prometheus.Counter
	unsold      prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		activations: record.NewCounters("dte_rule_activations_total",
			"Rule bundles that were pushed, by result: activated, refused.", "result", "activated", "refused"),
		steppedBack: record.NewCounters("dte_rule_step_backs_total", "Steps to another rule bundle, by way: rollback "+
			"(an operator), return (the branch itself), reinstate (an operator, after a return), cancel (of a bundle "+
			"not in force yet), again (a cancelled bundle was pushed again), acknowledge (of a return).", "way",
			wayRollback, wayReturn, wayReinstate, wayCancel, wayAgain, wayAcknowledge),
		shadowed: record.NewCounters("dte_rule_shadow_documents_total",
			"Live sales that a shadow computed, by the result of the comparison.", "result", MadeSame, MadeOther,
			MadeLayout, MadeRefused, MadeFailed),
		unsold: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_rule_refused_sales_total",
			Help: "Sales and invalidations refused because their rule failed and no other rule may compute them."}),
		retried: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_rule_retried_total",
			Help: "Sales whose rule failed and that the last good rule computed."}),
	}
}

func (s *Store) Collect(ch chan<- prometheus.Metric) {
	m := s.metrics
	record.SendAll(ch, m.activations, m.steppedBack, m.shadowed, m.retried, m.unsold)
	// at sends a time as a metric: the start of a day (day), plus a number of days.
	at := func(name, help, day string, days int, labels ...string) {
		if begins, err := time.ParseInLocation(time.DateOnly, day, dte.Zone); err == nil {
			record.SendGauge(ch, name, help, begins.AddDate(0, 0, days), labels...)
		}
	}
	list, expired := s.List(), 0
	refused := map[string]int{TroubleDamaged: 0, TroubleUnvouched: 0}
	for _, r := range list.Rules {
		schema := strconv.Itoa(r.Schema)
		own := []string{"kind", r.Kind, "document", r.Document, "version", r.Version, "schema", schema}
		switch r.State {
		case TroubleDamaged, TroubleUnvouched:
			refused[r.State]++
		case Coming:
			at("dte_rule_coming_timestamp_seconds", "When a waiting rule takes over, as Unix time.", r.From, 0, own...)
		}
		if r.State != Live {
			continue
		}
		record.SendGauge(ch, "dte_rule_info", "1 for each rule in force today.", true, own...)
		if o := r.Outcomes; o != nil && o.Decided > 0 {
			for outcome, n := range map[string]int{"accepted": o.Decided - o.Refused, "rule": o.ByRule,
				"other": o.Refused - o.ByRule} {
				record.SendGauge(ch, "dte_rule_outcomes", "MH's newest decisions about what a rule in force made: "+
					"accepted, rule (refused for what the rule made), other (refused).", n,
					append(own, "outcome", outcome)...)
			}
		}
		if m := s.module(r.Digest); m != nil {
			record.SendGauge(ch, "dte_rule_fuel_budget_units",
				"Fuel that a call of a rule in force may use, as its manifest declares.", float64(m.Fuel()), "document",
				r.Document, "schema", schema)
			record.SendGauge(ch, "dte_rule_fuel_peak_units",
				"The most fuel that a call of a rule in force has used since it was loaded.", float64(m.Peak()),
				"document", r.Document, "schema", schema)
		}
		if r.Expires != "" {
			at("dte_rule_expiry_timestamp_seconds", "When a rule in force that has no successor ends, as Unix time. "+
				"It stays in force after that.", r.Expires, 1, "kind", r.Kind, "document", r.Document)
		}
		if r.Expired {
			expired++
		}
	}
	record.SendGauge(ch, "dte_rules_expired", "Rules in force past their last day, because they have no successor.",
		expired)
	for why, n := range refused {
		record.SendGauge(ch, "dte_rules_refused", "Stored rules that may not compute: damaged, or unvouched: signed "+
			"by no pinned key and not marked by this box.", n, "reason", why)
	}
	record.SendGauge(ch, "dte_rule_return_timestamp_seconds",
		"When the branch last returned to an earlier rule by itself; 0: never.", cmp.Or(list.Return, new(StepBack)).At)
}
