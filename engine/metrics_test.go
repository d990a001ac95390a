package engine

import (
	"errors"
	"maps"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// TestMetrics: a sale counts once, under its state or its refusal, and a replay not at all. An invalidation counts
// under the state of its event.
func TestMetrics(t *testing.T) {
	r := &record.View{Estado: "PROCESSED", Invalidation: &record.Invalidation{Estado: "REJECTED"}}
	full := &refusal.Error{Code: refusal.CodeStorageFull}
	for _, c := range []struct {
		path string
		err  error
		want string
	}{
		{pathOnline, nil, "dte_documents_total/01/PROCESSED"},
		{pathContingency, nil, "dte_documents_total/01/PROCESSED"},
		{pathReplay, nil, ""}, {pathRefused, full, "dte_refusals_total/" + full.Code + "/01"},
		{pathReplay, full, "dte_refusals_total/" + full.Code + "/01"},
		{pathRefused, errors.New("x"), "dte_refusals_total/" + refusal.CodeInternal + "/01"},
	} {
		m := newMetrics()
		m.issued("01", c.path, r, c.err, time.Second)
		got := metrictest.Values(t, m.documents)
		maps.Copy(got, metrictest.Values(t, m.refusals))
		if len(got) != min(1, len(c.want)) || c.want != "" && got[c.want] != 1 {
			t.Errorf("%s, %v: %v, want %s", c.path, c.err, got, c.want)
		}
		if n := metrictest.Value(t, m.latency, "dte_issue_duration_seconds/"+c.path); n != 1 {
			t.Errorf("%s: %v times", c.path, n)
		}
	}
	for err, want := range map[error]string{nil: "REJECTED", full: full.Code} {
		m := newMetrics()
		m.invalidated(r, err)
		if got := metrictest.Values(t, m.events); len(got) != 1 || got["dte_invalidations_total/"+want] != 1 {
			t.Errorf("%v: %v", err, got)
		}
	}
}
