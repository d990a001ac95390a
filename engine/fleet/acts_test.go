package fleet

import (
	"errors"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
)

// TestTell: a box that cannot send its acts keeps the newest thousand, in their order.
func TestTell(t *testing.T) {
	now := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	c, s := &Agent{o: Options{Branch: "centro", Now: func() time.Time { return now }}}, new(state)
	for n := range int64(maxActs + 3) {
		c.queueAct(s, fleetproto.Act{What: fleetproto.ActSettings, Version: n + 1})
		if len(s.Acts) != int(min(n+1, maxActs)) || s.Acts[len(s.Acts)-1].Version != n+1 {
			t.Fatalf("after %d acts %d are kept", n+1, len(s.Acts))
		}
	}
	if first := s.Acts[0]; first.Version != 4 || first.Branch != "centro" || !first.At.Equal(now) {
		t.Errorf("the first is %+v", first)
	}
}

// TestMetrics_Count: an answer that says that an object is there, is not, or is too large is an answer; anything else
// is a failed request.
func TestMetrics_Count(t *testing.T) {
	for err, want := range map[error]string{nil: "ok", archive.ErrNotFound: "ok", archive.ErrExists: "ok",
		archive.ErrTooLarge: "ok", archive.ErrSetup: "failed", archive.ErrFull: "failed", errors.New("x"): "failed"} {
		m := newMetrics()
		m.count("put", err)
		for name, n := range metrictest.Values(t, m.requests) {
			if (n == 1) != (name == "dte_fleet_requests_total/"+want+"/put") {
				t.Errorf("%v: %v of %s", err, n, name)
			}
		}
	}
}
