package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/documents"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// changes reads the late results after a cursor to their end, like a till that does not wait.
func (b *box) changes(after uint64) []documents.Late {
	b.t.Helper()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	var all []documents.Late
	for {
		list, next, err := b.engine.Documents().Changes(now, after, testCaller(1))
		if err != nil {
			b.t.Fatal(err)
		}
		for _, l := range list {
			if l.Cursor <= after {
				b.t.Errorf("behind cursor %d comes %+v", after, l)
			}
			after = l.Cursor
		}
		if all = append(all, list...); len(list) == 0 {
			return all
		}
		if after != next {
			b.t.Errorf("the last change is at %d, the page ends at %d", after, next)
		}
	}
}

// announced expects one document's late results, and no others.
func (b *box) announced(code string, estados ...string) {
	b.t.Helper()
	all := b.changes(0)
	for i, l := range all {
		if l.Code != code || i >= len(estados) || l.Estado != estados[i] {
			b.t.Fatalf("announced are %+v, want %s %v", all, code, estados)
		}
	}
	if len(all) != len(estados) {
		b.t.Fatalf("announced are %+v, want %s %v", all, code, estados)
	}
}

// Every result that a till did not get with its answer is announced, once.
func TestChanges(t *testing.T) {
	for name, story := range map[string]func(*box){
		"answered at once": func(b *box) {
			b.issue(sale("k", 100))
			b.chaos(simulator.Chaos{Reject: 1})
			b.issue(sale("l", 200))
			b.announced("")
		},
		"found after a crash": func(b *box) {
			b.chaos(simulator.Chaos{DelayMS: 500})
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { _, err := b.engine.Issue(ctx, sale("k", 100)); done <- err }()
			for b.sim.Received().Documents == 0 {
				time.Sleep(time.Millisecond)
			}
			stop()
			refused(b.t, <-done, refusal.CodeUnavailable, "")
			b.announced("")
			b.crash()
			time.Sleep(5 * time.Minute)
			b.announced(b.issue(sale("k", 100)).Code, record.EstadoProcessed)
		},
		"refused after a crash": func(b *box) {
			ctx, stop := context.WithCancel(context.Background())
			b.chaos(simulator.Chaos{Silence: true})
			time.AfterFunc(time.Second, stop)
			_, err := b.engine.Issue(ctx, sale("k", 100))
			refused(b.t, err, refusal.CodeUnavailable, "")
			// the swallowed sending may still be accepted: the first refusal is not believed
			b.chaos(simulator.Chaos{Reject: 2})
			b.crash()
			time.Sleep(5 * time.Minute)
			b.announced(b.issue(sale("k", 100)).Code, record.EstadoRejected)
		},
		"the normal form held": func(b *box) {
			hesitant(b)
			for code := range b.sim.Accepted() {
				b.announced(code, record.EstadoProcessed)
			}
		},
		"invalidated later": func(b *box) {
			r := b.issue(sale("k", 100))
			b.chaos(simulator.Chaos{LostAnswers: 1})
			_, err := b.engine.Invalidate(context.Background(), invalidation(r, 2, ""))
			refused(b.t, err, refusal.CodeUnavailable, "")
			b.announced("")
			time.Sleep(5 * time.Minute)
			if now := b.document(r.Code); now.Estado != record.EstadoInvalidated {
				b.t.Fatalf("the sale is %s", now.Estado)
			}
			b.announced(r.Code, record.EstadoInvalidated)
		},
		"not invalidated after all": func(b *box) {
			r := b.issue(sale("k", 100))
			b.chaos(simulator.Chaos{LostRequests: 1, RejectEvents: 1})
			_, err := b.engine.Invalidate(context.Background(), invalidation(r, 2, ""))
			refused(b.t, err, refusal.CodeUnavailable, "")
			time.Sleep(5 * time.Minute)
			if now := b.document(r.Code); now.Invalidation == nil || now.Invalidation.Estado != record.EstadoRejected {
				b.t.Fatalf("the invalidation is %+v", now.Invalidation)
			}
			b.announced(r.Code, record.EstadoProcessed)
		},
		"refused, then corrected": func(b *box) {
			r := late(b, 1)[0]
			b.correct(r.Code, 900)
			time.Sleep(20 * time.Minute)
			b.announced(r.Code, record.EstadoRejected, record.EstadoProcessed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *box) {
				synctest.Wait() // what is signed before a branch has looked for what a crash left is settled as that is
				story(b)
			})
		})
	}
}

// A till of another branch gets nothing, and a waiting till is woken.
func TestChanges_Wait(t *testing.T) {
	inBubble(t, func(b *box) {
		b.cable.set(refusing)
		r := b.issue(sale("k", 100))
		ctx, stop := context.WithTimeout(context.Background(), 2*time.Hour)
		defer stop()
		heard := make(chan string)
		for branch := range 2 {
			go func() {
				c := testCaller(1)
				c.Point.BranchID += int64(branch)
				list, _, err := b.engine.Documents().Changes(ctx, 0, c)
				if err != nil {
					b.t.Error(err)
				}
				for _, l := range list {
					heard <- l.Code
				}
				heard <- "" // the end of a list
			}()
		}
		time.Sleep(time.Hour)
		b.cable.set(plugged)
		asked := time.Now()
		if got := <-heard; got != r.Code || time.Since(asked) > 20*time.Minute {
			b.t.Errorf("heard %q after %v", got, time.Since(asked))
		}
		for range 2 {
			if got := <-heard; got != "" {
				b.t.Errorf("heard %q too", got)
			}
		}
	})
}
