package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/engine/authority/simulator"
	"dtegate/engine/record"
)

// ending is a context that ends when it was looked at so often.
type ending struct {
	context.Context
	end  func()
	left atomic.Int64
}

func endingAfter(looks int) *ending {
	c := new(ending)
	c.Context, c.end = context.WithCancel(context.Background())
	c.left.Store(int64(looks))
	return c
}

func (c *ending) Err() error {
	if c.left.Add(-1) < 0 {
		c.end()
	}
	return c.Context.Err()
}

// TestRun_EndsAnywhere: the branch ends at every place where its loop looks whether it has to, while it sends what an outage left, and a day
// later, when what MH refused of it can be corrected no longer. It ends in order, and the next run finishes.
func TestRun_EndsAnywhere(t *testing.T) {
	inBubble(t, func(b *box) {
		b.stop()
		<-b.done
		run := func(c context.Context) {
			if err := b.engine.Run(c); err != nil {
				t.Fatal(err)
			}
		}
		hour := func() {
			c, end := context.WithTimeout(context.Background(), time.Hour)
			defer end()
			run(c)
		}
		refused := 0
		for n := range 40 {
			b.cable.set(refusing)
			for i := range 2 {
				b.issue(sale("", 500+i))
			}
			b.chaos(simulator.Chaos{Reject: 1})
			b.cable.set(plugged)
			run(endingAfter(n))
			hour()
			o, err := b.engine.countOwed()
			if err != nil {
				t.Fatal(err)
			}
			refused += o.Waiting[record.QueueCorrect]
			time.Sleep(24 * time.Hour)
			run(endingAfter(n))
			hour()
			if o, err = b.engine.countOwed(); err != nil {
				t.Fatal(err)
			}
			for queue, waiting := range o.Waiting {
				if waiting > 0 {
					t.Errorf("ended at look %d: %d records wait in queue %s", n, waiting, queue)
				}
			}
		}
		if refused < 20 {
			t.Errorf("only %d were refused", refused)
		}
		b.audit()
	})
}
