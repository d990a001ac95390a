package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// TestClockSetBack: the clock is an hour before the store's time. A sale is refused with the reason, a repeated sale
// gets its earlier answer, and the branch sells again without any action by a person.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	first := decode(t, b.insist(1, "before", hammerSale(1, 1)))
	b.stop()
	s, err := storage.Open(b.storeOptions())
	if err == nil {
		err = errors.Join(s.Beat(time.Now().Add(time.Hour), time.Time{}), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.chaos(simulator.Chaos{Outage: true})
	b.launch()
	if said := b.await(http.StatusServiceUnavailable); !strings.Contains(said, "CLOCK_WRONG") {
		t.Errorf("/readyz says %q", said)
	}
	// a restart would not help
	if status, said := b.getOps("/livez"); status != http.StatusOK || string(said) != "ok\n" {
		t.Errorf("/livez says %d %q", status, said)
	}
	status, body, err := b.post("/dte/dte01", 1, "now", hammerSale(1, 2))
	var problem struct{ Type, Message string }
	if err := errors.Join(err, json.Unmarshal(body, &problem)); err != nil || status != 503 ||
		problem.Type != refusal.CodeClockWrong || !strings.Contains(problem.Message, "atrasado") {
		t.Errorf("%d %s %v", status, body, err)
	}
	if status, body, err := b.post("/dte/dte01", 1, "before", hammerSale(1, 1)); err != nil || status != 201 ||
		decode(t, body).Code != first.Code {
		t.Errorf("the sale of before: %d %s %v", status, body, err)
	}
	if b.metric("dte_clock_doubted") != 1 {
		t.Errorf("no doubt in the metrics")
	}
	b.chaos(simulator.Chaos{}) // and MH gives the time
	b.await(http.StatusOK)
	second := decode(t, b.insist(1, "now", hammerSale(1, 2)))
	if doubted, skew := b.metric("dte_clock_doubted"), b.metric("dte_clock_skew_seconds"); doubted != 0 || skew > 60 {
		t.Errorf("the metrics still doubt the clock: %v, %v s off", doubted, skew)
	}
	if second.ControlNumber[len(second.ControlNumber)-1] != '2' {
		t.Errorf("%s after %s", second.ControlNumber, first.ControlNumber)
	}
	b.stop()
	b.fsck(2, 1)
}

// metric returns the value of a series of the metrics.
func (b *branch) metric(series string) float64 {
	b.t.Helper()
	_, shown := b.getOps("/metrics")
	for line := range strings.Lines(string(shown)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return n
		}
	}
	b.t.Fatalf("the metrics have no %s", series)
	return 0
}
