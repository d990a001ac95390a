package adminclient

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/contingency"
)

// TestQueue: the output shows what /status has, each deadline under its own name, in El Salvador's time with the zone,
// whatever the box's zone is.
func TestQueue(t *testing.T) {
	now := time.Date(2026, 12, 1, 14, 0, 0, 0, time.UTC)
	told, err := json.Marshal(map[string]any{"owed": engine.Backlog{Backlog: contingency.Backlog{At: now,
		Contingency: &contingency.Period{Began: now.Add(-30 * time.Hour), Cause: 3, Motive: "sin ruta", Declared: true},
		Waiting: map[string]int{"settle": 1, "report": 2, "event": 3, "forward": 4, "lot": 5, "invalidate": 6,
			"correct": 7},
		Oldest: now.Add(-31 * time.Hour), EventDeadline: now.Add(-time.Minute),
		DocumentDeadline:   now.Add(71 * time.Hour),
		CorrectionDeadline: now.Add(23 * time.Hour), RefusedDeadline: now.Add(22 * time.Hour),
		TechnicalReport: now.Add(41 * time.Hour), Refused: "[096] x"}}})
	if err != nil {
		t.Fatal(err)
	}
	var s Status
	if err := json.Unmarshal(told, &s); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if n := PrintOwed(&out, &s.Owed, now); n != 21 {
		t.Errorf("%d wait", n)
	}
	const want = `CONTINGENCY                cause 3 since 2026-11-30 02:00:00 -06:00, declared by operator  sin ruta
settle                     1                                                               signed, their outcome not known
report                     2                                                               in contingency, in no event yet
event                      3                                                               contingency events for MH
forward                    4                                                               reported, the document itself owed
lot                        5                                                               lots that MH works on
invalidate                 6                                                               invalidations without an answer
oldest document            2026-11-30 01:00:00 -06:00                                      31h0m0s ago
event due                  2026-12-01 07:59:00 -06:00                                      1m0s ago
documents due              2026-12-04 07:00:00 -06:00                                      in 71h0m0s
correction due             2026-12-02 07:00:00 -06:00                                      in 23h0m0s
technical report           2026-12-03 01:00:00 -06:00                                      three days of contingency: MH wants a report before the event (dtectl contingency report)
refused by MH              7                                                               may be corrected under their own code, the first until 2026-12-02 06:00:00 -06:00
MH refused the last event  [096] x
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	out.Reset()
	if n := PrintOwed(&out, new(contingency.Backlog), now); n != 0 || out.String() != "nothing waits\n" {
		t.Errorf("%d: %s", n, &out)
	}
	// Work that a person must do never stands beside the words "nothing waits".
	for _, o := range []*contingency.Backlog{{Waiting: map[string]int{"correct": 1}}, {Refused: "[096] x"},
		{TechnicalReport: now}, {Lost: 1}} {
		if out.Reset(); PrintOwed(&out, o, now) != 0 || strings.Contains(out.String(), "nothing waits") {
			t.Errorf("%+v: %s", o, &out)
		}
	}
}
