package engine_test

import (
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// TestPolicy_LoginCodes: for every code with which MH refuses the branch's own credentials, the branch continues to
// sell in contingency with cause 2 (our own system, CAT-005), and everything reaches MH once the credentials are right
// again.
func TestPolicy_LoginCodes(t *testing.T) {
	for code := 103; code <= 106; code++ {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			b.Chaos(simulator.Chaos{LoginCode: code})
			r := b.Issue(enginetest.Sale("refused", 100))
			if p := b.Engine.Contingency().Current(); r.Estado != record.EstadoContingency || p == nil || p.Cause != 2 {
				t.Errorf("code %d: a sale is %s in %+v", code, r.Estado, p)
			}
			time.Sleep(time.Hour)
			b.Chaos(simulator.Chaos{})
			b.PlugIn()
			b.Drained()
			if got := b.Document(r.Code); got.Estado != record.EstadoProcessed {
				t.Errorf("code %d: the sale is %s at last", code, got.Estado)
			}
			b.Audit()
		})
	}
}

// TestInvalidate_HolyWeek: Thursday to Saturday of Holy Week (April 13 to 15 in 2028) are not business days: a voucher
// that was sealed in March can be invalidated until April 18, the tenth business day, and MH accepts it.
func TestInvalidate_HolyWeek(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Clock.Set(time.Date(2028, 3, 20, 15, 0, 0, 0, time.UTC))
	early, late := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed),
		w.Issued(enginetest.Voucher("v2", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	w.Clock.Set(time.Date(2028, 4, 19, 5, 59, 0, 0, time.UTC)) // 23:59 in El Salvador
	if r, err := w.Engine.Invalidate(t.Context(), enginetest.Invalidation(early, 2, "")); err != nil ||
		r.Estado != record.EstadoInvalidated {
		t.Errorf("on the last day: %+v %v", r, err)
	}
	w.Clock.Set(time.Date(2028, 4, 19, 7, 0, 0, 0, time.UTC))
	_, err := w.Engine.Invalidate(t.Context(), enginetest.Invalidation(late, 2, ""))
	enginetest.Refused(t, err, refusal.CodeNotInvalidable, "")
}
