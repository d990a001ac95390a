package deploy_test

import (
	"fmt"
	"time"
)

// show writes what a scrape of the branch's box reads.
func (b *simulated) show(put func(name, more string, v float64), unix func(time.Time) float64, t time.Time,
	people bool) {
	gauge := func(name string, v float64) { put(name, "", v) }
	flag := func(name string, set bool) {
		v := 0.0
		if set {
			v = 1
		}
		put(name, "", v)
	}
	n, up := b.counts, t.Sub(b.started)
	backing := b.backup.Equal(t)
	if b.hours != nil {
		first, second, _ := b.hours.NextOpenings(t)
		gauge("dte_branch_opens_timestamp_seconds", unix(first.From))
		gauge("dte_branch_closes_timestamp_seconds", unix(first.To))
		gauge("dte_branch_reopens_timestamp_seconds", unix(second.From))
	}
	gauge("process_start_time_seconds", unix(b.started)+1)

	put("dte_http_requests_total", `, route="/dte/dte01", class="2xx"`, n["sales"])
	put("dte_http_requests_total", `, route="/dte/invalidacion", class="5xx"`, n["503"])
	cut := 0.0
	if update.holds(b.started) {
		cut = 2
	}
	put("dte_http_requests_total", `, route="/dte/dte01", class="5xx"`, cut)
	for _, bucket := range []struct {
		path, le string
		v        float64
	}{
		{"contingency", "0.01", n["contingency"] * 0.9}, {"contingency", "8", n["contingency"] * 0.95}, {"contingency",
			"+Inf", n["contingency"]},
		{"online", "0.5", n["online"]}, {"online", "2.5", n["online"] + 0.5*n["slow"]}, {"online", "8",
			n["online"] + 0.97*n["slow"]},
		{"online", "32", n["online"] + n["slow"] + n["endless"]}, {"online", "+Inf",
			n["online"] + n["slow"] + n["endless"]},
	} {
		put("dte_issue_duration_seconds_bucket", `, path="`+bucket.path+`", le="`+bucket.le+`"`, bucket.v)
	}
	put("dte_issue_duration_seconds_count", `, path="online"`, n["online"]+n["slow"]+n["endless"])

	flag("dte_authority_up", b.since.IsZero() && up > 0)
	put("dte_authority_requests_total", `, operation="probe", result="unknown"`, n["requests"])
	put("dte_authority_logins_total", `, result="refused"`, 0)
	put("dte_documents_total", `, document="03", estado="REJECTED"`, n["rejected"])
	put("dte_documents_total", `, document="03", estado="PROCESSED"`, n["sales"])

	flag("dte_contingency_active", !b.since.IsZero())
	gauge("dte_contingency_since_timestamp_seconds", unix(b.since))
	event, documents, correction := 0.0, 0.0, 0.0
	switch after := t.Sub(b.ended); {
	case b.ended.IsZero():
	case after < 5*time.Minute || !people:
		event = unix(b.ended.Add(24 * time.Hour))
	case after < 10*time.Minute: // the first event was refused, the second is sealed
		correction = unix(t.Add(24 * time.Hour))
	default:
		documents = unix(t.Add(72 * time.Hour))
	}
	gauge("dte_contingency_event_deadline_timestamp_seconds", event)
	gauge("dte_contingency_documents_deadline_timestamp_seconds", documents)
	gauge("dte_contingency_correction_deadline_timestamp_seconds", correction)
	gauge("dte_contingency_technical_report_timestamp_seconds", 0)
	gauge("dte_refused_documents_deadline_timestamp_seconds", 0)
	put("dte_late_rejections_total", `, document="01"`, 0)
	gauge("dte_queue_oldest_timestamp_seconds", unix(b.oldest))
	gauge("dte_lost_records", 0)

	put("dte_rule_failures_total", `, reason="trap"`, 0)
	put("dte_rule_outcomes", `, kind="document", document="03", version="3.0.0", schema="4", outcome="accepted"`, 95)
	put("dte_rule_outcomes", `, kind="document", document="03", version="3.0.0", schema="4", outcome="other"`, 5)
	put("dte_rules_refused", `, reason="unvouched"`, 0)
	gauge("dte_rule_return_timestamp_seconds", 0)
	put("dte_rule_expiry_timestamp_seconds", `, kind="document", document="03"`, float64(90*86400))

	stopped := 0.0
	if blocked.holds(t) {
		stopped = 1
	}
	put("dte_delivery_blocked", `, step="mail"`, stopped)
	put("dte_delivery_oldest_timestamp_seconds", `, step="mail"`, unix(b.oldest))
	gauge("dte_delivery_given_up", 0)

	flag("dte_store_damaged", false)
	flag("dte_store_behind", false)
	gauge("dte_numbers_ahead_series", 0)
	flag("dte_store_tables_failing", false)
	flag("dte_store_full", false)
	gauge("dte_store_read_timestamp_seconds", unix(b.read))
	gauge("dte_store_mark_proved_timestamp_seconds", unix(t))
	gauge("dte_store_backup_timestamp_seconds", unix(b.backup))
	gauge("dte_store_reserve_bytes", 512<<20)
	free, slow := b.free, 1.0
	if backing {
		free, slow = free-2e9, 0.98
		n["slowSyncs"] += 2
	}
	gauge("dte_store_free_bytes", free)
	for _, name := range []string{"dte_store_sync_seconds_bucket", "dte_store_mark_write_seconds_bucket"} {
		put(name, `, le="0.0128"`, 20*n["sales"]*slow)
		put(name, `, le="0.8192"`, 20*n["sales"]+n["slowSyncs"])
		put(name, `, le="+Inf"`, 20*n["sales"]+n["slowSyncs"])
	}
	if b.card {
		flag("dte_store_second_copy_live", up >= 10*time.Minute)
		gauge("dte_store_second_copy_bad_segments", 0)
		gauge("dte_store_second_copy_bad_segments_found_total", 0)
		gauge("dte_store_second_copy_scrub_timestamp_seconds", unix(b.scrub))
	}
	skew := 0.3
	if !b.night && up <= 5*time.Minute {
		skew = -90
	}
	gauge("dte_clock_skew_seconds", skew)
	flag("dte_clock_doubted", false)
	for i, name := range []string{"api", "ops", "ca"} {
		put("dte_tls_certificate_expiry_timestamp_seconds", fmt.Sprintf(`, certificate=%q`, name),
			float64((120+1000*i)*86400))
		put("dte_tls_certificate_broken", fmt.Sprintf(`, certificate=%q`, name), 0)
	}
	gauge("dte_signing_certificate_expiry_timestamp_seconds", 180*86400)
	flag("dte_token_file_broken", false)
	flag("dte_fleet_replaced", false)
	flag("dte_chain_branch_ready", b.night || up > 5*time.Minute)
	gauge("dte_chain_branch_deadline_timestamp_seconds", event)
	put("dte_chain_branch_certificate_end_timestamp_seconds", `, certificate="signing"`, float64(180*86400))
	gauge("dte_chain_desired_expires_timestamp_seconds", unix(t.AddDate(0, 2, 0)))
	put("dte_chain_lost", "", 0)
	put("dte_chain_rollout_branches", `, stage="failed"`, 0)
	flag("dte_fleet_trouble", !b.night && up <= 5*time.Minute)
	gauge("dte_fleet_desired_expiry_timestamp_seconds", 60*86400)
	if b.card { // what is on it is shipped
		flag("dte_fleet_ship_sync", b.night || up > 5*time.Minute)
		behind := 0.0
		if !b.night && up <= 5*time.Minute {
			behind = 40
		}
		gauge("dte_fleet_ship_behind_changes", behind)
		flag("dte_fleet_ship_incomplete", false)
	}
	put("dte_http_refused_total", `, listener="api", reason="token"`, n["token"])
}
