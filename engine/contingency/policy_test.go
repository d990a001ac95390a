package contingency_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// MH has taken the sale, and its answer is lost: the branch asks MH, and does not send the sale again.
func TestPolicy_LostAnswer(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{LostAnswers: 1})
		if r := b.Issue(enginetest.Sale("k", 100)); r.Estado != record.EstadoProcessed {
			t.Errorf("the sale is %s", r.Estado)
		}
		if got := b.Sim.Received(); got.Documents != 1 || got.Duplicates != 0 {
			t.Errorf("MH received %+v", got)
		}
		b.Audit()
	})
}

// timed issues a sale and measures what it cost the till.
func timed(b *enginetest.Box, req engine.Request) (*record.View, time.Duration) {
	b.T.Helper()
	began := time.Now()
	r := b.Issue(req)
	return r, time.Since(began)
}

// A request that certainly did not arrive costs the till less than a second, with a token and without one.
func TestPolicy_CertainFailures(t *testing.T) {
	for name, state := range map[string]enginetest.CableState{"refused": enginetest.Refusing, "no name": enginetest.NoName, "no route": enginetest.CutOff,
		"packets dropped": enginetest.Dropping} {
		for _, login := range []bool{false, true} {
			t.Run(map[bool]string{false: name, true: name + ", before a login"}[login], func(t *testing.T) {
				enginetest.InBubble(t, func(b *enginetest.Box) {
					b.Chaos(simulator.Chaos{})
					if !login {
						b.Issue(enginetest.Sale("before", 100))
					}
					b.Cable.Set(state)
					if r, took := timed(b, enginetest.Sale("first", 200)); r.Estado != record.EstadoContingency ||
						took >= time.Second {
						t.Errorf("the first sale is %s after %v", r.Estado, took)
					}
					if r, took := timed(b, enginetest.Sale("next", 300)); r.Estado != record.EstadoContingency ||
						took > 0 {
						t.Errorf("the next sale is %s after %v", r.Estado, took)
					}
					b.Cable.Set(enginetest.Plugged)
					b.Drained()
					b.Audit()
				})
			})
		}
	}
}

// Silence costs 8 s for the answer and 8 s for the query (MT1 §3.3), by which time the probe has found that nobody is
// there. It costs only the sales that are on their way then.
func TestPolicy_Silence(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		b.Issue(enginetest.Sale("before", 100))
		b.Chaos(simulator.Chaos{Silence: true})
		var wg sync.WaitGroup
		for _, s := range []struct {
			key        string
			after, max time.Duration
		}{
			{"first", 0, 16 * time.Second},
			{"beside it", 0, 16 * time.Second},
			{"a little later", 5 * time.Second, 8 * time.Second}, // not queried: nobody would answer
			{"in contingency", 13 * time.Second, 0},
		} {
			wg.Go(func() {
				time.Sleep(s.after)
				if r, took := timed(b, enginetest.Sale(s.key, 200+len(s.key))); r.Estado != record.EstadoContingency ||
					took > s.max {
					t.Errorf("%s: %s after %v, not %v", s.key, r.Estado, took, s.max)
				}
			})
		}
		wg.Wait()
		b.Chaos(simulator.Chaos{})
		b.Drained()
		b.Audit()
	})
}

// Where a branch has a patience of its own, the first sale of a silence is answered when it ends. A till's own wait has
// precedence.
func TestPolicy_Patience(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		b.Close()
		b.Patience = 5 * time.Second
		b.Start()
		b.Issue(enginetest.Sale("before", 100))
		b.Chaos(simulator.Chaos{Silence: true})
		own := enginetest.Sale("its own", 300)
		own.Wait = 2 * time.Second
		var wg sync.WaitGroup
		for _, s := range []struct {
			req  engine.Request
			took time.Duration
		}{{enginetest.Sale("first", 200), 5 * time.Second}, {own, 2 * time.Second}} {
			wg.Go(func() {
				if r, took := timed(b, s.req); r.Estado != record.EstadoContingency || took != s.took {
					t.Errorf("%s: %s after %v, not %v", s.req.IdempotencyKey, r.Estado, took, s.took)
				}
			})
		}
		wg.Wait()
		b.Chaos(simulator.Chaos{})
		b.Drained()
		b.Audit()
	})
}

// A till that waits only a second is answered after a second; what MH has of its sale is found out later, by query.
func TestPolicy_Wait(t *testing.T) {
	for name, c := range map[string]struct {
		chaos  simulator.Chaos
		modelo string // of what MH holds in the end
		events int
	}{
		"MH has swallowed it": {simulator.Chaos{Silence: true}, "2", 1},
		"MH has taken it":     {simulator.Chaos{DelayMS: 60_000}, "1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				b.Chaos(simulator.Chaos{})
				b.Issue(enginetest.Sale("before", 100))
				b.Chaos(c.chaos)
				req := enginetest.Sale("impatient", 200)
				req.Wait = time.Second
				r, took := timed(b, req)
				if r.Estado != record.EstadoContingency || took != time.Second ||
					enginetest.Text(t, r, "identificacion",
						"tipoModelo") != "2" {
					t.Errorf("%s after %v: %s", r.Estado, took, r.JSON)
				}
				if again, took := timed(b, req); again.Code != r.Code || !bytes.Equal(again.JWS, r.JWS) || took > 0 {
					t.Errorf("the key again gave %s after %v, was %s", again.Code, took, r.Code)
				}
				time.Sleep(5 * time.Second)
				if b.Engine.Contingency().Current() == nil {
					t.Error("the branch does not probe MH")
				}
				time.Sleep(55 * time.Second)
				b.Chaos(simulator.Chaos{})
				b.Drained()
				now := b.Document(r.Code)
				if got := enginetest.Text(t, now, "identificacion", "tipoModelo"); now.Estado != record.EstadoProcessed ||
					got != c.modelo {
					t.Errorf("in the end it is %s, tipoModelo %s", now.Estado, got)
				}
				if got := b.Sim.Received(); got.Documents != 2 || got.Events != c.events {
					t.Errorf("MH received %+v", got)
				}
				b.Audit()
			})
		})
	}
}

// When MH answers that it holds a code already (004), a query settles it: MH had the document all along.
func TestPolicy_Registered(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Lateness = true // the second sending arrives when the first has been processed
		b.Issue(enginetest.Sale("before", 100))
		// sealed while the query's answer "no" is on its way
		b.Chaos(simulator.Chaos{LateRequests: 1, LateMS: 300, DelayMS: 500})
		asked := 0
		b.At(func(point string) {
			if point == "before /fesv/recepciondte" {
				asked++
			}
		})
		r := b.Issue(enginetest.Sale("late", 200))
		if got := b.Sim.Received(); r.Estado != record.EstadoProcessed || asked != 2 || got.Documents != 2 ||
			got.Duplicates != 1 {
			t.Errorf("%s after %d sendings; MH received %+v", r.Estado, asked, got)
		}
		b.Audit()
	})
}

// While only one document goes unanswered, only that one is deferred: the branch is not in contingency. The document's
// event covers the time until MH was given up.
func TestPolicy_OneDocument(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Issue(enginetest.Sale("before", 100))
		b.Chaos(simulator.Chaos{ServerErrors: 3, DelayMS: 1500, Only: "documents"})
		r := b.Issue(enginetest.Sale("unlucky", 200))
		if r.Estado != record.EstadoContingency || b.Engine.Contingency().Current() != nil {
			t.Errorf("it is %s, the branch in %+v", r.Estado, b.Engine.Contingency().Current())
		}
		until := b.Now()
		if next := b.Issue(enginetest.Sale("next", 300)); next.Estado != record.EstadoProcessed {
			t.Errorf("the next sale is %s", next.Estado)
		}
		b.Drained()
		if events := b.Sim.Events(); len(events) != 1 || events[0].Ended.Before(until) {
			t.Errorf("deferred at %v, reported by %+v", until, events)
		}
		if now := b.Document(r.Code); now.Estado != record.EstadoProcessed {
			t.Errorf("in the end it is %s", now.Estado)
		}
		b.Audit()
	})
}

// In contingency MH is probed ever less often, down to twice a minute, whoever declared the contingency.
func TestPolicy_Probes(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Issue(enginetest.Sale("before", 100))
		var probes atomic.Int64
		b.At(func(point string) {
			if strings.HasPrefix(point, "before ") {
				probes.Add(1)
			}
		})
		hour := func(what string) {
			t.Helper()
			probes.Store(0)
			time.Sleep(time.Hour)
			if n := probes.Load(); n < 110 || n > 130 {
				t.Errorf("%s: %d requests in an hour", what, n)
			}
		}
		b.Cable.Set(enginetest.Refusing)
		b.Issue(enginetest.Sale("offline", 200))
		hour("MH away")
		b.Cable.Set(enginetest.Plugged)
		b.Drained()
		if err := b.Engine.Contingency().Declare(context.Background(), 2, "Mantenimiento"); err != nil {
			t.Fatal(err)
		}
		hour("declared, MH there")
	})
}
