package contingency_test

import (
	"fmt"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
)

// TestEvent_LastHour: a cause that ended almost a day ago, and could not be reported because the next cause began, is
// one cause with the next: MH accepts the event even hours after the first cause's own day. A cause that can be
// reported in time ends when it ended.
func TestEvent_LastHour(t *testing.T) {
	for name, c := range map[string]struct {
		second time.Duration // how long after the first cause's end the second one ends
		silent time.Duration // how much longer MH takes no event
		whole  bool          // the first event reports that its cause ended with the second
	}{
		"in its last hour, and MH takes it an hour later": {23*time.Hour + 15*time.Minute, time.Hour, true},
		"after its day":                     {26 * time.Hour, 0, true},
		"in good time":                      {2 * time.Hour, 0, false},
		"a little more than an hour before": {22*time.Hour + 45*time.Minute, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				// The event of the first cause waits for its document, which MH may hold. Otherwise it would be made as
				// soon as the second cause is no longer part of the first (reportAfter).
				const reportAfter = 15 * time.Second
				b.DoubtFor = 2 * time.Hour
				b.Restart(nil)
				b.Issue(enginetest.Sale("before", 100)) // logs in
				b.Chaos(simulator.Chaos{Silence: true})
				b.Issue(enginetest.Sale("first", 100))
				time.Sleep(time.Hour)
				b.Chaos(simulator.Chaos{})
				b.PlugIn()
				ended := time.Now()
				time.Sleep(2 * reportAfter)
				if n := b.Sim.Received().Events; n != 0 {
					t.Errorf("MH has %d events already", n)
					return
				}
				b.Cable.Set(enginetest.Refusing)
				b.Issue(enginetest.Sale("second", 200))
				time.Sleep(c.second - time.Since(ended))
				if c.silent > 0 {
					b.Chaos(simulator.Chaos{ServerErrors: 1_000_000, Only: "events"})
				}
				b.PlugIn()
				again := time.Now()
				time.Sleep(c.silent)
				b.Chaos(simulator.Chaos{})
				b.Drained()
				events := b.Sim.Events()
				if len(events) != 2 {
					t.Errorf("MH received %d events", len(events))
					return
				}
				want := ended
				if c.whole {
					want = again
				}
				first, second := events[0], events[1]
				if second.Began.Before(first.Began) {
					first, second = second, first
				}
				if first.Ended.Sub(want).Abs() > time.Minute || second.Ended.Sub(again).Abs() > time.Minute {
					t.Errorf("for MH the causes ended at %v and %v, not about %v and %v", first.Ended, second.Ended,
						want, again)
				}
				if n := metrictest.Values(t, b.Engine)["dte_contingency_events_total/rejected"]; n != 0 {
					t.Errorf("MH refused %v events", n)
				}
				b.Audit()
			})
		})
	}
}

// TestEvent_HalfDay: the event of a contingency waits for a document that MH may hold for half of the time that the law
// allows, and then reports the other documents; that document has an event of its own, in time.
func TestEvent_HalfDay(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.DoubtFor = 20 * time.Hour
		b.Restart(nil)
		b.Issue(enginetest.Sale("before", 100)) // logs in
		b.Chaos(simulator.Chaos{Silence: true})
		began := time.Now()
		doubtful := b.Issue(enginetest.Sale("in doubt", 100)).Code
		first := b.Issue(enginetest.Sale("first", 200)).Code
		second := b.Issue(enginetest.Sale("second", 300)).Code
		b.Chaos(simulator.Chaos{})
		b.PlugIn()
		for _, c := range []struct {
			after time.Duration
			want  [][]string // the documents of each event
		}{
			{12*time.Hour - time.Minute, nil},
			{12*time.Hour + 2*time.Minute, [][]string{{first, second}}},
			{20*time.Hour - time.Minute, [][]string{{first, second}}},
			{20*time.Hour + 2*time.Minute, [][]string{{first, second}, {doubtful}}},
		} {
			time.Sleep(c.after - time.Since(began))
			var got [][]string
			for _, e := range b.Sim.Events() {
				got = append(got, e.Documents)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("after %v MH has the events %v, want %v", c.after, got, c.want)
			}
		}
		b.Drained()
		b.Audit()
	})
}
