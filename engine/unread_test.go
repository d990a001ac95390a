package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// rot is a record that waits in a queue and whose head means nothing.
func (b *box) rot(state storage.State, queue string, at time.Time) {
	b.t.Helper()
	code, err := dte.NewCode(b.engine.rand)
	if err == nil {
		_, err = b.store.Append(context.Background(), storage.Keys{Series: "00/rot"}, storage.Draft{Code: storage.Code(code), State: state,
			Head: []byte("rot"), Due: &storage.Due{Queue: queue, At: at}})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestUnreadable: a record that cannot be read holds up no other, in any queue, and is counted where it waits.
func TestUnreadable(t *testing.T) {
	for queue, state := range map[string]storage.State{record.QueueSettle: record.Signed, record.QueueReport: record.Deferred, record.QueueForward: record.Reported,
		record.QueueEvent: record.EventSigned, record.QueueLot: record.LotOpen, record.QueueCorrect: record.Rejected, record.QueueInvalidate: record.Accepted,
		record.QueueDeliver: record.Accepted, record.QueueUndelivered: record.Accepted} {
		t.Run(queue, func(t *testing.T) {
			inBubble(t, func(b *box) {
				b.rot(state, queue, time.Now())
				b.cable.set(refusing)
				const n = 3
				for i := range n {
					b.issue(sale(fmt.Sprint(i), 100))
				}
				b.plugIn()
				time.Sleep(3 * time.Hour)
				if got := b.sim.Received(); got.Documents != n || got.Events != 1 {
					t.Errorf("MH received %+v", got)
				}
				o := b.engine.CountBacklog()
				for name, waits := range o.Waiting {
					want := 0
					if name == queue {
						want = 1
					}
					if waits != want {
						t.Errorf("%d wait in %s", waits, name)
					}
				}
				if counted := queue != record.QueueUndelivered; counted != (o.Unreadable == 1) { // nobody works on that one
					t.Errorf("%d are counted as unreadable", o.Unreadable)
				}
			})
		})
	}
}
