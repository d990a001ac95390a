package contingency_test

import (
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/contingency"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// MH's times are in seconds. A document is signed in both forms, MH accepts the second form in the second in which it
// was sent, and the answer is lost: the box still finds the second form.
func TestForward_LostInItsSecond(t *testing.T) {
	for _, fraction := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
		for _, ahead := range []int64{-400, 0, 400} { // ms: MH's clock
			enginetest.InBubble(t, func(b *enginetest.Box) {
				time.Sleep(fraction)
				b.Chaos(simulator.Chaos{LostRequests: 3, ClockMS: ahead})
				r := b.Issue(enginetest.Sale("both forms", 100))
				if _, err := b.Store.Part(enginetest.CodeOf(r), record.FormNormal); err != nil ||
					r.Estado != record.EstadoContingency {
					b.T.Fatalf("%s, %v", r.Estado, err)
				}
				b.Chaos(simulator.Chaos{LostAnswers: 1, Only: "documents", ClockMS: ahead})
				time.Sleep(20 * time.Minute)
				now := b.Document(r.Code)
				if now.Estado != record.EstadoProcessed ||
					enginetest.Text(b.T, now, "identificacion", "tipoModelo") != "2" {
					b.T.Errorf("%v, MH %d ms ahead: %s %s", fraction, ahead, now.Estado, now.JSON)
				}
				b.Audit()
			})
		}
	}
}

// Somebody sets the box's clock between the event and the forwarding. The answer to the second form is lost; MH still
// holds the second form, whatever time the box recorded for it.
func TestForward_ClockSet(t *testing.T) {
	for _, by := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			b.Chaos(simulator.Chaos{LostRequests: 3})
			r := b.Issue(enginetest.Sale("both forms", 100))
			if _, err := b.Store.Part(enginetest.CodeOf(r), record.FormNormal); err != nil ||
				r.Estado != record.EstadoContingency {
				b.T.Fatalf("%s, %v", r.Estado, err)
			}
			b.Chaos(simulator.Chaos{LostAnswers: 1, Only: "documents"})
			b.At(func(point string) {
				if point == "after /fesv/contingencia" {
					b.Skew.Store(int64(by))
				}
			})
			time.Sleep(time.Hour)
			now := b.Document(r.Code)
			if now.Estado != record.EstadoProcessed ||
				enginetest.Text(b.T, now, "identificacion", "tipoModelo") != "2" ||
				b.Skew.Load() == 0 {
				b.T.Errorf("the clock was set by %v: %s %s", by, now.Estado, now.JSON)
			}
			b.Audit()
		})
	}
}

// Somebody sets the box's clock by days while MH works on a lot, and MH never ends the lot. Its documents are queried
// and sent again soon, whatever time the box recorded for the lot.
func TestForward_LotClockSet(t *testing.T) {
	for _, by := range []time.Duration{-5 * 24 * time.Hour, 5 * 24 * time.Hour} {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			b.Chaos(simulator.Chaos{StuckLots: 1})
			b.Issue(enginetest.Sale("before", 100))
			b.At(func(point string) {
				if point == "after /fesv/recepcionlote/" {
					time.Sleep(time.Second)
					b.Skew.Store(int64(by))
				}
			})
			codes := b.Outage(3)
			time.Sleep(time.Hour)
			for _, code := range codes {
				if r := b.Document(code); r.Estado != record.EstadoProcessed || b.Skew.Load() == 0 {
					b.T.Errorf("the clock was set by %v: %s is %s", by, code, r.Estado)
				}
			}
			b.Audit()
		})
	}
}

// TestForward_LotSizes: a lot is no larger than the branch's own setting, and a lot that MH refuses whole is sent again
// in two halves, never more at once than the setting.
func TestForward_LotSizes(t *testing.T) {
	for name, c := range map[string]struct{ size, refusals, lots, atOnce int }{
		"one lot":                      {0, 0, 1, 1},
		"the setting":                  {3, 0, 3, 4}, // three, three and two
		"refused once":                 {0, 1, 2, 2},
		"refused, and each half of it": {0, 3, 4, 4},
		"of the setting, refused":      {4, 1, 3, 4}, // of the first four twice two
		"the same, one at a time":      {4, 1, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.InBubble(t, func(b *enginetest.Box) {
				b.Restart(func(p *contingency.Options) { p.LotSize, p.LotsInFlight = c.size, c.atOnce })
				b.At(func(string) {
					if open, err := b.Store.Due(record.QueueLot, record.Whenever, 100); err != nil || len(open) > c.atOnce {
						t.Errorf("%d lots at once, want %d: %v", len(open), c.atOnce, err)
					}
				})
				b.Chaos(simulator.Chaos{RejectLots: c.refusals})
				b.Issue(enginetest.Sale("before", 100))
				codes := b.Outage(8)
				b.Drained()
				for _, code := range codes {
					if r := b.Document(code); r.Estado != record.EstadoProcessed {
						t.Errorf("%s is %s", code, r.Estado)
					}
				}
				if got := b.Sim.Received(); got.Lots != c.lots || got.Documents != 9 {
					t.Errorf("MH took %+v, want %d lots", got, c.lots)
				}
				b.Audit()
			})
		})
	}
}

// TestForward_AtNight: MH accepts lots of cyclic billing only in daytime, and a limited number a day (MT1 §3.4); lots
// of a contingency at any hour. Every document in a lot has the form of contingency, and a night does not delay it.
func TestForward_AtNight(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Restart(func(p *contingency.Options) { p.LotSize = 2 })
		b.Chaos(simulator.Chaos{})
		time.Sleep(15 * time.Hour) // 23:00
		b.Chaos(simulator.Chaos{LostRequests: 9, Only: "documents"})
		b.Issue(enginetest.Sale("signed in both forms", 100))
		b.Chaos(simulator.Chaos{})
		codes := b.Outage(40)
		ended := time.Now()
		b.Drained()
		if took := time.Since(ended); took > 45*time.Minute {
			t.Errorf("what was sold offline at night was forwarded within %v", took)
		}
		for _, code := range codes {
			if r := b.Document(code); r.Estado != record.EstadoProcessed {
				t.Errorf("%s is %s", code, r.Estado)
			}
		}
		if got := b.Sim.Received(); got.Lots != 20 && got.Lots != 21 {
			t.Errorf("MH took %+v", got)
		}
		b.Audit()
	})
}
