package engine

import (
	"fmt"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/contingency"
	"dtegate/engine/record"
)

// MH's times are in seconds. A document is signed in both forms, MH accepts the second form in the second in which it
// was sent, and the answer is lost: the box still finds the second form.
func TestForward_LostInItsSecond(t *testing.T) {
	for _, fraction := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
		for _, ahead := range []int64{-400, 0, 400} { // ms: MH's clock
			inBubble(t, func(b *box) {
				time.Sleep(fraction)
				b.chaos(simulator.Chaos{LostRequests: 3, ClockMS: ahead})
				r := b.issue(sale("both forms", 100))
				if _, err := b.store.Part(codeOf(r), record.FormNormal); err != nil ||
					r.Estado != record.EstadoContingency {
					b.t.Fatalf("%s, %v", r.Estado, err)
				}
				b.chaos(simulator.Chaos{LostAnswers: 1, Only: "documents", ClockMS: ahead})
				time.Sleep(20 * time.Minute)
				now := b.document(r.Code)
				if now.Estado != record.EstadoProcessed || text(b.t, now, "identificacion", "tipoModelo") != "2" {
					b.t.Errorf("%v, MH %d ms ahead: %s %s", fraction, ahead, now.Estado, now.JSON)
				}
				b.audit()
			})
		}
	}
}

// Somebody sets the box's clock between the event and the forwarding. The answer to the second form is lost; MH still
// holds the second form, whatever time the box recorded for it.
func TestForward_ClockSet(t *testing.T) {
	for _, by := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		inBubble(t, func(b *box) {
			b.chaos(simulator.Chaos{LostRequests: 3})
			r := b.issue(sale("both forms", 100))
			if _, err := b.store.Part(codeOf(r), record.FormNormal); err != nil ||
				r.Estado != record.EstadoContingency {
				b.t.Fatalf("%s, %v", r.Estado, err)
			}
			b.chaos(simulator.Chaos{LostAnswers: 1, Only: "documents"})
			b.at(func(point string) {
				if point == "after /fesv/contingencia" {
					b.skew.Store(int64(by))
				}
			})
			time.Sleep(time.Hour)
			now := b.document(r.Code)
			if now.Estado != record.EstadoProcessed || text(b.t, now, "identificacion", "tipoModelo") != "2" ||
				b.skew.Load() == 0 {
				b.t.Errorf("the clock was set by %v: %s %s", by, now.Estado, now.JSON)
			}
			b.audit()
		})
	}
}

// outage makes that many sales offline, and returns when MH is back and none of them is sent yet.
func (b *box) outage(sales int) (codes []string) {
	b.t.Helper()
	b.cable.set(refusing)
	for i := range sales {
		codes = append(codes, b.issue(sale(fmt.Sprint("offline ", i), 200+i)).Code)
	}
	time.Sleep(time.Minute)
	b.plugIn()
	return codes
}

// TestForward_LotSizes: a lot is no larger than the branch's own setting, and a lot that MH refuses whole is sent again
// in two halves.
func TestForward_LotSizes(t *testing.T) {
	for name, c := range map[string]struct{ size, refusals, lots int }{
		"one lot":                      {0, 0, 1},
		"the setting":                  {3, 0, 3}, // three, three and two
		"refused once":                 {0, 1, 2},
		"refused, and each half of it": {0, 3, 4},
		"of the setting, refused":      {4, 1, 3}, // of the first four twice two
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *box) {
				b.restart(func(p *contingency.Options) { p.LotSize = c.size })
				b.chaos(simulator.Chaos{RejectLots: c.refusals})
				b.issue(sale("before", 100))
				codes := b.outage(8)
				b.drained()
				for _, code := range codes {
					if r := b.document(code); r.Estado != record.EstadoProcessed {
						t.Errorf("%s is %s", code, r.Estado)
					}
				}
				if got := b.sim.Received(); got.Lots != c.lots || got.Documents != 9 {
					t.Errorf("MH took %+v, want %d lots", got, c.lots)
				}
				b.audit()
			})
		})
	}
}

// TestForward_AtNight: MH accepts lots of cyclic billing only in daytime, and a limited number a day (MT1 §3.4); lots
// of a contingency at any hour. Every document in a lot has the form of contingency, and a night does not delay it.
func TestForward_AtNight(t *testing.T) {
	inBubble(t, func(b *box) {
		b.restart(func(p *contingency.Options) { p.LotSize = 2 })
		b.chaos(simulator.Chaos{})
		time.Sleep(15 * time.Hour) // 23:00
		b.chaos(simulator.Chaos{LostRequests: 9, Only: "documents"})
		b.issue(sale("signed in both forms", 100))
		b.chaos(simulator.Chaos{})
		codes := b.outage(40)
		ended := time.Now()
		b.drained()
		if took := time.Since(ended); took > 45*time.Minute {
			t.Errorf("what was sold offline at night was forwarded within %v", took)
		}
		for _, code := range codes {
			if r := b.document(code); r.Estado != record.EstadoProcessed {
				t.Errorf("%s is %s", code, r.Estado)
			}
		}
		if got := b.sim.Received(); got.Lots != 20 && got.Lots != 21 {
			t.Errorf("MH took %+v", got)
		}
		b.audit()
	})
}
