package engine

import (
	"fmt"
	"testing"
	"time"

	"dtegate/engine/authority/simulator"
)

// The cable is pulled on a Saturday and plugged in on Monday: sales go on, and the box sends everything by itself.
func TestContingency(t *testing.T) {
	inBubble(t, func(b *box) {
		b.chaos(simulator.Chaos{})
		b.issue(sale("before", 100))
		b.cable.set(refusing)
		began := time.Now()
		first := b.issue(sale("first", 200))
		if took := time.Since(began); first.Estado != EstadoContingency || took > time.Second {
			t.Errorf("the first sale is %s after %v", first.Estado, took)
		}
		began = time.Now()
		var codes []string
		for i := range 150 {
			r := b.issue(sale(fmt.Sprint(i), 300+i))
			if r.Estado != EstadoContingency || text(t, r, "identificacion", "tipoContingencia") != "1" {
				t.Fatalf("%s: %s", r.Estado, r.JSON)
			}
			codes = append(codes, r.Code)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("150 sales in contingency waited %v", took)
		}
		time.Sleep(40 * time.Hour)
		b.crash()
		time.Sleep(8 * time.Hour)
		b.cable.set(plugged)
		time.Sleep(10 * time.Minute)
		for _, code := range codes {
			if r := b.document(code); r.Estado != EstadoProcessed || r.Sello == "" {
				t.Fatalf("%s is %s", code, r.Estado)
			}
		}
		if got := b.sim.Received(); got.Documents != 152 || got.Events != 1 {
			t.Errorf("MH received %+v", got)
		}
		if r := b.issue(sale("after", 400)); r.Estado != EstadoProcessed {
			t.Errorf("after the contingency a sale is %s", r.Estado)
		}
		b.audit()
	})
}
