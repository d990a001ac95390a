package contingency_test

import (
	"fmt"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// The cable is unplugged on a Saturday and plugged in on Monday: sales go on, and the box sends everything by itself.
func TestContingency(t *testing.T) { enginetest.InBubble(t, saturday) }

func saturday(b *enginetest.Box) {
	b.Chaos(simulator.Chaos{})
	b.Issue(enginetest.Sale("before", 100))
	b.Cable.Set(enginetest.Refusing)
	began := time.Now()
	first := b.Issue(enginetest.Sale("first", 200))
	if took := time.Since(began); first.Estado != record.EstadoContingency || took > time.Second {
		b.T.Errorf("the first sale is %s after %v", first.Estado, took)
	}
	began = time.Now()
	var codes []string
	for i := range 150 {
		r := b.Issue(enginetest.Sale(fmt.Sprint(i), 300+i))
		if r.Estado != record.EstadoContingency ||
			enginetest.Text(b.T, r, "identificacion", "tipoContingencia") != "1" {
			b.T.Fatalf("%s: %s", r.Estado, r.JSON)
		}
		codes = append(codes, r.Code)
	}
	if took := time.Since(began); took > 0 {
		b.T.Errorf("150 sales in contingency waited %v", took)
	}
	days := time.Duration(2)
	if testing.Short() { // the race detector makes it ten times as slow
		days = 1
	}
	time.Sleep(days*24*time.Hour - time.Hour)
	if o := b.Engine.CountBacklog(); !o.EventDeadline.IsZero() || o.Contingency == nil ||
		o.Waiting[record.QueueReport] != 151 {
		b.T.Errorf("before MH is back %+v: no deadline runs before the cause ends", o)
	}
	b.Crash()
	time.Sleep(time.Hour)
	b.Cable.Set(enginetest.Plugged)
	for b.Engine.Contingency().Current() != nil {
		time.Sleep(time.Second)
	}
	if o := b.Engine.CountBacklog(); time.Until(o.EventDeadline).Round(time.Minute) != 24*time.Hour {
		b.T.Errorf("the event is due at %v, not a day from now, %v", o.EventDeadline, time.Now())
	}
	time.Sleep(10 * time.Minute)
	for _, code := range codes {
		if r := b.Document(code); r.Estado != record.EstadoProcessed || r.Sello == "" {
			b.T.Fatalf("%s is %s", code, r.Estado)
		}
	}
	if got := b.Sim.Received(); got.Documents != 152 || got.Events != 1 {
		b.T.Errorf("MH received %+v", got)
	}
	if r := b.Issue(enginetest.Sale("after", 400)); r.Estado != record.EstadoProcessed {
		b.T.Errorf("after the contingency a sale is %s", r.Estado)
	}
	b.Audit()
}

// swallowed: MH accepts a sale, does not answer, and goes away. It holds the normal form; the branch has another.
func swallowed(b *enginetest.Box) {
	b.Chaos(simulator.Chaos{LostAnswers: 3})
	req := enginetest.Sale("swallowed", 100)
	req.Wait = time.Second
	b.Sim.Received()
	r := b.Issue(req)
	b.Cable.Set(enginetest.Refusing)
	b.Issue(enginetest.Sale("next", 200))
	time.Sleep(time.Hour)
	b.Cable.Set(enginetest.Plugged)
	b.Chaos(simulator.Chaos{})
	time.Sleep(20 * time.Minute)
	if now := b.Document(r.Code); now.Estado != record.EstadoProcessed {
		b.T.Errorf("%s is %s", r.Code, now.Estado)
	}
	b.Audit()
}

// MH refuses a sale over HTTP 400. That is an answer.
func TestContingency_RefusedIsNoOutage(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{Reject: 1})
		if r := b.Issue(enginetest.Sale("refused", 100)); r.Estado != record.EstadoRejected {
			t.Errorf("a refusal makes %s", r.Estado)
		}
		if b.Engine.Contingency().Current() != nil {
			t.Error("a refusal is taken for an outage")
		}
	})
}

func TestContingency_NormalFormHeld(t *testing.T) {
	enginetest.InBubble(t, swallowed)
	enginetest.InBubble(t, enginetest.Hesitant)
}

// TestContingency_Resumed: trouble that comes back before a contingency is reported continues it, in one event. Trouble
// that comes back later is another contingency, with an event of its own.
func TestContingency_Resumed(t *testing.T) {
	for name, c := range map[string]struct {
		earlier         bool // there was a contingency an hour before, which MH has the event of
		calm            time.Duration
		resumed, events int
	}{"before the report": {false, 10 * time.Second, 1, 1}, "after it": {false, time.Minute, 0, 2},
		"the last of two": {true, 10 * time.Second, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				b.Chaos(simulator.Chaos{})
				b.Issue(enginetest.Sale("before", 100))
				if c.earlier {
					outageOf(b, time.Minute, "earlier")
					time.Sleep(time.Hour)
				}
				calm := time.Now()
				outageOf(b, time.Minute, "first")
				ended := time.Now()
				time.Sleep(c.calm)
				b.Cable.Set(enginetest.Refusing)
				b.Issue(enginetest.Sale("second", 200))
				p := b.Engine.Contingency().Current()
				if p == nil || p.Resumed != c.resumed || p.Began.Before(ended) != (c.resumed > 0) ||
					p.Began.Before(calm.Truncate(time.Second)) {
					t.Errorf("%v after the end of a contingency, at %v, trouble makes %+v", c.calm, ended, p)
				}
				time.Sleep(time.Minute)
				b.PlugIn()
				b.Drained()
				if events := b.Sim.Events(); len(events) != c.events {
					t.Errorf("MH received %d events, want %d", len(events), c.events)
				}
				b.Audit()
			})
		})
	}
}

// TestContingency_ClockWrong: a box starts in an outage with a wrong clock. It reports what was sold before in time by
// MH's clock: also while its own clock is wrong, and as soon as MH is back if that was set right first. A document that
// it dates in the future waits for its time, and holds up no other.
func TestContingency_ClockWrong(t *testing.T) {
	const day = 24 * time.Hour
	for _, by := range []time.Duration{58 * time.Minute, 20 * time.Hour, 8 * day, -50 * time.Minute, -8 * day} {
		for _, wrong := range []bool{true, false} { // MH is back while the clock is wrong
			for _, doubtful := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v, back while wrong %v, doubtful %v", by, wrong, doubtful), func(t *testing.T) {
					enginetest.InBubble(t, func(b *enginetest.Box) { clockWrong(b, by, wrong, doubtful) })
				})
			}
		}
	}
}

func clockWrong(b *enginetest.Box, by time.Duration, wrong, doubtful bool) {
	b.Chaos(simulator.Chaos{})
	b.Issue(enginetest.Sale("online", 100))
	if doubtful {
		b.Chaos(simulator.Chaos{LostRequests: 3})
		go func() { time.Sleep(20 * time.Second); b.Cable.Set(enginetest.Refusing) }()
	} else {
		b.Cable.Set(enginetest.Refusing)
	}
	sealed := func(when, code string) {
		b.T.Helper()
		if now := b.Document(code); now.Estado != record.EstadoProcessed {
			b.T.Errorf("%s, at %v, %s is %s", when, time.Now(), code, now.Estado)
		}
	}
	first := b.Issue(enginetest.Sale("first", 200)).Code
	time.Sleep(30 * time.Second)
	b.Skew.Store(int64(by))
	b.Crash()
	second := first
	if by > 0 { // a box whose clock is behind sells nothing
		second = b.Issue(enginetest.Sale("second", 300)).Code
	}
	time.Sleep(10 * time.Minute)
	if wrong {
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(20 * time.Hour)
		sealed("with a wrong clock", first)
	}
	time.Sleep(10 * time.Hour)
	b.Skew.Store(0)
	time.Sleep(time.Minute)
	b.Cable.Set(enginetest.Plugged)
	time.Sleep(2 * time.Hour)
	sealed("with the right clock", first)
	if by > 30*time.Hour && b.Document(second).Estado != record.EstadoContingency {
		b.T.Error("a document of the future is not left in contingency")
	}
	time.Sleep(max(0, by))
	sealed("at its own time", second)
	for _, breach := range b.Sim.Audit() {
		b.T.Errorf("MH saw: %s", breach)
	}
	b.Audit()
}
