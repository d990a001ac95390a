package engine

import (
	"testing"
	"time"

	"dtegate/engine/authority/simulator"
)

// MH's times are in seconds. A document that was signed in both forms, of which MH takes the second in the very second in
// which it was sent, and whose answer is lost, is still the second.
func TestForward_LostInItsSecond(t *testing.T) {
	for _, fraction := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
		for _, ahead := range []int64{-400, 0, 400} { // ms: MH's clock
			inBubble(t, func(b *box) {
				time.Sleep(fraction)
				b.chaos(simulator.Chaos{LostRequests: 3, ClockMS: ahead})
				r := b.issue(sale("both forms", 100))
				if _, err := b.store.Part(codeOf(r), formNormal); err != nil || r.Estado != EstadoContingency {
					b.t.Fatalf("%s, %v", r.Estado, err)
				}
				b.chaos(simulator.Chaos{LostAnswers: 1, Only: "documents", ClockMS: ahead})
				time.Sleep(20 * time.Minute)
				now := b.document(r.Code)
				if now.Estado != EstadoProcessed || text(b.t, now, "identificacion", "tipoModelo") != "2" {
					b.t.Errorf("%v, MH %d ms ahead: %s %s", fraction, ahead, now.Estado, now.JSON)
				}
				b.audit()
			})
		}
	}
}
