package engine

import (
	"fmt"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/record"
)

// The cable is unplugged on a Saturday and plugged in on Monday: sales go on, and the box sends everything by itself.
func TestContingency(t *testing.T) { inBubble(t, saturday) }

func saturday(b *box) {
	b.chaos(simulator.Chaos{})
	b.issue(sale("before", 100))
	b.cable.set(refusing)
	began := time.Now()
	first := b.issue(sale("first", 200))
	if took := time.Since(began); first.Estado != record.EstadoContingency || took > time.Second {
		b.t.Errorf("the first sale is %s after %v", first.Estado, took)
	}
	began = time.Now()
	var codes []string
	for i := range 150 {
		r := b.issue(sale(fmt.Sprint(i), 300+i))
		if r.Estado != record.EstadoContingency || text(b.t, r, "identificacion", "tipoContingencia") != "1" {
			b.t.Fatalf("%s: %s", r.Estado, r.JSON)
		}
		codes = append(codes, r.Code)
	}
	if took := time.Since(began); took > 0 {
		b.t.Errorf("150 sales in contingency waited %v", took)
	}
	days := time.Duration(2)
	if testing.Short() { // the race detector makes it ten times as slow
		days = 1
	}
	time.Sleep(days*24*time.Hour - time.Hour)
	if o := b.engine.CountBacklog(); !o.EventDeadline.IsZero() || o.Contingency == nil ||
		o.Waiting[record.QueueReport] != 151 {
		b.t.Errorf("before MH is back %+v: no deadline runs before the cause ends", o)
	}
	b.crash()
	time.Sleep(time.Hour)
	b.cable.set(plugged)
	for b.engine.Contingency().Current() != nil {
		time.Sleep(time.Second)
	}
	if o := b.engine.CountBacklog(); time.Until(o.EventDeadline).Round(time.Minute) != 24*time.Hour {
		b.t.Errorf("the event is due at %v, not a day from now, %v", o.EventDeadline, time.Now())
	}
	time.Sleep(10 * time.Minute)
	for _, code := range codes {
		if r := b.document(code); r.Estado != record.EstadoProcessed || r.Sello == "" {
			b.t.Fatalf("%s is %s", code, r.Estado)
		}
	}
	if got := b.sim.Received(); got.Documents != 152 || got.Events != 1 {
		b.t.Errorf("MH received %+v", got)
	}
	if r := b.issue(sale("after", 400)); r.Estado != record.EstadoProcessed {
		b.t.Errorf("after the contingency a sale is %s", r.Estado)
	}
	b.audit()
}

// swallowed: MH accepts a sale, does not answer, and goes away. It holds the normal form; the branch has another.
func swallowed(b *box) {
	b.chaos(simulator.Chaos{LostAnswers: 3})
	req := sale("swallowed", 100)
	req.Wait = time.Second
	b.sim.Received()
	r := b.issue(req)
	b.cable.set(refusing)
	b.issue(sale("next", 200))
	time.Sleep(time.Hour)
	b.cable.set(plugged)
	b.chaos(simulator.Chaos{})
	time.Sleep(20 * time.Minute)
	if now := b.document(r.Code); now.Estado != record.EstadoProcessed {
		b.t.Errorf("%s is %s", r.Code, now.Estado)
	}
	b.audit()
}

// hesitant: MH has accepted a sale, and the link is cut before its answer.
func hesitant(b *box) {
	b.chaos(simulator.Chaos{DelayMS: 500})
	done := make(chan *record.View)
	go func() { done <- b.issue(sale("hesitant", 100)) }()
	for b.sim.Received().Documents == 0 {
		time.Sleep(time.Millisecond)
	}
	b.cable.set(refusing)
	r := <-done
	if r.Estado != record.EstadoContingency {
		b.t.Errorf("the sale is %s", r.Estado)
	}
	time.Sleep(time.Hour)
	b.cable.set(plugged)
	b.chaos(simulator.Chaos{})
	time.Sleep(20 * time.Minute)
	if now := b.document(r.Code); now.Estado != record.EstadoProcessed || text(b.t, now, "identificacion",
		"tipoModelo") != "1" {
		b.t.Errorf("MH held the normal form; the record is %s %s", now.Estado, now.JSON)
	}
	b.audit()
}

// MH refuses a sale over HTTP 400. That is an answer.
func TestContingency_RefusedIsNoOutage(t *testing.T) {
	inBubble(t, func(b *box) {
		b.chaos(simulator.Chaos{Reject: 1})
		if r := b.issue(sale("refused", 100)); r.Estado != record.EstadoRejected {
			t.Errorf("a refusal makes %s", r.Estado)
		}
		if b.engine.Contingency().Current() != nil {
			t.Error("a refusal is taken for an outage")
		}
	})
}

func TestContingency_NormalFormHeld(t *testing.T) {
	inBubble(t, swallowed)
	inBubble(t, hesitant)
}

// TestContingency_Resumed: trouble that comes back before a contingency is reported continues it, in one event. Trouble
// that comes back later is another contingency, with an event of its own.
func TestContingency_Resumed(t *testing.T) {
	for name, c := range map[string]struct {
		calm            time.Duration
		resumed, events int
	}{"before the report": {10 * time.Second, 1, 1}, "after it": {time.Minute, 0, 2}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *box) {
				b.chaos(simulator.Chaos{})
				b.issue(sale("before", 100))
				b.outageOf(time.Minute, "first")
				ended := time.Now()
				time.Sleep(c.calm)
				b.cable.set(refusing)
				b.issue(sale("second", 200))
				p := b.engine.Contingency().Current()
				if p == nil || p.Resumed != c.resumed || p.Began.Before(ended) != (c.resumed > 0) {
					t.Errorf("%v after the end of a contingency, at %v, trouble makes %+v", c.calm, ended, p)
				}
				time.Sleep(time.Minute)
				b.plugIn()
				b.drained()
				if events := b.sim.Events(); len(events) != c.events {
					t.Errorf("MH received %d events, want %d", len(events), c.events)
				}
				b.audit()
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
					inBubble(t, func(b *box) { clockWrong(b, by, wrong, doubtful) })
				})
			}
		}
	}
}

func clockWrong(b *box, by time.Duration, wrong, doubtful bool) {
	b.chaos(simulator.Chaos{})
	b.issue(sale("online", 100))
	if doubtful {
		b.chaos(simulator.Chaos{LostRequests: 3})
		go func() { time.Sleep(20 * time.Second); b.cable.set(refusing) }()
	} else {
		b.cable.set(refusing)
	}
	sealed := func(when, code string) {
		b.t.Helper()
		if now := b.document(code); now.Estado != record.EstadoProcessed {
			b.t.Errorf("%s, at %v, %s is %s", when, time.Now(), code, now.Estado)
		}
	}
	first := b.issue(sale("first", 200)).Code
	time.Sleep(30 * time.Second)
	b.skew.Store(int64(by))
	b.crash()
	second := first
	if by > 0 { // a box whose clock is behind sells nothing
		second = b.issue(sale("second", 300)).Code
	}
	time.Sleep(10 * time.Minute)
	if wrong {
		b.cable.set(plugged)
		time.Sleep(20 * time.Hour)
		sealed("with a wrong clock", first)
	}
	time.Sleep(10 * time.Hour)
	b.skew.Store(0)
	time.Sleep(time.Minute)
	b.cable.set(plugged)
	time.Sleep(2 * time.Hour)
	sealed("with the right clock", first)
	if by > 30*time.Hour && b.document(second).Estado != record.EstadoContingency {
		b.t.Error("a document of the future is not left in contingency")
	}
	time.Sleep(max(0, by))
	sealed("at its own time", second)
	for _, breach := range b.sim.Audit() {
		b.t.Errorf("MH saw: %s", breach)
	}
	b.audit()
}
