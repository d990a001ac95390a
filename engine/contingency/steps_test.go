package contingency_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/authority"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// mishaps are the hostilities that can befall a branch while it sends: each step goes wrong in each of its ways.
var mishaps = map[string]struct {
	chaos simulator.Chaos
	// poisoned: MH chokes on one of the documents, for two hours.
	poisoned bool
}{
	"calm":                  {},
	"event refused":         {chaos: simulator.Chaos{RejectEvents: 1}},
	"event refused twice":   {chaos: simulator.Chaos{RejectEvents: 2}},
	"event lost":            {chaos: simulator.Chaos{LostRequests: 1, Only: "events"}},
	"event, answer lost":    {chaos: simulator.Chaos{LostAnswers: 1, Only: "events"}},
	"event, answers lost":   {chaos: simulator.Chaos{LostAnswers: 3, Only: "events"}},
	"event, half an answer": {chaos: simulator.Chaos{HalfAnswers: 1, Only: "events"}},
	"event, 500":            {chaos: simulator.Chaos{ServerErrors: 2, Only: "events"}},
	"event, html":           {chaos: simulator.Chaos{HTML: 1, Only: "events"}},
	"event, token expired":  {chaos: simulator.Chaos{ExpiredTokens: 1}},
	"lot refused":           {chaos: simulator.Chaos{RejectLots: 1}},
	"lot lost on the way":   {chaos: simulator.Chaos{LostRequests: 1, Only: "lots"}},
	"lot, answer lost":      {chaos: simulator.Chaos{LostAnswers: 1, Only: "lots"}},
	"lot, half an answer":   {chaos: simulator.Chaos{HalfAnswers: 1, Only: "lots"}},
	"lot, 500":              {chaos: simulator.Chaos{ServerErrors: 2, Only: "lots"}},
	"lot, html":             {chaos: simulator.Chaos{HTML: 1, Only: "lots"}},
	"lot lost by MH":        {chaos: simulator.Chaos{LoseLots: 1}},
	"lot stuck at MH":       {chaos: simulator.Chaos{StuckLots: 1}},
	"query lost":            {chaos: simulator.Chaos{LostRequests: 1, Only: "queries"}},
	"query, answer lost":    {chaos: simulator.Chaos{LostAnswers: 1, Only: "queries"}},
	"query, html":           {chaos: simulator.Chaos{HTML: 1, Only: "queries"}},
	// Every lot is refused, down to single documents.
	"document late":         {chaos: simulator.Chaos{RejectLots: 100, LateRequests: 5, LateMS: 60_000}},
	"document, answer lost": {chaos: simulator.Chaos{RejectLots: 100, LostAnswers: 5, Only: "documents"}},
	"document, 500":         {chaos: simulator.Chaos{RejectLots: 100, ServerErrors: 5, Only: "documents"}},
	"document that chokes":  {poisoned: true},
}

// TestSteps plays every hostility against a branch that has five sales to report and to forward: without a crash, and
// with one after each of the first requests, for as many as there are.
func TestSteps(t *testing.T) {
	for name, c := range mishaps {
		t.Run(name, func(t *testing.T) {
			last := int64(6)
			if c.chaos.RejectLots > 1 {
				last = 10 // the documents come after the lots
			}
			for k := range last + 1 {
				if testing.Short() && k%3 != 2 { // the race detector makes it ten times as slow
					continue
				}
				crashed := true
				enginetest.InBubble(t, func(b *enginetest.Box) { crashed = b.Step(c.chaos, c.poisoned, k) })
				if t.Failed() {
					t.Fatalf("with a crash after request %d", k)
				}
				if k > 0 && !crashed {
					if k <= 3 {
						t.Errorf("only %d requests", k-1)
					}
					break
				}
			}
		})
	}
}

// Of a document that was forwarded MH holds the contingency form, unless the normal form was sealed before.
func TestFormSealed(t *testing.T) {
	forwarded := time.Date(2026, 11, 2, 14, 30, 0, 900e6, time.UTC) // 08:30 in El Salvador
	sent := forwarded.Add(-time.Hour)
	both := []string{record.FormNormal, record.FormContingency}
	corrected := []string{record.FormContingency, record.FormCorrection + "1"}
	later := []record.Correction{{Forwarded: forwarded}}
	for stamp, before := range map[string][2]bool{ // found by a query; found after the other form was refused
		"02/11/2026 08:30:00": {false, false}, // MH writes whole seconds
		"02/11/2026 08:30:05": {false, false},
		"02/11/2026 08:29:58": {false, true},
		"02/11/2026 08:29:57": {true, true},
		"":                    {false, false},
	} {
		for i, doubt := range []time.Duration{record.QueryDoubt, 0} {
			for _, c := range []struct {
				head  record.Head
				forms []string
				first bool
			}{
				{record.Head{Sent: sent, Forwarded: forwarded}, both, before[i]},
				{record.Head{Corrections: later}, corrected, before[i]},
				{record.Head{Sent: sent}, both, true}, // the contingency form was never sent
				{record.Head{}, both, false},          // the normal form was never sent
				{record.Head{Corrections: []record.Correction{{}}}, corrected, true},
				{record.Head{}, []string{record.FormContingency}, true}, // there is no other form
			} {
				want := c.forms[len(c.forms)-1]
				if c.first {
					want = c.forms[0]
				}
				if got := c.head.FormSealed(c.forms, authority.ParseTime(stamp), doubt); got != want {
					t.Errorf("%+v of %v, sealed %q, in doubt by %v: %s, want %s", c.head, c.forms, stamp, doubt, got,
						want)
				}
			}
		}
	}
}

// MH seals the normal form late: the document is in an event already, and MH was away when it was to be forwarded, ten
// minutes after the connection was cut, long after DoubtFor. The branch asks MH before the other form goes out, and
// never sends it.
func TestSteps_NormalFormLate(t *testing.T) {
	for sales := 1; sales <= 2; sales++ {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			b.Issue(enginetest.Sale("before", 100))
			b.Lateness = true
			b.Chaos(simulator.Chaos{LateRequests: 3 * sales, LateMS: 600_000})
			for i := range sales {
				b.Issue(enginetest.Sale(fmt.Sprint(i), 200+i))
			}
			b.At(func(point string) {
				if point == "after /fesv/contingencia" {
					b.Cable.Set(enginetest.Refusing)
					// until the client has seen its connections cut: before that it may still send
					time.Sleep(time.Second)
				}
			})
			time.Sleep(time.Hour)
			if got := b.Sim.Received(); got.Documents != 1+sales || got.Events != 1 || got.Lots != 0 {
				t.Errorf("MH received %+v", got)
			}
			b.Cable.Set(enginetest.Plugged)
			b.Drained()
			for code, held := range b.Sim.Accepted() {
				if r := b.Document(code); r.Estado != record.EstadoProcessed ||
					string(r.JSON) != string(held.Document) {
					t.Errorf("%s is %s\n%s\nMH holds\n%s", code, r.Estado, r.JSON, held.Document)
				}
			}
			// the policy's two resends
			if got := b.Sim.Received(); got.Documents != 1+sales || got.Lots != 0 || got.Duplicates != 2*sales {
				t.Errorf("MH received %+v: another form of what it holds", got)
			}
			b.Audit()
		})
	}
}

// MH swallows a sale, refuses it when it is sent again, at once or after a restart, and later accepts the first
// sending. Nobody is told of a refusal before MH has had its time, and the record ends as what MH holds.
func TestSteps_RefusedThenAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		chaos   simulator.Chaos
		offline bool // the sale is made in contingency; MH swallows it when it is forwarded
		crash   bool // the power fails behind the first sending
		accepts bool
	}{
		"accepted a minute later": {chaos: simulator.Chaos{LateRequests: 1, LateMS: 60_000, Reject: 1},
			accepts: true},
		"really refused": {chaos: simulator.Chaos{LostRequests: 1, Only: "documents", Reject: 9}},
		"the power fails": {chaos: simulator.Chaos{LateRequests: 1, LateMS: 60_000, Reject: 1},
			crash: true, accepts: true},
		"forwarded, accepted later": {chaos: simulator.Chaos{LateRequests: 1, LateMS: 180_000, Reject: 1},
			offline: true, accepts: true},
		"forwarded, a day later": {chaos: simulator.Chaos{LateRequests: 1, LateMS: 20 * 3600_000, Reject: 1},
			offline: true, accepts: true},
		"forwarded, and really refused": {chaos: simulator.Chaos{LostRequests: 1, Only: "documents", Reject: 9},
			offline: true},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				b.Lateness = true
				b.Chaos(simulator.Chaos{})
				b.Issue(enginetest.Sale("before", 100))
				if c.offline {
					b.Cable.Set(enginetest.Refusing)
				} else {
					b.Chaos(c.chaos)
				}
				if c.crash {
					b.At(func(point string) {
						if point == "after /fesv/recepciondte" {
							b.Wire.Sever()
						}
					})
					go func() { _, _ = b.Engine.Issue(context.Background(), enginetest.Sale("k", 200)) }()
					time.Sleep(2 * time.Second)
					b.Crash()
				}
				r := b.Issue(enginetest.Sale("k", 200))
				if r.Estado == record.EstadoRejected {
					b.T.Errorf("the till is told that the sale is refused, a moment after MH swallowed it")
				}
				if c.offline {
					time.Sleep(time.Hour)
					b.Chaos(c.chaos)
					b.Cable.Set(enginetest.Plugged)
				}
				time.Sleep(30 * time.Hour)
				now, want := b.Document(r.Code), record.EstadoRejected
				if c.accepts {
					want = record.EstadoProcessed
				}
				if now.Estado != want {
					b.T.Errorf("it is %s in the end, want %s: %+v", now.Estado, want, now.Response)
				}
				b.Chaos(simulator.Chaos{})
				b.Audit()
			})
		})
	}
}
